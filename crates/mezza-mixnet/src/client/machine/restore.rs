//! What a client needs after a start: the last snapshot, and the records behind it.
//!
//! ```text
//! 2 u8 | pin 32 | chain flag u8 [| chain] | ledger flag u8 [| length u32 | ledger]
//! 3 x (flag u8 | last round u64) | allow more u8 | contacts             then zeros
//! ```
//!
//! A snapshot has a power of two bytes, at least 16,384. One is made each hour, a minute after a start,
//! and whenever contacts or configs change; all rows before it go.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::marker::PhantomData;

use mezza_core::{Backend, CryptoRng, DecodeError, Reader, Time, Wiping, Writer};

use super::links::Link;
use super::{Awaited, Client, Output, Setup, Standing};
use crate::client::contacts::{Contact, Contacts};
use crate::client::record::{Record, flag};
use crate::config::Chain;
use crate::privacy::Ledger;
use crate::{RoundId, Service};

/// The first byte of a snapshot.
const SNAPSHOT: u8 = 2;
/// Fewest bytes of a snapshot.
const SNAPSHOT_BYTES_MIN: usize = 16_384;
/// How often one is made, and how soon after a start, milliseconds.
const SNAPSHOT_MS: (u64, u64) = (Time::HOUR_MS, Time::MINUTE_MS);

/// Why a client cannot go on from what was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A row is not what a client writes.
    #[error("a stored row of the mixnet is damaged")]
    Damaged(#[from] DecodeError),
    /// Rows do not ascend, or there is no snapshot in front.
    #[error("rows of the mixnet are missing")]
    Missing,
    /// The rows are those of another network.
    #[error("the stored rows belong to another network")]
    Foreign,
}

impl<B: Backend> Client<B> {
    /// A client that knows nothing but the pin. Its first output is a snapshot to store.
    pub fn new(setup: Setup, now: Time) -> Self {
        let mut client = Self::empty(setup, now);
        client.take_snapshot(now);
        client
    }

    /// Goes on from the rows that are stored, in ascending order. Messages that were not handed are
    /// sent again by whoever has them, after `Up`; messages that were complete and perhaps not
    /// durable come out again.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restore<'a>(
        setup: Setup,
        rows: impl IntoIterator<Item = (u64, &'a [u8])>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        let mut rows = rows.into_iter();
        let (seq, first) = rows.next().ok_or(RestoreError::Missing)?;
        let mut client = Self::read(setup, first, now)?;
        (client.seq, client.snapshot) = (seq, seq);
        for (seq, row) in rows {
            if seq <= client.seq {
                return Err(RestoreError::Missing);
            }
            client.seq = seq;
            if row.first() == Some(&SNAPSHOT) {
                let Self { setup, .. } = client;
                client = Self::read(setup, row, now)?;
                (client.seq, client.snapshot) = (seq, seq);
            } else {
                client.replay(&Record::decode(row)?)?;
            }
        }
        client.rise(now, rng);
        Ok(client)
    }

    fn empty(setup: Setup, now: Time) -> Self {
        Self {
            setup,
            chain: None,
            ledger: None,
            contacts: Contacts::default(),
            link: Link::Down { at: now, failed: 0 },
            rounds: BTreeMap::new(),
            last: BTreeMap::new(),
            pairs: Vec::new(),
            wanted: 0,
            calls: VecDeque::new(),
            invites: VecDeque::new(),
            allow_more: false,
            seq: 0,
            snapshot: 0,
            snapshot_at: now.plus_ms(SNAPSHOT_MS.1),
            awaited: BTreeMap::new(),
            unrecorded: VecDeque::new(),
            walk_at: None,
            standing: Standing::default(),
            outputs: VecDeque::new(),
            backend: PhantomData,
        }
    }

    /// A snapshot, from which on rows are needed. All pieces that came are in it.
    pub(super) fn take_snapshot(&mut self, now: Time) {
        self.snapshot_at = now.plus_ms(SNAPSHOT_MS.0);
        self.unrecorded.clear();
        let lines = self.contacts.all.values().flat_map(Contact::lines);
        let pieces = lines.flat_map(|line| line.receiver.pieces().map(|seq| (line.id, seq)));
        let pieces = pieces.collect();
        let record = self.write();
        let seq = self.number(Awaited::Record(None, pieces));
        self.snapshot = seq;
        self.outputs.push_back(Output::Store { seq, first: seq, record });
    }

    fn write(&self) -> Wiping<Vec<u8>> {
        // Growing leaves copies behind: the room is made for what most clients have.
        let mut w = Writer::with_capacity(SNAPSHOT_BYTES_MIN);
        w.u8(SNAPSHOT).bytes(&self.setup.pin);
        w.u8(u8::from(self.chain.is_some()));
        self.chain.iter().for_each(|chain| chain.write(&mut w));
        w.u8(u8::from(self.ledger.is_some()));
        for ledger in self.ledger.iter().map(Ledger::encode) {
            w.u32(ledger.len() as u32).bytes(&ledger);
        }
        for service in Service::ALL {
            let last = self.last.get(&service);
            w.u8(u8::from(last.is_some())).u64(last.copied().unwrap_or(0));
        }
        w.u8(u8::from(self.allow_more));
        self.contacts.write(&mut w);
        let bytes = w.len().next_power_of_two().max(SNAPSHOT_BYTES_MIN);
        w.pad_to(bytes);
        Wiping::new(w.finish())
    }

    fn read(setup: Setup, row: &[u8], now: Time) -> Result<Self, RestoreError> {
        let mut client = Self::empty(setup, now);
        let r = &mut Reader::new(row);
        if r.u8()? != SNAPSHOT {
            return Err(RestoreError::Missing);
        }
        if r.array_ref()? != &client.setup.pin {
            return Err(RestoreError::Foreign);
        }
        client.chain = if flag(r)? { Some(Chain::read(r)?) } else { None };
        if flag(r)? {
            let bytes = r.u32()? as usize;
            client.ledger = Some(Ledger::decode(r.bytes(bytes)?)?);
        }
        for service in Service::ALL {
            let (known, last) = (flag(r)?, r.u64()?);
            if known {
                client.last.insert(service, last);
            } else if last != 0 {
                return Err(DecodeError::Value.into());
            }
        }
        client.allow_more = flag(r)?;
        client.contacts = Contacts::read(r)?;
        let sound = r.rest().iter().all(|byte| *byte == 0)
            && row.len().is_power_of_two()
            && row.len() >= SNAPSHOT_BYTES_MIN
            && client.chain.is_some() == client.ledger.is_some();
        let pinned =
            client.chain.as_ref().is_none_or(|chain| chain.genesis_hash() == client.setup.pin);
        if sound && pinned { Ok(client) } else { Err(DecodeError::Value.into()) }
    }

    /// What a record says happened. A line that is gone since is passed over.
    fn replay(&mut self, record: &Record) -> Result<(), DecodeError> {
        let RoundId { service, round } = record.id;
        if self.last.insert(service, round).is_some_and(|last| round <= last) {
            return Err(DecodeError::Value);
        }
        let ledger = self.ledger.as_mut().ok_or(DecodeError::Value)?;
        if service == Service::Conversation {
            ledger.joined(round, record.base, record.interval_ms);
        }
        if record.charged {
            ledger.charge(record.kind);
        }
        for fragment in &record.received {
            if let Some(line) = self.contacts.line(fragment.line) {
                line.receiver.recorded(fragment.seq, &fragment.piece);
            }
        }
        for sealed in &record.sealed {
            let Some((_, contact)) = self.contacts.by_line(sealed.line) else { continue };
            contact.touch(record.at);
            let Some(line) = contact.line_mut(sealed.line) else { continue };
            if let Some((seq, first, piece)) = &sealed.piece {
                line.sender.sealed(*seq, *first, piece)?;
            }
            line.receiver.was_at(sealed.start, sealed.ack)?;
            if !line.sender.acknowledge(sealed.theirs, 0) {
                return Err(DecodeError::Value);
            }
        }
        Ok(())
    }

    /// After the last row: chains catch up, messages that were whole come out again.
    fn rise(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.link = Link::Down { at: self.first_try(now, rng), failed: 0 };
        self.walk_at = Some(now);
        let mut whole = Vec::new();
        for (id, contact) in &mut self.contacts.all {
            for line in contact.lines_mut() {
                // A stream that broke does so again, and stays broken.
                whole.push((*id, line.id, line.receiver.messages().unwrap_or_default()));
            }
        }
        for (contact, line, messages) in whole {
            self.hand_out(contact, line, messages);
        }
    }
}
