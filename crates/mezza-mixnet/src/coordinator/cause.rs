//! The causes of an aborted round, as the entry server can tell them.

use mezza_core::snapshot;

use super::round::{Round, RoundState};
use crate::limits::MIXES_MAX;

/// The party because of which the entry server ended a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// The entry server itself: its clock went back, or the program ends.
    Entry,
    /// These mixes sent no key before the settings were due.
    NoKey(MixPositions),
    /// These mixes sent no signature before the settings were due.
    NoSignature(MixPositions),
    /// The link to this mix broke.
    LinkLost(u8),
    /// This mix ended the round and signed the ABORT.
    Reported(u8),
    /// The replies, which the first mix delivers, were wrong or late.
    Replies,
}

snapshot!(enum AbortCause [
    Entry, NoKey(a), NoSignature(a), LinkLost(a), Reported(a), Replies,
]);

/// A set of mix positions in the chain, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixPositions(u8);

snapshot!(struct MixPositions(bits));

const _: () = assert!(MIXES_MAX <= u8::BITS as usize, "a bit for each mix");

impl MixPositions {
    /// Returns the positions in ascending order, 0 for the first mix.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..MIXES_MAX as u8).filter(move |at| self.0 >> at & 1 == 1)
    }

    /// Returns the positions without a value.
    fn find_missing<T>(given: &[Option<T>]) -> Self {
        let missing = given.iter().zip(0_u8..).filter(|(given, _)| given.is_none());
        Self(missing.fold(0, |bits, (_, at)| bits | 1 << at))
    }
}

impl AbortCause {
    /// Returns the cause for a round whose deadline has passed.
    pub(super) fn of_deadline(round: &Round) -> Self {
        match &round.stage {
            RoundState::Asking(keys) => Self::NoKey(MixPositions::find_missing(keys)),
            RoundState::Signing(_, given) => Self::NoSignature(MixPositions::find_missing(given)),
            RoundState::Agreed(_) => Self::Entry,
            RoundState::Announced(..) | RoundState::Mixing(..) | RoundState::Fetching(..) => {
                Self::Replies
            }
        }
    }
}
