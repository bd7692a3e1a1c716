//! The outbox at work: which way a note may take, sealing it, handing it to the carrier.
//!
//! Notes are sealed as late as possible, so that what waits burns no chain keys (messenger 5.3).

use alloc::vec::Vec;

use super::{
    Backend, CryptoRng, Device, Event, NoteId, PendingRequest, RecordKind, Retention, Time, key64,
};
use crate::carriers::CarrierId;
use crate::carriers::mixnet::{LENGTH_BYTES, PIECE_BYTES, PIECES_MAX};
use crate::carriers::relay::RelayOutput;
use crate::contact::ContactPhase;
use crate::envelope::SenderContext;
use crate::evidence::WaitReason;
use crate::io::{ContactId, DeliveryProblem};
use crate::note::Note;
use crate::outbox::{IN_FLIGHT_MAX, Parcel, RATCHET_MESSAGE, Route};
use crate::receipt::REACH;
use mezza_mixnet::contact::Role;
use mezza_ratchet::{Conversation, Padding, SealError};

/// How the message is filled up, so that its length says nothing to this carrier.
fn padding<B: Backend>(
    conversation: &Conversation<B>,
    body_bytes: usize,
    carrier: CarrierId,
) -> Padding {
    if carrier != CarrierId::MIXNET {
        return Padding::Blocks;
    }
    // Whole cells: what the stream and the parcel add are the other bytes of them.
    let around = LENGTH_BYTES + 1;
    (1..=PIECES_MAX)
        .map(|pieces| Padding::To(pieces * PIECE_BYTES - around))
        .find(|padding| conversation.fits(body_bytes, *padding))
        .unwrap_or(Padding::Blocks)
}

impl<B: Backend> Device<B> {
    /// Seals what may leave and hands it over.
    pub(super) fn flush_outbox(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.pump_at = None;
        for (id, meet) in core::mem::take(&mut self.step.meets) {
            self.met_by(id, &meet, now, rng);
        }
        let mut ids: Vec<ContactId> = self.waiting.iter().map(|(contact, _)| *contact).collect();
        let owing = self.contacts.values().filter(|c| c.is_ours() && (c.owed.any() || c.renew));
        ids.extend(owing.map(|contact| contact.id));
        ids.extend(self.contacts.keys().filter(|id| self.meets(**id, now)));
        ids.extend(self.contacts.keys().filter(|id| self.wants_bundle(**id, now)));
        ids.extend(self.bundles.keys());
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            self.pump_contact(id, now, rng);
        }
        self.carry(now, rng);
    }

    fn pump_contact(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        if self.contacts.get(&id).is_none_or(|contact| !contact.is_ours()) {
            return;
        }
        if self.wants_bundle(id, now) {
            self.fetch(PendingRequest::Hold(id), id, self.contacts[&id].policy.level_min, now);
        }
        self.upgrade_suite(id, now, rng);
        let range = (id, NoteId(0))..=(id, NoteId(u64::MAX));
        let notes: Vec<NoteId> = self.waiting.range(range).map(|(_, note)| *note).collect();
        for note in notes {
            let pin = self.notes.get(&note).map_or(1, |entry| entry.level_min);
            let way =
                self.way(id, pin, now, rng).and_then(|way| self.reach(id, note, now).map(|()| way));
            match way {
                Ok(way) if self.may_repeat(id, note, now) => {
                    self.seal(id, Some(note), way, now, rng);
                }
                Ok(_) => {}
                Err(why) => self.waits(id, note, why),
            }
        }
        self.pump_owed(id, now, rng);
    }

    /// The reader's window holds so many numbers above the first one that is missing. If it is
    /// that far back, that one is sent again before anything new, and then once an hour.
    fn reach(&mut self, id: ContactId, note: NoteId, now: Time) -> Result<(), WaitReason> {
        let next = self.contacts.get(&id).map_or(1, |contact| contact.next_seq);
        let oldest = self.unreceipted[0].range((id, 0)..=(id, u32::MAX)).next();
        let Some((&(_, seq), &oldest)) = oldest.filter(|((_, seq), _)| next - seq >= REACH) else {
            return Ok(());
        };
        if self.notes.get(&note).is_some_and(|entry| entry.seq == seq) {
            return Ok(());
        }
        let out = self.parcels.values().any(|parcel| parcel.note == Some(oldest));
        let Some(contact) = self.contacts.get_mut(&id) else { return Err(WaitReason::Answer) };
        let Some(entry) = self.notes.get_mut(&oldest).filter(|entry| !out && !entry.again) else {
            return Err(WaitReason::Answer);
        };
        match contact.oldest.take(now) {
            Ok(()) => {
                entry.again = true;
                self.waiting.insert((id, oldest));
                self.store_note(oldest);
                self.pump_later(now);
            }
            Err(later) => self.pump_later(later),
        }
        Err(WaitReason::Answer)
    }

    /// Whether this note may be sealed now: one that was sealed before waits for its turn, so that
    /// nobody makes all that waits for a receipt leave again at once (MSG-53).
    fn may_repeat(&mut self, id: ContactId, note: NoteId, now: Time) -> bool {
        if !self.notes.get(&note).is_some_and(|entry| entry.again) {
            return true;
        }
        let Some(contact) = self.contacts.get_mut(&id) else { return false };
        match contact.repeats.take(now) {
            Ok(()) => true,
            Err(later) => {
                self.pump_later(later);
                false
            }
        }
    }

    /// Says without a note of the person what is owed, if it may go now.
    fn pump_owed(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        let meets = self.meets(id, now);
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if !contact.owed.any() && !contact.renew && !meets {
            return;
        }
        // A contact of whom we hold the card alone hears nothing before the person writes.
        if contact.stage == ContactPhase::Held && !contact.renew && contact.owed.anew.is_none() {
            return;
        }
        let pin = contact.policy.level_min.max(contact.owed.level);
        let muted = contact.muted;
        let Ok(way) = self.way(id, pin, now, rng) else { return };
        if muted && way == Route::Mixnet {
            return;
        }
        let ready = self.hello_ready(id, way.carrier());
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let owed = &contact.owed;
        let said = owed.timer || owed.card || owed.void || owed.anew.is_some() || meets;
        let receipts_alone = !(said || owed.hello && ready);
        if receipts_alone {
            if !owed.receipt && !owed.read && owed.answers.is_empty() {
                return;
            }
            if let Err(later) = contact.receipts.take(now) {
                return self.pump_later(later);
            }
        }
        self.seal(id, None, way, now, rng);
    }

    /// The outbox wants to be looked at again at `at`.
    pub(super) fn pump_later(&mut self, at: Time) {
        self.pump_at = Some(self.pump_at.map_or(at, |other| other.min(at)));
    }

    /// Notes why a note waits, and shows it if that is news.
    fn waits(&mut self, contact: ContactId, note: NoteId, why: WaitReason) {
        if let Some(entry) = self.notes.get_mut(&note)
            && entry.why != why
        {
            entry.why = why;
            self.show(Event::State(contact, note));
        }
    }

    /// Seals a note of the person (or none, for what is owed alone) into a parcel.
    fn seal(
        &mut self,
        id: ContactId,
        note: Option<NoteId>,
        way: Route,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let meet = self.meet(id, now, rng);
        let Some(contact) = self.contacts.get(&id) else { return };
        let level = if note.is_none() { contact.owed.level } else { 0 };
        let written = note.and_then(|note| self.notes.get(&note));
        let pin = written.map_or(contact.policy.level_min.max(level), |entry| entry.level_min);
        let carrier = way.carrier();
        let Some(wire) = self.compose(id, note, meet.clone(), (carrier, pin), now) else { return };
        let body = wire.encode();
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let fresh = contact.conversation.needs_ephemeral().then(|| Self::fresh(rng));
        let padding = padding(&contact.conversation, body.len(), carrier);
        let sealed = contact.conversation.seal(&body, &[], padding, fresh, now);
        let (message, changes) = match sealed {
            Ok(sealed) => sealed,
            Err(error) => return self.seal_failed(id, error),
        };
        let bytes = [&[RATCHET_MESSAGE], message.as_slice()].concat();
        self.sealed(id, note, &wire, (carrier, pin));
        self.store_ratchet(id, changes);
        let parcel = self.next_parcel;
        self.next_parcel += 1;
        let value = Parcel { level, ..Parcel::new(id, note, way, bytes) };
        self.put(RecordKind::Parcel, key64(parcel), Retention::Rolling, value.write());
        self.parcels.insert(parcel, value);
        if let Some(meet) = &meet {
            self.met(id, meet, Role::Initiator, now, rng);
        }
        self.store_contact(id);
    }

    /// The session cannot go on: the next note waits for a new one.
    fn seal_failed(&mut self, id: ContactId, error: SealError) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        match error {
            SealError::TooLong | SealError::OuterUnsupported | SealError::NeedEphemeral => {}
            _ => {
                contact.renew = true;
                self.store_contact(id);
            }
        }
    }

    /// What sealing a note changes here: its number, and what is no longer owed.
    fn sealed(&mut self, id: ContactId, note: Option<NoteId>, wire: &Note, by: (CarrierId, u8)) {
        let era = self.era(id);
        if let Some(note) = note
            && let Some(entry) = self.notes.get_mut(&note)
        {
            (entry.era, entry.seq, entry.again) = (era, wire.seq, false);
            entry.carrier = Some(by.0);
            entry.why = WaitReason::Sending;
            self.waiting.remove(&(id, note));
            self.unreceipted[0].insert((id, wire.seq), note);
            self.store_note(note);
        }
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.next_seq = contact.next_seq.max(wire.seq.saturating_add(1));
            self.said(id, wire, by.1);
        }
    }

    /// Hands over what is ready, oldest first, at most eight at a time and relay.
    fn carry(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let ready = self.parcels.iter().filter(|(_, parcel)| parcel.ticket.is_none());
        let ready: Vec<(u64, Time)> = ready.map(|(id, parcel)| (*id, parcel.after)).collect();
        for (id, after) in ready {
            if after <= now {
                self.carry_one(id, now, rng);
            } else {
                self.pump_later(after);
            }
        }
    }

    fn carry_one(&mut self, id: u64, now: Time, rng: &mut dyn CryptoRng) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let way = match parcel.way.clone() {
            Route::Relay(way) => way,
            Route::Mixnet => return self.carry_cells(id, now, rng),
            Route::Invitation(_) => return self.carry_invitation(id, now, rng),
        };
        let contact = parcel.contact;
        let pin = self.level_min(parcel);
        self.dial(&way.relay, now);
        let line = way.relay.line();
        let Some(link) = self.links.get_mut(&line) else { return };
        let Some(caps) = link.up else { return };
        if link.in_flight >= IN_FLIGHT_MAX || caps.level < pin {
            return;
        }
        let address = way.relay.address;
        let Some(parcel) = self.parcels.get(&id) else { return };
        self.wanted.insert(contact);
        let ahead =
            self.sender_contexts.remove(&contact).filter(|ahead| ahead.is_for(&address, &way.seal));
        let outer = ahead
            .map_or_else(|| SenderContext::new::<B>(&address, &way.seal, Self::fresh(rng)), Ok);
        let Ok(bytes) = outer.and_then(|outer| outer.seal::<B>(&parcel.bytes)) else {
            // The seal key in their hello has low order, so HPKE refuses it. No honest device sends
            // one; the parcel is dropped.
            self.drop_parcel(id);
            self.show(Event::Trouble(contact, DeliveryProblem::BoxGone));
            return;
        };
        link.in_flight += 1;
        let ttl_h = (way.until.since_ms(now) / Time::HOUR_MS).clamp(1, 720) as u16;
        let ticket = self.ticket(Some(line), PendingRequest::Parcel(id));
        if let Some(parcel) = self.parcels.get_mut(&id) {
            parcel.ticket = Some(ticket);
            parcel.why = WaitReason::Sending;
        }
        self.act(RelayOutput::Put { ticket, line, address, ttl_h, envelope: bytes });
    }

    /// The pin under which a parcel may leave: its note's, else the conversation's.
    pub(super) fn level_min(&self, parcel: &Parcel) -> u8 {
        let note = parcel.note.and_then(|note| self.notes.get(&note));
        let contact = self.contacts.get(&parcel.contact);
        let pin = note.map(|entry| entry.level_min).or(contact.map(|c| c.policy.level_min));
        pin.unwrap_or(1).max(parcel.level)
    }
}

#[cfg(test)]
mod tests {
    use mezza_core::{EphemeralKey, Machine as _, PortableBackend, Secret, StaticKey};
    use mezza_ratchet::{Bundle, IdentityKeyPair, Prekeys, SuiteList, prekeys};
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn identity(scalar: u8) -> IdentityKeyPair {
        IdentityKeyPair::new(StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| {
            s.fill(scalar);
        })))
    }

    /// The bundle of fresh prekeys.
    fn bundle(prekeys: &mut Prekeys, now: Time, rng: &mut ChaCha20Rng) -> Bundle {
        prekeys.wake(now, rng);
        let mut published = None;
        while let Some(output) = prekeys.poll() {
            match output {
                prekeys::Output::Need { spk, .. } => {
                    let spk = (0..spk).map(|_| StaticKey::random::<PortableBackend>(rng)).collect();
                    let fresh = prekeys::Input::Fresh { spk, opk: Vec::new() };
                    prekeys.handle(fresh, now, rng).expect("what was asked for");
                }
                prekeys::Output::Publish { bundle, .. } => published = Some(bundle),
                _ => {}
            }
        }
        Bundle::decode(&published.expect("a bundle")).expect("sound")
    }

    /// A session that has just begun.
    fn begun() -> Conversation<PortableBackend> {
        let (now, mut rng) = (Time::from_ms(1_792_000_000_000), ChaCha20Rng::seed_from_u64(5));
        let (own, other) = (identity(1), identity(2));
        let bundle = bundle(&mut Prekeys::new(other.duplicate()), now, &mut rng);
        let checked = bundle.check(&other.public(), &SuiteList::ours(), now).expect("sound");
        let fresh = EphemeralKey::random::<PortableBackend>(&mut rng);
        let session = checked.initiate(&own, fresh, None, &mut rng).expect("a session").0;
        let mut conversation = Conversation::new(own.public(), other.public());
        let _ = conversation.add_session(session, now);
        conversation
    }

    #[test]
    fn cells_are_filled_to_the_last_byte_and_no_other_carrier_fills_them() {
        let talk = begun();
        let most = PIECES_MAX * PIECE_BYTES - LENGTH_BYTES - 1;
        let fits = |body: &usize| talk.fits(*body, Padding::To(most));
        let longest = (1..most).rev().find(fits).expect("there is room");
        for body in [1, 225, 500, longest] {
            let Padding::To(bytes) = padding(&talk, body, CarrierId::MIXNET) else {
                panic!("{body}: not filled")
            };
            assert_eq!((bytes + LENGTH_BYTES + 1) % PIECE_BYTES, 0, "{body}");
            let less = Padding::To(bytes - PIECE_BYTES);
            assert!(talk.fits(body, Padding::To(bytes)) && !talk.fits(body, less), "{body}");
            for carrier in [CarrierId::RELAY, CarrierId::LINK, CarrierId::MESH] {
                assert_eq!(padding(&talk, body, carrier), Padding::Blocks);
            }
        }
        assert_eq!(padding(&talk, longest + 1, CarrierId::MIXNET), Padding::Blocks);
    }
}
