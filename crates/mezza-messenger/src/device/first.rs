//! The start of a session: from a contact's bundle, or with an invitation.

use alloc::vec::Vec;

use mezza_core::{Time, Wiping};
use mezza_ratchet::prekeys::BUNDLE_VALID_D;
use mezza_ratchet::{BundleError, CheckedBundle, Exporter, OneTimePrekey, Padding, SuiteList};

use super::{Components, Turn};
use crate::carriers::Port;
use crate::evidence::WaitReason;
use crate::io::{
    CarrierId, ContactId, DeliveryProblem, Event, FirstTerms, Forget, ResetCause, Route,
};
use crate::note::Note;
use crate::outbox::{Owe, Parcel};
use crate::sessions::{HeldBundle, Sessions};

/// Longest remaining lifetime of a fresh bundle in milliseconds, if the issuer's clock is a day
/// ahead.
const BUNDLE_MS_MAX: u64 = (BUNDLE_VALID_D + 1) * Time::DAY_MS;

impl<P: Port> Turn<'_, P> {
    /// Handles the fetched bundle of a contact: checks it against the card and begins a session.
    pub(super) fn begin_session(
        &mut self,
        id: ContactId,
        bundle: &[u8],
        one_time: Option<OneTimePrekey>,
    ) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        // A bundle from the relay is accepted only if the identity key of the card signed it
        // (MSG-8).
        let checked = Sessions::<P::Backend>::check_bundle(
            &contact.card,
            bundle,
            &SuiteList::our_suites(),
            self.ctx.now,
        );
        if let Err(error) = checked.and_then(|checked| self.begin_from(id, checked, one_time)) {
            self.device.contacts.report_trouble(
                id,
                DeliveryProblem::Bundle(error),
                self.ctx.effects,
            );
        }
        self.ctx.effects.touch(id);
    }

    /// Begins a session from a checked bundle. Returns the exporter of the session.
    fn begin_from(
        &mut self,
        id: ContactId,
        bundle: CheckedBundle,
        one_time: Option<OneTimePrekey>,
    ) -> Result<Exporter, BundleError> {
        let spk = *bundle.spk();
        let not_after = bundle.not_after();
        let begun = self.device.sessions.begin_session(id, bundle, one_time, &mut self.ctx)?;
        self.notify_carriers(|one, ctx| one.on_session_begun(id, spk, not_after, ctx));
        self.device.outbox.owe(id, Owe::Hello, self.ctx.effects);
        self.device.contacts.clear_trouble(id, |_| true, self.ctx.effects);
        // Notes sealed in the old session may not have arrived.
        if begun.again {
            self.requeue_notes(id);
        }
        Ok(begun.exporter)
    }

    /// Handles a bundle that an invitation waits for.
    pub(super) fn hold_fetched_bundle(
        &mut self,
        id: ContactId,
        bytes: &[u8],
        one_time: Option<OneTimePrekey>,
    ) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        let suites = SuiteList::without_kem();
        // The bundle is checked on arrival, so that an unusable one does not wait for days (MSG-8).
        let held = HeldBundle::new(bytes, one_time).and_then(|held| {
            Sessions::<P::Backend>::check_bundle(&contact.card, &held.bytes, &suites, self.ctx.now)
                .map(|_| held)
        });
        match held {
            Ok(held) => self.device.sessions.hold_bundle(id, held, self.ctx.effects),
            Err(error) => self.device.contacts.report_trouble(
                id,
                DeliveryProblem::Bundle(error),
                self.ctx.effects,
            ),
        }
    }

    /// Handles a bundle that a contact sent (MSG-100). An upgrade to the better suite of a fetched
    /// bundle is tried first.
    pub(super) fn on_bundle_received(&mut self, id: ContactId, bytes: &[u8]) {
        self.upgrade_suite(id);
        let Some(contact) = self.device.contacts.get(id).filter(|contact| contact.is_ours()) else {
            return;
        };
        let suites = SuiteList::our_suites();
        let held = self.device.sessions.held_bundle(id);
        let check = |bytes| {
            Sessions::<P::Backend>::check_bundle(&contact.card, bytes, &suites, self.ctx.now)
        };
        // The bundle is repeated after each session, so an equal one needs no check.
        if held.is_some_and(|held| held.bytes == bytes) {
            return;
        }
        // A malformed bundle is counted and dropped (MSG-100).
        let Ok(new) = check(bytes) else { return self.device.threads.count_malformed() };
        let old = held.filter(|held| held.told).and_then(|held| check(&held.bytes).ok());
        // A bundle that ends too late is from a clock that is ahead, or our clock is behind. It is
        // kept, because the contact sends it only once, but every other bundle is preferred
        // (MSG-110).
        let latest = self.ctx.now.plus_ms(BUNDLE_MS_MAX);
        let end = |bundle: &CheckedBundle| Some(bundle.not_after()).filter(|end| *end <= latest);
        // Notes may arrive out of order, so the bundle that ends later is kept.
        if old.as_ref().and_then(end) <= end(&new) {
            self.device.sessions.hold_bundle(id, HeldBundle::from_contact(bytes), self.ctx.effects);
        }
    }

    /// Begins a session from the bundle that a contact sent, if no carrier of the conversation can
    /// fetch one at this pin (MSG-100).
    pub(super) fn begin_from_sent_bundle(&mut self, id: ContactId, pin: u8) {
        let Some(held) = self.device.sessions.held_bundle(id).filter(|held| held.told) else {
            return self.stay_in_session(id, pin);
        };
        let Some(contact) = self.device.contacts.get(id) else { return };
        // A fetched bundle has a one-time key and is preferred (MSG-100).
        if self.device.sessions.session_facts(id).is_usable()
            || self.device.is_bundle_fetched(id, pin)
        {
            return;
        }
        let card = &contact.card;
        let ours = SuiteList::our_suites();
        let checked = Sessions::<P::Backend>::check_bundle(card, &held.bytes, &ours, self.ctx.now);
        if checked.and_then(|checked| self.begin_from(id, checked, None)).is_err() {
            // The bundle has expired, or the card has changed: the note waits for keys.
            self.device.sessions.drop_held(id, self.ctx.effects);
        }
    }

    /// Keeps the present session if a message did not open and no bundle for another session is
    /// available. The request for lost messages is sent in the present session. The contact may
    /// still have it, and sends its bundle with the answer.
    fn stay_in_session(&mut self, id: ContactId, pin: u8) {
        let facts = self.device.sessions.session_facts(id);
        // Only a loss can be repaired inside the session. Any other cause, such as a restored
        // vault, needs keys that no other copy has, so it waits for a bundle.
        let lost =
            self.device.outbox.owed(id).and_then(|owed| owed.anew) == Some(ResetCause::Lost as u8);
        // A session that seals nothing any more carries no request either.
        let can_seal = self.device.sessions.can_seal(id, self.ctx.now);
        if lost && facts.renew && can_seal && !self.device.is_bundle_fetched(id, pin) {
            self.device.sessions.keep_session(id, self.ctx.effects);
        }
    }

    /// Handles a session reset by the user for a contact that is not met in the mixnet. If only the
    /// mixnet serves the conversation, another session in the same chains would not reach the
    /// contact either. The contact is invited again, from the bundle that it sent (MSG-130).
    pub(super) fn leave_lost_chains(&mut self, id: ContactId) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        let trouble = self.device.carriers.all_carriers().find_map(|one| one.trouble(id));
        let is_lost = trouble == Some(DeliveryProblem::Absent);
        let is_told = self.device.sessions.held_bundle(id).is_some_and(|held| held.told);
        if is_lost && is_told && !self.device.is_bundle_fetched(id, contact.policy.level_min) {
            self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::Chains, ctx));
            self.requeue_notes(id);
        }
    }

    /// Begins a session with the suites that fit into an invitation, and seals the invitation.
    /// Returns the reason why later notes wait.
    pub(super) fn begin_invitation(
        &mut self,
        id: ContactId,
        carrier: CarrierId,
        terms: &FirstTerms,
    ) -> WaitReason {
        let (Some(held), Some(contact)) =
            (self.device.sessions.held_bundle(id), self.device.contacts.get(id))
        else {
            return WaitReason::Keys;
        };
        if contact.is_open() && self.device.is_bundle_fetched(id, contact.policy.level_min) {
            // Another carrier of the conversation begins the session, with a one-time key
            // (MSG-100).
            return WaitReason::Keys;
        }
        let checked = Sessions::<P::Backend>::check_bundle(
            &contact.card,
            &held.bytes,
            &terms.suites,
            self.ctx.now,
        );
        // An expired bundle is dropped, so that the next fetch replaces it.
        if checked.as_ref().is_err_and(|error| *error == BundleError::Expired) {
            self.device.sessions.drop_held(id, self.ctx.effects);
            return WaitReason::Keys;
        }
        match checked.and_then(|checked| {
            let until = checked.not_after().plus_ms(terms.beyond_ms);
            let one_time = self.device.sessions.take_one_time(id, self.ctx.effects);
            Ok((until, self.begin_from(id, checked, one_time)?))
        }) {
            Ok((until, exporter)) => {
                let route =
                    Route { carrier, until: Some(until), invitation: true, address: [].into() };
                // The message does not have the exact size of an invitation, so the notes wait for
                // other keys.
                if !self.send_invitation(id, terms, route) {
                    return WaitReason::Keys;
                }
                // The same bundle is kept, because a better suite is negotiated from it later.
                self.device.sessions.hold_for_upgrade(id, self.ctx.effects);
                if let Some((to, carriers)) = self.device.facts_for_carriers(id) {
                    let mut exporter = Some(exporter);
                    carriers.notify_all(|one| {
                        one.on_items_sent(&to, &terms.items, &mut exporter, &mut self.ctx);
                    });
                }
                WaitReason::Answer
            }
            Err(error) => {
                self.device.contacts.report_trouble(
                    id,
                    DeliveryProblem::Bundle(error),
                    self.ctx.effects,
                );
                WaitReason::Bundle
            }
        }
    }

    /// Seals an invitation. Returns true if it has the right size.
    fn send_invitation(&mut self, id: ContactId, terms: &FirstTerms, route: Route) -> bool {
        let era = self.device.own_era(id);
        let items = terms.items.clone();
        // The note has no number, because nothing confirms that an invitation was read.
        let note = Note { era, seq: 0, sent: self.ctx.now, timer_s: 0, items };
        let body: Wiping<_> = note.encode();
        let padding = [Padding::To(terms.bytes)];
        match self.device.sessions.seal_message(id, &body, &padding, &[], &mut self.ctx) {
            // Another length would show that the message is not an invitation.
            Ok(message) if message.len() == terms.bytes => {
                self.device.outbox.add_parcel(
                    Parcel::new(id, None, route, message),
                    self.ctx.now,
                    self.ctx.effects,
                );
                true
            }
            _ => false,
        }
    }

    /// Replaces the session of an invitation by one of a better suite, after the contact has
    /// answered and if both support it. The initiator of the active session begins the better one.
    /// If both sides invited, and each continues in the session of the other, no side does.
    pub(super) fn upgrade_suite(&mut self, id: ContactId) {
        let Some(contact) = self.device.contacts.get(id).filter(|contact| contact.is_open()) else {
            return;
        };
        let Some(held) = self.device.sessions.held_bundle(id).filter(|held| !held.told) else {
            return;
        };
        let checked = Sessions::<P::Backend>::check_bundle(
            &contact.card,
            &held.bytes,
            &SuiteList::our_suites(),
            self.ctx.now,
        );
        // The bundle is tried once: if it is unusable now, it stays unusable.
        self.device.sessions.drop_held(id, self.ctx.effects);
        let (Ok(checked), Some(active)) = (checked, self.device.sessions.summary(id)) else {
            return;
        };
        // Only a better suite is worth another session, and only one side begins it.
        if checked.suite() <= active.suite || !active.initiator {
            return;
        }
        if self.begin_from(id, checked, None).is_ok() {
            self.ctx.effects.show(Event::Contact(id));
        }
    }
}

impl<P: Port> Components<P> {
    /// Returns true if a carrier of the conversation fetches the contact's bundle at this pin.
    fn is_bundle_fetched(&self, id: ContactId, pin: u8) -> bool {
        let (Some(to), Some(contact)) = (self.contact_facts(id), self.contacts.get(id)) else {
            return false;
        };
        let candidates = contact.policy.candidates().iter();
        candidates
            .filter_map(|by| self.carriers.carrier(*by))
            .any(|one| one.can_fetch_bundle(&to, pin))
    }

    /// Returns our bundle if it must be sent to a contact over this carrier, or `None`. It is sent
    /// if the carrier cannot fetch bundles, or if the contact sent its own bundle (MSG-100).
    pub(super) fn bundle_to_send(
        &self,
        id: ContactId,
        carrier: CarrierId,
        pin: u8,
    ) -> Option<Vec<u8>> {
        let contact = self.contacts.get(id).filter(|contact| contact.is_open())?;
        let to = self.contact_facts(id)?;
        let told = self.sessions.held_bundle(id).is_some_and(|held| held.told);
        let listed = contact.policy.candidates().contains(&carrier);
        let carrier = self.carriers.carrier(carrier);
        let is_fetched = carrier.is_some_and(|one| one.can_fetch_bundle(&to, pin));
        // A contact that can fetch our bundle does not need it in a note (MSG-100).
        (listed && (told || !is_fetched)).then(|| self.sessions.to_tell(id))?
    }
}
