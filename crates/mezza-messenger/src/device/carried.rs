//! Handles the events of the carriers.

use alloc::vec::Vec;

use super::{Components, Turn};
use crate::carriers::{Carrier, Port};
use crate::error::DeviceError;
use crate::evidence::{Fact, FactKind, WaitReason};
use crate::io::{
    CarrierId, ContactId, DeliveryProblem, FetchPurpose, LostPlace, News, NoteId, ParcelId,
};
use crate::outbox::Owe;
use crate::view::Part;

impl<P: Port> Turn<'_, P> {
    /// Handles an input of the driver for one of the carriers. A refused input changes nothing.
    pub(super) fn handle_input(&mut self, input: P::Input) -> Result<(), DeviceError> {
        let seals = self.device.sessions.signed_prekeys();
        self.device.carriers.handle_input(input, &seals, &mut self.ctx)
    }

    /// Notifies a carrier that all rows up to `number` are durable.
    pub(super) fn confirm_durable(&mut self, carrier: CarrierId, number: u64) {
        if let Some(one) = self.device.carriers.carrier_mut(carrier) {
            one.on_durable(number, &mut self.ctx);
        }
    }

    /// Handles events of the carriers until there are none left. Returns true if there was one.
    pub(super) fn drain_carriers(&mut self) -> bool {
        let mut has_event = false;
        loop {
            if let Some(publication) = self.device.sessions.take_publication() {
                self.notify_carriers(|one, ctx| one.publish_prekeys(&publication, ctx));
            }
            let Some(news) = self.device.carriers.all_carriers_mut().find_map(Carrier::next_news)
            else {
                return has_event;
            };
            has_event = true;
            self.handle_news(news);
        }
    }

    fn handle_news(&mut self, news: News) {
        match news {
            News::Arrived(arrival) => self.receive_parcel(&arrival),
            News::Handed { parcel, again: None } => self.on_handed(parcel),
            News::Handed { parcel, again: Some(after) } => {
                // No receipt confirms that an invitation was read, so it is repeated.
                self.device.outbox.retry_after(parcel, after, self.ctx.now, self.ctx.effects);
                if let Some(parcel) = self.device.outbox.parcel(parcel) {
                    self.device.contacts.mark_asked(parcel.contact, self.ctx.effects);
                }
            }
            News::Carried { parcel, others } => self.on_carried(parcel, others),
            News::Expired(parcel) => self.on_expired(parcel),
            // If sealed again, the note fits or waits unsealed (MSG-25).
            News::Refused { parcel, why: WaitReason::TooBig, .. } => {
                if let Some(contact) =
                    self.device.outbox.parcel(parcel).map(|parcel| parcel.contact)
                {
                    self.requeue_notes(contact);
                }
            }
            News::Refused { parcel, why, after } => {
                self.device.outbox.mark_refused(parcel, after, self.ctx.now, self.ctx.effects);
                if let Some(note) = self.device.outbox.parcel(parcel).and_then(|parcel| parcel.note)
                {
                    self.device.threads.set_wait_reason(note, why, self.ctx.effects);
                }
            }
            News::Level(carrier, level) => self.recall_parcels(carrier, level),
            News::Apart(carrier, contact) => self.on_apart(carrier, contact),
            News::Twice(contact) => self.on_second_life(contact),
            News::Left(carrier, met) => self.on_carrier_left(carrier, &met),
            News::Returned(parcels) => {
                self.device.outbox.mark_returned(&parcels, self.ctx.now, self.ctx.effects);
            }
            News::Lost { contact, place } => self.on_place_lost(contact, place),
            News::Bundle { contact, purpose: FetchPurpose::Begin, bytes, one_time } => {
                self.begin_session(contact, &bytes, one_time);
            }
            News::Bundle { contact, purpose: FetchPurpose::Hold, bytes, one_time } => {
                self.hold_fetched_bundle(contact, &bytes, one_time);
            }
            News::Stock(left) => self.device.sessions.report_stock(left, &mut self.ctx),
            News::Unpublished => {
                if let Some(publication) = self.device.sessions.current_publication() {
                    self.notify_carriers(|one, ctx| one.publish_again(&publication, ctx));
                }
            }
            News::Foreign => self.device.sessions.offer_anew(self.ctx.now),
            News::Greet(contact) => self.device.outbox.owe(contact, Owe::Hello, self.ctx.effects),
            News::Called(contact) => self.on_called(contact),
            News::CardPart => self.follow_carriers(),
            News::InviterGone(id) => self.device.sessions.forget(id, self.ctx.effects),
            News::KeysReplaced => self.device.aside.release_part(Part::KeyTree),
        }
    }

    /// Records that the carrier took a parcel (MSG-11).
    fn on_handed(&mut self, id: ParcelId) {
        // The parcel was withdrawn while the carrier held it.
        let Some(parcel) = self.device.outbox.drop_parcel(id, self.ctx.effects) else { return };
        self.device.contacts.mark_asked(parcel.contact, self.ctx.effects);
        self.ctx.effects.touch(parcel.contact);
        if let Some(note) = parcel.note {
            let what = FactKind::Handed;
            let carrier = parcel.route.carrier;
            // The recorded level is the lower one of handover and confirmation.
            let level = self.device.carrier_level(&parcel, self.ctx.now).min(parcel.left_at);
            let fact = Fact { what, carrier, level, at: self.ctx.now };
            self.device.threads.add_fact(note, fact, parcel.route.until, self.ctx.effects);
        }
    }

    /// Records the number of other devices that announce a parcel.
    fn on_carried(&mut self, id: ParcelId, others: u16) {
        let Some(parcel) = self.device.outbox.parcel(id) else { return };
        // Other devices have the parcel, so the contact may answer from now on.
        self.device.contacts.mark_asked(parcel.contact, self.ctx.effects);
        let Some(note) = parcel.note else { return };
        let what = FactKind::Carried(others);
        let carrier = parcel.route.carrier;
        let level = self.device.carrier_level(parcel, self.ctx.now).min(parcel.left_at);
        self.device.threads.add_fact(
            note,
            Fact { what, carrier, level, at: self.ctx.now },
            None,
            self.ctx.effects,
        );
    }

    /// Handles a parcel that no carrier transports any more. Its note goes to the next carrier of
    /// the list, under the same number, and the other items of the parcel are owed again.
    fn on_expired(&mut self, id: ParcelId) {
        let dropped = self.device.outbox.lose_parcel(id, self.ctx.effects);
        // A note with a receipt has arrived, even if its parcel was lost.
        let Some(parcel) = dropped.filter(|parcel| !parcel.confirmed) else { return };
        let contact = parcel.contact;
        if let Some(note) = parcel.note {
            self.device.outbox.mark_tried(contact, note, parcel.route.carrier);
            self.device.threads.mark_for_resealing(note, self.ctx.effects);
        }
        self.retract_parcels(&[parcel.into_dropped(id)]);
        self.owe_again(contact);
    }

    /// Handles a carrier that was removed. Its parcels, and notes that it took and that have no
    /// receipt, are sent over another carrier that the conversation allows, or wait (MSG-97). A
    /// session that was begun over the carrier and not answered is replaced.
    fn on_carrier_left(&mut self, carrier: CarrierId, met: &[ContactId]) {
        self.device.aside.release_part(Part::NetworkRows);
        let stranded: Vec<ContactId> = self
            .device
            .contacts
            .iter()
            .map(|(id, _)| id)
            .filter(|id| self.device.has_unconfirmed(carrier, *id))
            .collect();
        for id in stranded {
            self.requeue_notes(id);
        }
        for id in met {
            // The session was begun over the removed carrier and cannot be confirmed any more.
            let unanswered =
                self.device.contacts.get(*id).is_some_and(|contact| !contact.is_open());
            if unanswered && self.device.sessions.session_facts(*id).pending {
                self.device.sessions.renew_session(*id, self.ctx.effects);
            }
        }
    }

    /// Handles a contact that may have lost the state that it shares with a carrier. Its parcels
    /// there are sent over another listed carrier that is up at their level, under the same numbers
    /// (MSG-129). Without such a carrier they wait.
    fn on_apart(&mut self, carrier: CarrierId, id: ContactId) {
        let Some(contact) = self.device.contacts.get(id).filter(|contact| contact.is_open()) else {
            return;
        };
        let to = self.device.contact_facts(id);
        let others = contact.policy.candidates().iter().filter(|by| **by != carrier);
        let states = others.filter_map(|by| {
            self.device.carriers.carrier(*by).and_then(|one| one.state(to.as_ref(), self.ctx.now))
        });
        let levels = states.filter(|state| state.up.is_ok()).map(|state| state.caps.level);
        // Without another carrier that is up the parcel waits as before (MSG-129).
        let Some(level) = levels.max() else { return };
        let waits = self.device.outbox.parcels_of(id).filter(|(_, parcel)| {
            parcel.route.carrier == carrier
                && !parcel.confirmed
                && self.device.parcel_level_min(parcel) <= level
        });
        let waits: Vec<(ParcelId, Option<NoteId>)> =
            waits.map(|(parcel, of)| (parcel, of.note)).collect();
        let dropped = self
            .device
            .outbox
            .take_back(waits.iter().map(|(parcel, _)| *parcel).collect(), self.ctx.effects);
        self.retract_parcels(&dropped);
        for note in waits.into_iter().filter_map(|(_, note)| note) {
            self.device.threads.mark_for_resealing(note, self.ctx.effects);
            self.device.outbox.queue_note(id, note);
        }
        if !dropped.is_empty() {
            self.owe_again(id);
        }
    }

    /// Handles the report that another copy of this vault sent to a contact. Numbers, sessions and
    /// chains start again, as after a receipt that shows this (MSG-91).
    fn on_second_life(&mut self, id: ContactId) {
        let is_open = |contact: &crate::contacts::Contact| contact.is_open() && contact.is_ours();
        // At most one new era in 10 minutes. A later one waits for its turn (MSG-91, MSG-132).
        if self.device.contacts.get(id).is_some_and(is_open)
            && self.device.outbox.wants_era(id, self.ctx.now, self.ctx.effects)
        {
            self.begin_era(id);
        }
    }

    /// Handles a lost mailbox of a contact. First the intro mailbox is tried, then the problem is
    /// reported to the user, who needs a newer card.
    fn on_place_lost(&mut self, id: ContactId, place: LostPlace) {
        match place {
            LostPlace::Intro => {
                self.device.contacts.report_trouble(id, DeliveryProblem::BoxGone, self.ctx.effects);
            }
            LostPlace::Current => self.device.sessions.renew_session(id, self.ctx.effects),
        }
        // Notes in parcels for the lost mailbox are sealed again for another place (4.2).
        self.requeue_notes(id);
    }

    /// Sends our hello to a contact that called.
    fn on_called(&mut self, id: ContactId) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        if !contact.is_open() {
            self.device.outbox.owe(id, Owe::Hello, self.ctx.effects);
        }
        // The call answers the invitation, so its repetition ends (4.4).
        let invitations: Vec<ParcelId> = self.device.outbox.invitations_to(id).collect();
        let dropped = self.device.outbox.take_back(invitations, self.ctx.effects);
        self.retract_parcels(&dropped);
        self.ctx.effects.touch(id);
    }
}

impl<P: Port> Components<P> {
    /// Returns true if a carrier took a parcel or note for a contact that has no receipt yet.
    fn has_unconfirmed(&self, carrier: CarrierId, id: ContactId) -> bool {
        let note = |note| self.threads.get(note).is_some_and(|note| note.carrier == Some(carrier));
        self.outbox.parcels_of(id).any(|(_, parcel)| parcel.route.carrier == carrier)
            || self.outbox.unanswered_notes(id).any(note)
    }
}
