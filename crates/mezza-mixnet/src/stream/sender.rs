//! The sending side of a stream, which cuts messages into pieces.

mod record;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Wiping, snapshot};

use super::{LENGTH_BYTES, PATIENCE, QUEUE_BYTES_MAX, WINDOW};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::cell::{PIECE_BYTES, Piece};

/// The reason why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Too many bytes already wait for this contact.
    #[error("too much waits for this contact")]
    Full,
    /// The message is empty, or longer than 8,998 bytes.
    #[error("no message has this length")]
    TooBig,
    /// The message has only zeros, which mean a withdrawn message (MIX-66).
    #[error("a message of zeros stands for none")]
    Blank,
}

/// The outcome of the round of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellOutcome {
    /// The partner's cell returned, so our cell has reached the partner.
    Met,
    /// Our own cell returned.
    Absent,
    /// Other bytes returned.
    Garbage,
    /// The round was missed.
    Missed,
}

/// The state of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceState {
    /// In a cell of a round without a result yet.
    InFlight,
    /// The round of the piece returned without a meeting.
    Failed,
    /// The piece was in a meeting; the number counts later Met results.
    Sent(u32),
}

snapshot!(enum PieceState [InFlight, Failed, Sent(a)]);

/// A message as `u16 length | bytes`, with its ticket.
struct Message {
    /// The ticket, or `None` until the message is queued again.
    ticket: Option<u64>,
    /// True if every piece was in a meeting and this was reported.
    told: bool,
    /// Length and bytes; incomplete while the rest was not queued again after a start.
    framed: Wiping<Vec<u8>>,
}

snapshot!(struct Message { ticket, told, framed });

impl Message {
    /// Returns the bytes of the whole message, length field included.
    fn len(&self) -> usize {
        let length = self.framed.first_chunk().map_or(0, |length| u16::from_be_bytes(*length));
        LENGTH_BYTES + usize::from(length)
    }

    fn piece_count(&self) -> u32 {
        self.len().div_ceil(PIECE_BYTES) as u32
    }

    fn piece_at(&self, index: u32) -> Option<Piece> {
        Piece::new(self.framed.chunks(PIECE_BYTES).nth(index as usize)?)
    }

    /// Returns true if the known part of this message equals `framed` and it has no ticket.
    fn is_unclaimed(&self, framed: &[u8]) -> bool {
        // A message with a ticket is already awaited, so an equal text is a second message.
        self.ticket.is_none() && self.len() == framed.len() && framed.starts_with(&self.framed)
    }

    /// Returns true if all bytes are known.
    fn is_whole(&self) -> bool {
        self.framed.len() == self.len()
    }

    /// Returns true if the message was replaced by zeros. Accepted messages are never all zeros.
    fn is_blank(&self) -> bool {
        self.framed.iter().skip(LENGTH_BYTES).all(|byte| *byte == 0)
    }

    /// Returns the message for another stream and leaves zeros in its place.
    fn give_up(&mut self) -> Self {
        let framed = Wiping::new(self.framed.to_vec());
        self.blank_content();
        Self { ticket: self.ticket.take(), told: self.told, framed }
    }

    /// Replaces all bytes except the length by zeros; the partner drops such a message.
    fn blank_content(&mut self) {
        let mut whole = Wiping::new(Vec::with_capacity(self.len()));
        whole.extend_from_slice(&self.framed[..LENGTH_BYTES]);
        whole.resize(self.len(), 0);
        self.framed = whole;
    }

    /// Fills the unknown rest with zeros; the partner drops such a message.
    fn fill_missing(&mut self) {
        let mut whole = Vec::with_capacity(self.len());
        whole.extend_from_slice(&self.framed);
        whole.resize(self.len(), 0);
        self.framed = Wiping::new(whole);
    }
}

/// A message with sealed pieces.
struct MessageInTransit {
    message: Message,
    /// Number of the first piece of the message.
    first: u32,
    /// Bit i is set if piece i of the message was in a meeting.
    met: u64,
}

snapshot!(struct MessageInTransit { message, first, met });

impl MessageInTransit {
    const fn begin(message: Message, first: u32) -> Self {
        Self { message, first, met: 0 }
    }

    fn end(&self) -> u32 {
        self.first.saturating_add(self.message.piece_count())
    }

    fn all_met(&self) -> bool {
        u64::from(self.met.count_ones()) == u64::from(self.message.piece_count())
    }
}

/// Messages on their way to one contact. Piece numbers begin at 0 with each root.
#[derive(Default)]
pub struct Sender {
    /// Messages without sealed pieces.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    /// Messages with sealed pieces, oldest first. The last one may have unsealed pieces.
    cuts: VecDeque<MessageInTransit>,
    /// Messages that were acknowledged while they had no ticket, oldest first, 32 at most. If one
    /// is queued again, its success is reported.
    unclaimed: VecDeque<Message>,
    /// Sealed pieces that are not acknowledged.
    places: BTreeMap<u32, PieceState>,
    /// Number of the next new piece.
    next: u32,
    handed: Vec<u64>,
    acked: Vec<u64>,
}

snapshot!(struct Sender { waiting, waiting_bytes, cuts, unclaimed, places, next, handed, acked });

impl Sender {
    /// Queues a message of 1 to 8,998 bytes that are not all zero. `ticket` identifies it in
    /// [`take_handed`](Self::take_handed) and [`take_acked`](Self::take_acked). A message that is
    /// on its way without a ticket, since a start or [`detach_tickets`](Self::detach_tickets), is
    /// not sent a second time: it continues under this ticket, even if it was acknowledged
    /// meanwhile.
    ///
    /// # Errors
    /// [`StreamError`]; the message is not stored.
    pub fn push_message(&mut self, ticket: u64, message: &[u8]) -> Result<(), StreamError> {
        if message.is_empty() || message.len() > MESSAGE_BYTES_MAX {
            return Err(StreamError::TooBig);
        }
        // Zeros mark a withdrawn message, so the partner would drop a real message of zeros
        // (MIX-66).
        if message.iter().all(|byte| *byte == 0) {
            return Err(StreamError::Blank);
        }
        let mut framed = Wiping::new(Vec::with_capacity(LENGTH_BYTES + message.len()));
        framed.extend_from_slice(&(message.len() as u16).to_be_bytes());
        framed.extend_from_slice(message);
        // Sent again, the message would arrive twice, and its pieces already have numbers (MIX-75).
        if let Some(cut) = self.cuts.iter_mut().find(|cut| cut.message.is_unclaimed(&framed)) {
            cut.message.ticket = Some(ticket);
            cut.message.framed = framed;
            if cut.message.told {
                self.handed.push(ticket);
            }
            return Ok(());
        }
        if let Some(place) = self.unclaimed.iter().position(|held| held.is_unclaimed(&framed)) {
            self.unclaimed.remove(place);
            self.handed.push(ticket);
            // It was acknowledged while it had no ticket, so the ticket is settled at once.
            self.acked.push(ticket);
            return Ok(());
        }
        if self.waiting_bytes + message.len() > QUEUE_BYTES_MAX {
            return Err(StreamError::Full);
        }
        self.waiting_bytes += message.len();
        self.waiting.push_back(Message { ticket: Some(ticket), told: false, framed });
        Ok(())
    }

    /// Removes all tickets: messages without sealed pieces are dropped, the others continue without
    /// tickets.
    pub fn detach_tickets(&mut self) {
        // No piece of these was sealed. The messenger has them and selects their carrier again.
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.cuts.iter_mut().for_each(|cut| cut.message.ticket = None);
        self.unclaimed.clear();
        self.handed.clear();
        self.acked.clear();
    }

    /// Withdraws a message. Without sealed pieces it is dropped. Otherwise it continues as zeros
    /// after its length, unless the partner has all of it. Returns true if it had sealed pieces.
    pub fn retract_message(&mut self, message: &[u8]) -> bool {
        let is_it = |held: &Message| {
            held.len() == LENGTH_BYTES + message.len()
                && held.framed.get(LENGTH_BYTES..).is_some_and(|known| message.starts_with(known))
        };
        self.waiting.retain(|waiting| !is_it(waiting));
        self.waiting_bytes = self.waiting.iter().map(|m| m.framed.len() - LENGTH_BYTES).sum();
        let begun = self.cuts.iter_mut().find(|cut| !cut.message.told && is_it(&cut.message));
        let Some(cut) = begun else { return false };
        cut.message.ticket = None;
        // The numbers are in use, so zeros follow: a gap would stop the partner's stream (MIX-66).
        cut.message.blank_content();
        true
    }

    /// Takes over the undelivered messages of another root, which are cut again. Messages with
    /// sealed pieces get their numbers at once, because the messenger may not have them any more,
    /// and unnumbered ones survive neither a start nor [`detach_tickets`](Self::detach_tickets).
    /// The other root continues with zeros in their place, so that its stream has no gap for the
    /// partner.
    pub fn adopt_unsent(&mut self, old: &mut Self) {
        let begun = self.cuts.back().map_or(self.next, MessageInTransit::end);
        self.places.extend((self.next..begun).map(|seq| (seq, PieceState::Failed)));
        self.next = self.next.max(begun);
        // The messenger queues an incomplete message again.
        let is_real = |message: &Message| message.is_whole() && !message.is_blank();
        // Under the new root the pieces get new numbers. A message may then arrive twice.
        for cut in old.cuts.iter_mut().filter(|cut| is_real(&cut.message)) {
            let message = cut.message.give_up();
            let anew = MessageInTransit::begin(message, self.next);
            self.next = anew.end();
            self.places.extend((anew.first..anew.end()).map(|seq| (seq, PieceState::Failed)));
            self.cuts.push_back(anew);
        }
        self.waiting.append(&mut old.waiting);
        self.waiting_bytes += core::mem::take(&mut old.waiting_bytes);
        self.handed.append(&mut old.handed);
        self.acked.append(&mut old.acked);
    }

    /// Returns true if zeros are on their way in place of a message.
    pub fn has_blanks(&self) -> bool {
        self.cuts.iter().any(|cut| cut.message.is_blank())
    }

    /// Returns true if everything was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.cuts.is_empty()
    }

    /// Returns the number of the next new piece.
    pub const fn next_piece(&self) -> u32 {
        self.next
    }

    /// Returns the number of the first unacknowledged piece.
    pub fn first_unacked(&self) -> u32 {
        self.places.first_key_value().map_or(self.next, |(seq, _)| *seq)
    }

    /// Returns the piece for the next cell, which is then in flight: one whose round failed, one
    /// that seems lost, or a new one, in this order. With `None` the cell has no data.
    pub fn take_piece(&mut self) -> Option<(u32, Piece)> {
        // `ack` and `sack` cover 32 pieces, so a piece beyond them could not be acknowledged.
        let window = ..self.first_unacked().saturating_add(WINDOW);
        let first = |wanted: fn(&PieceState) -> bool| {
            self.places.range(window).find(|(_, place)| wanted(place)).map(|(seq, _)| *seq)
        };
        let seq = first(|place| *place == PieceState::Failed)
            .or_else(|| {
                first(|place| matches!(place, PieceState::Sent(later) if *later >= PATIENCE))
            })
            .or_else(|| self.cut_piece())?;
        let piece = self.cut_of(seq).and_then(|cut| cut.message.piece_at(seq - cut.first))?;
        self.places.insert(seq, PieceState::InFlight);
        Some((seq, piece))
    }

    /// Returns the number of the first piece of the message to which a piece belongs.
    pub fn first_of(&self, seq: u32) -> Option<u32> {
        self.cut_of(seq).map(|cut| cut.first)
    }

    fn cut_of(&self, seq: u32) -> Option<&MessageInTransit> {
        self.cuts.iter().find(|cut| (cut.first..cut.end()).contains(&seq))
    }

    /// Cuts a new piece if the window has room for it.
    fn cut_piece(&mut self) -> Option<u32> {
        let seq = self.next;
        // A piece beyond the window could not be acknowledged. Numbers end before they overflow.
        if seq - self.first_unacked() >= WINDOW || seq >= u32::MAX - WINDOW {
            return None;
        }
        if self.cuts.back().is_none_or(|cut| cut.end() <= seq) {
            let message = self.waiting.pop_front()?;
            self.waiting_bytes -= message.framed.len() - LENGTH_BYTES;
            self.cuts.push_back(MessageInTransit::begin(message, seq));
        }
        let cut = self.cuts.back_mut()?;
        if cut.message.piece_at(seq - cut.first).is_none() {
            // The next waiting message is a different one, so the rest of this one will not be
            // queued again.
            if self.waiting.is_empty() {
                return None;
            }
            cut.message.fill_missing();
        }
        self.next = seq + 1;
        Some(seq)
    }

    /// Applies the outcome of the round of a cell with this piece, or without one.
    pub fn settle_piece(&mut self, seq: Option<u32>, outcome: CellOutcome) {
        if outcome == CellOutcome::Met {
            for place in self.places.values_mut() {
                if let PieceState::Sent(later) = place {
                    *later += 1;
                }
            }
        }
        // An idle cell has no piece, but its meeting was counted for the other pieces above.
        let Some(seq) = seq else { return };
        if outcome == CellOutcome::Met {
            self.in_a_meeting(seq);
        }
        if let Some(place) = self.places.get_mut(&seq) {
            *place =
                if outcome == CellOutcome::Met { PieceState::Sent(0) } else { PieceState::Failed };
        }
    }

    /// Applies an acknowledgement: the partner has all pieces before `ack`, and `ack + 1 + j` for
    /// each bit j of `sack`. Returns false and changes nothing if it covers pieces that were never
    /// sent.
    pub fn apply_ack(&mut self, ack: u32, sack: u32) -> bool {
        let bits = (0..WINDOW).filter(|j| sack >> j & 1 == 1).map(|j| ack.checked_add(1 + j));
        // A bit beyond the last number was never sent.
        let Some(named) = bits.collect::<Option<BTreeSet<u32>>>() else { return false };
        // The partner's numbers belong to another copy of this client, so nothing changes.
        if ack > self.next || named.last().is_some_and(|last| *last >= self.next) {
            return false;
        }
        let has = |seq: &u32| *seq < ack || named.contains(seq);
        let gone: Vec<u32> = self.places.keys().copied().filter(has).collect();
        for seq in gone {
            self.places.remove(&seq);
            self.in_a_meeting(seq);
        }
        // Pieces covered by `sack` alone may wait at the partner for an earlier piece, and a change
        // of root may wipe them there. Such a message is kept until no earlier piece is missing.
        let missing = self.first_unacked();
        let whole = self.cuts.iter().take_while(|cut| cut.end() <= missing).count();
        for cut in self.cuts.drain(..whole) {
            match cut.message.ticket {
                Some(ticket) => self.acked.push(ticket),
                None => self.unclaimed.push_back(cut.message),
            }
        }
        // Only the newest ones can be queued again, so the list stays short.
        let forgotten = self.unclaimed.len().saturating_sub(WINDOW as usize);
        self.unclaimed.drain(..forgotten);
        true
    }

    fn in_a_meeting(&mut self, seq: u32) {
        let of = |cut: &&mut MessageInTransit| (cut.first..cut.end()).contains(&seq);
        let Some(cut) = self.cuts.iter_mut().find(of) else { return };
        cut.met |= 1 << (seq - cut.first);
        // Reported once, because a second report would name a settled ticket.
        if cut.all_met() && !cut.message.told {
            cut.message.told = true;
            self.handed.extend(cut.message.ticket);
        }
    }

    /// Returns the tickets of messages whose pieces were all in a meeting, each once.
    pub fn take_handed(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.handed)
    }

    /// Returns the tickets of messages whose pieces are all on the partner's disk, each once.
    pub fn take_acked(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.acked)
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender(next {}, {} under way)", self.next, self.places.len())
    }
}
