//! Snapshots: the state that a client needs after a start, together with the records after it.
//!
//! ```text
//! text = 2 u8 | pin 32 | chain flag u8 [| chain] | ledger flag u8 [| length u32 | ledger]
//!        | 3 x (known u8 | last round u64) | allow more u8 | contacts            then zeros
//! part = 3 u8 | number u16 | count u16 | 262,139 bytes of a text
//! ```
//!
//! `known` is 1 if there is a last round, plus 2 if an unreadable row may be of a later one.
//!
//! A text of up to 262,144 bytes is one row, padded to a power of two of at least 16,384. A longer
//! text is cut into parts, whose number is a power of two, because the vault of the program limits
//! the length of a row (MIX-44). A snapshot is made each hour, a minute after a start, and whenever
//! contacts or configs change. All earlier rows are then deleted.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Time, Wiping, Writer};

use super::{Client, ClientOptions, Output, PendingWrite, RestoreError};
use crate::Service;
use crate::client::contacts::{Partner, Partners};
use crate::client::record::read_flag;
use crate::config::Chain;
use crate::privacy::Ledger;

/// Most bytes of a row.
pub const ROW_BYTES_MAX: usize = 262_144;
/// The first byte of a snapshot, and of the text of a cut one.
const SNAPSHOT: u8 = 2;
/// The first byte of a part.
pub(super) const PART: u8 = 3;
/// Bytes of a part before its text.
const PART_HEAD_BYTES: usize = 5;
/// Bytes of text in a part.
const PART_BYTES: usize = ROW_BYTES_MAX - PART_HEAD_BYTES;
/// Fewest bytes of a snapshot.
const SNAPSHOT_BYTES_MIN: usize = 16_384;
/// Bytes reserved per contact, so that the text rarely grows, because growing leaves copies in
/// memory.
const CONTACT_BYTES: usize = 512;
/// Time between two snapshots, and time of the first one after a start, in milliseconds.
pub(super) const SNAPSHOT_MS: (u64, u64) = (Time::HOUR_MS, Time::MINUTE_MS);

/// The newest snapshot among ascending rows.
pub(super) struct Newest {
    pub text: Wiping<Vec<u8>>,
    /// The number of its first row.
    pub first: u64,
    /// Index of the first row after the snapshot.
    pub behind: usize,
}

impl Newest {
    /// Finds the newest complete snapshot. Incomplete sets of parts are skipped: they were being
    /// written when the process died.
    pub fn find_newest(rows: &[(u64, &[u8])]) -> Option<Self> {
        (0..rows.len()).rev().find_map(|at| {
            let (seq, row) = rows[at];
            match row {
                [SNAPSHOT, ..] => {
                    let text = Wiping::new(row.to_vec());
                    Some(Self { text, first: seq, behind: at + 1 })
                }
                // Read from the last part backwards. The last part is written last, so it proves
                // that the others exist.
                [PART, _, _, high, low, ..] => {
                    let count = usize::from(u16::from_be_bytes([*high, *low]));
                    let parts = &rows[(at + 1).checked_sub(count)?..=at];
                    let text = join_parts(parts)?;
                    Some(Self { text, first: parts.first()?.0, behind: at + 1 })
                }
                _ => None,
            }
        })
    }
}

/// Splits a text into rows.
fn split_text(mut text: Writer) -> Vec<Wiping<Vec<u8>>> {
    let bytes = text.len();
    if bytes <= ROW_BYTES_MAX {
        // The length is a power of two, so that it reveals little about the number of contacts.
        text.pad_to(bytes.next_power_of_two().max(SNAPSHOT_BYTES_MIN));
        return Vec::from([Wiping::new(text.finish())]);
    }
    let text = Wiping::new(text.finish());
    // Zero parts are added for the same reason.
    let count = bytes.div_ceil(PART_BYTES).next_power_of_two();
    let part = |number: usize| {
        let rest = text.get(number * PART_BYTES..).unwrap_or_default();
        let mut row = Writer::with_capacity(ROW_BYTES_MAX);
        row.put_u8(PART).put_u16(number as u16).put_u16(count as u16);
        row.put_bytes(&rest[..rest.len().min(PART_BYTES)]).pad_to(ROW_BYTES_MAX);
        Wiping::new(row.finish())
    };
    (0..count).map(part).collect()
}

/// Joins the parts of a text. Returns `None` unless all are of one snapshot.
fn join_parts(parts: &[(u64, &[u8])]) -> Option<Wiping<Vec<u8>>> {
    let first = parts.first()?.0;
    let mut text = Wiping::new(Vec::with_capacity(parts.len() * PART_BYTES));
    for (number, (seq, row)) in (0_u16..).zip(parts) {
        let (head, bytes) = row.split_at_checked(PART_HEAD_BYTES)?;
        let its = (PART, number, parts.len() as u16);
        let mut r = Reader::new(head);
        let is_next = (r.read_u8().ok()?, r.read_u16().ok()?, r.read_u16().ok()?) == its;
        // Parts of two snapshots must not be joined, because their contacts would not fit together.
        if !is_next || *seq != first + u64::from(number) || bytes.len() != PART_BYTES {
            return None;
        }
        text.extend_from_slice(bytes);
    }
    Some(text)
}

impl<B: Backend> Client<B> {
    /// Takes a snapshot. Earlier rows are not needed any more, and all received pieces are in it.
    pub(super) fn take_snapshot(&mut self, now: Time) {
        self.snapshot_at = now.plus_ms(SNAPSHOT_MS.0);
        // The snapshot contains all pieces, so no record needs to repeat them.
        self.unrecorded.clear();
        let lines = self.contacts.all.values().flat_map(Partner::lines);
        let pieces = lines.flat_map(|line| line.receiver.held_pieces().map(|seq| (line.id, seq)));
        let mut pieces: Vec<(u32, u32)> = pieces.collect();
        let before = self.snapshot;
        let first = self.seq + 1;
        let rows = split_text(self.write_text(&self.contacts));
        let last = rows.len() - 1;
        for (at, record) in rows.into_iter().enumerate() {
            let whole = at == last;
            // Pieces become durable with the last part, because the earlier parts alone restore
            // nothing.
            let inside = if whole { core::mem::take(&mut pieces) } else { Vec::new() };
            let seq = self.await_write(PendingWrite::Record(None, inside));
            // Until the last part is stored, a start needs the earlier snapshot.
            let first = if whole { first } else { before };
            self.outputs.push_back(Output::Store { seq, first, record });
        }
        // From now on, records are applied to this snapshot.
        self.snapshot = first;
    }

    /// Writes the text of a snapshot with these contacts.
    pub(super) fn write_text(&self, contacts: &Partners) -> Writer {
        let room = SNAPSHOT_BYTES_MIN + CONTACT_BYTES * contacts.all.len();
        let mut w = Writer::with_capacity(room);
        w.put_u8(SNAPSHOT).put_bytes(&self.setup.pin);
        w.put_u8(u8::from(self.chain.is_some()));
        self.chain.iter().for_each(|chain| chain.write_to(&mut w));
        w.put_u8(u8::from(self.ledger.is_some()));
        for ledger in self.ledger.iter().map(Ledger::encode) {
            w.put_u32(ledger.len() as u32).put_bytes(&ledger);
        }
        for service in Service::ALL {
            let last = self.last_sealed(service);
            let unread = self.unread.contains(&service);
            w.put_u8(u8::from(last.is_some()) + 2 * u8::from(unread)).put_u64(last.unwrap_or(0));
        }
        w.put_u8(u8::from(self.allow_more));
        contacts.write_to(&mut w);
        w
    }

    /// Restores a client from the text of a snapshot.
    pub(super) fn read_text(
        setup: ClientOptions,
        text: &[u8],
        now: Time,
    ) -> Result<Self, RestoreError> {
        let mut client = Self::empty(setup, now);
        let r = &mut Reader::new(text);
        if r.read_u8()? != SNAPSHOT {
            return Err(DecodeError::Value.into());
        }
        if r.read_array_ref()? != &client.setup.pin {
            // Rows of another network would bring in its ledger and its last rounds.
            return Err(RestoreError::Foreign);
        }
        client.chain = if read_flag(r)? { Some(Chain::read_from(r)?) } else { None };
        if read_flag(r)? {
            let bytes = r.read_u32()? as usize;
            client.ledger = Some(Ledger::decode(r.read_bytes(bytes)?)?);
        }
        for service in Service::ALL {
            let known = r.read_u8()?;
            let last = r.read_u64()?;
            // Each state has one form, so that a damaged flag cannot look like a service without
            // rounds.
            if known > 3 || known & 1 == 0 && last != 0 {
                return Err(DecodeError::Value.into());
            }
            client.last.extend((known & 1 == 1).then_some((service, last)));
            client.unread.extend((known & 2 == 2).then_some(service));
        }
        client.allow_more = read_flag(r)?;
        client.contacts = Partners::read_from(r)?;
        // A ledger without configs, or configs without one, was never written by a client.
        let sound = r.read_rest().iter().all(|byte| *byte == 0)
            && client.chain.is_some() == client.ledger.is_some();
        // The pin is the only root of trust, so stored configs must lead to it, too (MIX-2).
        let pinned =
            client.chain.as_ref().is_none_or(|chain| chain.genesis_hash() == client.setup.pin);
        if sound && pinned { Ok(client) } else { Err(DecodeError::Value.into()) }
    }
}

/// Returns true if the length of a row is possible for a snapshot.
pub(super) fn is_sized(row: &[u8]) -> bool {
    row.len().is_power_of_two() && row.len() >= SNAPSHOT_BYTES_MIN
}
