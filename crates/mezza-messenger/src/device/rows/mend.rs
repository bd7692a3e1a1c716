//! State that is computed once all rows are loaded: indexes of the notes, and substitutes in the
//! place of what was quarantined.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::card::OFFLINE_PART;
use crate::carriers::Port;
use crate::device::{Parts, contact, own_card};
use crate::evidence::FactKind;
use crate::io::{At, ContactId, NoteId, Publication, RecordKind};
use crate::outbox::{FormerNote, UnreceiptedNote};

/// Makes what can stand in the place of what was quarantined.
pub(super) fn replace_lost<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let lost = parts.aside.digest_parcels();
    index_sent_notes(parts);
    // The digest changes only if other parcels are quarantined, so each change is handled at one
    // start.
    if parts.profile.update_mended(lost, at.step) && lost != [0; 16] {
        seal_again(parts, at);
    }
    wait_again(parts);
    // The card names a mailbox that did not load, so unknown senders could not write to us.
    if !parts.carriers.all_carriers().all(|one| one.supports_card(parts.profile.card().relays())) {
        // The same name and relays as on the card before, with another mailbox.
        own_card::reissue_card(parts, at);
    }
    follow_key_tree(parts, at);
    let publication = parts.aside.holds(RecordKind::Prekey, &Publication::KEY)
        || parts.aside.has_lost(RecordKind::Prekey);
    if publication && let Some(publication) = parts.sessions.current_publication() {
        parts.carriers.notify_all(|one| one.publish_again(&publication, at));
    }
}

/// Takes keys off the card that this device does not have: their tree did not load, or stayed on the
/// device from which this vault was moved (HIBE-93).
fn follow_key_tree<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let part = parts.profile.card().part(OFFLINE_PART);
    let provided = parts.carriers.all_carriers().filter_map(|one| one.card_part(at.now));
    let is_here = provided.into_iter().any(|(kind, _)| kind == OFFLINE_PART);
    if part.is_some() && !is_here {
        own_card::reissue_card(parts, at);
    }
}

/// Indexes our notes that were sealed and not confirmed.
fn index_sent_notes<P: Port>(parts: &mut Parts<P>) {
    for (id, note) in parts.threads.iter() {
        // Notes of an earlier era have no valid number any more (MSG-91).
        let own =
            !note.incoming && note.seq > 0 && note.era == contact::own_era(parts, note.contact);
        // A note with a read receipt needs no further proof.
        let read = note.facts.iter().any(|fact| fact.what == FactKind::Read);
        let is_former = !note.incoming && note.seq > 0 && !own;
        if is_former && !note.is_delivered() && !note.voided {
            // It was numbered before a restore: only that era's receipts stand for it.
            let former = FormerNote { era: note.era, seq: note.seq, note: id };
            parts.outbox.expect_former(note.contact, former);
        }
        if own && !read {
            parts.outbox.load_unreceipted(UnreceiptedNote {
                contact: note.contact,
                note: id,
                seq: note.seq,
                is_voided: note.voided,
                is_delivered: note.is_delivered(),
            });
        }
    }
}

fn under_way<P: Port>(parts: &Parts<P>) -> BTreeSet<NoteId> {
    parts.outbox.parcels().filter_map(|(_, parcel)| parcel.note).collect()
}

/// Handles a changed set of quarantined parcels, whose contacts are unknown: notes that may have
/// been in them are sealed again under the same numbers, and the items of the device are owed
/// again.
fn seal_again<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let out = under_way(parts);
    let lost = parts.threads.iter().filter(|(id, note)| {
        let handed = note.facts.iter().any(|fact| fact.what == FactKind::Handed);
        let own = !note.incoming && note.seq > 0 && !note.voided;
        own && !handed && !note.is_delivered() && !out.contains(id)
    });
    for id in lost.map(|(id, _)| id).collect::<Vec<_>>() {
        parts.threads.mark_for_resealing(id, at.step);
    }
    let all: Vec<ContactId> = parts.contacts.iter().map(|(id, _)| id).collect();
    for id in all {
        contact::owe_again(parts, id, at);
    }
}

/// Queues our notes that must be sealed.
fn wait_again<P: Port>(parts: &mut Parts<P>) {
    let out = under_way(parts);
    let waiting = parts.threads.iter().filter(|(id, note)| {
        let sealed = note.seq > 0 && !note.again;
        !note.incoming && !note.is_delivered() && !sealed && !out.contains(id)
    });
    let waiting = waiting.map(|(id, note)| (id, note.contact)).collect::<Vec<_>>();
    for (id, contact) in waiting {
        // The lost device may have sent it: it leaves once the user says so (BACKUP-23).
        if parts.outbox.is_unsure(contact, id) {
            parts.threads.hold(id);
        } else {
            parts.outbox.queue_note(contact, id);
        }
    }
}
