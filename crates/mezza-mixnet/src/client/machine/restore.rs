//! Restores a client after a start from the newest snapshot and the records after it.
//!
//! One row that cannot be read costs what it held, not the network (MIX-41): it is quarantined and
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

/// The reason why a client cannot continue from its stored rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The newest snapshot is not in a form that a client writes.
    #[error("a stored row of the mixnet is damaged")]
    Damaged(#[from] DecodeError),
    /// The rows do not ascend, or contain no snapshot.
    #[error("rows of the mixnet are missing")]
    Missing,
    /// The rows are from another network.
    #[error("the stored rows belong to another network")]
    Foreign,
}

/// A stored row that could not be read, or only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsSetAside {
    /// The number of the row.
    pub seq: u64,
    /// The reason why the row could not be read.
    pub fault: RowFault,
}

snapshot!(struct RowsSetAside { seq, fault });

/// The reason why a row could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// The row is neither a record nor a snapshot.
    #[error("the row is of a kind that is not known")]
    Unknown,
    /// The row is not in a form that a client writes.
    #[error("the row is damaged")]
    Damaged(#[from] DecodeError),
    /// The row does not continue the stream of a contact, which needs a new root. The rest of the
    /// row was read.
    #[error("the row does not continue what is stored of a contact")]
    Stream,
}

snapshot!(enum RowFault [Unknown, Damaged(error), Stream]);

impl<B: Backend> Client<B> {
    /// Creates a client that knows only the pin of the network. Its first output is a snapshot to
    /// store.
    pub fn new(setup: ClientOptions, now: Time) -> Self {
        let mut client = Self::empty(setup, now);
        client.take_snapshot(now);
        client
    }

    /// Restores a client from its stored rows, in ascending order. After `Up` the messenger must
    /// send messages again that were not handed over. Complete messages that may not be durable are
    /// output again. [`rows_aside`](Self::rows_aside) returns the rows that could not be read.
    ///
    /// # Errors
    /// [`RestoreError`] if the rows do not ascend, contain no snapshot, or are from another
    /// network, or if the newest snapshot is damaged.
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
        // A snapshot of another length was truncated or extended on disk.
        if !snapshot.last().is_some_and(|(_, row)| is_sized(row)) {
            return Err(DecodeError::Value.into());
        }
        let mut client = Self::read_text(setup, &text, now)?;
        // New rows continue above the last number, including unreadable rows.
        (client.seq, client.snapshot) = (last, first);
        for (seq, row) in records {
            if let Err(fault) = client.replay_row(row) {
                // One damaged row must not cost the network: it is reported, and the others are
                // read (MIX-41).
                client.aside.push(RowsSetAside { seq: *seq, fault });
            }
        }
        // This follows all rows, because the number of unreadable ones determines the charge.
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
            // A part of a snapshot that was being written when the process died.
            Some(&PART) => Ok(()),
            Some(&RECORD) => self.apply_record(&RoundRecord::decode(row)?),
            _ => Err(RowFault::Unknown),
        }
    }

    /// Applies a record. Rounds may descend, because versions before MIX-40 sealed them in the
    /// order of their times. Lines that no longer exist are skipped.
    fn apply_record(&mut self, record: &RoundRecord) -> Result<(), RowFault> {
        let ledger = self.ledger.as_mut().ok_or(DecodeError::Value)?;
        if record.id.service == Service::Conversation {
            // The period advances by joined rounds and never by a clock (MIX-25).
            ledger.record_join(record.id.round, record.base, record.interval_ms);
        }
        if record.charged {
            ledger.charge_round(record.kind);
        }
        // The record was durable before the SUBMIT, so this round may have been sent and is not
        // sealed again (MIX-40).
        self.goes_to(record.id);
        for fragment in &record.received {
            if let Some(line) = self.contacts.find_line(fragment.line) {
                line.receiver.restore_piece(fragment.seq, &fragment.piece);
            }
        }
        let mut outcome = Ok(());
        for slot in &record.sealed {
            let Some((id, contact)) = self.contacts.by_line(slot.line) else { continue };
            // The partner may still serve us, so this contact is served again after the start.
            contact.was_served(record.at);
            let goes_on =
                contact.line_mut(slot.line).is_none_or(|line| line.replay_slot(slot).is_ok());
            if !goes_on {
                // A stream with a gap would acknowledge lost pieces. The pair needs a new root
                // (MIX-41).
                self.contacts.all.remove(&id);
                self.outputs.push_back(Output::Broken(id));
                outcome = Err(RowFault::Stream);
            }
        }
        outcome
    }

    /// Charges each service for unreadable rows, which may have been real. The first verified
    /// settings will bound their rounds, because the clock at the start may be wrong (MIX-51).
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

    /// Completes the restore after the last row: complete messages are output again.
    fn finish_restore(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.link = Link::Down { at: self.first_try(now, rng), failed: 0 };
        let mut whole = Vec::new();
        for (id, contact) in &mut self.contacts.all {
            // The clock at the time of the row may have been ahead, so the service ends within 600
            // s from now.
            contact.finish_restore(now);
            for line in contact.lines_mut() {
                // A stream that was broken breaks again here, and stays broken.
                whole.push((*id, line.id, line.receiver.take_messages().unwrap_or_default()));
            }
        }
        for (contact, line, messages) in whole {
            self.hand_out(contact, line, messages);
        }
    }
}
