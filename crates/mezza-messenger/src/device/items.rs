//! What the notes between two devices say: made from what is owed, applied when they arrive.

use alloc::vec::Vec;

use super::{Backend, Device, Event, NoteId, Time, key_seen};
use crate::card::Card;
use crate::carriers::CarrierId;
use crate::contact::{Contact, ContactPhase, PendingItems, write_windows};
use crate::evidence::{self, Fact, FactKind, WaitReason};
use crate::io::{ContactId, DeliveryProblem, RecordKind, ResetCause, Retention};
use crate::note::{Era, Item, MixnetStart, Note, RemoteMailbox};
use crate::policy::timer_step;
use crate::receipt::Receipt;

/// Receipt items in one note; what is left goes with the next.
const RECEIPTS_MAX: usize = 16;
/// Voids in one note, oldest first; they are said until a receipt passes them.
const VOIDS_IN_NOTE: usize = 24;

impl<B: Backend> Device<B> {
    /// The note on the wire: the person's text, if any, and whatever is owed to the contact.
    pub(super) fn compose(
        &self,
        id: ContactId,
        note: Option<NoteId>,
        meet: Option<MixnetStart>,
        (carrier, pin): (CarrierId, u8),
        now: Time,
    ) -> Option<Note> {
        let contact = self.contacts.get(&id)?;
        // What is owed does not ride on a note that may go below the level of its cause (MSG-20).
        let nothing = PendingItems::default();
        let owed = if contact.owed.level <= pin { &contact.owed } else { &nothing };
        let mut items = Vec::new();
        let hello = contact.conversation.is_pending() || owed.hello;
        if hello && self.hello_ready(id, carrier) {
            items.push(self.hello(id));
        }
        if let Some(cause) = owed.anew {
            items.extend([Item::Reset(cause), Item::Retry]);
        }
        let answers = owed.answers.iter().filter_map(|(era, from, to)| {
            let (arrived, _) = contact.arrived.get(era)?;
            Some(arrived.answer(Receipt::DELIVERED, *from, *to))
        });
        let receipts = contact.arrived.values().flat_map(|(arrived, read)| {
            let arrived = owed.receipt.then(|| arrived.receipts(Receipt::DELIVERED));
            let read = owed.read.then(|| read.receipts(Receipt::READ));
            arrived.into_iter().chain(read).flatten()
        });
        let receipts = answers.flatten().chain(receipts);
        items.extend(receipts.take(RECEIPTS_MAX).map(Item::Receipt));
        let era = self.era(id);
        items.extend(contact.owed.voids.iter().take(VOIDS_IN_NOTE).map(|&(from, to)| Item::Void {
            era,
            from,
            to,
        }));
        if owed.timer {
            items.push(Item::Timer(contact.policy.timer_s));
        }
        if owed.card {
            items.push(Item::Card(self.profile.card.encode()));
        }
        items.extend(meet.map(Item::Meet));
        let (mut seq, mut sent, mut timer_s) = (0, now, 0);
        if let Some(note) = note {
            let entry = self.notes.get(&note)?;
            items.push(Item::Text(entry.text()?.clone()));
            seq = if entry.seq == 0 { contact.next_seq } else { entry.seq };
            (sent, timer_s) = (entry.sent, entry.timer_s);
        }
        Some(Note { era, seq, sent, timer_s, items })
    }

    /// Our mailbox for the contact and our card.
    fn hello(&self, id: ContactId) -> Item {
        let ours = self.contacts.get(&id).and_then(|contact| contact.our_mailbox);
        // One that is not open yet is said once it is.
        let slot = ours.and_then(|slot| self.slots.get(&slot)).filter(|slot| slot.opened);
        let slot =
            slot.map(|slot| RemoteMailbox { relay: slot.relay.clone(), seal: *slot.seal.public() });
        // Without a relay of our own the tag alone says whose cells these are.
        let tag = slot.is_none().then(|| self.profile.card.id()[..8].try_into().unwrap_or([0; 8]));
        Item::Hello { slot, tag, card: self.profile.card.encode() }
    }

    /// What was said is no longer owed.
    pub(super) fn said(&mut self, id: ContactId, wire: &Note, pin: u8) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let owed = &mut contact.owed;
        if owed.level > pin {
            return;
        }
        for item in &wire.items {
            match item {
                Item::Hello { .. } => owed.hello = false,
                Item::Timer(_) => owed.timer = false,
                Item::Card(_) => owed.card = false,
                Item::Reset(_) => owed.anew = None,
                _ => {}
            }
        }
        (owed.receipt, owed.read, owed.void, owed.level) = (false, false, false, 0);
        owed.answers.clear();
    }

    /// Applies a note that opened in a session of `id`. Nothing in it can make this fail: what is
    /// no note of this format is counted and left out.
    pub(super) fn apply(&mut self, id: ContactId, wire: Note, now: Time) {
        self.answered(id);
        let (mut body, mut again) = (None, false);
        let (era, seq, sent, timer_s) = (wire.era, wire.seq, wire.sent, wire.timer_s);
        for item in wire.items {
            match item {
                Item::Text(text) => body = body.or(Some(crate::view::NoteContent::Text(text))),
                Item::Unknown(_) => body = body.or(Some(crate::view::NoteContent::Newer)),
                Item::Hello { slot, card, .. } => self.greeted(id, slot, &card),
                Item::Card(card) => self.newer_card(id, &card),
                Item::Receipt(receipt) => self.receipt(id, &receipt, now),
                Item::Timer(s) => self.timer_agreed(id, s),
                Item::Reset(cause) => {
                    self.anew(id, cause);
                    again = true;
                }
                Item::Retry => again = true,
                Item::Meet(meet) => drop(self.step.meets.insert(id, meet)),
                Item::Void { era, from, to } => self.voided(id, era, from, to),
            }
        }
        if again {
            self.wants_again(id, now);
        }
        if seq > 0 {
            let body = body.unwrap_or(crate::view::NoteContent::Newer);
            self.received(id, super::arrive::Received { era, seq, sent, timer_s, body }, now);
        }
        let level = self.arriving_level();
        if let Some(Contact { owed, .. }) = self.contacts.get_mut(&id) {
            owed.level = if owed.any() { owed.level.max(level) } else { 0 };
        }
        self.store_contact(id);
    }

    /// A note of the contact came: whoever was only asked has answered.
    fn answered(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get_mut(&id)
            && matches!(contact.stage, ContactPhase::Held | ContactPhase::Asked)
        {
            contact.stage = ContactPhase::Open;
            self.show(Event::Contact(id));
        }
    }

    fn greeted(&mut self, id: ContactId, slot: Option<RemoteMailbox>, card: &[u8]) {
        if let (Some(slot), Some(contact)) = (slot, self.contacts.get_mut(&id)) {
            let before = contact.their_mailbox.replace(slot);
            contact.trouble = None;
            self.moved(id, before.as_ref().map(|slot| &slot.relay));
        }
        self.newer_card(id, card);
    }

    /// A card that came under the ratchet: newer ones count, older ones are ignored, another one
    /// with the same serial is shown (MSG-6); another person's card never replaces one (MSG-7).
    fn newer_card(&mut self, id: ContactId, bytes: &[u8]) {
        let Ok(card) = Card::decode(bytes) else {
            self.refusals.notes += 1;
            return;
        };
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if card.ik() != contact.card.ik() || card.serial() < contact.card.serial() {
            return;
        }
        if card.serial() > contact.card.serial() {
            let before = core::mem::replace(&mut contact.card, card);
            contact.trouble = None;
            self.moved(id, before.relays().first());
            self.show(Event::Contact(id));
        } else if card.same_head(&contact.card) {
            contact.card = card.with_parts_of(&contact.card);
        } else {
            self.trouble(id, DeliveryProblem::CardClash);
        }
    }

    /// Own notes that the other device has, or that the other person has read.
    fn receipt(&mut self, id: ContactId, receipt: &Receipt, now: Time) {
        if receipt.era != self.era(id) {
            return;
        }
        let (what, index) = match receipt.what {
            Receipt::DELIVERED => (FactKind::Delivered, 0),
            Receipt::READ => (FactKind::Read, 1),
            _ => return,
        };
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.owed.voids.retain(|(_, to)| *to > receipt.floor);
        }
        let range = (id, 0)..=(id, u32::MAX);
        // Whoever has read a note has it: a read receipt also answers for `delivered`.
        let lists = &self.unreceipted[..=index];
        let covered = lists.iter().flat_map(|list| list.range(range.clone()));
        let covered = covered.filter(|((_, seq), note)| {
            let voided = self.notes.get(note).is_some_and(|entry| entry.voided);
            receipt.proves(*seq, voided)
        });
        let notes: Vec<(u32, NoteId)> = covered.map(|((_, seq), note)| (*seq, *note)).collect();
        for (seq, note) in notes {
            self.confirmed(id, seq, note, Fact { what, carrier: self.arriving, at: now });
        }
    }

    fn confirmed(&mut self, id: ContactId, seq: u32, note: NoteId, fact: Fact) {
        let Some(entry) = self.notes.get_mut(&note) else { return };
        let news = evidence::add(&mut entry.facts, fact);
        self.unreceipted[0].remove(&(id, seq));
        if fact.what == FactKind::Read {
            self.unreceipted[1].remove(&(id, seq));
        } else {
            self.unreceipted[1].insert((id, seq), note);
        }
        self.waiting.remove(&(id, note));
        let parcels = self.parcels.iter().filter(|(_, parcel)| parcel.note == Some(note));
        let parcels: Vec<u64> = parcels.map(|(id, _)| *id).collect();
        for parcel in parcels {
            self.drop_parcel(parcel);
        }
        if news {
            self.step.facts.push(Event::State(id, note));
            self.store_note(note);
        }
    }

    fn timer_agreed(&mut self, id: ContactId, s: u32) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.policy.timer_s = timer_step(s);
            self.show(Event::Contact(id));
        }
    }

    fn anew(&mut self, id: ContactId, cause: u8) {
        let cause = match cause {
            1 => ResetCause::Restored,
            2 => ResetCause::Lost,
            _ => ResetCause::Person,
        };
        self.show(Event::Anew(id, cause));
    }

    /// The contact wants everything without a receipt again: at once, but not twice within ten
    /// minutes; then it waits until they are over. Whether it gets it now.
    pub(super) fn wants_again(&mut self, id: ContactId, now: Time) -> bool {
        let contact = self.contacts.get_mut(&id);
        let gets = contact.is_some_and(|contact| contact.share.wants_again(now));
        if gets {
            self.send_again(id);
        }
        gets
    }

    /// Every own note without receipt is sealed anew, under the session that is active now, with
    /// its era and number (messenger 5.3).
    pub(super) fn send_again(&mut self, id: ContactId) {
        let parcels = self.parcels.iter().filter(|(_, parcel)| parcel.contact == id);
        let parcels: Vec<u64> = parcels.map(|(id, _)| *id).collect();
        let dropped: Vec<_> = parcels.into_iter().filter_map(|id| self.drop_parcel(id)).collect();
        let range = (id, 0)..=(id, u32::MAX);
        let notes: Vec<NoteId> = self.unreceipted[0].range(range).map(|(_, n)| *n).collect();
        for note in notes {
            // What was given up does not leave again.
            let Some(entry) = self.notes.get_mut(&note).filter(|entry| !entry.voided) else {
                continue;
            };
            (entry.again, entry.why) = (true, WaitReason::Sending);
            self.waiting.insert((id, note));
            self.store_note(note);
        }
        if let Some(contact) = self.contacts.get_mut(&id) {
            // An invitation that nobody has read began a session that nobody knows of.
            contact.renew |= dropped.iter().any(|parcel| parcel.way.is_invitation());
        }
        self.owe_again(id);
    }

    /// What was in parcels that are gone is owed once more.
    pub(super) fn owe_again(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.owed.hello |= contact.our_mailbox.is_some();
            contact.owed.receipt |= contact.policy.delivered && !contact.arrived.is_empty();
            self.store_contact(id);
        }
    }

    /// The writer gave these up: they leave no gap, and one that comes late is not shown.
    fn voided(&mut self, id: ContactId, era: Era, from: u32, to: u32) {
        if !self.era_fits(id, era) {
            return;
        }
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let (arrived, read) = contact.window(era);
        // A range beyond the window is not noted; the writer says it again.
        arrived.void(from, to);
        read.void(from, to);
        if contact.policy.delivered && contact.is_ours() {
            contact.owed.receipt = true;
            contact.owed.answer(era, from, to);
        }
        self.store_arrived(id, era);
    }

    /// Stores what arrived of one era.
    pub(super) fn store_arrived(&mut self, id: ContactId, era: Era) {
        let Some(contact) = self.contacts.get(&id) else { return };
        let Some(windows) = contact.arrived.get(&era) else { return };
        let value = write_windows(windows);
        self.put(RecordKind::Seen, key_seen(id, era), Retention::Permanent, value);
    }
}
