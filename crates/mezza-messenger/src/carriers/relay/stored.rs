//! What is stored of the relay carrier.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Time, Wiping, Writer};

use super::{MAILBOX, OwnMailbox, PUBLICATION_KEY, Relay, RelayPeer, VERSION, timer};
use crate::card::RelayEntry;
use crate::io::{
    ContactId, MailboxId, Publication, RecordChange, RecordKind, Retention, Step, key32,
};

impl<B: Backend> Relay<B> {
    pub(super) fn write_next(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(5);
        w.u8(VERSION).u32(self.next_mailbox);
        Wiping::new(w.finish())
    }

    /// Reads the stored number of the next mailbox.
    pub fn read_next(bytes: &[u8]) -> Result<u32, DecodeError> {
        Reader::decode_exact(bytes, |r| match (r.u8()?, r.u32()?) {
            (VERSION, next) if (1..=u32::MAX / 2).contains(&next) => Ok(next),
            _ => Err(DecodeError::Value),
        })
    }

    /// No mailbox gets a number below this one.
    pub fn load_next(&mut self, next: u32, step: Option<&mut Step>) {
        self.next_mailbox = self.next_mailbox.max(next);
        if let Some(step) = step {
            let (key, value) = (Vec::new(), self.write_next());
            step.put(RecordKind::RelayPeer, key, Retention::Permanent, value);
        }
    }

    /// So many numbers are given to no mailbox.
    pub fn skip_mailboxes(&mut self, count: u32, step: &mut Step) {
        self.load_next(self.next_mailbox.saturating_add(count), Some(step));
    }

    /// A mailbox that was stored.
    pub fn load_mailbox(&mut self, id: MailboxId, mailbox: OwnMailbox, step: &mut Step) {
        step.timer(timer(MAILBOX | u64::from(id.0)), mailbox.due());
        self.mailboxes.insert(id, mailbox);
    }

    /// What was stored of a contact.
    pub fn load_peer(&mut self, id: ContactId, peer: RelayPeer) {
        self.peers.insert(id, peer);
    }

    /// What was on its way to the relay.
    pub fn load_publication(&mut self, publication: Publication) {
        self.publication = Some(publication);
    }

    /// Once all is loaded: mailboxes of contacts that are not there are nobody's.
    pub fn mend(&mut self, step: &mut Step) {
        let lost = |peer: &RelayPeer| peer.ours.is_some_and(|id| !self.mailboxes.contains_key(&id));
        let homeless = self.peers.iter().filter(|(_, peer)| lost(peer)).map(|(id, _)| *id);
        for id in homeless.collect::<Vec<_>>() {
            self.change(id, step, |peer| peer.ours = None);
        }
    }

    /// Whether the mailbox that a card names is one of ours.
    pub fn has_intro_at(&self, relay: &RelayEntry) -> bool {
        self.mailboxes.values().any(|own| own.relay.address == relay.address)
    }

    /// Its rows.
    pub fn records(&self, out: &mut Vec<RecordChange>) {
        let mut put = |kind, key, bucket, value| {
            out.push(RecordChange::Put { kind, key, bucket, value });
        };
        for (id, mailbox) in &self.mailboxes {
            put(RecordKind::Slot, key32(id.0), Retention::Rolling, mailbox.write());
        }
        if self.next_mailbox > 1 {
            put(RecordKind::RelayPeer, Vec::new(), Retention::Permanent, self.write_next());
        }
        for (id, peer) in &self.peers {
            if let Some(value) = peer.stored() {
                put(RecordKind::RelayPeer, key32(id.0), Retention::Permanent, value);
            }
        }
        if let Some(publication) = &self.publication {
            let key = PUBLICATION_KEY.into();
            put(RecordKind::Prekey, key, Retention::Rolling, publication.write());
        }
    }

    /// What is not in its rows.
    pub fn snapshot(&self, w: &mut Writer) {
        self.lines.snapshot(w);
        self.requests.snapshot(w);
        w.u16(self.stock.unwrap_or(u16::MAX)).u64(self.retry_at.map_or(0, Time::ms));
        for (id, peer) in &self.peers {
            w.u32(id.0).u64(peer.fetch.map_or(0, |ticket| ticket.0)).u64(peer.fetch_after.ms());
        }
        for id in self.contexts.keys().chain(&self.wanted) {
            w.u32(id.0);
        }
        w.u64(self.unopened).u64(self.news.len() as u64).u64(self.outputs.len() as u64);
    }
}
