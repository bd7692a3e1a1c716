//! Views for the user. The methods of this file change nothing.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::Time;
use mezza_ratchet::safety;

use super::Components;
use crate::carriers::{Bundles, Carrier, Port, Routing};
use crate::contacts::Contact;
use crate::evidence::NoteState;
use crate::io::{CarrierId, ContactId, DeliveryProblem, Missing, NoteId, RouteTerms};
use crate::name::looks_like;
use crate::threads::StoredNote;
use crate::view::{
    CarrierEstimate, ConnectionView, ContactView, IdentityView, LeavingView, NoteView, PrekeysView,
    RestoreMark, RestoredView,
};

/// Most bytes of a first message around its body: prefix, header, hello and padding.
const AROUND_BYTES: usize = 2_048;

/// Numbers of rejected inputs; they identify no sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectCounts {
    /// Envelopes that no key opened.
    pub envelopes: u64,
    /// Ratchet messages that no session opened.
    pub messages: u64,
    /// Decrypted messages whose content was not a valid note.
    pub notes: u64,
}

impl<P: Port> Components<P> {
    /// Returns the numbers of rejected inputs by reason.
    pub(super) fn collect_reject_counts(&self) -> RejectCounts {
        RejectCounts {
            envelopes: self.carriers.all_carriers().map(Routing::rejected_count).sum(),
            messages: self.sessions.rejected_count(),
            notes: self.threads.rejected_count(),
        }
    }

    /// Returns the number of one-time keys that other devices can fetch, or `None` if no carrier
    /// reports it.
    fn find_one_time_stock(&self) -> Option<u16> {
        self.carriers.all_carriers().find_map(Bundles::prekey_stock)?.0
    }

    /// Returns the view of our identity.
    pub(super) fn view_identity(&self) -> IdentityView {
        let card = self.profile.card();
        IdentityView {
            name: card.name().into(),
            ik: *card.ik().as_bytes(),
            serial: card.serial(),
            issued: card.issued_days(),
            suites: card.suites().ids().to_vec(),
            relays: card.relays().to_vec(),
            one_time_stock: self.find_one_time_stock(),
        }
    }

    /// Returns numbers about our prekeys.
    pub(super) fn view_prekeys(&self, now: Time) -> PrekeysView {
        let prekeys = self.sessions.prekeys();
        let (sessions_today, without_one_time) = prekeys.sessions_of_day(now);
        PrekeysView {
            signed: prekeys.signed_prekey_lifetimes().collect(),
            until: prekeys.current_not_after(),
            one_time_held: prekeys.one_time_count(),
            one_time_stock: self.find_one_time_stock(),
            sessions_today,
            without_one_time,
        }
    }

    /// Returns the views of all contacts, oldest first.
    pub(super) fn view_contacts(&self) -> Vec<ContactView> {
        self.contacts.iter().map(|(id, contact)| self.describe_contact(id, contact)).collect()
    }

    /// Returns the view of one contact.
    pub(super) fn view_contact(&self, id: ContactId) -> Option<ContactView> {
        self.contacts.get(id).map(|contact| self.describe_contact(id, contact))
    }

    /// Returns the view of a contact, with the problems that its carriers report.
    fn describe_contact(&self, id: ContactId, contact: &Contact) -> ContactView {
        let refused = Some(self.threads.refused_count(id)).filter(|notes| *notes > 0);
        let talk = self.carriers.all_carriers().find_map(|one| one.trouble(id));
        // Both the names that the user gave and the names that contacts claim are compared (MSG-7).
        let own = [contact.name(), contact.card.name()];
        let same_name = |(other, contact): (ContactId, &Contact)| {
            let mut names = [contact.name(), contact.card.name()].into_iter();
            other != id && names.any(|name| own.iter().any(|own| looks_like(own, name)))
        };
        ContactView {
            id,
            name: contact.name().into(),
            claimed: contact.card.name().into(),
            ik: *contact.card.ik().as_bytes(),
            standing: contact.state(),
            verified: contact.verified,
            policy: contact.policy.clone(),
            suites: contact.card.suites().ids().to_vec(),
            relay: contact.card.relays().first().cloned(),
            absent_parts: contact.card.absent_parts(),
            unread: self.threads.count_unseen(id),
            last: self.threads.thread_notes(id).next_back(),
            missing: self.threads.count_missing(id),
            trouble: contact.trouble.or(refused.map(DeliveryProblem::Share)).or(talk),
            namesake: self.contacts.iter().any(same_name),
            restored: self.outbox.aftermath(id).map(|left| RestoredView {
                made: Some(left.made).filter(|made| made.as_ms() > 0),
                ahead: left.ahead,
                unsure: left.unsure.len(),
                lost: left.lost.len(),
            }),
        }
    }

    /// Returns the newest `limit` notes of a thread that are older than `before`, oldest first.
    pub(super) fn view_thread(
        &self,
        id: ContactId,
        before: Option<NoteId>,
        limit: usize,
        now: Time,
    ) -> Vec<NoteView> {
        let older = self.threads.notes_before(id, before.unwrap_or(NoteId(u64::MAX)));
        let view = |id: NoteId| self.view_note(id, now);
        let mut notes: Vec<NoteView> = older.rev().take(limit).filter_map(view).collect();
        notes.reverse();
        notes
    }

    /// Returns our notes that are neither delivered nor given up, oldest first.
    pub(super) fn view_outbox(&self, now: Time) -> Vec<NoteView> {
        let waiting = self.threads.iter().filter(|(_, note)| note.is_waiting(now));
        waiting.filter_map(|(id, _)| self.view_note(id, now)).collect()
    }

    /// Returns the safety number: 60 digits, and the bytes of the code to scan.
    pub(super) fn compute_safety_number(&self, id: ContactId) -> Option<(String, Vec<u8>)> {
        let local = self.profile.identity().public_key();
        let remote = self.contacts.get(id)?.card.ik();
        Some((safety::number(&local, remote), safety::scannable_code(&local, remote)))
    }

    /// Returns the connections of all carriers.
    pub(super) fn view_connections(&self, now: Time) -> Vec<ConnectionView> {
        self.carriers.collect_all(|one| {
            let carrier = one.id();
            one.connections(now).into_iter().map(move |connection| ConnectionView {
                carrier,
                relay: connection.relay,
                own: connection.own,
                up: connection.up,
                places: connection.places,
                left: connection.left,
                caps: connection.caps,
            })
        })
    }

    /// Returns the estimate of each carrier for a text of `text_bytes` bytes to this contact.
    pub(super) fn estimate_carriers(
        &self,
        id: ContactId,
        text_bytes: usize,
        now: Time,
    ) -> Vec<CarrierEstimate> {
        let to = self.contact_facts(id);
        let (Some(contact), Some(to)) = (self.contacts.get(id), to) else { return Vec::new() };
        let parcel = self.sessions.message_bytes(id, text_bytes);
        let parcel = parcel.map_or(text_bytes + AROUND_BYTES, |bytes| bytes + 1);
        let policy = &contact.policy;
        let terms = RouteTerms { pin: policy.level_min, is_user_note: true, life: policy.life };
        let estimate = |one: &dyn Carrier| {
            let carrier = one.id();
            let crate::io::CarrierState { reached, up, caps } = one.state(Some(&to), now)?;
            let pieces = (parcel + caps.around_bytes).div_ceil(caps.piece_bytes);
            let fits = reached
                && contact.policy.carriers.contains(&carrier)
                && caps.level >= contact.policy.level_min
                && parcel <= caps.parcel_bytes_max;
            let waits = match one.select_route(&to, terms, now) {
                Err(Missing::Wait(why)) => Some(why),
                Ok(_) | Err(Missing::Session | Missing::First(_)) => None,
            };
            Some(CarrierEstimate { carrier, caps, up, fits, pieces, waits })
        };
        self.carriers.collect_all(estimate)
    }

    /// Returns the effects of removing a carrier on the notes and contacts that it serves (MSG-97).
    pub(super) fn preview_leaving(&self, carrier: CarrierId, now: Time) -> LeavingView {
        let mut view = LeavingView {
            guests: self.carriers.collect_all(|one| one.inviters()).len(),
            ..LeavingView::default()
        };
        for (id, contact) in self.contacts.iter().filter(|(_, contact)| contact.is_ours()) {
            if !contact.policy.candidates().contains(&carrier) {
                continue;
            }
            let rest = self.find_level_without(id, carrier, now);
            // No allowed carrier at this level is left, so the contact becomes unreachable
            // (MSG-97).
            if rest < contact.policy.level_min {
                view.unreachable.push(id);
            }
            let by = |note: &&StoredNote| note.carrier.is_none_or(|by| by == carrier);
            let own = self.threads.thread_notes(id).filter_map(|note| self.threads.get(note));
            for note in own.filter(|note| !note.incoming && note.is_waiting(now)).filter(by) {
                if rest < note.level_min { view.waiting += 1 } else { view.elsewhere += 1 }
            }
        }
        view
    }

    /// Returns the highest level of the other allowed carriers that reach the contact, or 0 if
    /// there is none.
    fn find_level_without(&self, id: ContactId, without: CarrierId, now: Time) -> u8 {
        let to = self.contact_facts(id);
        let (Some(contact), Some(to)) = (self.contacts.get(id), to) else { return 0 };
        let others = contact.policy.candidates().iter().filter(|carrier| **carrier != without);
        let states = others.filter_map(|carrier| {
            self.carriers.carrier(*carrier).and_then(|one| one.state(Some(&to), now))
        });
        states.filter(|state| state.reached).map(|state| state.caps.level).max().unwrap_or(0)
    }

    /// Returns the view of one note.
    pub(super) fn view_note(&self, id: NoteId, now: Time) -> Option<NoteView> {
        let note = self.threads.get(id)?;
        let left = self.outbox.aftermath(note.contact);
        let mark = left.and_then(|left| {
            let unsure = left.unsure.contains(&id).then_some(RestoreMark::Unsure(left.made));
            unsure.or_else(|| left.lost.contains(&id).then_some(RestoreMark::Lost))
        });
        let state = note.state(now);
        let is_carried = matches!(state, NoteState::Carried(_));
        Some(NoteView {
            id,
            contact: note.contact,
            incoming: note.incoming,
            body: note.body.clone(),
            sent: note.sent,
            at: note.at,
            state,
            facts: note.facts.clone(),
            due: note.due(),
            carrier: note.carrier,
            level: note.travelled_at(),
            level_min: note.level_min,
            mark,
            life: note.life,
            carried_until: is_carried.then(|| self.carried_until(note.contact, id)).flatten(),
        })
    }

    /// Returns the time at which the devices that carry a note drop it.
    fn carried_until(&self, contact: ContactId, id: NoteId) -> Option<Time> {
        let (_, parcel) = self.outbox.parcels_of(contact).find(|(_, one)| one.note == Some(id))?;
        self.carriers.carrier(parcel.route.carrier)?.carried_until(&parcel.route)
    }
}
