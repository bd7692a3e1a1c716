//! What the person may look at. Nothing here changes anything.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Backend, Device, NoteId, RejectCounts, Time};
use crate::card::{Card, CardError, CardForm};
use crate::carriers::mixnet::LENGTH_BYTES;
use crate::carriers::{CarrierCaps, CarrierId};
use crate::contact::Contact;
use crate::envelope::PARCEL_BYTES_MAX;
use crate::guest::IncomingInvitation;
use crate::io::{ContactId, DeliveryProblem};
use crate::name::looks_like;
use crate::thread::StoredNote;
use crate::view::{
    CarrierEstimate, ConnectionView, ContactView, IdentityView, InvitationView, NetworkView,
    NoteView, PrekeysView, SetAside,
};
use mezza_mixnet::Service;
use mezza_ratchet::{SessionSummary, safety};

/// Bytes of a first message around its body: prefix, header, hello and padding at the most.
const AROUND_BYTES: usize = 2_048;

impl<B: Backend> Device<B> {
    /// The own identity.
    pub fn me(&self) -> IdentityView {
        let card = &self.profile.card;
        IdentityView {
            name: self.profile.name.clone(),
            ik: *self.identity.public().as_bytes(),
            serial: card.serial(),
            issued: card.issued_days(),
            suites: card.suites().ids().to_vec(),
            relays: self.profile.relays.clone(),
            one_time_stock: self.stock,
        }
    }

    /// The own prekeys, in numbers.
    pub fn prekeys(&self, now: Time) -> PrekeysView {
        let (sessions_today, without_one_time) = self.prekeys.sessions_of_day(now);
        PrekeysView {
            signed: self.prekeys.signed_prekey_lifetimes().collect(),
            until: self.prekeys.current_not_after(),
            one_time_held: self.prekeys.one_time_count(),
            one_time_stock: self.stock,
            sessions_today,
            without_one_time,
        }
    }

    /// The own card in one of its forms.
    pub fn card(&self, form: CardForm) -> Result<Card, CardError> {
        self.profile.card.form(form)
    }

    /// All contacts, requests and blocked ones too, in the order in which they came.
    pub fn contacts(&self) -> Vec<ContactView> {
        self.contacts.values().map(|contact| self.contact_view(contact)).collect()
    }

    /// One contact.
    pub fn contact(&self, id: ContactId) -> Option<ContactView> {
        self.contacts.get(&id).map(|contact| self.contact_view(contact))
    }

    /// Those who invite over the mixnet and have shown no card, in the order in which they came.
    pub fn guests(&self) -> Vec<InvitationView> {
        let view = |guest: &IncomingInvitation<B>| InvitationView {
            id: guest.id,
            ik: *guest.ik.as_bytes(),
            at: guest.at,
            asked: guest.asked.is_some(),
        };
        self.guests.values().map(view).collect()
    }

    /// The contact with this identity key.
    pub fn contact_by_ik(&self, ik: &[u8; 32]) -> Option<ContactId> {
        let found = self.contacts.values().find(|c| c.card.ik().as_bytes() == ik);
        found.map(|contact| contact.id)
    }

    /// The newest `limit` notes of a thread older than `before`, oldest first.
    pub fn thread(
        &self,
        id: ContactId,
        before: Option<NoteId>,
        limit: usize,
        now: Time,
    ) -> Vec<NoteView> {
        let Some(thread) = self.threads.get(&id) else { return Vec::new() };
        let end = before.unwrap_or(NoteId(u64::MAX));
        let ids = thread.range(..end).rev().take(limit);
        let mut notes: Vec<NoteView> = ids.filter_map(|id| self.note(*id, now)).collect();
        notes.reverse();
        notes
    }

    /// One note.
    pub fn note(&self, id: NoteId, now: Time) -> Option<NoteView> {
        self.notes.get(&id).map(|entry| note_view(id, entry, now))
    }

    /// Own notes that are neither delivered nor given up, oldest first.
    pub fn outbox(&self, now: Time) -> Vec<NoteView> {
        let waiting = self.notes.iter().filter(|(_, entry)| entry.is_waiting(now));
        waiting.map(|(id, entry)| note_view(*id, entry, now)).collect()
    }

    /// The note that a client's number has become.
    pub fn sent(&self, client: &[u8; 16]) -> Option<NoteId> {
        self.clients.get(client).copied()
    }

    /// The safety number: 60 digits, and the bytes for a code to scan.
    pub fn number(&self, id: ContactId) -> Option<(String, Vec<u8>)> {
        let (local, remote) = (self.identity.public(), self.contacts.get(&id)?.card.ik());
        Some((safety::number(&local, remote), safety::scannable(&local, remote)))
    }

    /// The active session with a contact, in numbers.
    pub fn session(&self, id: ContactId) -> Option<SessionSummary> {
        self.contacts.get(&id)?.conversation.summary()
    }

    /// The connections that this device keeps, and what they can do now.
    pub fn roads(&self, now: Time) -> Vec<ConnectionView> {
        let road = |link: &super::RelayState| ConnectionView {
            carrier: CarrierId::RELAY,
            relay: Some(link.entry.clone()),
            own: self.profile.relays.iter().any(|own| own.shares_line(&link.entry)),
            up: link.up.is_some(),
            caps: link.up.unwrap_or(CarrierCaps::RELAY),
        };
        let net = self.net.as_ref().map(|net| ConnectionView {
            carrier: CarrierId::MIXNET,
            relay: None,
            own: true,
            up: net.joined,
            caps: net.caps(now),
        });
        self.links.values().map(road).chain(net).collect()
    }

    /// The mixnet, if one was joined.
    pub fn network(&self, now: Time) -> Option<NetworkView> {
        let net = self.net.as_ref()?;
        let (config, policy) = (net.config(now), net.policy(now));
        let ledger = net.client.ledger();
        Some(NetworkView {
            link: net.member.link.clone(),
            network: config.map(|config| config.network),
            up: net.joined,
            level: net.level,
            demo: net.demo,
            policy: policy.cloned(),
            round: policy.and_then(|policy| policy.round_at(now)),
            users: net.client.users(),
            mixes: config.map_or(0, |config| config.mixes.len()),
            rounds_used: ledger.map_or(0, |ledger| ledger.used(Service::Conversation)),
            alarms: net.alarms,
            clock_off: net.clock_off,
        })
    }

    /// What each carrier could do with a text of so many bytes for this contact.
    pub fn preview(&self, id: ContactId, text_bytes: usize, now: Time) -> Vec<CarrierEstimate> {
        let Some(contact) = self.contacts.get(&id) else { return Vec::new() };
        let relay = contact.relay();
        let link = relay.and_then(|relay| self.links.get(&relay.line()));
        let caps = link.and_then(|link| link.up).unwrap_or(CarrierCaps::RELAY);
        let parcel = contact.conversation.message_bytes(text_bytes);
        let parcel = parcel.map_or(text_bytes + AROUND_BYTES, |bytes| bytes + 1);
        let listed = contact.policy.carriers.contains(&CarrierId::RELAY);
        let fits = relay.is_some() && listed && caps.level >= contact.policy.level_min;
        let relay = CarrierEstimate {
            carrier: CarrierId::RELAY,
            caps,
            up: link.is_some_and(|link| link.up.is_some()),
            fits: fits && parcel <= PARCEL_BYTES_MAX,
            pieces: parcel.div_ceil(caps.piece_bytes),
        };
        let cells = self.net.as_ref().map(|net| {
            let caps = net.caps(now);
            let listed = contact.policy.carriers.contains(&CarrierId::MIXNET);
            let pieces = (parcel + LENGTH_BYTES).div_ceil(caps.piece_bytes);
            let fits =
                listed && caps.level >= contact.policy.level_min && pieces <= caps.pieces_max;
            CarrierEstimate { carrier: CarrierId::MIXNET, caps, up: net.joined, fits, pieces }
        });
        core::iter::once(relay).chain(cells).collect()
    }

    /// What is stored and did not load at the last start.
    pub fn set_aside(&self) -> Vec<SetAside> {
        self.aside.view()
    }

    /// Counts of what came in and was of no use.
    pub fn refusals(&self) -> RejectCounts {
        self.refusals
    }

    fn contact_view(&self, contact: &Contact<B>) -> ContactView {
        let thread = self.threads.get(&contact.id);
        let windows = contact.arrived.values();
        let muted = contact.muted.then_some(DeliveryProblem::Talk);
        let refused = Some(contact.share.refused()).filter(|notes| *notes > 0);
        let same_name = |other: &&Contact<B>| {
            let names = [other.name(), other.card.name()];
            let own = [contact.name(), contact.card.name()];
            let same = |name: &&str| own.iter().any(|own| looks_like(own, name));
            other.id != contact.id && names.iter().any(same)
        };
        ContactView {
            id: contact.id,
            name: contact.name().into(),
            claimed: contact.card.name().into(),
            ik: *contact.card.ik().as_bytes(),
            standing: contact.standing(),
            verified: contact.verified,
            policy: contact.policy.clone(),
            suites: contact.card.suites().ids().to_vec(),
            relay: contact.card.relays().first().cloned(),
            absent_parts: contact.card.absent_parts(),
            unread: contact.unseen.notes as usize,
            last: thread.and_then(|thread| thread.last().copied()),
            missing: windows.map(|(arrived, _)| arrived.missing()).sum(),
            trouble: contact.trouble.or(refused.map(DeliveryProblem::Share)).or(muted),
            namesake: self.contacts.values().any(|other| same_name(&other)),
        }
    }
}

fn note_view(id: NoteId, entry: &StoredNote, now: Time) -> NoteView {
    NoteView {
        id,
        contact: entry.contact,
        incoming: entry.incoming,
        body: entry.body.clone(),
        sent: entry.sent,
        at: entry.at,
        state: entry.state(now),
        facts: entry.facts.clone(),
        due: entry.due(),
        carrier: entry.carrier,
        level_min: entry.level_min,
    }
}
