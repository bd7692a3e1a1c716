//! Answers of a carrier to what was asked of it.

use super::way::FETCH_AGAIN_MS;
use super::{
    Backend, CryptoRng, Device, DeviceError, Event, Machine, PendingRequest, PrekeyUpload, Time,
};
use crate::contact::{ContactPhase, IntroMailbox};
use crate::evidence::{self, Fact, FactKind, WaitReason};
use crate::io::{ContactId, DeliveryProblem, LineId, RequestId};
use mezza_core::StaticKey;
use mezza_ratchet::{
    Bundle, BundleError, CheckedBundle, Exporter, OneTimePrekey, Session, prekeys,
};

/// DONE codes of the relay (messenger 3.6).
const NO_SUCH_BOX: u8 = 1;
const BOX_FULL: u8 = 2;
const SLOW_DOWN: u8 = 4;
/// Until a parcel that was refused without a time is tried again.
const REFUSED_AGAIN_S: u16 = 60;

impl<B: Backend> Device<B> {
    fn redeem(&mut self, ticket: RequestId) -> Result<PendingRequest, DeviceError> {
        self.tickets.remove(&ticket).map(|(_, asked)| asked).ok_or(DeviceError::NoSuchTicket)
    }

    /// The carrier has done it.
    pub(super) fn handed(&mut self, ticket: RequestId, now: Time) -> Result<(), DeviceError> {
        match self.redeem(ticket)? {
            PendingRequest::Parcel(id) => self.parcel_handed(id, now),
            PendingRequest::Open(slot) => self.mailbox_opened(slot),
            PendingRequest::Publish => self.announced(),
            PendingRequest::Close(_)
            | PendingRequest::Watch(_)
            | PendingRequest::Fetch(_)
            | PendingRequest::Hold(_) => {}
        }
        Ok(())
    }

    /// A fact: the relay took it (MSG-11).
    fn parcel_handed(&mut self, id: u64, now: Time) {
        if self.parcels.get(&id).is_some_and(|parcel| parcel.way.is_invitation()) {
            return self.invited_once(id, now);
        }
        let Some(parcel) = self.drop_parcel(id) else { return };
        let contact = parcel.contact;
        self.asked(contact);
        let Some(note) = parcel.note else { return };
        let Some(entry) = self.notes.get_mut(&note) else { return };
        let before = entry.due();
        entry.due = parcel.way.until();
        let after = entry.due();
        evidence::add(
            &mut entry.facts,
            Fact { what: FactKind::Handed, carrier: parcel.way.carrier(), at: now },
        );
        if let Some(before) = before {
            self.ends.remove(&(before, note));
        }
        self.ends.extend(after.map(|due| (due, note)));
        self.step.facts.push(Event::State(contact, note));
        self.store_note(note);
    }

    /// Something of ours is on its way to a contact.
    pub(super) fn asked(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get_mut(&id)
            && contact.stage == ContactPhase::Held
        {
            contact.stage = ContactPhase::Asked;
            self.store_contact(id);
            self.show(Event::Contact(id));
        }
    }

    /// The carrier has not done it.
    pub(super) fn refused(
        &mut self,
        ticket: RequestId,
        code: u8,
        retry_s: u16,
        now: Time,
    ) -> Result<(), DeviceError> {
        match self.redeem(ticket)? {
            PendingRequest::Parcel(id) => self.parcel_refused(id, code, retry_s, now),
            PendingRequest::Open(slot) | PendingRequest::Watch(slot) => {
                self.mailbox_refused(slot, code, retry_s, now);
            }
            PendingRequest::Publish => self.again(retry_s, now),
            PendingRequest::Fetch(contact) | PendingRequest::Hold(contact) if code == SLOW_DOWN => {
                let wait_ms = u64::from(retry_s.max(1)) * Time::SECOND_MS;
                self.fetch_later(contact, wait_ms, now);
            }
            PendingRequest::Fetch(contact) | PendingRequest::Hold(contact) => {
                self.fetch_later(contact, FETCH_AGAIN_MS, now);
            }
            PendingRequest::Close(_) => {}
        }
        Ok(())
    }

    fn fetch_later(&mut self, id: ContactId, wait_ms: u64, now: Time) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.fetch = None;
            contact.fetch_after = now.plus_ms(wait_ms);
        }
    }

    fn parcel_refused(&mut self, id: u64, code: u8, retry_s: u16, now: Time) {
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        parcel.ticket = None;
        let way = parcel.way.clone();
        self.landed(&way);
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        if code == NO_SUCH_BOX {
            return self.box_gone(id);
        }
        let (why, wait_s) = match code {
            BOX_FULL => (WaitReason::BoxFull, retry_s.max(1)),
            SLOW_DOWN => (WaitReason::Slow, retry_s.max(1)),
            _ => (WaitReason::Slow, REFUSED_AGAIN_S),
        };
        parcel.after = now.plus_ms(u64::from(wait_s) * Time::SECOND_MS);
        let (contact, note) = (parcel.contact, parcel.note);
        if let Some(note) = note
            && let Some(entry) = self.notes.get_mut(&note)
        {
            entry.why = why;
            self.show(Event::State(contact, note));
        }
    }

    /// The mailbox does not exist: first the intro mailbox is tried, then the person is asked.
    fn box_gone(&mut self, parcel: u64) {
        let Some(parcel) = self.parcels.get(&parcel) else { return };
        let (id, Some(place)) = (parcel.contact, parcel.way.place()) else { return };
        let (intro, address) = (place.intro, place.relay.address);
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if intro {
            self.trouble(id, DeliveryProblem::BoxGone);
        } else if contact.their_mailbox.as_ref().is_some_and(|slot| slot.relay.address == address) {
            contact.their_mailbox = None;
            contact.renew = true;
        }
        self.send_again(id);
        self.store_contact(id);
    }

    /// The bundle of a contact came: check it against the card, and begin.
    pub(super) fn bundle(
        &mut self,
        ticket: RequestId,
        bytes: &[u8],
        one_time: Option<OneTimePrekey>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        let asked = self.tickets.get(&ticket).map(|(_, asked)| *asked);
        let Some((id, hold)) = asked.and_then(PendingRequest::bundle) else {
            return Err(DeviceError::NoSuchTicket);
        };
        self.tickets.remove(&ticket);
        self.fetch_later(id, FETCH_AGAIN_MS, now);
        if hold {
            self.hold(id, bytes, one_time, now);
            return Ok(());
        }
        let Some(contact) = self.contacts.get(&id) else { return Ok(()) };
        let checked = Bundle::decode(bytes)
            .and_then(|bundle| bundle.check(contact.card.ik(), contact.card.suites(), now));
        let begun = checked.and_then(|checked| {
            let intro = IntroMailbox { spk: *checked.spk(), not_after: checked.not_after() };
            Ok((intro, self.initiate(checked, one_time, rng)?.0))
        });
        match begun {
            Ok((intro, session)) => self.begin(id, intro, session, now),
            Err(error) => self.trouble(id, DeliveryProblem::Bundle(error)),
        }
        Ok(())
    }

    /// What needs the person is told once, and stands at the contact until it is over.
    pub(super) fn trouble(&mut self, id: ContactId, trouble: DeliveryProblem) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if contact.trouble.replace(trouble) != Some(trouble) {
            self.show(Event::Trouble(id, trouble));
            self.show(Event::Contact(id));
        }
    }

    pub(super) fn initiate(
        &self,
        checked: CheckedBundle,
        one_time: Option<OneTimePrekey>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Session<B>, Exporter), BundleError> {
        checked.initiate::<B>(&self.identity, Self::fresh(rng), one_time, rng)
    }

    pub(super) fn begin(
        &mut self,
        id: ContactId,
        intro: IntroMailbox,
        session: Session<B>,
        now: Time,
    ) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let again = contact.renew;
        let changes = contact.conversation.add_session(session, now);
        contact.intro = Some(intro);
        contact.renew = false;
        let over = contact.trouble.take().is_some();
        contact.owed.hello = true;
        contact.fetch_after = Time::default();
        self.store_ratchet(id, changes);
        if again {
            self.send_again(id);
        }
        if over {
            self.show(Event::Contact(id));
        }
        self.store_contact(id);
    }

    /// How many one-time keys the relay has left.
    pub(super) fn stocked(&mut self, line: LineId, n: u16, now: Time, rng: &mut dyn CryptoRng) {
        if self.profile.relays.first().is_none_or(|own| own.line() != line) {
            return;
        }
        self.stock = Some(n);
        // The stock is a claim of the relay; the worst that a lie brings about is a refill.
        let left = u32::from(n) + self.stock_under_way();
        let _ = self.prekeys.handle(prekeys::Input::Stock(left), now, rng);
        self.drain_prekeys(now, rng);
    }

    /// One-time keys that the relay has not taken yet.
    pub(super) fn stock_under_way(&self) -> u32 {
        self.announcement.as_ref().map_or(0, |news| news.one_time.len() as u32)
    }

    /// Carries out what the prekeys want.
    pub(super) fn drain_prekeys(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.prekeys.poll() {
            match output {
                prekeys::Output::Need { spk, opk } => {
                    let spk = (0..spk).map(|_| StaticKey::random::<B>(rng)).collect();
                    let opk = (0..opk).map(|_| StaticKey::random::<B>(rng)).collect();
                    let fresh = prekeys::Input::Fresh { spk, opk };
                    // Exactly what was asked for is never refused.
                    let _ = self.prekeys.handle(fresh, now, rng);
                }
                prekeys::Output::Store(changes) => self.store_ratchet(ContactId(0), changes),
                prekeys::Output::Publish { bundle, one_time, replace } => {
                    self.announce(PrekeyUpload { bundle, one_time, replace });
                }
                prekeys::Output::Low => self.show(Event::Low),
            }
        }
    }
}
