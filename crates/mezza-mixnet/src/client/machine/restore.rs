//! State from which a client goes on after a start: the newest snapshot, and the records behind it.
//!
//! One row that cannot be read costs what it held, not the network (MIX-41): it is set aside and
//! named, and the client is as careful as if it had held the worst.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::marker::PhantomData;

use mezza_core::{Backend, CryptoRng, DecodeError, Time, snapshot};

use super::invites::Invites;
use super::links::Link;
use super::snapshot::{Newest, PART, SNAPSHOT_MS, is_sized};
use super::{Client, ClientOptions, Output, ProtectionState};
use crate::Service;
use crate::client::contacts::Partners;
use crate::client::record::{RECORD, RoundRecord};
use crate::privacy::ledger::PrivacyCost;

/// Why a client cannot go on from what was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The newest snapshot is not what a client writes.
    #[error("a stored row of the mixnet is damaged")]
    Damaged(#[from] DecodeError),
    /// Rows do not ascend, or there is no snapshot among them.
    #[error("rows of the mixnet are missing")]
    Missing,
    /// The rows are those of another network.
    #[error("the stored rows belong to another network")]
    Foreign,
}

/// A stored row that was not read, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsSetAside {
    /// The number of the row.
    pub seq: u64,
    /// The fault of the row.
    pub fault: RowFault,
}

snapshot!(struct RowsSetAside { seq, fault });

/// Faults of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// It is neither a record nor a snapshot.
    #[error("the row is of a kind that is not known")]
    Unknown,
    /// It is not what a client writes.
    #[error("the row is damaged")]
    Damaged(#[from] DecodeError),
    /// It does not go on from what was there of a contact, who needs a new root; the rest was read.
    #[error("the row does not continue what is stored of a contact")]
    Stream,
}

snapshot!(enum RowFault [Unknown, Damaged(error), Stream]);

impl<B: Backend> Client<B> {
    /// A client that knows nothing but the pin. Its first output is a snapshot to store.
    pub fn new(setup: ClientOptions, now: Time) -> Self {
        let mut client = Self::empty(setup, now);
        client.take_snapshot(now);
        client
    }

    /// Goes on from the rows that are stored, in ascending order. Messages that were not handed are
    /// sent again by whoever has them, after `Up`; messages that were complete and perhaps not
    /// durable come out again. [`aside`](Self::aside) names rows that could not be read.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restore<'a>(
        setup: ClientOptions,
        rows: impl IntoIterator<Item = (u64, &'a [u8])>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        let rows: Vec<(u64, &[u8])> = rows.into_iter().collect();
        let last = rows.last().map_or(u64::MAX, |(seq, _)| *seq);
        // The order of rows is the order of events. A gap or repetition means that rows are
        // missing.
        if !rows.is_sorted_by(|before, after| before.0 < after.0) || last == u64::MAX {
            return Err(RestoreError::Missing);
        }
        let Newest { text, first, behind } =
            Newest::find_newest(&rows).ok_or(RestoreError::Missing)?;
        let (snapshot, records) = rows.split_at(behind);
        // A snapshot of another length was cut or extended on disk.
        if !snapshot.last().is_some_and(|(_, row)| is_sized(row)) {
            return Err(DecodeError::Value.into());
        }
        let mut client = Self::read_text(setup, &text, now)?;
        // New rows continue above the last number, also above rows that were not read.
        (client.seq, client.snapshot) = (last, first);
        for (seq, row) in records {
            if let Err(fault) = client.replay_row(row) {
                // One damaged row must not cost the network: it is named, and the others are read
                // (MIX-41).
                client.aside.push(RowsSetAside { seq: *seq, fault });
            }
        }
        // After all rows: the number of unreadable ones decides what is charged.
        client.expect_the_worst(now);
        client.finish_restore(now, rng);
        Ok(client)
    }

    pub(super) fn empty(setup: ClientOptions, now: Time) -> Self {
        Self {
            bucket_key: *setup.dialling.public_key(),
            idles: false,
            setup,
            chain: None,
            ledger: None,
            contacts: Partners::default(),
            link: Link::Down { at: now, failed: 0 },
            silent_lines: 0,
            searches: 0,
            rounds: BTreeMap::new(),
            last: BTreeMap::new(),
            shown: BTreeMap::new(),
            unread: BTreeSet::new(),
            pairs: Vec::new(),
            wanted: 0,
            calls: VecDeque::new(),
            invites: Invites::default(),
            allow_more: false,
            seq: 0,
            snapshot: 0,
            snapshot_at: now.plus_ms(SNAPSHOT_MS.1),
            awaited: BTreeMap::new(),
            unrecorded: VecDeque::new(),
            walk_at: None,
            standing: ProtectionState::default(),
            aside: Vec::new(),
            seen: now,
            left: Some(Time::from_ms(0)),
            heard: None,
            outputs: VecDeque::new(),
            backend: PhantomData,
        }
    }

    fn replay_row(&mut self, row: &[u8]) -> Result<(), RowFault> {
        match row.first() {
            // Of a snapshot that was being written when the process died.
            Some(&PART) => Ok(()),
            Some(&RECORD) => self.apply_record(&RoundRecord::decode(row)?),
            _ => Err(RowFault::Unknown),
        }
    }

    /// Applies a record. Rounds may descend: versions before MIX-40 sealed them as their
    /// times came. A line that is gone since is passed over.
    fn apply_record(&mut self, record: &RoundRecord) -> Result<(), RowFault> {
        let ledger = self.ledger.as_mut().ok_or(DecodeError::Value)?;
        if record.id.service == Service::Conversation {
            // The period moves by joined rounds and never by a clock (MIX-25).
            ledger.record_join(record.id.round, record.base, record.interval_ms);
        }
        if record.charged {
            ledger.charge_round(record.kind);
        }
        // Durable before the SUBMIT, so this round may have been sent and is not sealed again
        // (MIX-40).
        self.goes_to(record.id);
        for fragment in &record.received {
            if let Some(line) = self.contacts.find_line(fragment.line) {
                line.receiver.restore_piece(fragment.seq, &fragment.piece);
            }
        }
        let mut outcome = Ok(());
        for slot in &record.sealed {
            let Some((id, contact)) = self.contacts.by_line(slot.line) else { continue };
            // The partner may still serve us, so this contact is active again after the start.
            contact.was_served(record.at);
            let goes_on =
                contact.line_mut(slot.line).is_none_or(|line| line.replay_slot(slot).is_ok());
            if !goes_on {
                // A stream with a gap would acknowledge pieces that are lost. The pair needs a new
                // root (MIX-41).
                self.contacts.all.remove(&id);
                self.outputs.push_back(Output::Broken(id));
                outcome = Err(RowFault::Stream);
            }
        }
        outcome
    }

    /// A row that was not read may have been real: each service is charged for it. Which round it was of
    /// the first settings bound, as the clock of a start may be anything (MIX-51).
    fn expect_the_worst(&mut self, now: Time) {
        let unread = self.aside.iter().filter(|row| row.fault != RowFault::Stream).count();
        let Some(chain) = self.chain.as_ref().filter(|_| unread > 0) else { return };
        // The row may be of any service, so all of them wait for a bound (MIX-51).
        self.unread.extend(Service::ALL);
        let config = chain.current_config(now).unwrap_or(chain.head_config());
        for kind in config.services.iter().map(PrivacyCost::from_policy) {
            if let Some(ledger) = &mut self.ledger {
                (0..unread).for_each(|_| ledger.charge_round(kind));
            }
        }
    }

    /// After the last row: messages that were whole come out again.
    fn finish_restore(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.link = Link::Down { at: self.first_try(now, rng), failed: 0 };
        let mut whole = Vec::new();
        for (id, contact) in &mut self.contacts.all {
            // The clock of the stored row may have been ahead: service ends within 600 s from now.
            contact.finish_restore(now);
            for line in contact.lines_mut() {
                // A stream that broke does so again, and stays broken.
                whole.push((*id, line.id, line.receiver.take_messages().unwrap_or_default()));
            }
        }
        for (contact, line, messages) in whole {
            self.hand_out(contact, line, messages);
        }
    }
}
