//! Sealing of a note: selects the items that go with the user's text, and checks that they fit.
//!
//! Notes are sealed as late as possible, so that waiting notes use up no chain keys (messenger
//! 5.3).

mod knock;
mod receipts;

use alloc::vec::Vec;

use mezza_core::Time;

use super::{Components, Turn};
use crate::carriers::Port;
use crate::contacts::Contact;
use crate::evidence::WaitReason;
use crate::io::{ContactId, HelloPlace, NoteId, RATCHET_MESSAGE, Reach};
use crate::note::{Item, Note};
use crate::outbox::{Owed, Sealed, Spoken};

/// Most voids in one note, oldest first. They are repeated until a receipt covers them.
const VOIDS_IN_NOTE: usize = 24;

impl<P: Port> Turn<'_, P> {
    /// Seals a note of the user into a parcel, together with owed items. Without a note, seals the
    /// owed items.
    pub(super) fn seal_note(&mut self, id: ContactId, note: Option<NoteId>, reach: Reach) {
        let Some((to, carriers)) = self.device.facts_for_carriers(id) else { return };
        if carriers.carrier(reach.route.carrier).is_some_and(|one| one.needs_knock(&to)) {
            return self.seal_knock(id, note, reach);
        }
        let mut items: Vec<Item> = carriers
            .all_carriers_mut()
            .filter_map(|one| one.take_owed_item(&to, &mut self.ctx))
            .collect();
        let Some(contact) = self.device.contacts.get(id) else { return };
        let owed = self.device.outbox.owed(id).map_or(0, |owed| owed.level);
        // Only items without a user note depend on the level of their cause. A note has its own
        // (MSG-20).
        let level = if note.is_none() { owed } else { 0 };
        let written = note.and_then(|note| self.device.threads.get(note));
        let pin = written.map_or(contact.policy.level_min.max(level), |note| note.level_min);
        // A bundle is longer than most texts, so it goes with receipts if the conversation has
        // them.
        if note.is_none() || !contact.policy.delivered {
            let bundle = self.device.bundle_to_send(id, reach.route.carrier, pin);
            items.extend(bundle.map(Item::Bundle));
        }
        let draft = NoteDraft { contact: id, note, reach: &reach, pin, items: &items };
        let Some((wire, spoken)) = self.compose_fitting(&draft) else { return };
        let body = wire.encode();
        let sealed = self.device.sessions.seal_message(
            id,
            &body,
            reach.paddings,
            &reach.outer,
            &mut self.ctx,
        );
        let Ok(message) = sealed else { return };
        let bytes = [&[RATCHET_MESSAGE], message.as_slice()].concat();
        if let Some(note) = note {
            let carrier = reach.route.carrier;
            self.device.threads.record_sealed(note, wire.era, wire.seq, carrier, self.ctx.effects);
        }
        let route = reach.route;
        let is_former = wire.seq > 0 && wire.era != self.device.own_era(id);
        let wire = &wire;
        let sealed =
            Sealed { contact: id, note, wire, is_former, spoken, route, pin, level, bytes };
        self.device.outbox.record_sealed(sealed, self.ctx.now, self.ctx.effects);
        if wire.items.iter().any(|item| matches!(item, Item::Bundle(_))) {
            self.device.sessions.mark_bundle_sent(id, self.ctx.effects);
        }
        let sent: Vec<Item> = items.into_iter().filter(|item| wire.items.contains(item)).collect();
        if let Some((to, carriers)) = self.device.facts_for_carriers(id) {
            carriers.notify_all(|one| one.on_items_sent(&to, &sent, &mut None, &mut self.ctx));
        }
    }

    /// Composes the fullest note that the carrier accepts: with all owed items and the record of
    /// them, otherwise with the text of the user alone (MSG-25). Returns `None` if the text does
    /// not fit either. The note then waits for an answer, after which messages are shorter, or is
    /// too big.
    fn compose_fitting(&mut self, draft: &NoteDraft<'_>) -> Option<(Note, Option<Spoken>)> {
        let NoteDraft { contact: id, note, reach, .. } = *draft;
        let carrier = self
            .device
            .carriers
            .carrier(reach.route.carrier)
            .and_then(|one| one.state(None, self.ctx.now));
        let bytes_max = carrier.map_or(usize::MAX, |state| state.caps.parcel_bytes_max);
        let fits = |wire: &Note| {
            let message = self.device.sessions.message_bytes(id, wire.encode().len());
            message.is_some_and(|bytes| bytes + size_of_val(&RATCHET_MESSAGE) <= bytes_max)
        };
        let (full, spoken) = self.device.compose_note(draft, self.ctx.now)?;
        // Owed items that do not fit wait. The text of the user goes first (MSG-25).
        let Some(note) = note.filter(|_| !fits(&full)) else { return Some((full, Some(spoken))) };
        let answered = self.device.contacts.get(id).is_some_and(Contact::is_open);
        let bare = full.with_only(|item| match item {
            Item::Text(_) => true,
            // Without the hello the reader does not know who writes.
            Item::Hello { .. } => !answered,
            _ => false,
        });
        if fits(&bare) {
            return Some((bare, None));
        }
        // Once the hello is answered, messages have no header and the text fits.
        let pending = self.device.sessions.session_facts(id).pending;
        let why = if pending { WaitReason::Answer } else { WaitReason::TooBig };
        self.device.threads.set_wait_reason(note, why, self.ctx.effects);
        None
    }
}

/// The parts of a note that is composed for one route.
#[derive(Clone, Copy)]
struct NoteDraft<'a> {
    contact: ContactId,
    /// The note of the user; `None` if the device sends owed items alone.
    note: Option<NoteId>,
    reach: &'a Reach,
    /// The lowest level by which the note may leave.
    pin: u8,
    /// Items of the carriers.
    items: &'a [Item],
}

impl<P: Port> Components<P> {
    /// Returns the note on the wire, with the user's text if there is one and with owed items, and
    /// the record of these items.
    fn compose_note(&self, draft: &NoteDraft<'_>, now: Time) -> Option<(Note, Spoken)> {
        let NoteDraft { contact: id, note, reach, pin, items: further } = *draft;
        let all = self.outbox.owed(id)?;
        // Owed items are not attached to a note that may leave below the level of their cause
        // (MSG-20).
        let nothing = Owed::default();
        let owed = if all.level <= pin { all } else { &nothing };
        let mut items = Vec::new();
        if self.sessions.session_facts(id).pending || owed.hello {
            items.extend(self.compose_hello(&reach.place));
        }
        if let Some(cause) = owed.anew {
            items.extend([Item::Reset(cause), Item::Retry]);
        }
        if owed.inventory {
            items.extend(self.owed_inventories(id));
        }
        let (receipts, spoken) = receipts::collect_receipts(&self.threads, id, owed);
        items.extend(receipts);
        let mut era = self.own_era(id);
        let voids = all.voids.iter().take(VOIDS_IN_NOTE);
        items.extend(voids.map(|&(from, to)| Item::Void { era, from, to }));
        // Timers have no number and are never acknowledged. Each note of the user therefore repeats
        // the timer until the contact is known to have it (MSG-105).
        if owed.timer || note.is_some() && self.outbox.timer_is_open(id) {
            items.push(Item::Timer(self.contacts.get(id)?.policy.timer_s));
        }
        if owed.card {
            items.push(Item::Card(self.profile.card().encode()));
        }
        // Device-generated notes also state our timer.
        let own = self.contacts.get(id).map_or(0, |contact| contact.policy.timer_s);
        let mut seq = 0;
        let mut sent = now;
        let mut timer_s = own;
        if let Some(note) = note {
            let note = self.threads.get(note)?;
            items.push(Item::Text(note.text()?.clone()));
            if note.seq == 0 {
                seq = self.outbox.next_seq(id);
            } else {
                // A restored note keeps its era, by which the reader recognises it (BACKUP-22).
                (era, seq) = (note.era, note.seq);
            }
            (sent, timer_s) = (note.sent, note.timer_s);
        }
        items.extend_from_slice(further);
        Some((Note { era, seq, sent, timer_s, items }, spoken))
    }

    /// Returns a hello with our mailbox for the contact and our card. A mailbox that is not open
    /// yet is announced later. Without a relay of ours, the tag identifies the writer of cells.
    fn compose_hello(&self, place: &HelloPlace) -> Option<Item> {
        let own = self.profile.card();
        let (slot, tag) = match place {
            HelloPlace::Mailbox(mailbox) => (Some(mailbox.clone()), None),
            HelloPlace::Tag => (None, Some(own.id()[..8].try_into().unwrap_or([0; 8]))),
            HelloPlace::NotYet => return None,
        };
        Some(Item::Hello { slot, tag, card: own.encode() })
    }
}
