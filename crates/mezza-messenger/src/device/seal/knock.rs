//! Seals the first note to a contact of whom only the card is known (messenger 4.5).

use alloc::vec::Vec;

use super::{NoteDraft, compose_hello, compose_note};
use crate::carriers::Port;
use crate::device::knock::{KnockSides, MAC_BYTES, compute_mac};
use crate::device::{Parts, contact};
use crate::evidence::WaitReason;
use crate::io::{At, ContactId, KNOCK, NoteId, Reach};
use crate::note::{Item, Note};
use crate::outbox::Sealed;

/// Seals a note of the user, or without one the owed items, into a knock.
pub(super) fn seal_knock<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    reach: Reach,
    at: &mut At<'_>,
) {
    let Some((to, carriers)) = parts.facts_for_carriers(id) else { return };
    // Chains of a pair start inside a session only, so of the carriers' items the tag alone goes.
    let mut further: Vec<Item> =
        carriers.all_carriers_mut().filter_map(|one| one.take_owed_item(&to, at)).collect();
    further.retain(|item| matches!(item, Item::Tag(_)));
    let Some(contact) = parts.contacts.get(id) else { return };
    let ik = *contact.card.ik();
    let owed = parts.outbox.owed(id).map_or(0, |owed| owed.level);
    let level = if note.is_none() { owed } else { 0 };
    let written = note.and_then(|note| parts.threads.get(note));
    let pin = written.map_or(contact.policy.level_min.max(level), |note| note.level_min);
    // Without our bundle the reader could not answer.
    let Some(bundle) = parts.sessions.own_bundle() else { return };
    let carrier = parts.carriers.carrier(reach.route.carrier);
    let carrier = carrier.and_then(|one| one.state(None, at.now));
    let bytes_max = carrier.map_or(usize::MAX, |state| state.caps.parcel_bytes_max);
    let draft = NoteDraft { contact: id, note, reach: &reach, pin, items: &further };
    let Some((mut wire, spoken)) = compose_note(parts, &draft, at.now) else { return };
    // A knock begins with the card, by which the reader knows whose MAC this is.
    wire.items.retain(|item| !matches!(item, Item::Hello { .. }));
    wire.items.splice(0..0, compose_hello(parts, &reach.place));
    wire.items.push(Item::Bundle(bundle));
    let fits = |wire: &Note| size_of_val(&KNOCK) + wire.wire_bytes() + MAC_BYTES <= bytes_max;
    let mut spoken = Some(spoken);
    let mut carried = note;
    if !fits(&wire) {
        // Only what the reader needs to answer, and the text if it fits.
        spoken = None;
        let needed = |item: &Item| {
            matches!(item, Item::Hello { .. } | Item::Bundle(_) | Item::Tag(_) | Item::Text(_))
        };
        wire = wire.with_only(needed);
    }
    if let Some(waiting) = note.filter(|_| !fits(&wire)) {
        // The text goes in the session that the answer begins (MSG-25).
        parts.threads.set_wait_reason(waiting, WaitReason::Answer, at.step);
        wire = wire.with_only(|item| !matches!(item, Item::Text(_)));
        (wire.seq, carried) = (0, None);
    }
    // A greeting that is on its way is not repeated for each waiting note.
    if carried.is_none() && parts.outbox.parcels_of(id).next().is_some() {
        return;
    }
    let body = wire.encode();
    let own = parts.profile.identity();
    let writer = own.public_key();
    let sides = KnockSides { own: own.pair(), other: &ik, writer: &writer, reader: &ik };
    let Some(mac) = compute_mac::<P::Backend>(&sides, &reach.outer, &body) else { return };
    let bytes = [&[KNOCK], body.as_slice(), &mac].concat();
    if let Some(note) = carried {
        let by = reach.route.carrier;
        parts.threads.record_sealed(note, wire.era, wire.seq, by, at.step);
    }
    let is_former = wire.seq > 0 && wire.era != contact::own_era(parts, id);
    let route = reach.route;
    let wire = &wire;
    let sealed =
        Sealed { contact: id, note: carried, wire, is_former, spoken, route, pin, level, bytes };
    parts.outbox.record_sealed(sealed, at.now, at.step);
    if let Some((to, carriers)) = parts.facts_for_carriers(id) {
        carriers.notify_all(|one| one.on_items_sent(&to, &further, &mut None, at));
    }
}
