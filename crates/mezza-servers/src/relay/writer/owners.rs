//! The watchers of mailboxes: the newest WATCH owns a mailbox.
//!
//! The writer and the connections share this. A connection that accepts a put sends it to the box's
//! watcher and queues it for the writer under one lock, so both see puts in the same order. While
//! an unsent put waits for the writer, later puts are not sent either.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind, RelayFrame};

use super::job::{ConnectionQueue, MailId, Put, WatchId};
use crate::relay::store::{Mail, MailboxRow, MailboxRowId, Seq};

/// Maximum number of displaced connections of a box that wait to get it back; older ones are
/// dropped.
const DISPLACED_MAX: usize = 4;

/// The connection that gets a box's mail.
pub(super) struct Watcher {
    watch: WatchId,
    number: u16,
    box_id: MailboxRowId,
    kind: MailboxKind,
    outlet: ConnectionQueue,
    /// Mails that were sent and are not TAKEN yet. A mail without a seq is not stored yet.
    in_flight: Vec<(MailId, Option<Seq>)>,
    /// The newest seq that was sent.
    last: Seq,
    /// True if the store may hold mail after `last`; new mail then waits in the store.
    has_backlog: bool,
    /// The newest put in the writer's queue that was not sent to this watcher.
    newest_unshown: MailId,
}

impl Watcher {
    /// Makes a watch that has received no mail yet.
    pub(super) fn new(
        watch: WatchId,
        number: u16,
        row: &MailboxRow,
        outlet: ConnectionQueue,
    ) -> Self {
        let in_flight = Vec::new();
        let last = 0;
        let has_backlog = true;
        let newest_unshown = 0;
        let box_id = row.id;
        let kind = row.kind;
        Self { watch, number, box_id, kind, outlet, in_flight, last, has_backlog, newest_unshown }
    }

    /// Sends the next mail. Returns false if it was not sent; later mail must not be sent then.
    fn send_mail(&mut self, id: MailId, seq: Option<Seq>, envelope: Vec<u8>, max: usize) -> bool {
        let fits = !self.has_backlog && self.in_flight.len() < max && self.outlet.has_room();
        let sent = fits && self.outlet.send_mail(self.number, self.watch, id, envelope);
        if sent {
            self.in_flight.push((id, seq));
            self.last = seq.map_or(self.last, |seq| self.last.max(seq));
        }
        self.has_backlog |= !sent;
        sent
    }
}

/// A request for a watcher's mail: its mailbox, the newest seq sent, and the room.
pub(super) struct RefillRequest {
    pub(super) box_id: MailboxRowId,
    pub(super) last: Seq,
    pub(super) room: usize,
}

/// The watchers of all mailboxes.
pub(super) struct Watchers {
    in_flight_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    owners: HashMap<MailboxAddress, Watcher>,
    /// Connections whose watch was taken over, the most recent last.
    displaced: HashMap<MailboxAddress, Vec<Watcher>>,
    /// The last number given to a mail.
    last: MailId,
    /// The last put passed to the writer.
    queued: MailId,
    /// The last put that the writer has finished.
    done: MailId,
}

impl Inner {
    fn next_id(&mut self) -> MailId {
        self.last += 1;
        self.last
    }

    /// Removes the owner of a box. The connection displaced last is notified.
    fn remove_owner(&mut self, address: &MailboxAddress) -> Option<ConnectionQueue> {
        let gone = self.owners.remove(address)?;
        let waiting = self.displaced.get_mut(address).and_then(Vec::pop);
        if let Some(waiting) = waiting {
            waiting.outlet.send_displaced(waiting.number, true);
        }
        if self.displaced.get(address).is_some_and(Vec::is_empty) {
            self.displaced.remove(address);
        }
        Some(gone.outlet)
    }

    /// Returns the owner of a box if it is this watch.
    fn of_watch(&mut self, address: &MailboxAddress, watch: WatchId) -> Option<&mut Watcher> {
        self.owners.get_mut(address).filter(|owner| owner.watch == watch)
    }
}

impl Watchers {
    /// Makes an empty table; each watcher has at most `in_flight_max` mails not yet TAKEN.
    pub(super) fn new(in_flight_max: usize) -> Self {
        Self { in_flight_max, inner: Mutex::default() }
    }

    /// Numbers a put, sends it to the watcher if the order allows it, and passes it to `queue`.
    ///
    /// Puts to intro boxes wait for the writer: they come from unknown senders, and only the writer
    /// knows their rate limit.
    pub(super) fn hand_over(&self, mut put: Put, queue: impl FnOnce(Put)) {
        let mut inner = self.lock_inner();
        put.id = inner.next_id();
        inner.queued = put.id;
        let done = inner.done;
        let max = self.in_flight_max;
        if let Some(owner) = inner.owners.get_mut(&put.address) {
            let in_turn = owner.kind == MailboxKind::Conversation && owner.newest_unshown <= done;
            if in_turn && owner.send_mail(put.id, None, put.envelope.clone(), max) {
                put.shown = Some((owner.watch, owner.outlet.clone()));
            } else {
                owner.newest_unshown = put.id;
            }
        }
        queue(put);
    }

    /// Handles that a put was stored as `seq`. Sends it to the watcher if the watcher lacks it and
    /// has all earlier mail. Returns the queue of a watcher that got it now.
    pub(super) fn show_stored(&self, put: &mut Put, seq: Seq) -> Option<ConnectionQueue> {
        let mut inner = self.lock_inner();
        let owner = inner.owners.get_mut(&put.address)?;
        if put.shown.as_ref().is_some_and(|(watch, _)| *watch == owner.watch) {
            // The mail cannot have been TAKEN before this: its TAKEN follows the put in the queue.
            for (_, unknown) in owner.in_flight.iter_mut().filter(|(id, _)| *id == put.id) {
                *unknown = Some(seq);
            }
            owner.last = owner.last.max(seq);
            return None;
        }
        let envelope = std::mem::take(&mut put.envelope);
        let sent = owner.send_mail(put.id, Some(seq), envelope, self.in_flight_max);
        sent.then(|| owner.outlet.clone())
    }

    /// Records that the writer has finished all puts up to this one.
    pub(super) fn mark_done(&self, id: MailId) {
        let mut inner = self.lock_inner();
        inner.done = inner.done.max(id);
    }

    /// Returns the next request to the store for a watcher that has room and lacks mail.
    pub(super) fn next_refill(&self, address: &MailboxAddress) -> Option<RefillRequest> {
        let inner = self.lock_inner();
        let owner = inner.owners.get(address)?;
        let room = self.in_flight_max.saturating_sub(owner.in_flight.len());
        let lacks = owner.has_backlog && room > 0 && owner.outlet.has_room();
        lacks.then_some(RefillRequest { box_id: owner.box_id, last: owner.last, room })
    }

    /// Sends a watcher its mail from the store. `more` is true if the store holds further mail.
    pub(super) fn send_refill(&self, address: &MailboxAddress, mails: Vec<Mail>, more: bool) {
        let mut inner = self.lock_inner();
        // Puts queued during the read were not sent, and are not among `mails`.
        let queued = inner.queued;
        let ids: Vec<MailId> = mails.iter().map(|_| inner.next_id()).collect();
        let Some(owner) = inner.owners.get_mut(address) else { return };
        (owner.has_backlog, owner.newest_unshown) = (false, queued);
        for (id, mail) in ids.into_iter().zip(mails) {
            owner.send_mail(id, Some(mail.seq), mail.body, self.in_flight_max);
        }
        owner.has_backlog |= more;
    }

    /// Makes the newest WATCH the owner of a box. The previous owner is notified, and gets the box
    /// back when the new watch ends.
    pub(super) fn insert(&self, address: MailboxAddress, owner: Watcher) {
        let mut inner = self.lock_inner();
        let outlet = owner.outlet.clone();
        let old = inner.owners.insert(address, owner);
        let displaced = inner.displaced.entry(address).or_default();
        displaced.retain(|waiting| !waiting.outlet.is_same(&outlet));
        if let Some(old) = old.filter(|old| !old.outlet.is_same(&outlet)) {
            if displaced.len() >= DISPLACED_MAX {
                displaced.remove(0);
            }
            old.outlet.send_displaced(old.number, false);
            displaced.push(old);
        }
        if displaced.is_empty() {
            inner.displaced.remove(&address);
        }
    }

    /// Returns the mailbox of the owner and the rows of mail that it was sent.
    pub(super) fn stored_rows(
        &self,
        address: &MailboxAddress,
        watch: WatchId,
        ids: &[MailId],
    ) -> Option<(MailboxRowId, Vec<Seq>)> {
        let mut inner = self.lock_inner();
        let owner = inner.of_watch(address, watch)?;
        let named = owner.in_flight.iter().filter(|(id, _)| ids.contains(id));
        Some((owner.box_id, named.filter_map(|(_, seq)| *seq).collect()))
    }

    /// Returns those of `ids` that are in flight at this watch, if it is still the owner.
    pub(super) fn in_flight(
        &self,
        address: &MailboxAddress,
        watch: WatchId,
        ids: &[MailId],
    ) -> Vec<MailId> {
        let mut inner = self.lock_inner();
        let owner = inner.of_watch(address, watch);
        let in_flight = owner.into_iter().flat_map(|owner| &owner.in_flight);
        in_flight.map(|(id, _)| *id).filter(|id| ids.contains(id)).collect()
    }

    /// Removes mail that the owner has TAKEN from its in-flight list.
    pub(super) fn mark_taken(&self, address: &MailboxAddress, watch: WatchId, ids: &[MailId]) {
        if let Some(owner) = self.lock_inner().of_watch(address, watch) {
            owner.in_flight.retain(|(id, _)| !ids.contains(id));
        }
    }

    /// Returns true if this watch is the owner and waits for mail from the store.
    pub(super) fn is_behind(&self, address: &MailboxAddress, watch: WatchId) -> bool {
        self.lock_inner().of_watch(address, watch).is_some_and(|owner| owner.has_backlog)
    }

    /// Ends the watch of a mailbox. Returns the queue of its watcher.
    pub(super) fn remove_watch(&self, address: &MailboxAddress) -> Option<ConnectionQueue> {
        self.lock_inner().remove_owner(address)
    }

    /// Ends the watch of a mailbox if its owner is still this watch.
    pub(super) fn leave_watch(&self, address: &MailboxAddress, watch: WatchId) {
        let mut inner = self.lock_inner();
        if inner.of_watch(address, watch).is_some() {
            inner.remove_owner(address);
        } else if let Some(displaced) = inner.displaced.get_mut(address) {
            displaced.retain(|waiting| waiting.watch != watch);
        }
    }

    /// Ends the watch of a mailbox if its owner is still this connection.
    pub(super) fn leave_with(&self, address: &MailboxAddress, outlet: &ConnectionQueue) {
        let mut inner = self.lock_inner();
        if inner.owners.get(address).is_some_and(|owner| owner.outlet.is_same(outlet)) {
            inner.remove_owner(address);
        }
    }

    /// Sends the owner the number of one-time keys left.
    pub(super) fn send_stock(&self, address: &MailboxAddress, left: u32) {
        if let Some(owner) = self.lock_inner().owners.get(address) {
            owner.outlet.send_stock(stock_frame(owner.number, left));
        }
    }

    /// Returns the boxes that are watched.
    pub(super) fn watched_boxes(&self) -> Vec<MailboxRowId> {
        self.lock_inner().owners.values().map(|owner| owner.box_id).collect()
    }

    fn lock_inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a STOCK, with the number limited to its 16-bit field.
pub(super) fn stock_frame(number: u16, left: u32) -> RelayFrame {
    RelayFrame::Stock { number, left: u16::try_from(left).unwrap_or(u16::MAX) }
}

#[cfg(test)]
mod tests {
    use super::super::job::{ReplyTo, WriterEvent};
    use super::*;
    use tokio::sync::mpsc::Receiver;

    const BOX: MailboxAddress = MailboxAddress([7; 16]);
    const WATCH: WatchId = 1;

    fn watched(kind: MailboxKind) -> (Watchers, Receiver<WriterEvent>) {
        let (outlet, events) = ConnectionQueue::new(4);
        let owners = Watchers::new(8);
        let row = MailboxRow { id: 3, kind, mails: 0, bytes: 0 };
        owners.insert(BOX, Watcher::new(WATCH, 9, &row, outlet));
        (owners, events)
    }

    fn put(owners: &Watchers, nr: u8) -> Put {
        let (outlet, _) = ConnectionQueue::new(4);
        let mut queued = None;
        let put = Put::new(BOX, 9, vec![nr], ReplyTo { outlet, req: 1 });
        owners.hand_over(put, |put| queued = Some(put));
        queued.unwrap()
    }

    /// Takes one mail. Returns the rows to remove.
    fn take(owners: &Watchers, watch: WatchId, id: MailId) -> Option<Vec<Seq>> {
        let rows = owners.stored_rows(&BOX, watch, &[id]).map(|(_, rows)| rows);
        owners.mark_taken(&BOX, watch, &[id]);
        rows
    }

    /// Returns the mails sent since the last call.
    fn shown(events: &mut Receiver<WriterEvent>) -> Vec<u8> {
        let mails = std::iter::from_fn(|| events.try_recv().ok());
        mails
            .map(|event| match event {
                WriterEvent::Mail { number: 9, watch: WATCH, envelope, .. } => envelope[0],
                _ => panic!("no mail"),
            })
            .collect()
    }

    #[test]
    fn a_put_is_shown_at_once_and_its_row_is_taken() {
        let (owners, mut events) = watched(MailboxKind::Conversation);
        owners.send_refill(&BOX, Vec::new(), false);
        let mut one = put(&owners, 1);
        assert_eq!(shown(&mut events), [1]);
        assert!(owners.show_stored(&mut one, 70).is_none());
        assert_eq!(take(&owners, WATCH, one.id), Some(vec![70]));
        assert_eq!(take(&owners, WATCH, one.id), Some(Vec::new()));
        // A put that was sent and then refused has no row.
        let two = put(&owners, 2);
        assert!(take(&owners, WATCH + 1, two.id).is_none());
        assert_eq!(take(&owners, WATCH, two.id), Some(Vec::new()));
        assert_eq!(shown(&mut events), [2]);
    }

    #[test]
    fn nothing_overtakes_a_put_that_waits_for_the_writer() {
        let (owners, mut events) = watched(MailboxKind::Conversation);
        // The store was read before these two puts reached it.
        let mut one = put(&owners, 1);
        let mut two = put(&owners, 2);
        owners.send_refill(&BOX, vec![Mail { seq: 60, body: vec![0] }], false);
        let mut three = put(&owners, 3);
        assert_eq!(shown(&mut events), [0]);
        for (put, seq) in [(&mut one, 61), (&mut two, 62)] {
            assert!(owners.show_stored(put, seq).is_some());
        }
        owners.mark_done(two.id);
        let mut four = put(&owners, 4);
        assert_eq!(shown(&mut events), [1, 2]);
        for (put, seq) in [(&mut three, 63), (&mut four, 64)] {
            assert!(owners.show_stored(put, seq).is_some());
        }
        owners.mark_done(four.id);
        put(&owners, 5);
        assert_eq!(shown(&mut events), [3, 4, 5]);
    }

    #[test]
    fn without_room_mail_waits_in_the_store() {
        let (owners, mut events) = watched(MailboxKind::Conversation);
        owners.send_refill(&BOX, Vec::new(), false);
        let mut puts: Vec<_> = (0..9).map(|nr| put(&owners, nr)).collect();
        assert_eq!(shown(&mut events).len(), 8);
        for (seq, put) in (1..).zip(&mut puts) {
            assert!(owners.show_stored(put, seq).is_none());
        }
        owners.mark_done(puts[8].id);
        assert!(owners.next_refill(&BOX).is_none());
        assert_eq!(take(&owners, WATCH, puts[0].id), Some(vec![1]));
        let RefillRequest { box_id, last, room } = owners.next_refill(&BOX).unwrap();
        assert_eq!((box_id, last, room), (3, 8, 1));
        owners.send_refill(&BOX, vec![Mail { seq: 9, body: vec![8] }], false);
        assert_eq!(shown(&mut events), [8]);
    }

    #[test]
    fn msg_90_a_watcher_that_is_displaced_is_told_and_told_again_when_that_is_over() {
        let (owners, mut first) = watched(MailboxKind::Conversation);
        let row = MailboxRow { id: 3, kind: MailboxKind::Conversation, mails: 0, bytes: 0 };
        let (outlet, mut second) = ConnectionQueue::new(4);
        owners.insert(BOX, Watcher::new(2, 5, &row, outlet.clone()));
        let told = |events: &mut Receiver<WriterEvent>| match events.try_recv() {
            Ok(WriterEvent::Unasked(RelayFrame::Displaced { number, over })) => {
                Some((number, over))
            }
            _ => None,
        };
        assert_eq!((told(&mut first), told(&mut second)), (Some((9, false)), None));
        // The same connection watches again, so no watch is displaced.
        owners.insert(BOX, Watcher::new(3, 5, &row, outlet));
        assert_eq!((told(&mut first), told(&mut second)), (None, None));
        owners.leave_watch(&BOX, 3);
        assert_eq!((told(&mut first), told(&mut second)), (Some((9, true)), None));
        // A connection that has gone gets no notice.
        let (outlet, mut third) = ConnectionQueue::new(4);
        owners.insert(BOX, Watcher::new(4, 6, &row, outlet));
        let (outlet, _fourth) = ConnectionQueue::new(4);
        owners.insert(BOX, Watcher::new(5, 6, &row, outlet));
        assert_eq!(told(&mut third), Some((6, false)));
        owners.leave_watch(&BOX, 4);
        owners.leave_watch(&BOX, 5);
        assert_eq!(told(&mut third), None);
    }

    #[test]
    fn a_strangers_mail_waits_for_the_writer() {
        let (owners, mut events) = watched(MailboxKind::Intro);
        owners.send_refill(&BOX, Vec::new(), false);
        let mut one = put(&owners, 1);
        assert!(shown(&mut events).is_empty());
        assert!(owners.show_stored(&mut one, 70).is_some());
        assert_eq!(shown(&mut events), [1]);
    }
}
