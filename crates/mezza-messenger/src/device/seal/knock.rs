//! Seals the first note to a contact of whom only the card is known (messenger 4.5).

use alloc::vec::Vec;

use super::NoteDraft;
use crate::carriers::Port;
use crate::device::Turn;
use crate::device::knock::{KnockSides, MAC_BYTES, compute_mac};
use crate::evidence::WaitReason;
use crate::io::{ContactId, KNOCK, NoteId, Reach};
use crate::note::{Item, Note};
use crate::outbox::Sealed;

impl<P: Port> Turn<'_, P> {
    /// Seals a note of the user into a knock. Without a note, seals the owed items.
    pub(super) fn seal_knock(&mut self, id: ContactId, note: Option<NoteId>, reach: Reach) {
        let Some((to, carriers)) = self.device.facts_for_carriers(id) else { return };
        // The chains of a pair start inside a session, so the tag is the only item of carriers
        // here.
        let mut further: Vec<Item> = carriers
            .all_carriers_mut()
            .filter_map(|one| one.take_owed_item(&to, &mut self.ctx))
            .collect();
        further.retain(|item| matches!(item, Item::Tag(_)));
        let Some(contact) = self.device.contacts.get(id) else { return };
        let ik = *contact.card.ik();
        let owed = self.device.outbox.owed(id).map_or(0, |owed| owed.level);
        let level = if note.is_none() { owed } else { 0 };
        let written = note.and_then(|note| self.device.threads.get(note));
        let pin = written.map_or(contact.policy.level_min.max(level), |note| note.level_min);
        // Without our bundle the reader could not answer.
        let Some(bundle) = self.device.sessions.own_bundle() else { return };
        let carrier = self.device.carriers.carrier(reach.route.carrier);
        let carrier = carrier.and_then(|one| one.state(None, self.ctx.now));
        let bytes_max = carrier.map_or(usize::MAX, |state| state.caps.parcel_bytes_max);
        let draft = NoteDraft { contact: id, note, reach: &reach, pin, items: &further };
        let Some((mut wire, spoken)) = self.device.compose_note(&draft, self.ctx.now) else {
            return;
        };
        // A knock begins with the card, from which the reader takes the key of the MAC.
        wire.items.retain(|item| !matches!(item, Item::Hello { .. }));
        wire.items.splice(0..0, self.device.compose_hello(&reach.place));
        wire.items.push(Item::Bundle(bundle));
        let fits = |wire: &Note| size_of_val(&KNOCK) + wire.wire_bytes() + MAC_BYTES <= bytes_max;
        let mut spoken = Some(spoken);
        let mut carried = note;
        if !fits(&wire) {
            // The reader needs hello and bundle to answer. The text goes along if it fits.
            spoken = None;
            let needed = |item: &Item| {
                matches!(item, Item::Hello { .. } | Item::Bundle(_) | Item::Tag(_) | Item::Text(_))
            };
            wire = wire.with_only(needed);
        }
        if let Some(waiting) = note.filter(|_| !fits(&wire)) {
            // The text goes in the session that the answer begins (MSG-25).
            self.device.threads.set_wait_reason(waiting, WaitReason::Answer, self.ctx.effects);
            wire = wire.with_only(|item| !matches!(item, Item::Text(_)));
            (wire.seq, carried) = (0, None);
        }
        // A knock that is on its way is not repeated for each waiting note.
        if carried.is_none() && self.device.outbox.parcels_of(id).next().is_some() {
            return;
        }
        let body = wire.encode();
        let own = self.device.profile.identity();
        let writer = own.public_key();
        let sides = KnockSides { own: own.pair(), other: &ik, writer: &writer, reader: &ik };
        let Some(mac) = compute_mac::<P::Backend>(&sides, &reach.outer, &body) else { return };
        let bytes = [&[KNOCK], body.as_slice(), &mac].concat();
        if let Some(note) = carried {
            let by = reach.route.carrier;
            self.device.threads.record_sealed(note, wire.era, wire.seq, by, self.ctx.effects);
        }
        let is_former = wire.seq > 0 && wire.era != self.device.own_era(id);
        let route = reach.route;
        let wire = &wire;
        let sealed = Sealed {
            contact: id,
            note: carried,
            wire,
            is_former,
            spoken,
            route,
            pin,
            level,
            bytes,
        };
        self.device.outbox.record_sealed(sealed, self.ctx.now, self.ctx.effects);
        if let Some((to, carriers)) = self.device.facts_for_carriers(id) {
            carriers.notify_all(|one| one.on_items_sent(&to, &further, &mut None, &mut self.ctx));
        }
    }
}
