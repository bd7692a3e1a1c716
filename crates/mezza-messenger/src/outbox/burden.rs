//! The items of a parcel, besides receipts and the text, that are owed again if the parcel is lost
//! (MSG-105).

use mezza_core::{DecodeError, snapshot};

use super::{Owed, Spoken};
use crate::note::{Item, Note};

/// The owed items in one parcel that are sent only once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the stored form")]
pub(crate) struct Burden {
    /// The timer of the conversation is in the parcel.
    pub timer: bool,
    /// A newer card is in the parcel.
    pub card: bool,
    /// Read receipts are in the parcel.
    pub read: bool,
    /// The root of mixnet chains is in the parcel. Its loss is the carrier's to handle (MSG-155).
    pub root: bool,
    /// Cause of a session reset in the parcel, 1 to 3, with a request to send again; 0 means no
    /// reset.
    pub anew: u8,
}

snapshot!(struct Burden { timer, card, read, root, anew });

/// Highest cause of a reset; causes take two bits.
const CAUSE_MAX: u8 = 3;

impl Burden {
    /// Returns the burden of this note.
    pub fn from_note(wire: &Note, spoken: Option<Spoken>) -> Self {
        let mut burden = Self { read: spoken.is_some_and(|spoken| spoken.read), ..Self::default() };
        for item in &wire.items {
            match item {
                Item::Timer(_) => burden.timer = true,
                Item::Card(_) => burden.card = true,
                Item::Meet(meet) => burden.root |= meet.root.is_some(),
                Item::Reset(cause) => burden.anew = (*cause).min(CAUSE_MAX),
                _ => {}
            }
        }
        burden
    }

    /// Marks all items of the burden as owed again.
    pub fn return_to(self, owed: &mut Owed) {
        owed.timer |= self.timer;
        owed.card |= self.card;
        owed.read |= self.read;
        owed.anew = owed.anew.or(Some(self.anew).filter(|cause| *cause != 0));
    }

    /// Returns the stored form: the first three flags in the low three bits, the cause in the next
    /// two, and the root in bit 5.
    pub fn to_bits(self) -> u8 {
        let flags = [self.timer, self.card, self.read];
        let above = u8::from(self.root) << 2 | self.anew;
        flags.iter().rev().fold(above, |bits, on| bits << 1 | u8::from(*on))
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError::Value`] if an undefined bit is set.
    pub fn from_bits(bits: u8) -> Result<Self, DecodeError> {
        let on = |i: u8| bits >> i & 1 == 1;
        let anew = bits >> 3 & CAUSE_MAX;
        let burden = Self { timer: on(0), card: on(1), read: on(2), root: on(5), anew };
        if bits < 1 << 6 { Ok(burden) } else { Err(DecodeError::Value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_105_what_a_parcel_says_is_read_as_it_was_written() {
        for bits in 0..=u8::MAX {
            let burden = Burden::from_bits(bits);
            assert_eq!(burden.is_ok(), bits < 64);
            assert!(burden.is_err() || burden.is_ok_and(|burden| burden.to_bits() == bits));
        }
    }
}
