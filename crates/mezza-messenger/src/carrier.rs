//! Carriers: what they hide, what fits into them, what they can prove.

pub mod mixnet;
pub mod relay;

/// A way for parcels. The numbers are the ones of stored forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Carrier {
    /// A mailbox server: level 1.
    Relay = 1,
    /// A local link or tunnel: level 1.
    Link = 2,
    /// Devices that pass cells on without internet: level 3.
    Mesh = 3,
    /// Onions in rounds: level 4.
    Mixnet = 4,
}

impl Carrier {
    /// All carriers that the format knows, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Relay, Self::Link, Self::Mesh, Self::Mixnet];

    /// The carrier of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|carrier| *carrier as u8 == number)
    }

    /// Its name on the command line and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Link => "link",
            Self::Mesh => "mesh",
            Self::Mixnet => "mixnet",
        }
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
        assert_eq!(Carrier::ALL.map(Carrier::name), names);
        for carrier in Carrier::ALL {
            assert_eq!(Carrier::from_number(carrier as u8), Some(carrier));
        }
        assert_eq!(Carrier::from_number(0), None);
        assert_eq!(Carrier::from_number(5), None);
    }
}
