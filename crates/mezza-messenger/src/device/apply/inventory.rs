//! Inventories: what each side of a conversation has after one of them was restored (BACKUP-20).
//!
//! ```text
//! restored ---- reset, inventory ----> contact     its delivered notes that are missing there: lost
//!          <--- receipts, inventory --             notes of the lost device that are missing here: counted
//! ```

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::super::{Parts, contact};
use crate::carriers::Port;
use crate::evidence::{Fact, FactKind};
use crate::io::{At, By, ContactId, Event, NoteId, ResetCause};
use crate::note::{Era, Inventory, Item};
use crate::outbox::{FormerNote, Owe};
use crate::receipt::Receipt;

/// Inventories of one note that are read, and that are sent: one of each era that matters.
const INVENTORIES_MAX: usize = 8;

/// Returns the inventories that a note to a contact carries, if they are owed.
pub(in crate::device) fn owed_items<P: Port>(parts: &Parts<P>, id: ContactId) -> Vec<Item> {
    if !parts.outbox.owed(id).is_some_and(|owed| owed.inventory) {
        return Vec::new();
    }
    let all = parts.threads.arrived_windows(id);
    all.take(INVENTORIES_MAX).map(|window| Item::Inventory(Inventory::of_window(window))).collect()
}

/// Takes the inventories of a contact. A reset because of a restore asks for ours.
pub(super) fn take_items<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    items: &[Item],
    at: &mut At<'_>,
) {
    let inventories = items.iter().filter_map(|item| match item {
        Item::Inventory(inventory) => Some(inventory),
        _ => None,
    });
    for inventory in inventories.clone().take(INVENTORIES_MAX) {
        take_inventory(parts, id, inventory, at);
    }
    // Only an inventory is answered by one: a reset alone costs no more than it did (MSG-53).
    let is_restored = items.contains(&Item::Reset(ResetCause::Restored as u8));
    let asks = is_restored && inventories.count() > 0;
    if asks && sends_inventories(parts, id) && parts.threads.has_heard(id) {
        parts.outbox.owe(id, Owe::Inventory, at.step);
    }
}

/// Returns true if a contact may learn what has arrived: an inventory says no less than receipts.
fn sends_inventories<P: Port>(parts: &Parts<P>, id: ContactId) -> bool {
    parts.contacts.get(id).is_some_and(|contact| contact.policy.delivered && contact.is_ours())
}

/// Compares one inventory with our notes. It adds and removes no fact (MSG-13).
fn take_inventory<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    inventory: &Inventory,
    at: &mut At<'_>,
) {
    let mut lost = BTreeSet::new();
    let mut held = BTreeSet::new();
    let own =
        parts.threads.thread_notes(id).filter_map(|note| Some((note, parts.threads.get(note)?)));
    for (note, stored) in own.filter(|(_, note)| !note.incoming && note.era == inventory.era) {
        if stored.is_delivered() && !inventory.holds(stored.seq) {
            lost.insert(note);
        } else {
            held.insert(note);
        }
    }
    let ours = contact::own_era(parts, id) == inventory.era;
    if ours {
        parts.outbox.close_gaps(id, inventory, at.step);
    }
    let before = parts.outbox.aftermath(id).cloned().unwrap_or_default();
    parts.outbox.change_aftermath(id, at.step, |left| {
        left.lost.retain(|note| !held.contains(note));
        for note in &lost {
            left.lose(*note);
        }
        if let Some(former) = left.former.filter(|former| former.era == inventory.era) {
            let unknown = former.next_seq.max(1)..=inventory.highest();
            left.ahead = unknown.filter(|seq| inventory.holds(*seq)).count() as u32;
        }
    });
    let after = parts.outbox.aftermath(id).cloned().unwrap_or_default();
    if after != before {
        at.step.show(Event::Contact(id));
    }
    for note in before.lost.symmetric_difference(&after.lost) {
        at.step.show(Event::State(id, *note));
    }
}

/// Marks notes as held by the contact, although an inventory that arrived late lacked them.
pub(super) fn find_kept<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    kept: &[NoteId],
    at: &mut At<'_>,
) {
    let Some(left) = parts.outbox.aftermath(id).filter(|left| !left.lost.is_empty()) else {
        return;
    };
    let found: Vec<NoteId> = kept.iter().copied().filter(|id| left.lost.contains(id)).collect();
    for note in found {
        parts.outbox.change_aftermath(id, at.step, |left| left.settle(note));
        at.step.show(Event::State(id, note));
    }
}

/// Handles a receipt for an era before a restore. It confirms notes that are sent again under their
/// old numbers, but only by their digests (MSG-95).
pub(super) fn prove_former<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    receipt: &Receipt,
    items: &[Item],
    by: By,
    at: &mut At<'_>,
) {
    let Some(same) = compare_former(parts, id, receipt.era, items) else {
        return renumber_former(parts, id, receipt.era, at);
    };
    let is_twice = *receipt == Receipt::for_conflict(receipt.era);
    if is_twice {
        // The reader has other notes under these numbers: no digest of ours will ever come.
        return renumber_former(parts, id, receipt.era, at);
    }
    let what = if receipt.what == Receipt::READ { FactKind::Read } else { FactKind::Delivered };
    for FormerNote { note, .. } in parts.outbox.proven_former(id, receipt, &same) {
        let fact = Fact { what, carrier: by.carrier, level: by.level, at: at.now };
        parts.threads.add_fact(note, fact, None, at.step);
        let dropped = parts.outbox.end_former(id, note, at.step);
        parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    }
}

/// Returns the numbers of an era whose digests equal those of our notes, or `None` if one of them
/// differs.
fn compare_former<P: Port>(
    parts: &Parts<P>,
    id: ContactId,
    era: Era,
    items: &[Item],
) -> Option<BTreeSet<u32>> {
    let kept = items.iter().filter_map(|item| match item {
        Item::Kept(kept) if kept.era == era => Some(&kept.notes),
        _ => None,
    });
    let mut same = BTreeSet::new();
    for (seq, digest) in kept.flatten() {
        let note = parts.outbox.numbered_former(id, era, *seq);
        match note.and_then(|note| parts.threads.get(note)) {
            Some(note) if note.digest() == *digest => drop(same.insert(*seq)),
            Some(_) => return None,
            // It is of the lost device, or has its receipt.
            None => {}
        }
    }
    Some(same)
}

/// Gives our notes new numbers, because the contact has other notes under their numbers of an
/// earlier era.
fn renumber_former<P: Port>(parts: &mut Parts<P>, id: ContactId, era: Era, at: &mut At<'_>) {
    for note in parts.outbox.former_notes(id) {
        if parts.threads.get(note).is_none_or(|stored| stored.era != era) {
            continue;
        }
        let dropped = parts.outbox.end_former(id, note, at.step);
        parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
        parts.threads.renumber_note(note, at.step);
        parts.outbox.queue_note(id, note);
    }
    at.step.touch(id);
}
