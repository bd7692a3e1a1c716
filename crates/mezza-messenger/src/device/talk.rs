//! What the mixnet spends on contacts that talk (MSG-54).
//!
//! Each round in which somebody is served costs privacy, and what a contact says has it served for
//! ten minutes more. So a contact that keeps talking would use up everybody's rounds. The time that
//! goes to its talk alone is counted; above its part it is served only for what the person writes.

use alloc::vec::Vec;

use super::{Backend, CryptoRng, Device, Event, Time};
use crate::contact::Contact;
use crate::io::{ContactId, DeliveryProblem};
use crate::share::{TALK_MS, TALK_PART};
use mezza_mixnet::client;

impl<B: Backend> Device<B> {
    /// A contact said something in the mixnet, or calls.
    pub(super) fn heard(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let gap_ms = now.since_ms(contact.heard_at).min(TALK_MS);
        contact.heard_at = now;
        if contact.is_talked_to(now) {
            return;
        }
        contact.share.talk(gap_ms, now);
        self.store_contact(id);
        self.heed(id, now, rng);
    }

    /// How long the mixnet may serve one contact in a year for its talk alone.
    fn talk_max_ms(&self, now: Time) -> Option<u64> {
        let policy = self.net.as_ref()?.policy(now)?;
        Some((policy.rounds / TALK_PART).saturating_mul(policy.interval_ms.into()))
    }

    /// Tells the client whether what a contact says has it served.
    pub(super) fn heed(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        let Some(most_ms) = self.talk_max_ms(now) else { return };
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let over = contact.share.talked_ms(now) >= most_ms;
        let muted = over && !contact.is_talked_to(now);
        let news = core::mem::replace(&mut contact.muted, muted) != muted;
        if news || muted {
            // Whom the client does not know it does not serve.
            let _ = self.tell_client(client::Input::Mute(id.0, muted), now, rng);
        }
        if news {
            self.show(Event::Contact(id));
        }
        if news && muted {
            self.show(Event::Trouble(id, DeliveryProblem::Talk));
        }
    }

    /// When the first contact that is not served for its talk has another year for it.
    pub(super) fn next_year(&self) -> Option<Time> {
        let muted = self.contacts.values().filter(|contact| contact.muted);
        muted.map(|contact| contact.share.year_end()).min()
    }

    /// A year is over, and each contact has its part of the next one.
    pub(super) fn turn_years(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let due = |contact: &&Contact<B>| contact.muted && contact.share.year_end() <= now;
        let due = self.contacts.values().filter(due).map(|contact| contact.id);
        for id in due.collect::<Vec<_>>() {
            if let Some(contact) = self.contacts.get_mut(&id) {
                contact.share.talk(0, now);
                self.store_contact(id);
            }
            self.heed(id, now, rng);
        }
    }

    /// The client has started: it knows of none.
    pub(super) fn heed_all(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        for id in self.contacts.keys().copied().collect::<Vec<_>>() {
            self.heed(id, now, rng);
        }
    }
}
