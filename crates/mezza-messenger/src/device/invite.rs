//! First contact over the mixnet, from the side that begins: one message of 208 bytes into the
//! bucket of somebody whose card is held, and nothing else until they ask who it was.
//!
//! ```text
//! the list begins with the mixnet, the pin is 1 -> bundle fetched and held
//! a note waits, the bundle is held -> session (0x0101), chains from its exporter, invitation
//! they call -> hello and note in cells -> their answer -> 0x0102, if both have it
//! ```

use alloc::vec::Vec;

use super::way::BEYOND_BUNDLE_MS;
use super::{
    Backend, CryptoRng, Device, Event, PendingRequest, RecordKind, Retention, Time, key32, key64,
};
use crate::carriers::CarrierId;
use crate::carriers::mixnet::invited_again;
use crate::contact::{ContactPhase, IntroMailbox};
use crate::evidence::WaitReason;
use crate::io::{ContactId, DeliveryProblem};
use crate::note::{Item, MixnetStart, Note};
use crate::outbox::{Parcel, Route};
use mezza_core::{DecodeError, Reader, Secret, Wiping, Writer};
use mezza_mixnet::Service;
use mezza_mixnet::client::{self, Invite};
use mezza_mixnet::contact::Role;
use mezza_mixnet::wire::invitation::BODY_BYTES;
use mezza_ratchet::{
    Bundle, BundleError, CheckedBundle, Exporter, OneTimePrekey, Padding, SealError, SuiteList,
};

/// Under which name the exporter of a session gives the root of the pair's chains.
const ROOT: &str = "mezza mix root";

/// A bundle that is held for an invitation, with the one-time key that came with it.
pub(super) struct HeldBundle {
    bytes: Vec<u8>,
    one_time: Option<OneTimePrekey>,
}

impl HeldBundle {
    /// What a relay gave. The one-time key is not signed: it is held to the rules of its reader
    /// here (MSG-43).
    fn new(bytes: &[u8], one_time: Option<OneTimePrekey>) -> Result<Self, BundleError> {
        if one_time.is_some_and(|one_time| OneTimePrekey::decode(&one_time.encode()).is_err()) {
            return Err(BundleError::BadKey);
        }
        Ok(Self { bytes: bytes.to_vec(), one_time })
    }

    /// The stored form: `one-time 36 or nothing, u8 length in front | bundle`.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(40 + self.bytes.len());
        match &self.one_time {
            Some(one_time) => w.var8(&one_time.encode()),
            None => w.u8(0),
        };
        w.var16(&self.bytes);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let one_time = match r.var8()? {
                [] => None,
                bytes => Some(OneTimePrekey::decode(bytes)?),
            };
            Ok(Self { one_time, bytes: r.var16()?.to_vec() })
        })
    }
}

/// The root of a pair's chains, where no `meet` brings one.
pub(super) fn root(exporter: Exporter) -> Secret<32> {
    let [root] = exporter.export([ROOT]);
    root
}

/// The same for a first note of somebody known: a `meet` without a root gets that of its session.
/// Whether there is one: then the note is an invitation.
pub(super) fn give_root(note: &mut Note, exporter: Exporter) -> bool {
    let bare = note.items.iter_mut().find_map(|item| match item {
        Item::Meet(meet) if meet.root.is_none() => Some(meet),
        _ => None,
    });
    let Some(meet) = bare else { return false };
    meet.root = Some(Wiping::new(*root(exporter).expose()));
    true
}

impl<B: Backend> Device<B> {
    /// Whether a contact could be invited: we hold its card alone, and that names our network.
    fn can_invite(&self, id: ContactId, now: Time) -> bool {
        let config = self.net.as_ref().and_then(|net| net.config(now));
        let (Some(config), Some(contact)) = (config, self.contacts.get(&id)) else { return false };
        let there = contact.card.mixnet().is_some_and(|entry| entry.network == config.network);
        let alone = contact.renew || !contact.conversation.has_session();
        there
            && alone
            && contact.is_ours()
            && contact.stage != ContactPhase::Open
            && config.policy(Service::Invitation).is_some()
    }

    /// Whether the bundle of a contact is to be fetched now, for later: its conversation shall go
    /// over the mixnet, and what it would tell the relay is not hidden yet.
    pub(super) fn wants_bundle(&self, id: ContactId, now: Time) -> bool {
        let first = |id| self.contacts.get(&id)?.policy.carriers.first().copied();
        first(id) == Some(CarrierId::MIXNET)
            && !self.bundles.contains_key(&id)
            && self.can_invite(id, now)
    }

    /// The bundle came that an invitation waits for.
    pub(super) fn hold(
        &mut self,
        id: ContactId,
        bytes: &[u8],
        one_time: Option<OneTimePrekey>,
        now: Time,
    ) {
        let held = HeldBundle::new(bytes, one_time)
            .and_then(|held| self.checked(id, &held, &SuiteList::without_kem(), now).map(|_| held));
        match held {
            Ok(held) => {
                self.put(RecordKind::Bundle, key32(id.0), Retention::Rolling, held.write());
                self.bundles.insert(id, held);
            }
            Err(error) => self.trouble(id, DeliveryProblem::Bundle(error)),
        }
    }

    /// A held bundle is not needed any more.
    pub(super) fn drop_bundle(&mut self, id: ContactId) -> Option<HeldBundle> {
        let held = self.bundles.remove(&id)?;
        self.drop_record(RecordKind::Bundle, key32(id.0));
        Some(held)
    }

    fn checked(
        &self,
        id: ContactId,
        held: &HeldBundle,
        ours: &SuiteList,
        now: Time,
    ) -> Result<CheckedBundle, BundleError> {
        let contact = self.contacts.get(&id).ok_or(BundleError::Malformed)?;
        let (ik, suites) = (contact.card.ik(), contact.card.suites());
        Bundle::decode(&held.bytes)?.check_with(ours, ik, suites, now)
    }

    /// The way of cells to somebody who has not answered: an invitation first, then whatever waits
    /// once they have asked who it was.
    pub(super) fn first_contact_route(
        &mut self,
        id: ContactId,
        pin: u8,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), WaitReason> {
        let contact = self.contacts.get(&id).ok_or(WaitReason::Keys)?;
        if contact.called_back {
            return self.session_ready(id, CarrierId::MIXNET, pin, now);
        }
        let invites = |parcel: &Parcel| parcel.contact == id && parcel.way.is_invitation();
        if self.parcels.values().any(invites) {
            return Err(WaitReason::Answer);
        }
        if !self.can_invite(id, now) {
            return Err(WaitReason::Keys);
        }
        self.invite(id, now, rng).map_err(|error| match error {
            Some(error) => {
                self.trouble(id, DeliveryProblem::Bundle(error));
                WaitReason::Bundle
            }
            None => WaitReason::Keys,
        })?;
        Err(WaitReason::Answer)
    }

    /// Begins a session as if 0x0101 were the only suite (what else there is does not fit), and
    /// seals where the chains of the pair start: 208 bytes in all. `None`: no bundle that holds.
    fn invite(
        &mut self,
        id: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Option<BundleError>> {
        let meet = self.meeting(now).ok_or(None)?;
        let held = self.bundles.get(&id).ok_or(None)?;
        let checked = match self.checked(id, held, &SuiteList::without_kem(), now) {
            Err(BundleError::Expired) => {
                self.drop_bundle(id);
                return Err(None);
            }
            checked => checked.map_err(Some)?,
        };
        let intro = IntroMailbox { spk: *checked.spk(), not_after: checked.not_after() };
        let until = intro.not_after.plus_ms(BEYOND_BUNDLE_MS);
        let one_time = self.take_one_time(id);
        let (session, exporter) = self.initiate(checked, one_time, rng).map_err(Some)?;
        self.begin(id, intro, session, now);
        let bytes = self.seal_invitation(id, &meet, now, rng).map_err(|_| None)?;
        let parcel = Parcel::new(id, None, Route::Invitation(until), bytes);
        self.put(RecordKind::Parcel, key64(self.next_parcel), Retention::Rolling, parcel.write());
        self.parcels.insert(self.next_parcel, parcel);
        self.next_parcel += 1;
        let meet = MixnetStart { root: Some(Wiping::new(*root(exporter).expose())), ..meet };
        self.met(id, &meet, Role::Initiator, now, rng);
        Ok(())
    }

    /// A one-time key serves one session.
    fn take_one_time(&mut self, id: ContactId) -> Option<OneTimePrekey> {
        let held = self.bundles.get_mut(&id)?;
        let (one_time, value) = (held.one_time.take(), held.write());
        self.put(RecordKind::Bundle, key32(id.0), Retention::Rolling, value);
        one_time
    }

    fn seal_invitation(
        &mut self,
        id: ContactId,
        meet: &MixnetStart,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, SealError> {
        let items = [Item::Meet(meet.clone())].into();
        let note = Note { era: self.era(id), seq: 0, sent: now, timer_s: 0, items };
        let contact = self.contacts.get_mut(&id).ok_or(SealError::NoSession)?;
        let fresh = contact.conversation.needs_ephemeral().then(|| Self::fresh(rng));
        let padding = Padding::To(BODY_BYTES);
        let (message, changes) =
            contact.conversation.seal(&note.encode(), &[], padding, fresh, now)?;
        self.store_ratchet(id, changes);
        Ok(message)
    }

    /// Hands an invitation to the client, for the next round of them.
    pub(super) fn carry_invitation(&mut self, id: u64, now: Time, rng: &mut dyn CryptoRng) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let pin = self.level_min(parcel);
        if self.net.as_ref().is_none_or(|net| !net.joined || net.level < pin) {
            return;
        }
        let entry = self.contacts.get(&parcel.contact).and_then(|contact| contact.card.mixnet());
        let body = <[u8; BODY_BYTES]>::try_from(parcel.bytes.as_slice());
        let (Some(entry), Ok(body)) = (entry, body) else { return };
        let ticket = self.ticket(None, PendingRequest::Parcel(id));
        if let Some(parcel) = self.parcels.get_mut(&id) {
            parcel.ticket = Some(ticket);
        }
        let invite = Invite { ticket: ticket.0, to: entry.dialling, body: Wiping::new(body) };
        // The answer comes as an output.
        let _ = self.tell_client(client::Input::Invite(invite), now, rng);
    }

    /// An invitation was in a round. Nobody says whether it was read, so that it goes again.
    pub(super) fn invited_once(&mut self, id: u64, now: Time) {
        let policy = self.net.as_ref().and_then(|net| net.config(now)?.policy(Service::Invitation));
        let interval_ms = policy.map_or(0, |(_, policy)| policy.interval_ms);
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        parcel.ticket = None;
        parcel.after = invited_again(now, parcel.times, interval_ms);
        parcel.times = parcel.times.saturating_add(1);
        let contact = parcel.contact;
        self.asked(contact);
    }

    /// A contact rings. Whoever was invited wants to know who it was.
    pub(super) fn called(&mut self, id: ContactId) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if contact.stage == ContactPhase::Open || contact.called_back {
            return;
        }
        contact.called_back = true;
        contact.owed.hello = true;
        self.store_contact(id);
        let invites = |parcel: &Parcel| parcel.contact == id && parcel.way.is_invitation();
        let found = self.parcels.iter().find(|(_, parcel)| invites(parcel)).map(|(id, _)| *id);
        if let Some(parcel) = found {
            self.drop_parcel(parcel);
        }
    }

    /// The prekey of an invitation has ended: the next one needs another bundle, and brings other
    /// chains.
    pub(super) fn invitation_ended(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        self.drop_bundle(id);
        self.net_forget(id, now, rng);
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.renew = true;
            self.store_contact(id);
        }
    }

    /// The contact has answered: where both have the better suite, the session that fitted into an
    /// invitation gives way to one of it.
    pub(super) fn upgrade_suite(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        let open =
            self.contacts.get(&id).is_some_and(|contact| contact.stage == ContactPhase::Open);
        let Some(held) = self.bundles.get(&id).filter(|_| open) else { return };
        let checked = self.checked(id, held, &SuiteList::ours(), now);
        self.drop_bundle(id);
        let active = self.contacts.get(&id).and_then(|contact| contact.conversation.summary());
        let (Ok(checked), Some(active)) = (checked, active) else { return };
        if checked.suite() <= active.suite || !active.initiator {
            return;
        }
        let intro = IntroMailbox { spk: *checked.spk(), not_after: checked.not_after() };
        if let Ok((session, _)) = self.initiate(checked, None, rng) {
            self.begin(id, intro, session, now);
            self.show(Event::Contact(id));
        }
    }

    /// Rounds of now, for chains whose root comes from the session.
    pub(super) fn meeting(&self, now: Time) -> Option<MixnetStart> {
        let config = self.net.as_ref()?.config(now)?;
        let round = |service| config.policy(service)?.1.round_at(now);
        Some(MixnetStart {
            network: config.network,
            conversation: round(Service::Conversation)?,
            call: round(Service::Call)?,
            root: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use mezza_core::{EphemeralKey, PortableBackend, Secret};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_held_is_read_again(
            bundle in vec(any::<u8>(), 0..3_000),
            key in any::<Option<(u8, u16)>>(),
            (place, byte) in (any::<usize>(), any::<u8>()),
        ) {
            let one_time = key.map(|(n, id)| {
                let pair = EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(n)));
                OneTimePrekey { id: 1 + u32::from(id), key: *pair.public() }
            });
            let bytes = HeldBundle { bytes: bundle.clone(), one_time }.write();
            let again = HeldBundle::read(&bytes)
                .map_err(|error| TestCaseError::fail(format!("{error}")))?;
            prop_assert_eq!(&again.write()[..], &bytes[..]);
            prop_assert!(again.bytes == bundle && again.one_time == one_time);
            prop_assert!(HeldBundle::read(&bytes[..place % bytes.len()]).is_err());
            prop_assert!(HeldBundle::read(&[&bytes[..], &[0]].concat()).is_err());
            let mut other = bytes.to_vec();
            other[place % bytes.len()] = byte;
            if let Ok(held) = HeldBundle::read(&other) {
                prop_assert_eq!(&held.write()[..], &other[..]);
            }
        }
    }
}
