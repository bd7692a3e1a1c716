//! The record that a client stores for each service and round before its onions are sent: 2,048
//! bytes, for an idle and a busy round alike.
//!
//! ```text
//! 1 u8 | service u8 | round u64 | time u64 ms | kind 11 | interval u32 ms | base u64 | charged u8
//! count u8 | count x (line u32 | start u32 | ack u32 | theirs u32 | data u8 [| seq u32 | first u32 | var8 piece])
//! count u8 | count x (line u32 | seq u32 | var8 piece)                                    then zeros
//! ```
//!
//! The first list has the busy slots, the second one the pieces received since the last record. A
//! line is one root of one contact.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer};

use crate::RoundId;
use crate::limits::SLOTS_MAX;
use crate::privacy::ledger::PrivacyCost;
use crate::wire::cell::Piece;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 2_048;
/// Pieces in both lists together that always fit.
const PIECES_MAX: usize = 7;
/// Most pieces in the second list.
const RECEIVED_MAX: usize = 5;
/// First byte of a record.
pub(super) const RECORD: u8 = 1;

/// The record of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundRecord {
    /// The round.
    pub id: RoundId,
    /// Time of sealing.
    pub at: Time,
    /// The privacy cost of the round.
    pub kind: PrivacyCost,
    /// Interval of the rounds in milliseconds.
    pub interval_ms: u32,
    /// The base round of the service in the config.
    pub base: u64,
    /// True if the round was charged.
    pub charged: bool,
    /// The busy slots.
    pub sealed: Vec<SealedSlot>,
    /// Pieces received since the last record.
    pub received: Vec<ReceivedPiece>,
}

/// A busy slot in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSlot {
    /// The line, which is one root of a contact.
    pub line: u32,
    /// All pieces before this one belong to messages that the messenger has stored.
    pub start: u32,
    /// The acknowledgement in the cell.
    pub ack: u32,
    /// The acknowledgement by the partner.
    pub acked_by_partner: u32,
    /// Number of the piece in the cell, number of the first piece of its message, and the piece.
    pub piece: Option<(u32, u32, Piece)>,
}

/// A received piece in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPiece {
    /// The line, which is one root of a contact.
    pub line: u32,
    /// Number of the piece.
    pub seq: u32,
    /// The piece itself.
    pub piece: Piece,
}

/// Returns the most received pieces in one record, by the number of slots. Others wait for the next
/// record.
pub fn received_max(slots: u8) -> usize {
    PIECES_MAX.saturating_sub(slots.into()).min(RECEIVED_MAX)
}

impl RoundRecord {
    /// Encodes the record in 2,048 bytes.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(RECORD_BYTES);
        w.put_u8(RECORD);
        self.id.write_to(&mut w);
        w.put_u64(self.at.as_ms());
        self.kind.write_to(&mut w);
        w.put_u32(self.interval_ms).put_u64(self.base).put_u8(u8::from(self.charged));
        w.put_u8(self.sealed.len() as u8);
        for slot in &self.sealed {
            w.put_u32(slot.line)
                .put_u32(slot.start)
                .put_u32(slot.ack)
                .put_u32(slot.acked_by_partner);
            w.put_u8(u8::from(slot.piece.is_some()));
            if let Some((seq, first, piece)) = &slot.piece {
                w.put_u32(*seq).put_u32(*first).put_var8(piece.bytes());
            }
        }
        w.put_u8(self.received.len() as u8);
        for ReceivedPiece { line, seq, piece } in &self.received {
            w.put_u32(*line).put_u32(*seq).put_var8(piece.bytes());
        }
        // All records have equal size, so that neither the disk nor a backup shows whether the
        // round was busy (MIX-23).
        w.pad_to(RECORD_BYTES);
        Wiping::new(w.finish())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the result of [`encode`](Self::encode).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(bytes);
        if bytes.len() != RECORD_BYTES || r.read_u8()? != RECORD {
            return Err(DecodeError::Value);
        }
        let id = RoundId::read_from(r)?;
        let at = Time::from_ms(r.read_u64()?);
        let kind = PrivacyCost::read_from(r)?;
        let interval_ms = r.read_u32()?;
        let base = r.read_u64()?;
        let charged = read_flag(r)?;
        let sealed = read_list(r, SLOTS_MAX.into(), |r| {
            let [line, start, ack, theirs] =
                [r.read_u32()?, r.read_u32()?, r.read_u32()?, r.read_u32()?];
            let piece = if read_flag(r)? {
                Some((r.read_u32()?, r.read_u32()?, read_piece(r)?))
            } else {
                None
            };
            Ok(SealedSlot { line, start, ack, acked_by_partner: theirs, piece })
        })?;
        let received = read_list(r, RECEIVED_MAX, |r| {
            Ok(ReceivedPiece { line: r.read_u32()?, seq: r.read_u32()?, piece: read_piece(r)? })
        })?;
        // Padding other than zeros means another format or damage, and the row is quarantined
        // (MIX-41).
        let zeros = r.read_rest().iter().all(|byte| *byte == 0);
        if kind.service != id.service || !zeros {
            return Err(DecodeError::Value);
        }
        Ok(Self { id, at, kind, interval_ms, base, charged, sealed, received })
    }
}

fn read_piece(r: &mut Reader<'_>) -> Result<Piece, DecodeError> {
    Piece::new(r.read_var8()?).ok_or(DecodeError::Value)
}

/// Reads a flag of one byte, 0 or 1.
pub(super) fn read_flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.read_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Value),
    }
}

/// Reads a count of one byte and at most `max` entries.
fn read_list<'a, T>(
    r: &mut Reader<'a>,
    max: usize,
    one: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = usize::from(r.read_u8()?);
    // The count is checked before anything is allocated for it.
    if count > max {
        return Err(DecodeError::Value);
    }
    (0..count).map(|_| one(r)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;
    use crate::config::tests::service;
    use alloc::vec;

    fn record(slots: u8, received: usize, len: usize) -> RoundRecord {
        let piece = || Piece::new(&vec![7; len]).expect("short");
        let fragment = |seq| ReceivedPiece { line: 3, seq, piece: piece() };
        let slot = |line| {
            let piece = Some((9, 7, piece()));
            SealedSlot { line, start: 1, ack: 2, acked_by_partner: 3, piece }
        };
        RoundRecord {
            id: RoundId { service: Service::Conversation, round: 101 },
            at: Time::from_ms(5),
            kind: PrivacyCost::from_policy(&service(Service::Conversation)),
            interval_ms: 5_000,
            base: 100,
            charged: true,
            sealed: (0..slots.into()).map(slot).collect(),
            received: (0..received as u32).map(fragment).collect(),
        }
    }

    #[test]
    fn mix_23_a_record_has_2048_bytes_idle_or_busy() {
        for slots in 1..=SLOTS_MAX {
            let full = record(slots, received_max(slots), 225);
            assert_eq!(full.encode().len(), RECORD_BYTES, "{slots} slots");
            assert_eq!(RoundRecord::decode(&full.encode()), Ok(full));
        }
        let idle = record(0, 0, 0);
        assert_eq!(idle.encode().len(), RECORD_BYTES);
        assert_eq!(RoundRecord::decode(&idle.encode()), Ok(idle));
        assert_eq!((received_max(1), received_max(5)), (5, 2));
    }

    #[test]
    fn what_no_client_writes_is_refused() {
        let good = record(1, 2, 9).encode();
        for cut in 0..RECORD_BYTES {
            assert!(RoundRecord::decode(&good[..cut]).is_err(), "cut to {cut}");
        }
        for (at, value) in [(0, 2), (1, 4), (1, 2), (41, 2), (42, 6), (59, 2), (2_047, 1)] {
            let mut wrong = good.to_vec();
            wrong[at] = value;
            assert!(RoundRecord::decode(&wrong).is_err(), "byte {at} = {value}");
        }
    }
}
