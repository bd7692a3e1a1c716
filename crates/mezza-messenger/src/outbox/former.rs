//! Own notes of an era before a restore, which are sent under their old numbers (BACKUP-22).
//!
//! In that era the reader's window recognises a note that the lost device had already sent, so the
//! note is stored once.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Aftermath, Outbox};
use crate::io::{ContactId, Dropped, Effects, NoteId, RecordKind, key32};
use crate::note::{Era, Inventory};
use crate::receipt::{Receipt, collect_ranges};

/// An own note by its number in an earlier era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormerNote {
    pub era: Era,
    pub seq: u32,
    pub note: NoteId,
}

impl Outbox {
    /// Records that a receipt for a note is expected under its number in an earlier era.
    pub fn expect_former(&mut self, contact: ContactId, former: FormerNote) {
        self.former.insert((contact, former.era, former.seq), former.note);
    }

    /// Returns the own notes of an earlier era that a receipt confirms. Their digests must be in
    /// `kept` (MSG-95).
    pub fn proven_former(
        &self,
        contact: ContactId,
        receipt: &Receipt,
        kept: &BTreeSet<u32>,
    ) -> Vec<FormerNote> {
        let era = receipt.era;
        let own = self.former.range((contact, era, 0)..=(contact, era, u32::MAX));
        let proven = own.filter(|((_, _, seq), _)| receipt.covers_seq(*seq) && kept.contains(seq));
        proven
            .map(|((_, era, seq), note)| FormerNote { era: *era, seq: *seq, note: *note })
            .collect()
    }

    /// Returns the own note with this number in an earlier era.
    pub fn numbered_former(&self, contact: ContactId, era: Era, seq: u32) -> Option<NoteId> {
        self.former.get(&(contact, era, seq)).copied()
    }

    /// Returns the own notes of earlier eras that have no receipt.
    pub fn former_notes(&self, contact: ContactId) -> Vec<NoteId> {
        let own =
            self.former.range((contact, Era([0; 4]), 0)..=(contact, Era([0xff; 4]), u32::MAX));
        own.map(|(_, note)| *note).collect()
    }

    /// Ends the sending of a note of an earlier era, because it has arrived or was given up.
    pub fn end_former(
        &mut self,
        contact: ContactId,
        note: NoteId,
        effects: &mut Effects,
    ) -> Vec<Dropped> {
        self.former.retain(|(of, _, _), id| (*of, *id) != (contact, note));
        self.end_parcels(contact, note, effects)
    }

    /// Returns the notes to a contact whose fate is unknown after a restore.
    pub fn aftermath(&self, contact: ContactId) -> Option<&Aftermath> {
        self.aftermaths.get(&contact)
    }

    /// Changes the notes to a contact whose fate is unknown after a restore.
    pub fn change_aftermath(
        &mut self,
        contact: ContactId,
        effects: &mut Effects,
        change: impl FnOnce(&mut Aftermath),
    ) {
        let left = self.aftermaths.entry(contact).or_default();
        let before = left.clone();
        change(left);
        if *left == before {
            return;
        }
        if let Some(value) = left.stored() {
            effects.put(RecordKind::Aftermath, key32(contact.0), value);
        } else {
            self.aftermaths.remove(&contact);
            effects.drop_row(RecordKind::Aftermath, key32(contact.0));
        }
    }

    /// Loads the notes whose fate is unknown after a restore.
    pub fn load_aftermath(&mut self, contact: ContactId, left: Aftermath) {
        self.aftermaths.insert(contact, left);
    }

    /// Returns true if the user has to decide about a note before it may leave (BACKUP-23).
    pub fn is_unsure(&self, contact: ContactId, note: NoteId) -> bool {
        self.aftermaths.get(&contact).is_some_and(|left| left.unsure.contains(&note))
    }

    /// Closes the gaps that a restored contact has in the current era: numbers of notes that it had and
    /// lost are declared void, so that they hold up no later one. The notes keep their facts.
    pub fn close_gaps(&mut self, contact: ContactId, held: &Inventory, effects: &mut Effects) {
        let next = self.next_seq(contact);
        let lacks = (held.floor.saturating_add(1)..next)
            .filter(|seq| !held.holds(*seq) && !self.unreceipted[0].contains_key(&(contact, *seq)));
        let gaps = collect_ranges(lacks);
        let Some(lane) = self.lanes.get_mut(&contact).filter(|_| !gaps.is_empty()) else { return };
        for gap in gaps {
            lane.owed.give_up_range(gap.from, gap.to);
        }
        self.store_lane(contact, effects);
    }
}
