//! Inventories: the notes that each side of a conversation has after a restore of one side
//! (BACKUP-20).
//!
//! ```text
//! restored ---- reset, inventory ----> contact   marks delivered notes that the restored side lacks
//!          <--- receipts, inventory --           counts notes of the lost device that are missing
//! ```

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::super::{Components, Turn};
use crate::carriers::Port;
use crate::evidence::{Fact, FactKind};
use crate::io::{By, ContactId, Event, NoteId, ResetCause};
use crate::note::{Era, Inventory, Item};
use crate::outbox::{FormerNote, Owe};
use crate::receipt::Receipt;

/// Inventories of one note that are read, and that are sent: one of each era that matters.
const INVENTORIES_MAX: usize = 8;

impl<P: Port> Components<P> {
    /// Returns the inventories that a note to a contact carries, if they are owed.
    pub(in crate::device) fn owed_inventories(&self, id: ContactId) -> Vec<Item> {
        if !self.outbox.owed(id).is_some_and(|owed| owed.inventory) {
            return Vec::new();
        }
        let all = self.threads.arrived_windows(id);
        all.take(INVENTORIES_MAX)
            .map(|window| Item::Inventory(Inventory::of_window(window)))
            .collect()
    }

    /// Returns true if a contact may learn which notes have arrived. An inventory shows as much as
    /// receipts do.
    fn sends_inventories(&self, id: ContactId) -> bool {
        self.contacts.get(id).is_some_and(|contact| contact.policy.delivered && contact.is_ours())
    }

    /// Returns the numbers of an era whose digests equal those of our notes, or `None` if one of
    /// them differs.
    fn compare_former(&self, id: ContactId, era: Era, items: &[Item]) -> Option<BTreeSet<u32>> {
        let kept = items.iter().filter_map(|item| match item {
            Item::Kept(kept) if kept.era == era => Some(&kept.notes),
            _ => None,
        });
        let mut same = BTreeSet::new();
        for (seq, digest) in kept.flatten() {
            let note = self.outbox.numbered_former(id, era, *seq);
            match note.and_then(|note| self.threads.get(note)) {
                Some(note) if note.digest() == *digest => drop(same.insert(*seq)),
                Some(_) => return None,
                // The note is of the lost device, or has its receipt.
                None => {}
            }
        }
        Some(same)
    }
}

impl<P: Port> Turn<'_, P> {
    /// Applies the inventories of a contact. A reset because of a restore requests ours.
    pub(super) fn apply_inventories(&mut self, id: ContactId, items: &[Item]) {
        let inventories = items.iter().filter_map(|item| match item {
            Item::Inventory(inventory) => Some(inventory),
            _ => None,
        });
        for inventory in inventories.clone().take(INVENTORIES_MAX) {
            self.compare_inventory(id, inventory);
        }
        // Only an inventory is answered by an inventory, so a reset alone causes no more traffic
        // (MSG-53).
        let is_restored = items.contains(&Item::Reset(ResetCause::Restored as u8));
        let is_requested = is_restored && inventories.count() > 0;
        if is_requested && self.device.sends_inventories(id) && self.device.threads.has_heard(id) {
            self.device.outbox.owe(id, Owe::Inventory, self.ctx.effects);
        }
    }

    /// Compares one inventory with our notes. It adds and removes no fact (MSG-13).
    fn compare_inventory(&mut self, id: ContactId, inventory: &Inventory) {
        let mut lost = BTreeSet::new();
        let mut held = BTreeSet::new();
        let own = self
            .device
            .threads
            .thread_notes(id)
            .filter_map(|note| Some((note, self.device.threads.get(note)?)));
        for (note, stored) in own.filter(|(_, note)| !note.incoming && note.era == inventory.era) {
            if stored.is_delivered() && !inventory.holds(stored.seq) {
                lost.insert(note);
            } else {
                held.insert(note);
            }
        }
        let ours = self.device.own_era(id) == inventory.era;
        if ours {
            self.device.outbox.close_gaps(id, inventory, self.ctx.effects);
        }
        let before = self.device.outbox.aftermath(id).cloned().unwrap_or_default();
        self.device.outbox.change_aftermath(id, self.ctx.effects, |left| {
            left.lost.retain(|note| !held.contains(note));
            for note in &lost {
                left.lose(*note);
            }
            if let Some(former) = left.former.filter(|former| former.era == inventory.era) {
                let unknown = former.next_seq.max(1)..=inventory.highest();
                left.ahead = unknown.filter(|seq| inventory.holds(*seq)).count() as u32;
            }
        });
        let after = self.device.outbox.aftermath(id).cloned().unwrap_or_default();
        if after != before {
            self.ctx.effects.show(Event::Contact(id));
        }
        for note in before.lost.symmetric_difference(&after.lost) {
            self.ctx.effects.show(Event::State(id, *note));
        }
    }

    /// Marks notes as held by the contact, although an inventory that arrived late lacked them.
    pub(super) fn find_kept(&mut self, id: ContactId, kept: &[NoteId]) {
        let Some(left) = self.device.outbox.aftermath(id).filter(|left| !left.lost.is_empty())
        else {
            return;
        };
        let found: Vec<NoteId> = kept.iter().copied().filter(|id| left.lost.contains(id)).collect();
        for note in found {
            self.device.outbox.change_aftermath(id, self.ctx.effects, |left| left.settle(note));
            self.ctx.effects.show(Event::State(id, note));
        }
    }

    /// Handles a receipt for an era before a restore. It confirms notes that are sent again under
    /// their old numbers, but only by their digests (MSG-95).
    pub(super) fn prove_former(
        &mut self,
        id: ContactId,
        receipt: &Receipt,
        items: &[Item],
        by: By,
    ) {
        let Some(same) = self.device.compare_former(id, receipt.era, items) else {
            return self.renumber_former(id, receipt.era);
        };
        let is_twice = *receipt == Receipt::for_conflict(receipt.era);
        if is_twice {
            // The reader has other notes under these numbers, so it never sends a digest of ours.
            return self.renumber_former(id, receipt.era);
        }
        let what = if receipt.what == Receipt::READ { FactKind::Read } else { FactKind::Delivered };
        for FormerNote { note, .. } in self.device.outbox.proven_former(id, receipt, &same) {
            let fact = Fact { what, carrier: by.carrier, level: by.level, at: self.ctx.now };
            self.device.threads.add_fact(note, fact, None, self.ctx.effects);
            let dropped = self.device.outbox.end_former(id, note, self.ctx.effects);
            self.retract_parcels(&dropped);
        }
    }

    /// Gives our notes new numbers, because the contact has other notes under their numbers of an
    /// earlier era.
    fn renumber_former(&mut self, id: ContactId, era: Era) {
        for note in self.device.outbox.former_notes(id) {
            if self.device.threads.get(note).is_none_or(|stored| stored.era != era) {
                continue;
            }
            let dropped = self.device.outbox.end_former(id, note, self.ctx.effects);
            self.retract_parcels(&dropped);
            self.device.threads.renumber_note(note, self.ctx.effects);
            self.device.outbox.queue_note(id, note);
        }
        self.ctx.effects.touch(id);
    }
}
