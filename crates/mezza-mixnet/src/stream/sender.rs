//! The side that cuts messages into pieces.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::Wiping;

use super::{LENGTH_BYTES, PATIENCE, QUEUE_BYTES_MAX, WINDOW};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::cell::{PIECE_BYTES, Piece};

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// More waits for this contact than may.
    #[error("too much waits for this contact")]
    Full,
    /// Empty, or above 8,998 bytes.
    #[error("no message has this length")]
    TooBig,
}

/// What became of the round in which a cell was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The partner's cell came back: ours is with the partner's side of the drop.
    Met,
    /// Our own cell came back.
    Absent,
    /// Something else came back.
    Garbage,
    /// The round did not happen for us.
    Missed,
}

/// Where a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a cell whose round has no result yet.
    InFlight,
    /// Its round came back without a meeting.
    Failed,
    /// It was in a meeting; so many later ones were Met since.
    Sent(u32),
}

/// A message that is cut or being cut.
struct Cut {
    ticket: u64,
    /// Its pieces that were in no meeting yet.
    unmet: BTreeSet<u32>,
    whole: bool,
}

/// Messages on their way to one contact. Numbers of pieces begin at 0 with each root.
#[derive(Default)]
pub struct Sender {
    /// Messages not cut yet, each with its ticket.
    waiting: VecDeque<(u64, Wiping<Vec<u8>>)>,
    waiting_bytes: usize,
    /// What is left of the message that is being cut.
    rest: VecDeque<Piece>,
    /// Pieces that are not acknowledged.
    pieces: BTreeMap<u32, (Piece, Place)>,
    /// The number of the next new piece.
    next: u32,
    cuts: VecDeque<Cut>,
}

impl Sender {
    /// A message of 1 to 8,998 bytes; `ticket` names it in [`handed`](Self::handed).
    ///
    /// # Errors
    /// [`StreamError`]; nothing is kept.
    pub fn push(&mut self, ticket: u64, message: &[u8]) -> Result<(), StreamError> {
        if message.is_empty() || message.len() > MESSAGE_BYTES_MAX {
            return Err(StreamError::TooBig);
        }
        if self.waiting_bytes + message.len() > QUEUE_BYTES_MAX {
            return Err(StreamError::Full);
        }
        let mut framed = Vec::with_capacity(LENGTH_BYTES + message.len());
        framed.extend_from_slice(&(message.len() as u16).to_be_bytes());
        framed.extend_from_slice(message);
        self.waiting_bytes += message.len();
        self.waiting.push_back((ticket, Wiping::new(framed)));
        Ok(())
    }

    /// Whether everything was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.rest.is_empty() && self.pieces.is_empty()
    }

    /// The number of the next new piece.
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// The piece for the next cell, now in flight: one whose round failed, one that seems lost, or a
    /// new one, in this order. `None`: the cell goes without data.
    pub fn take(&mut self) -> Option<(u32, Piece)> {
        let first = |wanted: fn(&Place) -> bool| {
            self.pieces.iter().find(|(_, (_, place))| wanted(place)).map(|(seq, _)| *seq)
        };
        let seq = first(|place| *place == Place::Failed)
            .or_else(|| first(|place| matches!(place, Place::Sent(later) if *later >= PATIENCE)))
            .or_else(|| self.cut())?;
        let (piece, place) = self.pieces.get_mut(&seq)?;
        *place = Place::InFlight;
        Some((seq, piece.clone()))
    }

    /// Cuts a new piece, if the window has room for it.
    fn cut(&mut self) -> Option<u32> {
        let base = self.pieces.first_key_value().map_or(self.next, |(seq, _)| *seq);
        if self.next - base >= WINDOW {
            return None;
        }
        if self.rest.is_empty() {
            let (ticket, message) = self.waiting.pop_front()?;
            self.waiting_bytes -= message.len() - LENGTH_BYTES;
            self.rest = message.chunks(PIECE_BYTES).filter_map(Piece::new).collect();
            self.cuts.push_back(Cut { ticket, unmet: BTreeSet::new(), whole: false });
        }
        let seq = self.next;
        self.next = seq.checked_add(1)?;
        let piece = self.rest.pop_front()?;
        if let Some(cut) = self.cuts.back_mut() {
            cut.unmet.insert(seq);
            cut.whole = self.rest.is_empty();
        }
        self.pieces.insert(seq, (piece, Place::InFlight));
        Some(seq)
    }

    /// What became of the round of a cell that held this piece, or none.
    pub fn settle(&mut self, seq: Option<u32>, outcome: Outcome) {
        if outcome == Outcome::Met {
            for (_, place) in self.pieces.values_mut() {
                if let Place::Sent(later) = place {
                    *later += 1;
                }
            }
        }
        let Some(seq) = seq else { return };
        if outcome == Outcome::Met {
            self.in_a_meeting(seq);
        }
        if let Some((_, place)) = self.pieces.get_mut(&seq) {
            *place = if outcome == Outcome::Met { Place::Sent(0) } else { Place::Failed };
        }
    }

    /// What the partner has: everything before `ack`, and `ack + 1 + j` for each bit j of `sack`.
    /// `false`, and nothing changes, if it names what was never sent.
    pub fn acknowledge(&mut self, ack: u32, sack: u32) -> bool {
        let bits = (0..WINDOW).filter(|j| sack >> j & 1 == 1).map(|j| ack.checked_add(1 + j));
        let Some(named) = bits.collect::<Option<BTreeSet<u32>>>() else { return false };
        if ack > self.next || named.last().is_some_and(|last| *last >= self.next) {
            return false;
        }
        let has = |seq: &u32| *seq < ack || named.contains(seq);
        let gone: Vec<u32> = self.pieces.keys().copied().filter(has).collect();
        for seq in gone {
            self.pieces.remove(&seq);
            self.in_a_meeting(seq);
        }
        true
    }

    fn in_a_meeting(&mut self, seq: u32) {
        for cut in &mut self.cuts {
            cut.unmet.remove(&seq);
        }
    }

    /// Tickets of messages of which every piece was in a meeting, each told once.
    pub fn handed(&mut self) -> Vec<u64> {
        let done = |cut: &Cut| cut.whole && cut.unmet.is_empty();
        let told = self.cuts.iter().filter(|cut| done(cut)).map(|cut| cut.ticket).collect();
        self.cuts.retain(|cut| !done(cut));
        told
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender(next {}, {} under way)", self.next, self.pieces.len())
    }
}
