//! Rows of the outbox: the lane of each contact, parcels, and open questions after a restore.

use super::{Lane, Outbox, UnreceiptedNote};
use crate::io::{ContactId, Due, Effects, RecordKind, key32, key64};

impl Outbox {
    /// Loads the stored lane of a contact.
    pub fn load_lane(&mut self, contact: ContactId, lane: Lane, effects: &mut Effects) {
        effects.set_timer(Due::Again(contact), lane.again.due());
        self.lanes.insert(contact, lane);
        self.update_owing(contact);
    }

    /// Loads one of our sealed notes that has no read receipt yet.
    pub fn load_unreceipted(&mut self, sent: UnreceiptedNote) {
        let UnreceiptedNote { contact, note, seq, is_voided, is_delivered } = sent;
        self.unreceipted[usize::from(is_delivered)].insert((contact, seq), (note, is_voided));
    }

    /// Stores the lane of a contact after a change.
    pub(super) fn store_lane(&mut self, contact: ContactId, effects: &mut Effects) {
        self.update_owing(contact);
        self.put_lane(contact, effects);
    }

    /// Updates the index of contacts with owed items.
    fn update_owing(&mut self, contact: ContactId) {
        if self.lanes.get(&contact).is_some_and(|lane| lane.owed.has_any()) {
            self.owing.insert(contact);
        } else {
            self.owing.remove(&contact);
        }
    }

    /// Writes the row of a lane.
    pub(super) fn put_lane(&self, contact: ContactId, effects: &mut Effects) {
        if let Some(lane) = self.lanes.get(&contact) {
            effects.put(RecordKind::Owed, key32(contact.0), lane.write());
        }
    }

    /// Writes the rows of all parcels and lanes.
    pub fn put_records(&self, effects: &mut Effects) {
        for (id, parcel) in self.parcels.iter().filter(|(_, parcel)| !parcel.confirmed) {
            effects.put(RecordKind::Parcel, key64(id.0), parcel.write());
        }
        self.lanes.keys().for_each(|contact| self.put_lane(*contact, effects));
        for (contact, left) in &self.aftermaths {
            if let Some(value) = left.stored() {
                effects.put(RecordKind::Aftermath, key32(contact.0), value);
            }
        }
    }
}
