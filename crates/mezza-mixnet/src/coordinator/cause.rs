//! The mixes for whose sake a round ended before its time, as far as the entry can tell.

use mezza_core::snapshot;

use super::round::{Round, RoundState};
use crate::limits::MIXES_MAX;

/// Why the entry ended a round: which mix did not do its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// The entry itself: its clock was put back, or it ends.
    Entry,
    /// No key came from these mixes until the settings were due.
    NoKey(MixPositions),
    /// No signature came from these mixes until the settings were due.
    NoSignature(MixPositions),
    /// The link with this mix was lost.
    LinkLost(u8),
    /// This mix ended the round and signed that it did.
    Reported(u8),
    /// Replies come over the first mix alone: they were wrong, or did not come in time.
    Replies,
}

snapshot!(enum AbortCause [
    Entry, NoKey(a), NoSignature(a), LinkLost(a), Reported(a), Replies,
]);

/// Positions of mixes in the chain, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixPositions(u8);

snapshot!(struct MixPositions(bits));

const _: () = assert!(MIXES_MAX <= u8::BITS as usize, "a bit for each mix");

impl MixPositions {
    /// The positions in ascending order, 0 for the first mix.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..MIXES_MAX as u8).filter(move |at| self.0 >> at & 1 == 1)
    }

    /// The positions of those that gave nothing.
    fn find_missing<T>(given: &[Option<T>]) -> Self {
        let missing = given.iter().zip(0_u8..).filter(|(given, _)| given.is_none());
        Self(missing.fold(0, |bits, (_, at)| bits | 1 << at))
    }
}

impl AbortCause {
    /// The cause of a round whose deadline has passed.
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
