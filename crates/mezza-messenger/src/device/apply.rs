//! Effects of a note that opened (messenger 5.5).

mod inventory;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_ratchet::Exporter;

use super::{Components, Turn};
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::evidence::{Fact, FactKind};
use crate::io::{By, ContactId, DeliveryProblem, Event, ResetCause};
use crate::note::{Item, Note};
use crate::outbox::Owe;
use crate::policy::timer_step;
use crate::receipt::Receipt;
use crate::threads::{Keeping, Received};
use crate::view::NoteContent;

impl<P: Port> Turn<'_, P> {
    /// Applies a note of a contact. Malformed items are counted and skipped. `exporter` is that of
    /// the session, if the note began one.
    pub(super) fn apply_note(
        &mut self,
        id: ContactId,
        note: &Note,
        mut exporter: Option<Exporter>,
        by: By,
    ) {
        self.device.contacts.mark_answered(id, self.ctx.effects);
        let mut body = None;
        let mut again = false;
        let mut has_card = false;
        let kept = self.device.compare_digests(id, &note.items);
        for item in &note.items {
            match item {
                Item::Text(text) => body = body.or(Some(NoteContent::Text(text.clone()))),
                Item::Unknown(_) => body = body.or(Some(NoteContent::Newer)),
                Item::Hello { slot, card, .. } => {
                    if slot.is_some() {
                        self.device.contacts.clear_trouble(id, |_| true, self.ctx.effects);
                    }
                    has_card |= self.apply_card(id, card);
                }
                Item::Card(card) => has_card |= self.apply_card(id, card),
                Item::Receipt(receipt) if receipt.era != self.device.own_era(id) => {
                    self.prove_former(id, receipt, &note.items, by);
                }
                Item::Receipt(receipt) => self.apply_receipt(id, receipt, &kept, by),
                Item::Timer(s) => self.apply_timer(id, *s),
                Item::Reset(cause) => {
                    self.ctx.effects.show(Event::Anew(id, decode_cause(*cause)));
                    again = true;
                }
                Item::Retry => again = true,
                Item::Void { era, from, to } => {
                    self.device.threads.void_range(id, *era, *from, *to, self.ctx.effects);
                    if self.device.owes_receipts(id) {
                        self.device.outbox.owe(id, Owe::Receipt, self.ctx.effects);
                        self.device.outbox.owe(id, Owe::Answer(*era, *from, *to), self.ctx.effects);
                    }
                }
                // These items are handled elsewhere: by the carriers, with the receipts, or after
                // all other items.
                Item::Meet(_)
                | Item::Kept(_)
                | Item::Bundle(_)
                | Item::Inventory(_)
                | Item::Tag(_) => {}
            }
        }
        self.apply_inventories(id, &note.items);
        self.compare_timer(id, note);
        if has_card {
            self.on_card_changed(id, false);
        }
        let bundle = note.items.iter().rev().find_map(|item| match item {
            Item::Bundle(bundle) => Some(bundle),
            _ => None,
        });
        if let Some(bundle) = bundle {
            self.on_bundle_received(id, bundle);
        }
        if let Some((from, carriers)) = self.device.facts_for_carriers(id) {
            carriers.notify_all(|one| {
                one.on_items_received(&from, &note.items, &mut exporter, &mut self.ctx);
            });
        }
        if again && self.device.outbox.wants_again(id, self.ctx.now, self.ctx.effects) {
            self.requeue_notes(id);
        }
        if note.seq > 0 {
            self.store_note(id, note, body.unwrap_or(NoteContent::Newer), by);
        }
        self.device.outbox.raise_cause_level(id, by.level, self.ctx.effects);
        self.ctx.effects.touch(id);
    }

    /// Applies a timer that the contact set. If both sides set a timer at the same time, the
    /// shorter one applies on both sides (MSG-106).
    fn apply_timer(&mut self, id: ContactId, timer_s: u32) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        let ours = contact.policy.timer_s;
        let theirs = timer_step(timer_s);
        // Without a timer notes last longest.
        let length = |timer_s: u32| if timer_s == 0 { u32::MAX } else { timer_s };
        if self.device.outbox.timer_is_open(id) && length(ours) < length(theirs) {
            return self.device.outbox.repeat_timer(id, self.ctx.now, self.ctx.effects);
        }
        self.device.outbox.settle_timer(id, self.ctx.effects);
        if ours != theirs {
            self.device.contacts.agree_timer(id, theirs, self.ctx.effects);
            if self.device.owes_receipts(id) {
                // The note with the receipt reports our timer.
                self.device.outbox.owe(id, Owe::Receipt, self.ctx.effects);
            }
        }
    }

    /// Compares the timer that each note of a contact reports with our timer.
    fn compare_timer(&mut self, id: ContactId, note: &Note) {
        // Older versions write 0 in notes that the device itself generates.
        let is_silent = note.seq == 0 && note.timer_s == 0;
        let sets = note.items.iter().any(|item| matches!(item, Item::Timer(_)));
        let contact = self.device.contacts.get(id).filter(|_| !is_silent && !sets);
        let Some(contact) = contact else { return };
        if contact.policy.timer_s == timer_step(note.timer_s) {
            self.device.outbox.settle_timer(id, self.ctx.effects);
        } else {
            self.device.outbox.repeat_timer(id, self.ctx.now, self.ctx.effects);
        }
    }

    /// Applies a card that came in a session. Returns true if the contact's card may have changed.
    fn apply_card(&mut self, id: ContactId, card: &[u8]) -> bool {
        let is_sound = self.device.contacts.learn_card(id, card, self.ctx.effects);
        if !is_sound {
            self.device.threads.count_malformed();
        }
        is_sound
    }

    /// Records receipts for our notes, which the contact's device has or the contact has read.
    fn apply_receipt(&mut self, id: ContactId, receipt: &Receipt, kept: &Compared, by: By) {
        let read = receipt.what == Receipt::READ;
        if !(read || receipt.what == Receipt::DELIVERED) {
            return;
        }
        let ahead = receipt.is_ahead(self.device.outbox.next_seq(id));
        let Compared::Ours(kept) = (if ahead { &Compared::Others } else { kept }) else {
            // The receipt confirms notes that this device never wrote, so it proves nothing about
            // ours.
            if self.device.outbox.wants_era(id, self.ctx.now, self.ctx.effects) {
                self.begin_era(id);
            }
            return;
        };
        let what = if read { FactKind::Read } else { FactKind::Delivered };
        let known = kept
            .iter()
            .filter_map(|seq| self.device.outbox.find_by_seq(id, *seq))
            .collect::<Vec<_>>();
        self.find_kept(id, &known);
        for (seq, note) in self.device.outbox.proven_notes(id, receipt, kept, self.ctx.effects) {
            let fact = Fact { what, carrier: by.carrier, level: by.level, at: self.ctx.now };
            self.device.threads.add_fact(note, fact, None, self.ctx.effects);
            let dropped = self.device.outbox.confirm_note(id, seq, note, read, self.ctx.effects);
            self.retract_parcels(&dropped);
        }
        if !read {
            // Notes that it leaves out are repeated (MSG-93).
            self.device.outbox.cover_notes(id, receipt.highest_seq());
        }
    }

    /// Stores a note with a number. It is shown once, and each repetition gets a receipt.
    fn store_note(&mut self, id: ContactId, note: &Note, body: NoteContent, by: By) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        let received = Received {
            contact: id,
            era: note.era,
            seq: note.seq,
            sent: note.sent,
            timer_s: note.timer_s,
            pin: contact.policy.level_min,
            body,
            by,
            at: self.ctx.now,
        };
        let request = contact.phase == ContactPhase::Request;
        let digest = received.digest();
        let keeping = self.device.threads.judge_note(&received, request, self.ctx.effects);
        match keeping {
            Keeping::Keep => {
                let number = self.device.profile.note_number(self.ctx.effects);
                self.device.threads.store_received(number, received, self.ctx.effects);
            }
            Keeping::Known | Keeping::Gone => {}
            Keeping::Twice => {
                self.device.outbox.owe(
                    id,
                    Owe::Answer(note.era, u32::MAX, u32::MAX),
                    self.ctx.effects,
                );
                return self.device.contacts.report_trouble(
                    id,
                    DeliveryProblem::Twice,
                    self.ctx.effects,
                );
            }
            Keeping::Leave => return,
        }
        if !self.device.owes_receipts(id) {
            return;
        }
        self.device.outbox.owe(id, Owe::Receipt, self.ctx.effects);
        if keeping != Keeping::Gone {
            self.device.outbox.keep_digest(id, note.era, note.seq, digest, self.ctx.effects);
        }
    }
}

/// Returns the cause of a reset by its number; unknown numbers are a request of the user.
fn decode_cause(number: u8) -> ResetCause {
    match number {
        1 => ResetCause::Restored,
        2 => ResetCause::Lost,
        _ => ResetCause::Person,
    }
}

impl<P: Port> Components<P> {
    /// Returns true if a contact gets delivery receipts.
    fn owes_receipts(&self, id: ContactId) -> bool {
        self.contacts.get(id).is_some_and(|contact| contact.policy.delivered && contact.is_ours())
    }

    /// Compares the digests that a reader sent with the digests of our own notes (MSG-95).
    fn compare_digests(&self, id: ContactId, items: &[Item]) -> Compared {
        let era = self.own_era(id);
        let ours = items.iter().filter_map(|item| match item {
            Item::Kept(kept) if kept.era == era => Some(&kept.notes),
            _ => None,
        });
        let mut same = BTreeSet::new();
        for (seq, digest) in ours.flatten() {
            let number = self.outbox.find_by_seq(id, *seq);
            match number.and_then(|note| self.threads.get(note)) {
                Some(note) if note.digest() == *digest => drop(same.insert(*seq)),
                Some(_) => return Compared::Others,
                // The note has a read receipt or was deleted here, so nothing can be compared.
                None => {}
            }
        }
        Compared::Ours(same)
    }
}

/// The result of comparing the digests that a reader sent for our note numbers: the equal ones, or
/// a conflict.
enum Compared {
    Ours(BTreeSet<u32>),
    Others,
}
