//! Sealing a note: what it says beside the text of the person, and what of that fits.
//!
//! Notes are sealed as late as possible, so that what waits burns no chain keys (messenger 5.3).

mod receipts;

use alloc::vec::Vec;

use mezza_core::Time;

use super::apply::inventory;
use super::{Parts, contact, first};
use crate::carriers::Port;
use crate::evidence::WaitReason;
use crate::io::{At, ContactId, HelloPlace, NoteId, RATCHET_MESSAGE, Reach};
use crate::note::{Item, Note};
use crate::outbox::{Owed, Sealed, Spoken};

/// Voids in one note, oldest first; they are said until a receipt passes them.
const VOIDS_IN_NOTE: usize = 24;

/// Seals a note of the person (or none, for what is owed alone) into a parcel.
pub(super) fn seal_note<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    reach: Reach,
    at: &mut At<'_>,
) {
    let Some((to, carriers)) = parts.facts_for_carriers(id) else { return };
    let mut items = carriers.take_owed_items(&to, at);
    let Some(contact) = parts.contacts.get(id) else { return };
    let owed = parts.outbox.owed(id).map_or(0, |owed| owed.level);
    // Only items without a user note depend on the level of their cause. A note has its own
    // (MSG-20).
    let level = if note.is_none() { owed } else { 0 };
    let written = note.and_then(|note| parts.threads.get(note));
    let pin = written.map_or(contact.policy.level_min.max(level), |note| note.level_min);
    // A bundle is longer than most texts: it goes beside receipts where there are any.
    if note.is_none() || !contact.policy.delivered {
        let bundle = first::to_tell(parts, id, (reach.route.carrier, pin));
        items.extend(bundle.map(Item::Bundle));
    }
    let Some((wire, spoken)) = compose_fitting(parts, id, note, (&reach, pin), &items, at) else {
        return;
    };
    let how = (reach.paddings, reach.outer.as_slice());
    let Ok(message) = parts.sessions.seal_message(id, &wire.encode(), how, at) else { return };
    let bytes = [&[RATCHET_MESSAGE], message.as_slice()].concat();
    if let Some(note) = note {
        let number = (wire.era, wire.seq);
        let carrier = reach.route.carrier;
        parts.threads.record_sealed(note, number, carrier, at.step);
    }
    let route = reach.route;
    let is_former = wire.seq > 0 && wire.era != contact::own_era(parts, id);
    let wire = &wire;
    let sealed = Sealed { contact: id, note, wire, is_former, spoken, route, pin, level, bytes };
    parts.outbox.record_sealed(sealed, at.now, at.step);
    if wire.items.iter().any(|item| matches!(item, Item::Bundle(_))) {
        parts.sessions.mark_bundle_sent(id, at.step);
    }
    let said: Vec<Item> = items.into_iter().filter(|item| wire.items.contains(item)).collect();
    if let Some((to, carriers)) = parts.facts_for_carriers(id) {
        carriers.on_items_sent(&to, &said, None, at);
    }
}

/// The fullest note that the carrier takes: with what is owed and what it says of that, else with the
/// text alone (MSG-25).
/// `None`: in a session that nobody has answered not even that fits beside what begins it, so that the
/// greeting goes ahead alone.
fn compose_fitting<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    (reach, pin): (&Reach, u8),
    items: &[Item],
    at: &mut At<'_>,
) -> Option<(Note, Option<Spoken>)> {
    let carrier = parts.carriers.state(reach.route.carrier, None, at.now);
    let bytes_max = carrier.map_or(usize::MAX, |state| state.caps.parcel_bytes_max);
    let fits = |wire: &Note| {
        let message = parts.sessions.message_bytes(id, wire.encode().len());
        message.is_some_and(|bytes| bytes + size_of_val(&RATCHET_MESSAGE) <= bytes_max)
    };
    let (full, spoken) =
        compose_note(parts, id, note, (&reach.place, pin), items.to_vec(), at.now)?;
    // Owed items that do not fit wait. The text of the user goes first (MSG-25).
    let Some(note) = note.filter(|_| !fits(&full)) else { return Some((full, Some(spoken))) };
    let answered = parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_open);
    let bare = full.with_only(|item| match item {
        Item::Text(_) => true,
        // Without it nobody knows who writes.
        Item::Hello { .. } => !answered,
        _ => false,
    });
    if fits(&bare) {
        return Some((bare, None));
    }
    // After the greeting is answered, messages have no header and the text fits.
    let pending = parts.sessions.session_facts(id).pending;
    let why = if pending { WaitReason::Answer } else { WaitReason::TooBig };
    parts.threads.set_wait_reason(note, why, at.step);
    None
}

/// The note on the wire: the person's text, if any, and whatever is owed to the contact; what it says
/// of that.
fn compose_note<P: Port>(
    parts: &Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    (place, pin): (&HelloPlace, u8),
    further: Vec<Item>,
    now: Time,
) -> Option<(Note, Spoken)> {
    let all = parts.outbox.owed(id)?;
    // What is owed does not ride on a note that may go below the level of its cause (MSG-20).
    let nothing = Owed::default();
    let owed = if all.level <= pin { all } else { &nothing };
    let mut items = Vec::new();
    if parts.sessions.session_facts(id).pending || owed.hello {
        items.extend(compose_hello(parts, place));
    }
    if let Some(cause) = owed.anew {
        items.extend([Item::Reset(cause), Item::Retry]);
    }
    if owed.inventory {
        items.extend(inventory::owed_items(parts, id));
    }
    let (receipts, spoken) = receipts::collect_receipts(&parts.threads, id, owed);
    items.extend(receipts);
    let mut era = contact::own_era(parts, id);
    let voids = all.voids.iter().take(VOIDS_IN_NOTE);
    items.extend(voids.map(|&(from, to)| Item::Void { era, from, to }));
    // What has no number is never acknowledged: until the contact is known to have it, each note of the
    // person says the timer again (MSG-105).
    if owed.timer || note.is_some() && parts.outbox.timer_is_open(id) {
        items.push(Item::Timer(parts.contacts.get(id)?.policy.timer_s));
    }
    if owed.card {
        items.push(Item::Card(parts.profile.card().encode()));
    }
    // Which timer this side goes by stands in what the device itself says, too.
    let own = parts.contacts.get(id).map_or(0, |contact| contact.policy.timer_s);
    let mut seq = 0;
    let mut sent = now;
    let mut timer_s = own;
    if let Some(note) = note {
        let note = parts.threads.get(note)?;
        items.push(Item::Text(note.text()?.clone()));
        if note.seq == 0 {
            seq = parts.outbox.next_seq(id);
        } else {
            // A note that a restore brought back keeps its era: the reader knows it by that (BACKUP-22).
            (era, seq) = (note.era, note.seq);
        }
        (sent, timer_s) = (note.sent, note.timer_s);
    }
    items.extend(further);
    Some((Note { era, seq, sent, timer_s, items }, spoken))
}

/// Where the contact reaches us, and our card. A mailbox that is not open yet is said once it is;
/// without a relay of our own the tag alone says whose cells these are.
fn compose_hello<P: Port>(parts: &Parts<P>, place: &HelloPlace) -> Option<Item> {
    let own = parts.profile.card();
    let (slot, tag) = match place {
        HelloPlace::Mailbox(mailbox) => (Some(mailbox.clone()), None),
        HelloPlace::Tag => (None, Some(own.id()[..8].try_into().unwrap_or([0; 8]))),
        HelloPlace::NotYet => return None,
    };
    Some(Item::Hello { slot, tag, card: own.encode() })
}
