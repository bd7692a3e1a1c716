//! Handover of parcels to carriers, and recall of parcels.

use alloc::vec::Vec;

use mezza_core::Time;

use super::parts::{Parts, facts_of};
use crate::carriers::Port;
use crate::evidence::WaitReason;
use crate::io::{At, CarrierId, Dropped, Handover, Leaving, ParcelId};
use crate::outbox::Parcel;

/// Hands over all parcels that are ready, oldest first.
pub(super) fn hand_over_parcels<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    for id in parts.outbox.ready_parcels(at.now) {
        // The level is recorded at handover, as the lowest level that protected the parcel.
        if offer_parcel(parts, id, at) == Some(Handover::Out) {
            let level = parts.outbox.parcel(id).map_or(0, |out| level_of(parts, out, at.now));
            parts.outbox.mark_out(id, level, at.now, at.step);
            if let Some(note) = parts.outbox.parcel(id).and_then(|parcel| parcel.note) {
                parts.threads.set_wait_reason(note, WaitReason::Sending, at.step);
            }
        }
    }
}

fn offer_parcel<P: Port>(parts: &mut Parts<P>, id: ParcelId, at: &mut At<'_>) -> Option<Handover> {
    let parcel = parts.outbox.parcel(id)?;
    let pin = level_min(parts, parcel);
    let Parts { profile, contacts, sessions, outbox, carriers, .. } = parts;
    let parcel = outbox.parcel(id)?;
    let to = facts_of(contacts, profile, sessions, outbox, parcel.contact)?;
    let leaving = Leaving {
        id,
        to,
        route: &parcel.route,
        pin,
        own: parcel.note.is_some(),
        times: parcel.times,
        bytes: &parcel.bytes,
    };
    Some(carriers.carrier_mut(parcel.route.carrier)?.hand_over(&leaving, at))
}

/// Recalls parcels from a carrier whose level fell below theirs (MSG-20). Parcels of contacts that
/// are not served at this level stay with the carrier.
pub(super) fn recall_parcels<P: Port>(
    parts: &mut Parts<P>,
    carrier: CarrierId,
    level: u8,
    at: &mut At<'_>,
) {
    let above = |parcel: &Parcel| {
        let served = parts.contacts.get(parcel.contact).map_or(1, |of| of.policy.level_min);
        let ours = parcel.route.carrier == carrier && !parcel.confirmed;
        // A carrier that does not serve the contact below this level holds such parcels back
        // itself.
        ours && served <= level && level_min(parts, parcel) > level
    };
    let above = parts.outbox.parcels().filter(|(_, parcel)| above(parcel));
    let above = above.map(|(id, parcel)| Dropped {
        id,
        contact: parcel.contact,
        bytes: parcel.bytes.clone(),
    });
    let above: Vec<Dropped> = above.collect();
    let ids: Vec<ParcelId> = above.iter().map(|parcel| parcel.id).collect();
    parts.carriers.notify_all(|one| one.retract_parcels(&above, at));
    parts.outbox.mark_returned(&ids, at.now, at.step);
}

/// Returns the present level of the carrier of a parcel, or 1 if the carrier reports none.
pub(super) fn level_of<P: Port>(parts: &Parts<P>, parcel: &Parcel, now: Time) -> u8 {
    let to = parts.contact_facts(parcel.contact);
    let state =
        parts.carriers.carrier(parcel.route.carrier).and_then(|one| one.state(to.as_ref(), now));
    state.map_or(1, |state| state.caps.level)
}

/// Returns the lowest level at which a parcel may leave: that of its note, otherwise that of the
/// conversation.
pub(super) fn level_min<P: Port>(parts: &Parts<P>, parcel: &Parcel) -> u8 {
    let note = parcel.note.and_then(|note| parts.threads.get(note)).map(|note| note.level_min);
    let policy = parts.contacts.get(parcel.contact).map(|contact| contact.policy.level_min);
    // Items never leave below the level of the message that caused them (MSG-20).
    note.or(policy).unwrap_or(1).max(parcel.level)
}
