//! The parcels that wait for a carrier or are with one.

use alloc::vec::Vec;

use mezza_core::Time;

use super::{Burden, Outbox, Parcel};
use crate::io::{ContactId, Dropped, Due, Effects, ParcelId, RecordKind, key64};

/// Most waiting parcels per contact without a note of the user; further items stay owed (MSG-89).
const UNWRITTEN_MAX: usize = 8;

impl Outbox {
    /// Adds a parcel, which waits for its carrier.
    pub fn add_parcel(&mut self, parcel: Parcel, now: Time, effects: &mut Effects) -> ParcelId {
        self.last_parcel += 1;
        let id = ParcelId(self.last_parcel);
        effects.put(RecordKind::Parcel, key64(id.0), parcel.write());
        self.insert(id, parcel, now, effects);
        id
    }

    pub(super) fn insert(
        &mut self,
        id: ParcelId,
        parcel: Parcel,
        now: Time,
        effects: &mut Effects,
    ) {
        effects.set_timer(Due::Parcel(id), parcel.due(now));
        if parcel.route.invitation {
            self.invitations.insert((parcel.contact, id));
        }
        self.by_contact.insert((parcel.contact, id));
        self.parcels.insert(id, parcel);
    }

    /// Returns one parcel.
    pub fn parcel(&self, id: ParcelId) -> Option<&Parcel> {
        self.parcels.get(&id)
    }

    /// Returns the parcels that may be handed over now, oldest first.
    pub fn ready_parcels(&self, now: Time) -> Vec<ParcelId> {
        let idle = self.parcels.iter().filter(|(_, parcel)| !parcel.out && parcel.after <= now);
        idle.map(|(id, _)| *id).collect()
    }

    /// Returns the parcels of a contact.
    pub fn parcels_of(&self, contact: ContactId) -> impl Iterator<Item = (ParcelId, &Parcel)> {
        let range = (contact, ParcelId(0))..=(contact, ParcelId(u64::MAX));
        let own = self.by_contact.range(range);
        own.filter_map(|(_, id)| Some((*id, self.parcels.get(id)?)))
    }

    /// Returns true if another parcel without a note of the user may wait for a contact.
    pub fn has_room(&self, contact: ContactId) -> bool {
        let unwritten = self.parcels_of(contact).filter(|(_, parcel)| parcel.note.is_none());
        // Without this bound a contact could fill the outbox by its requests (MSG-35).
        unwritten.count() < UNWRITTEN_MAX
    }

    /// Returns all parcels.
    pub fn parcels(&self) -> impl Iterator<Item = (ParcelId, &Parcel)> {
        self.parcels.iter().map(|(id, parcel)| (*id, parcel))
    }

    /// Records that a carrier of this level took a parcel.
    pub fn mark_out(&mut self, id: ParcelId, level: u8, now: Time, effects: &mut Effects) {
        self.update_parcel(id, now, effects, |parcel| {
            (parcel.out, parcel.left_at) = (true, parcel.left_at.min(level));
        });
    }

    /// Schedules the next repetition of a parcel at `after`, and counts it.
    pub fn retry_after(&mut self, id: ParcelId, after: Time, now: Time, effects: &mut Effects) {
        self.update_parcel(id, now, effects, |parcel| {
            (parcel.out, parcel.after, parcel.times) =
                (false, after, parcel.times.saturating_add(1));
        });
    }

    /// Records that the carrier refused a parcel until `after`.
    pub fn mark_refused(&mut self, id: ParcelId, after: Time, now: Time, effects: &mut Effects) {
        self.update_parcel(id, now, effects, |parcel| (parcel.out, parcel.after) = (false, after));
    }

    /// Records that parcels are no longer with their carrier.
    pub fn mark_returned(&mut self, ids: &[ParcelId], now: Time, effects: &mut Effects) {
        for id in ids {
            self.update_parcel(*id, now, effects, |parcel| parcel.out = false);
        }
    }

    /// Sets the timer of a parcel again.
    pub fn look_again(&mut self, id: ParcelId, now: Time, effects: &mut Effects) {
        self.update_parcel(id, now, effects, |_| {});
    }

    pub(super) fn update_parcel(
        &mut self,
        id: ParcelId,
        now: Time,
        effects: &mut Effects,
        f: impl FnOnce(&mut Parcel),
    ) {
        if let Some(parcel) = self.parcels.get_mut(&id) {
            f(parcel);
            // The note has a receipt and the carrier has answered, so the parcel is not needed any
            // more.
            if parcel.confirmed && !parcel.out {
                self.drop_parcel(id, effects);
                return;
            }
            effects.set_timer(Due::Parcel(id), parcel.due(now));
        }
    }

    /// Drops a parcel that the carrier took or that cannot be delivered.
    pub fn drop_parcel(&mut self, id: ParcelId, effects: &mut Effects) -> Option<Parcel> {
        let parcel = self.parcels.remove(&id)?;
        self.invitations.remove(&(parcel.contact, id));
        self.by_contact.remove(&(parcel.contact, id));
        if !parcel.confirmed {
            effects.drop_row(RecordKind::Parcel, key64(id.0));
        }
        effects.set_timer(Due::Parcel(id), None);
        Some(parcel)
    }

    /// Drops a parcel that does not arrive; its items are owed again (MSG-105).
    pub fn lose_parcel(&mut self, id: ParcelId, effects: &mut Effects) -> Option<Parcel> {
        let parcel = self.drop_parcel(id, effects)?;
        // Items that are sent only once are owed again if their parcel is lost (MSG-105).
        if parcel.says != Burden::default()
            && let Some(lane) = self.lanes.get_mut(&parcel.contact)
        {
            parcel.says.return_to(&mut lane.owed);
            self.store_lane(parcel.contact, effects);
        }
        Some(parcel)
    }

    /// Drops parcels that must not leave any more. Returns them for the carriers.
    pub fn take_back(&mut self, ids: Vec<ParcelId>, effects: &mut Effects) -> Vec<Dropped> {
        let dropped = ids
            .into_iter()
            .filter_map(|id| self.lose_parcel(id, effects).map(|parcel| parcel.into_dropped(id)));
        dropped.collect()
    }

    pub(super) fn drop_where(
        &mut self,
        contact: ContactId,
        which: impl Fn(&Parcel) -> bool,
        effects: &mut Effects,
    ) -> Vec<Dropped> {
        let ids = self.parcels_of(contact).filter(|(_, parcel)| which(parcel)).map(|(id, _)| id);
        let ids = ids.collect();
        self.take_back(ids, effects)
    }

    /// Loads a stored parcel.
    pub fn load_parcel(&mut self, id: ParcelId, parcel: Parcel, now: Time, effects: &mut Effects) {
        self.last_parcel = self.last_parcel.max(id.0);
        self.insert(id, parcel, now, effects);
    }

    /// Skips parcel numbers up to and including `id`.
    pub fn skip_parcel(&mut self, id: u64) {
        self.last_parcel = self.last_parcel.max(id);
    }
}
