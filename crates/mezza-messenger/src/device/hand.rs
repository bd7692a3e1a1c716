//! Handover of parcels to carriers, and recall of parcels.

use alloc::vec::Vec;

use mezza_core::Time;

use super::Turn;
use super::components::{Components, collect_facts};
use crate::carriers::Port;
use crate::evidence::WaitReason;
use crate::io::{CarrierId, Dropped, Handover, Leaving, ParcelId};
use crate::outbox::Parcel;

impl<P: Port> Turn<'_, P> {
    /// Hands over all parcels that are ready, oldest first.
    pub(super) fn hand_over_parcels(&mut self) {
        for id in self.device.outbox.ready_parcels(self.ctx.now) {
            let why = match self.offer_parcel(id) {
                // The level is recorded at handover, as the lowest level that protected the parcel.
                Some(Handover::Out) => {
                    let parcel = self.device.outbox.parcel(id);
                    let level =
                        parcel.map_or(0, |parcel| self.device.carrier_level(parcel, self.ctx.now));
                    self.device.outbox.mark_out(id, level, self.ctx.now, self.ctx.effects);
                    Some(WaitReason::Sending)
                }
                Some(Handover::Waits) => self.find_trouble(id),
                None => None,
            };
            let note = self.device.outbox.parcel(id).and_then(|parcel| parcel.note);
            if let Some((note, why)) = note.zip(why) {
                self.device.threads.set_wait_reason(note, why, self.ctx.effects);
            }
        }
    }

    /// Returns why the carrier of a sealed parcel is not up. It may have gone down after it took the
    /// parcel.
    fn find_trouble(&self, id: ParcelId) -> Option<WaitReason> {
        let Components { profile, contacts, sessions, outbox, carriers, .. } = &*self.device;
        let parcel = outbox.parcel(id)?;
        let to = collect_facts(contacts, profile, sessions, outbox, parcel.contact)?;
        carriers.carrier(parcel.route.carrier)?.state(Some(&to), self.ctx.now)?.up.err()
    }

    /// Offers a parcel to the carrier of its route. Returns `None` if the parcel, its contact or
    /// the carrier does not exist.
    fn offer_parcel(&mut self, id: ParcelId) -> Option<Handover> {
        let parcel = self.device.outbox.parcel(id)?;
        let pin = self.device.parcel_level_min(parcel);
        let Components { profile, contacts, sessions, outbox, carriers, .. } = &mut *self.device;
        let parcel = outbox.parcel(id)?;
        let to = collect_facts(contacts, profile, sessions, outbox, parcel.contact)?;
        let leaving = Leaving {
            id,
            to,
            route: &parcel.route,
            pin,
            own: parcel.note.is_some(),
            times: parcel.times,
            bytes: &parcel.bytes,
        };
        Some(carriers.carrier_mut(parcel.route.carrier)?.hand_over(&leaving, &mut self.ctx))
    }

    /// Recalls parcels from a carrier whose level fell below theirs (MSG-20). Parcels of contacts
    /// that are not served at this level stay with the carrier.
    pub(super) fn recall_parcels(&mut self, carrier: CarrierId, level: u8) {
        let above = |parcel: &Parcel| {
            let served =
                self.device.contacts.get(parcel.contact).map_or(1, |of| of.policy.level_min);
            let ours = parcel.route.carrier == carrier && !parcel.confirmed;
            // A carrier that does not serve the contact below this level holds such parcels back
            // itself.
            ours && served <= level && self.device.parcel_level_min(parcel) > level
        };
        let above = self.device.outbox.parcels().filter(|(_, parcel)| above(parcel));
        let above = above.map(|(id, parcel)| Dropped {
            id,
            contact: parcel.contact,
            bytes: parcel.bytes.clone(),
            loses_root: false,
        });
        let above: Vec<Dropped> = above.collect();
        let ids: Vec<ParcelId> = above.iter().map(|parcel| parcel.id).collect();
        self.retract_parcels(&above);
        self.device.outbox.mark_returned(&ids, self.ctx.now, self.ctx.effects);
    }
}

impl<P: Port> Components<P> {
    /// Returns the present level of the carrier of a parcel, or 1 if the carrier reports none.
    pub(super) fn carrier_level(&self, parcel: &Parcel, now: Time) -> u8 {
        let to = self.contact_facts(parcel.contact);
        let state =
            self.carriers.carrier(parcel.route.carrier).and_then(|one| one.state(to.as_ref(), now));
        state.map_or(1, |state| state.caps.level)
    }

    /// Returns the lowest level at which a parcel may leave: that of its note, otherwise that of
    /// the conversation.
    pub(super) fn parcel_level_min(&self, parcel: &Parcel) -> u8 {
        let note = parcel.note.and_then(|note| self.threads.get(note)).map(|note| note.level_min);
        let policy = self.contacts.get(parcel.contact).map(|contact| contact.policy.level_min);
        // Items never leave below the level of the message that caused them (MSG-20).
        note.or(policy).unwrap_or(1).max(parcel.level)
    }
}
