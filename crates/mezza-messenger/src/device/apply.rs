//! Effects of a note that opened (messenger 5.5).

pub(super) mod inventory;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_ratchet::Exporter;

use super::{Parts, contact, first};
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::evidence::{Fact, FactKind};
use crate::io::{At, By, ContactId, DeliveryProblem, Event, ResetCause};
use crate::note::{Item, Note};
use crate::outbox::Owe;
use crate::policy::timer_step;
use crate::receipt::Receipt;
use crate::threads::{Keeping, Received};
use crate::view::NoteContent;

/// Applies a note that opened in a session of `id`. This never fails: items that are malformed are
/// counted and skipped.
pub(super) fn apply_note<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: &Note,
    mut exporter: Option<Exporter>,
    by: By,
    at: &mut At<'_>,
) {
    parts.contacts.mark_answered(id, at.step);
    let mut body = None;
    let mut again = false;
    let mut learnt = false;
    let kept = compare_digests(parts, id, &note.items);
    for item in &note.items {
        match item {
            Item::Text(text) => body = body.or(Some(NoteContent::Text(text.clone()))),
            Item::Unknown(_) => body = body.or(Some(NoteContent::Newer)),
            Item::Hello { slot, card, .. } => {
                if slot.is_some() {
                    parts.contacts.clear_trouble(id, |_| true, at.step);
                }
                learnt |= apply_card(parts, id, card, at);
            }
            Item::Card(card) => learnt |= apply_card(parts, id, card, at),
            Item::Receipt(receipt) if receipt.era != contact::own_era(parts, id) => {
                inventory::prove_former(parts, id, receipt, &note.items, by, at);
            }
            Item::Receipt(receipt) => apply_receipt(parts, id, receipt, &kept, by, at),
            Item::Timer(s) => apply_timer(parts, id, *s, at),
            Item::Reset(cause) => {
                at.step.show(Event::Anew(id, cause_of(*cause)));
                again = true;
            }
            Item::Retry => again = true,
            Item::Void { era, from, to } => {
                parts.threads.void_range(id, *era, *from, *to, at.step);
                if owes_receipts(parts, id) {
                    parts.outbox.owe(id, Owe::Receipt, at.step);
                    parts.outbox.owe(id, Owe::Answer(*era, *from, *to), at.step);
                }
            }
            // These items are handled elsewhere: by the carriers, with the receipts, or after all
            // other items.
            Item::Meet(_) | Item::Kept(_) | Item::Bundle(_) | Item::Inventory(_) | Item::Tag(_) => {
            }
        }
    }
    inventory::take_items(parts, id, &note.items, at);
    shows_timer(parts, id, note, at);
    if learnt {
        contact::on_card_changed(parts, id, false, at);
    }
    let told = note.items.iter().rev().find_map(|item| match item {
        Item::Bundle(bundle) => Some(bundle),
        _ => None,
    });
    if let Some(bundle) = told {
        first::on_bundle_received(parts, id, bundle, at);
    }
    if let Some((from, carriers)) = parts.facts_for_carriers(id) {
        carriers.notify_all(|one| one.on_items_received(&from, &note.items, &mut exporter, at));
    }
    if again && parts.outbox.wants_again(id, at.now, at.step) {
        contact::requeue_notes(parts, id, at);
    }
    if note.seq > 0 {
        keep_note(parts, id, note, body.unwrap_or(NoteContent::Newer), by, at);
    }
    parts.outbox.raise_cause_level(id, by.level, at.step);
    at.step.touch(id);
}

/// Applies a timer that the contact set. If both sides set a timer at the same time, the shorter
/// one applies on both sides (MSG-106).
fn apply_timer<P: Port>(parts: &mut Parts<P>, id: ContactId, timer_s: u32, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    let ours = contact.policy.timer_s;
    let theirs = timer_step(timer_s);
    // Without a timer notes last longest.
    let length = |timer_s: u32| if timer_s == 0 { u32::MAX } else { timer_s };
    if parts.outbox.timer_is_open(id) && length(ours) < length(theirs) {
        return parts.outbox.repeat_timer(id, at.now, at.step);
    }
    parts.outbox.settle_timer(id, at.step);
    if ours != theirs {
        parts.contacts.agree_timer(id, theirs, at.step);
        if owes_receipts(parts, id) {
            // The note with the receipt reports our timer.
            parts.outbox.owe(id, Owe::Receipt, at.step);
        }
    }
}

/// Compares the timer that each note of a contact reports with our timer.
fn shows_timer<P: Port>(parts: &mut Parts<P>, id: ContactId, note: &Note, at: &mut At<'_>) {
    // Older versions write 0 in notes that the device itself generates.
    let says_nothing = note.seq == 0 && note.timer_s == 0;
    let sets = note.items.iter().any(|item| matches!(item, Item::Timer(_)));
    let Some(contact) = parts.contacts.get(id).filter(|_| !says_nothing && !sets) else { return };
    if contact.policy.timer_s == timer_step(note.timer_s) {
        parts.outbox.settle_timer(id, at.step);
    } else {
        parts.outbox.repeat_timer(id, at.now, at.step);
    }
}

/// Applies a card that came in a session. Returns true if the contact's card may have changed.
fn apply_card<P: Port>(parts: &mut Parts<P>, id: ContactId, card: &[u8], at: &mut At<'_>) -> bool {
    let learnt = parts.contacts.learn_card(id, card, at.step);
    if !learnt {
        parts.threads.count_malformed();
    }
    learnt
}

fn cause_of(number: u8) -> ResetCause {
    match number {
        1 => ResetCause::Restored,
        2 => ResetCause::Lost,
        _ => ResetCause::Person,
    }
}

/// Returns true if a contact gets delivery receipts.
fn owes_receipts<P: Port>(parts: &Parts<P>, id: ContactId) -> bool {
    parts.contacts.get(id).is_some_and(|contact| contact.policy.delivered && contact.is_ours())
}

/// The result of comparing the digests that a reader sent for our note numbers: the equal ones, or
/// a conflict.
enum Compared {
    Ours(BTreeSet<u32>),
    Others,
}

/// Compares the digests that a reader sent with the digests of our own notes (MSG-95).
fn compare_digests<P: Port>(parts: &Parts<P>, id: ContactId, items: &[Item]) -> Compared {
    let era = contact::own_era(parts, id);
    let ours = items.iter().filter_map(|item| match item {
        Item::Kept(kept) if kept.era == era => Some(&kept.notes),
        _ => None,
    });
    let mut same = BTreeSet::new();
    for (seq, digest) in ours.flatten() {
        let number = parts.outbox.find_by_seq(id, *seq);
        match number.and_then(|note| parts.threads.get(note)) {
            Some(note) if note.digest() == *digest => drop(same.insert(*seq)),
            Some(_) => return Compared::Others,
            // The note has a read receipt or was deleted here, so nothing can be compared.
            None => {}
        }
    }
    Compared::Ours(same)
}

/// Records receipts for our notes, which the contact's device has or the contact has read.
fn apply_receipt<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    receipt: &Receipt,
    kept: &Compared,
    by: By,
    at: &mut At<'_>,
) {
    let read = receipt.what == Receipt::READ;
    if !(read || receipt.what == Receipt::DELIVERED) {
        return;
    }
    let ahead = receipt.is_ahead(parts.outbox.next_seq(id));
    let Compared::Ours(kept) = (if ahead { &Compared::Others } else { kept }) else {
        // The receipt is about notes that this device never wrote, so it proves nothing about our
        // notes.
        if parts.outbox.wants_era(id, at.now, at.step) {
            contact::begin_era(parts, id, at);
        }
        return;
    };
    let what = if read { FactKind::Read } else { FactKind::Delivered };
    let known =
        kept.iter().filter_map(|seq| parts.outbox.find_by_seq(id, *seq)).collect::<Vec<_>>();
    inventory::find_kept(parts, id, &known, at);
    for (seq, note) in parts.outbox.proven_notes(id, receipt, kept, at.step) {
        let fact = Fact { what, carrier: by.carrier, level: by.level, at: at.now };
        parts.threads.add_fact(note, fact, None, at.step);
        let dropped = parts.outbox.confirm_note(id, seq, note, read, at.step);
        parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    }
    if !read {
        repeat_left_out(parts, id, receipt, at);
    }
}

/// Queues notes again that a carrier took, if the reader lacks them but has later ones (MSG-93).
fn repeat_left_out<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    receipt: &Receipt,
    at: &mut At<'_>,
) {
    for note in parts.outbox.left_out(id, receipt) {
        let facts = parts.threads.get(note).map_or(&[][..], |note| &note.facts);
        let handed = facts.iter().filter(|fact| fact.what == FactKind::Handed).map(|fact| fact.at);
        if let Some(left) = handed.max()
            && parts.outbox.repeat_missing(id, note, left, at.now)
        {
            parts.threads.mark_for_resealing(note, at.step);
        }
    }
}

/// Stores a note with a number. It is shown once, and each repetition gets a receipt.
fn keep_note<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: &Note,
    body: NoteContent,
    by: By,
    at: &mut At<'_>,
) {
    let Some(contact) = parts.contacts.get(id) else { return };
    let received = Received {
        contact: id,
        era: note.era,
        seq: note.seq,
        sent: note.sent,
        timer_s: note.timer_s,
        pin: contact.policy.level_min,
        body,
        by,
        at: at.now,
    };
    let request = contact.phase == ContactPhase::Request;
    let digest = received.digest();
    let looked = parts.threads.judge_note(&received, request, at.step);
    match looked {
        Keeping::Keep => {
            let number = parts.profile.note_number(at.step);
            parts.threads.store_received(number, received, at.step);
        }
        Keeping::Known | Keeping::Gone => {}
        Keeping::Twice => {
            parts.outbox.owe(id, Owe::Answer(note.era, u32::MAX, u32::MAX), at.step);
            return parts.contacts.report_trouble(id, DeliveryProblem::Twice, at.step);
        }
        Keeping::Leave => return,
    }
    if !owes_receipts(parts, id) {
        return;
    }
    parts.outbox.owe(id, Owe::Receipt, at.step);
    if looked != Keeping::Gone {
        parts.outbox.keep_digest(id, note.era, note.seq, digest, at.step);
    }
}
