//! State that is computed once all rows are loaded: indexes of the notes, and substitutes for
//! quarantined rows.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::card::OFFLINE_PART;
use crate::carriers::Port;
use crate::device::{Components, Turn};
use crate::evidence::FactKind;
use crate::io::{ContactId, NoteId, Publication, RecordKind};
use crate::outbox::{FormerNote, UnreceiptedNote};

impl<P: Port> Turn<'_, P> {
    /// Creates substitutes for quarantined rows.
    pub(super) fn replace_quarantined(&mut self) {
        let lost = self.device.aside.digest_parcels();
        self.index_sent_notes();
        // The digest changes only if other parcels are quarantined, so each change is handled at
        // one start.
        if self.device.profile.update_mended(lost, self.ctx.effects) && lost != [0; 16] {
            self.mark_lost_for_resealing();
        }
        self.queue_unsealed();
        // The card names a mailbox that did not load, so unknown senders could not write to us.
        let relays = self.device.profile.card().relays();
        if !self.device.carriers.all_carriers().all(|one| one.supports_card(relays)) {
            // The new card has the same name and relays, and another mailbox.
            self.reissue_card();
        }
        self.remove_lost_keys();
        let publication = self.device.aside.holds(RecordKind::Prekey, &Publication::KEY)
            || self.device.aside.has_lost(RecordKind::Prekey);
        if publication && let Some(publication) = self.device.sessions.current_publication() {
            self.notify_carriers(|one, ctx| one.publish_again(&publication, ctx));
        }
    }

    /// Removes keys from our card that this device does not have: their tree did not load, or is on
    /// the device from which this vault was moved (HIBE-93).
    fn remove_lost_keys(&mut self) {
        let part = self.device.profile.card().part(OFFLINE_PART);
        let provided =
            self.device.carriers.all_carriers().filter_map(|one| one.card_part(self.ctx.now));
        let is_here = provided.into_iter().any(|(kind, _)| kind == OFFLINE_PART);
        if part.is_some() && !is_here {
            self.reissue_card();
        }
    }

    /// Indexes our notes that were sealed and not confirmed.
    fn index_sent_notes(&mut self) {
        for (id, note) in self.device.threads.iter() {
            // Notes of an earlier era have no valid number any more (MSG-91).
            let own =
                !note.incoming && note.seq > 0 && note.era == self.device.own_era(note.contact);
            // A note with a read receipt needs no further proof.
            let read = note.facts.iter().any(|fact| fact.what == FactKind::Read);
            let is_former = !note.incoming && note.seq > 0 && !own;
            if is_former && !note.is_delivered() && !note.voided {
                // The note was numbered before a restore: only receipts of that era confirm it.
                let former = FormerNote { era: note.era, seq: note.seq, note: id };
                self.device.outbox.expect_former(note.contact, former);
            }
            if own && note.is_delivered() {
                self.device.outbox.cover_notes(note.contact, note.seq);
            }
            if own && !read {
                self.device.outbox.load_unreceipted(UnreceiptedNote {
                    contact: note.contact,
                    note: id,
                    seq: note.seq,
                    is_voided: note.voided,
                    is_delivered: note.is_delivered(),
                });
            }
        }
    }

    /// Handles a changed set of quarantined parcels, whose contacts are unknown: notes that may
    /// have been in them are sealed again under the same numbers, and the items of the device are
    /// owed again.
    fn mark_lost_for_resealing(&mut self) {
        let out = self.device.notes_in_parcels();
        let lost = self.device.threads.iter().filter(|(id, note)| {
            let handed = note.facts.iter().any(|fact| fact.what == FactKind::Handed);
            let own = !note.incoming && note.seq > 0 && !note.voided;
            own && !handed && !note.is_delivered() && !out.contains(id)
        });
        for id in lost.map(|(id, _)| id).collect::<Vec<_>>() {
            self.device.threads.mark_for_resealing(id, self.ctx.effects);
        }
        let all: Vec<ContactId> = self.device.contacts.iter().map(|(id, _)| id).collect();
        for id in all {
            self.owe_again(id);
        }
    }

    /// Queues our notes that must be sealed.
    fn queue_unsealed(&mut self) {
        let out = self.device.notes_in_parcels();
        let waiting = self.device.threads.iter().filter(|(id, note)| {
            let sealed = note.seq > 0 && !note.again;
            !note.incoming && !note.is_delivered() && !sealed && !out.contains(id)
        });
        let waiting = waiting.map(|(id, note)| (id, note.contact)).collect::<Vec<_>>();
        for (id, contact) in waiting {
            // The lost device may have sent the note: it is sent at the user's request (BACKUP-23).
            if self.device.outbox.is_unsure(contact, id) {
                self.device.threads.hold(id);
            } else {
                self.device.outbox.queue_note(contact, id);
            }
        }
    }
}

impl<P: Port> Components<P> {
    fn notes_in_parcels(&self) -> BTreeSet<NoteId> {
        self.outbox.parcels().filter_map(|(_, parcel)| parcel.note).collect()
    }
}
