//! The parcels that wait for a carrier, or are in its hands.

use alloc::vec::Vec;

use mezza_core::Time;

use super::{Burden, Outbox, Parcel};
use crate::io::{ContactId, Dropped, Due, ParcelId, RecordKind, Step, key64};

/// Parcels without a note of the person that may wait for one contact; what else is owed stays owed
/// (MSG-89).
const UNWRITTEN_MAX: usize = 8;

impl Outbox {
    /// A parcel waits for its carrier.
    pub fn add_parcel(&mut self, parcel: Parcel, now: Time, step: &mut Step) -> ParcelId {
        self.last_parcel += 1;
        let id = ParcelId(self.last_parcel);
        step.put(RecordKind::Parcel, key64(id.0), parcel.write());
        self.insert(id, parcel, now, step);
        id
    }

    pub(super) fn insert(&mut self, id: ParcelId, parcel: Parcel, now: Time, step: &mut Step) {
        step.set_timer(Due::Parcel(id), parcel.due(now));
        if parcel.route.invitation {
            self.invitations.insert((parcel.contact, id));
        }
        self.by_contact.insert((parcel.contact, id));
        self.parcels.insert(id, parcel);
    }

    /// One parcel.
    pub fn parcel(&self, id: ParcelId) -> Option<&Parcel> {
        self.parcels.get(&id)
    }

    /// Parcels that may leave, oldest first.
    pub fn ready_parcels(&self, now: Time) -> Vec<ParcelId> {
        let idle = self.parcels.iter().filter(|(_, parcel)| !parcel.out && parcel.after <= now);
        idle.map(|(id, _)| *id).collect()
    }

    /// The parcels of a contact.
    pub fn parcels_of(&self, contact: ContactId) -> impl Iterator<Item = (ParcelId, &Parcel)> {
        let range = (contact, ParcelId(0))..=(contact, ParcelId(u64::MAX));
        let own = self.by_contact.range(range);
        own.filter_map(|(_, id)| Some((*id, self.parcels.get(id)?)))
    }

    /// Returns true if another parcel without a note of the person may wait for a contact.
    pub fn has_room(&self, contact: ContactId) -> bool {
        let unwritten = self.parcels_of(contact).filter(|(_, parcel)| parcel.note.is_none());
        // Without a bound a contact could fill the outbox by its requests (MSG-35).
        unwritten.count() < UNWRITTEN_MAX
    }

    /// All parcels.
    pub fn parcels(&self) -> impl Iterator<Item = (ParcelId, &Parcel)> {
        self.parcels.iter().map(|(id, parcel)| (*id, parcel))
    }

    /// A carrier has it in hand, and hides it at this level.
    pub fn mark_out(&mut self, id: ParcelId, level: u8, now: Time, step: &mut Step) {
        self.update_parcel(id, now, step, |parcel| {
            (parcel.out, parcel.left_at) = (true, parcel.left_at.min(level));
        });
    }

    /// It goes again then, and again after that.
    pub fn retry_after(&mut self, id: ParcelId, after: Time, now: Time, step: &mut Step) {
        self.update_parcel(id, now, step, |parcel| {
            (parcel.out, parcel.after, parcel.times) =
                (false, after, parcel.times.saturating_add(1));
        });
    }

    /// The carrier did not take it.
    pub fn mark_refused(&mut self, id: ParcelId, after: Time, now: Time, step: &mut Step) {
        self.update_parcel(id, now, step, |parcel| (parcel.out, parcel.after) = (false, after));
    }

    /// These are not out any more.
    pub fn mark_returned(&mut self, ids: &[ParcelId], now: Time, step: &mut Step) {
        for id in ids {
            self.update_parcel(*id, now, step, |parcel| parcel.out = false);
        }
    }

    /// Something is to be done about it again.
    pub fn look_again(&mut self, id: ParcelId, now: Time, step: &mut Step) {
        self.update_parcel(id, now, step, |_| {});
    }

    pub(super) fn update_parcel(
        &mut self,
        id: ParcelId,
        now: Time,
        step: &mut Step,
        f: impl FnOnce(&mut Parcel),
    ) {
        if let Some(parcel) = self.parcels.get_mut(&id) {
            f(parcel);
            // The note has a receipt and the carrier has answered, so nothing is left to wait for.
            if parcel.confirmed && !parcel.out {
                self.drop_parcel(id, step);
                return;
            }
            step.set_timer(Due::Parcel(id), parcel.due(now));
        }
    }

    /// Forgets a parcel that was taken, or has no one to go to.
    pub fn drop_parcel(&mut self, id: ParcelId, step: &mut Step) -> Option<Parcel> {
        let parcel = self.parcels.remove(&id)?;
        self.invitations.remove(&(parcel.contact, id));
        self.by_contact.remove(&(parcel.contact, id));
        if !parcel.confirmed {
            step.drop_row(RecordKind::Parcel, key64(id.0));
        }
        step.set_timer(Due::Parcel(id), None);
        Some(parcel)
    }

    /// Forgets a parcel that does not arrive: what it says is owed again (MSG-105).
    pub fn lose_parcel(&mut self, id: ParcelId, step: &mut Step) -> Option<Parcel> {
        let parcel = self.drop_parcel(id, step)?;
        // Items that a parcel sends once are owed again if it is lost (MSG-105).
        if parcel.says != Burden::default()
            && let Some(lane) = self.lanes.get_mut(&parcel.contact)
        {
            parcel.says.return_to(&mut lane.owed);
            self.store_lane(parcel.contact, step);
        }
        Some(parcel)
    }

    /// Forgets parcels that need not leave any more.
    pub fn take_back(&mut self, ids: Vec<ParcelId>, step: &mut Step) -> Vec<Dropped> {
        let dropped = ids.into_iter().filter_map(|id| {
            let Parcel { contact, bytes, .. } = self.lose_parcel(id, step)?;
            Some(Dropped { id, contact, bytes })
        });
        dropped.collect()
    }

    pub(super) fn drop_where(
        &mut self,
        contact: ContactId,
        which: impl Fn(&Parcel) -> bool,
        step: &mut Step,
    ) -> Vec<Dropped> {
        let ids = self.parcels_of(contact).filter(|(_, parcel)| which(parcel)).map(|(id, _)| id);
        let ids = ids.collect();
        self.take_back(ids, step)
    }

    /// A parcel that was stored.
    pub fn load_parcel(&mut self, id: ParcelId, parcel: Parcel, now: Time, step: &mut Step) {
        self.last_parcel = self.last_parcel.max(id.0);
        self.insert(id, parcel, now, step);
    }

    /// No parcel gets this number any more.
    pub fn skip_parcel(&mut self, id: u64) {
        self.last_parcel = self.last_parcel.max(id);
    }
}
