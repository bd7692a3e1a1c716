//! Carriers: what they hide, what fits into them, what they can prove.

pub mod mixnet;
pub mod relay;

use core::num::NonZeroU8;

use mixnet::{MixnetInput, MixnetOutput};
use relay::{RelayInput, RelayOutput};

/// A way for parcels, by its number in stored forms. Only this module gives numbers a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarrierId(NonZeroU8);

impl CarrierId {
    /// A mailbox server: level 1.
    pub const RELAY: Self = Self::of(1);
    /// A local link or tunnel: level 1.
    pub const LINK: Self = Self::of(2);
    /// Devices that pass cells on without internet: level 3.
    pub const MESH: Self = Self::of(3);
    /// Onions in rounds: level 4.
    pub const MIXNET: Self = Self::of(4);
    /// All carriers that the format knows, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::RELAY, Self::LINK, Self::MESH, Self::MIXNET];

    const fn of(number: u8) -> Self {
        match NonZeroU8::new(number) {
            Some(number) => Self(number),
            None => Self(NonZeroU8::MIN),
        }
    }

    /// The carrier of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|carrier| carrier.number() == number)
    }

    /// Its number in stored forms.
    pub const fn number(self) -> u8 {
        self.0.get()
    }

    /// Its name on the command line and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::RELAY => "relay",
            Self::LINK => "link",
            Self::MESH => "mesh",
            Self::MIXNET => "mixnet",
            _ => "absent",
        }
    }
}

/// What the driver tells one of the carriers.
pub enum CarrierInput {
    /// A relay has an answer or mail, or its connection has changed.
    Relay(RelayInput),
    /// The mixnet, or what a person asks of it.
    Mixnet(MixnetInput),
}

/// What a carrier asks of the driver.
pub enum CarrierOutput {
    /// For the connection to a relay.
    Relay(RelayOutput),
    /// For the connection to the mixnet.
    Mixnet(MixnetOutput),
}

impl From<RelayInput> for CarrierInput {
    fn from(input: RelayInput) -> Self {
        Self::Relay(input)
    }
}

impl From<MixnetInput> for CarrierInput {
    fn from(input: MixnetInput) -> Self {
        Self::Mixnet(input)
    }
}

impl From<RelayOutput> for CarrierOutput {
    fn from(output: RelayOutput) -> Self {
        Self::Relay(output)
    }
}

impl From<MixnetOutput> for CarrierOutput {
    fn from(output: MixnetOutput) -> Self {
        Self::Mixnet(output)
    }
}

/// What a carrier can do right now: the one source for policy, texts and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierCaps {
    /// Bytes of one piece.
    pub piece_bytes: usize,
    /// Pieces that one parcel may have.
    pub pieces_max: usize,
    /// Protection level, 1 to 4.
    pub level: u8,
    /// Usual delay in milliseconds, median.
    pub delay_ms: u32,
    /// Usual delay in milliseconds, 99th percentile.
    pub delay_p99_ms: u32,
    /// Whether `delivered` receipts travel by default.
    pub receipts: bool,
    /// Hours that the carrier keeps what waits.
    pub store_h: u32,
    /// Whether it needs the internet.
    pub needs_internet: bool,
    /// Whether it runs as a demonstration on one machine and so protects nothing.
    pub demo: bool,
}

impl CarrierCaps {
    /// The relay: one envelope a parcel, kept for 30 days.
    pub const RELAY: Self = Self {
        piece_bytes: 16_333,
        pieces_max: 1,
        level: 1,
        delay_ms: 50,
        delay_p99_ms: 1_000,
        receipts: true,
        store_h: 720,
        needs_internet: true,
        demo: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_carrier_has_its_number_and_its_name() {
        let names = ["relay", "link", "mesh", "mixnet"];
        assert_eq!(CarrierId::ALL.map(CarrierId::name), names);
        for carrier in CarrierId::ALL {
            assert_eq!(CarrierId::from_number(carrier.number()), Some(carrier));
        }
        assert_eq!(CarrierId::from_number(0), None);
        assert_eq!(CarrierId::from_number(5), None);
    }
}
