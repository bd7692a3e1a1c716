//! Sessions: our prekeys, the ratchet with each contact, stored bundles, and messages that did not
//! open.

mod bundles;
mod dates;
mod held;
mod peer;
mod replay;
mod stock;
mod undecrypted;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Backend, Machine as _, StaticKey, Time, Wiping, snapshot};
use mezza_ratchet::{
    Bundle, BundleError, Change, CheckedBundle, Conversation, Exporter, IdentityKey,
    IdentityKeyPair, OneTimePrekey, OpenError, Opened, Padding, Prekeys, SealError, SessionSummary,
    SuiteList, Table,
};

use crate::card::Card;
use crate::io::{
    ContactId, Ctx, Due, Effects, Incoming, Pace, Publication, RecordKind, SessionFacts, key32,
    key64,
};

pub(crate) use held::HeldBundle;
pub(crate) use peer::{Renewal, SessionPeer};
pub(crate) use replay::ReplayCache;
pub(crate) use undecrypted::Undecrypted;

/// First messages of unknown senders without a card that are opened at once; then one per interval
/// (MSG-92).
const NAMELESS_BURST: u32 = 64;
const NAMELESS_EVERY_MS: u64 = Time::MINUTE_MS;

/// Milliseconds between two publications of our bundle because others fetched a foreign one
/// (MSG-128).
const OFFER_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// The reason why a message was not opened.
pub(crate) enum Unopened {
    /// The message was opened before, or its contact does not exist.
    Repeated,
    /// The ratchet does not open the message.
    Failed(OpenError),
}

/// An unknown sender whose first message opened, before a contact number exists.
pub(crate) struct Stranger<B: Backend> {
    conversation: Conversation<B>,
    changes: Vec<Change>,
    pub body: Wiping<Vec<u8>>,
    pub exporter: Option<Exporter>,
}

/// The result of beginning a session.
pub(crate) struct Begun {
    pub exporter: Exporter,
    /// True if the new session replaces a broken one, so that notes in the old one are sealed
    /// again.
    pub again: bool,
}

/// The sessions of all contacts.
pub(crate) struct Sessions<B: Backend> {
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    peers: BTreeMap<ContactId, SessionPeer<B>>,
    undecrypted: BTreeMap<u64, Undecrypted>,
    last_undecrypted: u64,
    bundles: BTreeMap<ContactId, HeldBundle>,
    /// Contacts whose next note needs a new session, or that have a bundle with a better suite to
    /// try.
    agenda: BTreeSet<ContactId>,
    unopened: u64,
    /// Rate limit for first messages that open but contain no card.
    nameless: Pace,
    /// The publication for other devices, until a carrier takes it.
    publication: Option<Publication>,
    /// Rate limit for publishing our bundle again because others fetched a foreign one.
    offers: Pace,
}

snapshot!(struct Sessions<B> {
    identity, prekeys, peers, undecrypted, last_undecrypted, bundles, agenda, unopened, nameless,
    publication, offers,
});

impl<B: Backend> Sessions<B> {
    /// Creates the component without sessions and prekeys.
    pub fn new(identity: &IdentityKeyPair) -> Self {
        Self {
            identity: identity.duplicate(),
            prekeys: Prekeys::new(identity.duplicate()),
            peers: BTreeMap::new(),
            undecrypted: BTreeMap::new(),
            last_undecrypted: 0,
            bundles: BTreeMap::new(),
            agenda: BTreeSet::new(),
            unopened: 0,
            nameless: Pace::new(NAMELESS_BURST, NAMELESS_EVERY_MS),
            publication: None,
            offers: Pace::new(1, OFFER_EVERY_MS),
        }
    }

    /// Returns our prekeys.
    pub fn prekeys(&self) -> &Prekeys {
        &self.prekeys
    }

    /// Returns the private signed prekeys, under which unknown senders seal.
    pub fn signed_prekeys(&self) -> Vec<&StaticKey> {
        self.prekeys.signed_prekeys().map(|(_, _, spk)| spk).collect()
    }

    /// Returns the number of messages that no session opened.
    pub fn rejected_count(&self) -> u64 {
        self.unopened
    }

    /// Counts a malformed message, or one that opened without a contact.
    pub fn count_rejected(&mut self) {
        self.unopened += 1;
    }

    /// Returns the facts about the session with a contact that carriers may know.
    pub fn session_facts(&self, id: ContactId) -> SessionFacts {
        let Some(peer) = self.peers.get(&id) else { return SessionFacts::default() };
        let summary = peer.conversation.summary();
        SessionFacts {
            id: peer.conversation.active_id(),
            initiator: summary.is_some_and(|summary| summary.initiator),
            pending: peer.conversation.is_pending(),
            renew: peer.renewal.renew,
            bundle: self.bundles.contains_key(&id),
        }
    }

    /// Returns true if the active session can seal a message at `now`.
    pub fn can_seal(&self, id: ContactId, now: Time) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.conversation.can_seal(now))
    }

    /// Returns numbers about the active session.
    pub fn summary(&self, id: ContactId) -> Option<SessionSummary> {
        self.peers.get(&id)?.conversation.summary()
    }

    /// Returns the contacts whose next note needs a new session, or that have a bundle with a
    /// better suite to try.
    pub fn agenda(&self) -> impl Iterator<Item = ContactId> {
        self.agenda.iter().copied()
    }

    /// Updates the agenda for a contact.
    fn look_at(&mut self, id: ContactId) {
        let renews = self.peers.get(&id).is_some_and(|peer| peer.renewal.renew);
        if renews || self.bundles.get(&id).is_some_and(|held| !held.told) {
            self.agenda.insert(id);
        } else {
            self.agenda.remove(&id);
        }
    }

    /// Returns the size in bytes of a message with a body of `body` bytes.
    pub fn message_bytes(&self, id: ContactId, body: usize) -> Option<usize> {
        self.peers.get(&id)?.conversation.message_bytes(body)
    }

    /// Adds a contact without a session.
    pub fn add_contact(&mut self, id: ContactId, ik: IdentityKey) {
        let conversation = Conversation::new(self.identity.public_key(), ik);
        self.peers.insert(id, SessionPeer::new(conversation));
    }

    /// Opens a message of a contact.
    pub fn open_message(
        &mut self,
        id: ContactId,
        message: Incoming<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<Opened, Unopened> {
        let peer = self.peers.get_mut(&id).ok_or(Unopened::Repeated)?;
        // A message that was opened before does not indicate a broken session (MSG-30).
        if peer.replays.has_seen(message.bytes) {
            return Err(Unopened::Repeated);
        }
        let identity = &self.identity;
        let prekeys = &mut self.prekeys;
        let was_pending = peer.conversation.is_pending();
        let opened = peer.open(message, identity, prekeys, ctx.now);
        let is_answer = was_pending && !peer.conversation.is_pending();
        let mut opened = opened.map_err(|error| {
            self.unopened += 1;
            Unopened::Failed(error)
        })?;
        if is_answer && !opened.first {
            // The contact has our new session and seals its earlier notes again.
            self.end_wait_for_reset(id, ctx.effects);
        }
        self.remember_message(id, message.bytes, ctx.effects);
        self.apply_changes(id, &mut opened, ctx);
        Ok(opened)
    }

    /// Applies the changes of an opened message.
    fn apply_changes(&mut self, id: ContactId, opened: &mut Opened, ctx: &mut Ctx<'_>) {
        self.store(id, core::mem::take(&mut opened.changes), ctx.effects);
        // A session that the other side began replaces the one that we wanted to begin.
        if opened.first {
            self.set_renewal(id, ctx.effects, |renewal| renewal.renew = false);
        }
        self.drain_prekeys(ctx);
    }

    /// Records an opened message, so that its repetition is recognised.
    fn remember_message(&mut self, id: ContactId, message: &[u8], effects: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let place = peer.replays.push(message);
        let value = peer.replays.write(place);
        effects.put(RecordKind::Seen, key_replays(id, place), value);
    }

    /// Returns true if a message of an unknown sender may be opened now.
    pub fn hears_strangers(&self, now: Time) -> bool {
        self.nameless.clone().take_turn(now).is_ok()
    }

    /// Counts a first message that opened but contained no card. It counts against the rate limit.
    pub fn count_nameless(&mut self, now: Time) {
        // The rate limit was already checked before the message was opened.
        let _ = self.nameless.take_turn(now);
    }

    /// Opens the first message of an unknown sender. The prekeys in it are used up in any case.
    pub fn open_stranger(
        &mut self,
        ik: IdentityKey,
        Incoming { bytes, outer }: Incoming<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Option<Stranger<B>> {
        let mut conversation = Conversation::new(self.identity.public_key(), ik);
        let identity = &self.identity;
        let prekeys = &mut self.prekeys;
        let Ok(opened) = conversation.open(bytes, outer, identity, prekeys, ctx.now) else {
            self.unopened += 1;
            return None;
        };
        // Prekey rows belong to the device and are stored even if the sender is dropped.
        let own = |change: &Change| !matches!(change.table(), Table::Session | Table::Skipped);
        let (prekeys, changes): (Vec<_>, Vec<_>) = opened.changes.into_iter().partition(own);
        self.store(ContactId(0), prekeys, ctx.effects);
        self.drain_prekeys(ctx);
        let Opened { body, exporter, .. } = opened;
        Some(Stranger { conversation, changes, body, exporter })
    }

    /// Stores the session of an unknown sender under its contact number.
    pub fn adopt_stranger(&mut self, id: ContactId, stranger: Stranger<B>, effects: &mut Effects) {
        self.peers.insert(id, SessionPeer::new(stranger.conversation));
        self.store(id, stranger.changes, effects);
    }

    /// Records the first message of a new contact, so that its repetition is recognised.
    pub fn remember_first(&mut self, id: ContactId, message: &[u8], effects: &mut Effects) {
        self.remember_message(id, message, effects);
    }

    /// Returns the first of these paddings that fits a message with a body of `body` bytes.
    fn select_padding(&self, id: ContactId, body: usize, paddings: &[Padding]) -> Padding {
        let fits = |padding: &&Padding| {
            self.peers.get(&id).is_some_and(|peer| peer.conversation.fits_body(body, **padding))
        };
        paddings.iter().find(fits).copied().unwrap_or(Padding::Blocks)
    }

    /// Seals a body in the active session. If the session cannot continue, a new one is requested.
    pub fn seal_message(
        &mut self,
        id: ContactId,
        body: &[u8],
        paddings: &[Padding],
        outer: &[u8],
        ctx: &mut Ctx<'_>,
    ) -> Result<Vec<u8>, SealError> {
        let padding = self.select_padding(id, body.len(), paddings);
        let peer = self.peers.get_mut(&id).ok_or(SealError::NoSession)?;
        let fresh = peer.conversation.needs_ephemeral().then(|| ctx.draw_ephemeral::<B>());
        match peer.conversation.seal(body, outer, padding, fresh, ctx.now) {
            Ok((message, changes)) => {
                self.store(id, changes, ctx.effects);
                Ok(message)
            }
            Err(error) => {
                // Errors of the caller leave the session unchanged. All others end its use.
                let caller = matches!(
                    error,
                    SealError::TooLong | SealError::OuterUnsupported | SealError::NeedEphemeral
                );
                if !caller {
                    self.renew_session(id, ctx.effects);
                }
                Err(error)
            }
        }
    }

    /// Checks a bundle against the contact's card.
    pub fn check_bundle(
        card: &Card,
        bundle: &[u8],
        ours: &SuiteList,
        now: Time,
    ) -> Result<CheckedBundle, BundleError> {
        Bundle::decode(bundle)?.check_with(ours, card.ik(), card.suites(), now)
    }

    /// Begins a session from a checked bundle.
    pub fn begin_session(
        &mut self,
        id: ContactId,
        bundle: CheckedBundle,
        one_time: Option<OneTimePrekey>,
        ctx: &mut Ctx<'_>,
    ) -> Result<Begun, BundleError> {
        // Every ephemeral key comes from this one method of the device (4.1).
        let fresh = ctx.draw_ephemeral::<B>();
        let (session, exporter) =
            bundle.initiate_session::<B>(&self.identity, fresh, one_time, ctx.rng)?;
        let peer = self.peers.get_mut(&id).ok_or(BundleError::Malformed)?;
        // Each session counts. Only one that replaces a usable one waits for its turn (MSG-31).
        let _ = peer.own_begins.take_turn(ctx.now);
        let again = peer.renewal.renew;
        let changes = peer.conversation.add_session(session, ctx.now);
        self.store(id, changes, ctx.effects);
        self.set_renewal(id, ctx.effects, |renewal| renewal.renew = false);
        Ok(Begun { exporter, again })
    }

    /// Checks that a session may begin now because a carrier needs one. A usable session is not
    /// replaced within 10 minutes after the last one that this device began (MSG-31).
    ///
    /// # Errors
    /// The time at which a session may begin.
    pub fn may_begin(&self, id: ContactId, now: Time) -> Result<(), Time> {
        let is_usable = self.session_facts(id).is_usable();
        let peer = self.peers.get(&id).filter(|_| is_usable);
        peer.map_or(Ok(()), |peer| peer.own_begins.clone().take_turn(now))
    }

    /// Marks that the next note needs a new session.
    pub fn renew_session(&mut self, id: ContactId, effects: &mut Effects) {
        self.set_renewal(id, effects, |renewal| renewal.renew = true);
    }

    /// Marks that the next note uses the present session.
    pub fn keep_session(&mut self, id: ContactId, effects: &mut Effects) {
        self.set_renewal(id, effects, |renewal| renewal.renew = false);
    }

    fn set_renewal(
        &mut self,
        id: ContactId,
        effects: &mut Effects,
        set: impl FnOnce(&mut Renewal),
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let before = peer.renewal;
        set(&mut peer.renewal);
        if peer.renewal == before {
            return;
        }
        let key = key32(id.0);
        match peer.renewal.stored() {
            Some(value) => effects.put(RecordKind::Renewal, key, value),
            None => effects.drop_row(RecordKind::Renewal, key),
        }
        self.time_reset(id, effects);
        self.look_at(id);
    }

    /// Deletes expired keys of a contact's sessions.
    pub fn wake(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        if let Some(peer) = self.peers.get_mut(&id) {
            let changes = peer.conversation.sweep_expired(ctx.now);
            self.store(id, changes, ctx.effects);
        }
    }

    /// Forgets the sessions of a deleted contact or inviter.
    pub fn forget(&mut self, id: ContactId, effects: &mut Effects) {
        let kept = self.undecrypted.iter().filter(|(_, kept)| kept.contact == id);
        for key in kept.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.drop_undecrypted(key, effects);
        }
        self.drop_held(id, effects);
        let Some(peer) = self.peers.remove(&id) else { return };
        self.look_at(id);
        for change in peer.conversation.all_rows() {
            let (kind, key) = row_of(id, &change);
            effects.drop_row(kind, key);
        }
        for place in peer.replays.places() {
            effects.drop_row(RecordKind::Seen, key_replays(id, place));
        }
        if peer.renewal.stored().is_some() {
            effects.drop_row(RecordKind::Renewal, key32(id.0));
        }
        effects.set_timer(Due::Session(id), None);
        effects.set_timer(Due::Reset(id), None);
    }

    /// Writes rows of the ratchet: those of a session belong to the contact, prekeys to the device.
    fn store(
        &mut self,
        id: ContactId,
        changes: impl IntoIterator<Item = Change>,
        effects: &mut Effects,
    ) {
        for change in changes {
            let (kind, key) = row_of(id, &change);
            match change {
                Change::Put { value, .. } => effects.put(kind, key, value),
                Change::Drop { .. } => effects.drop_row(kind, key),
            }
        }
        if let Some(peer) = self.peers.get(&id) {
            effects.set_timer(Due::Session(id), peer.conversation.deadline());
        }
    }

    /// Loads the stored prekeys.
    pub fn load_prekeys(&mut self, prekeys: Prekeys, effects: &mut Effects) {
        self.prekeys = prekeys;
        effects.set_timer(Due::Prekeys, self.prekeys.deadline());
    }

    /// Loads the stored sessions of a contact.
    pub fn load(&mut self, id: ContactId, peer: SessionPeer<B>, effects: &mut Effects) {
        effects.set_timer(Due::Session(id), peer.conversation.deadline());
        self.peers.insert(id, peer);
        self.time_reset(id, effects);
        self.look_at(id);
    }

    /// Writes the rows of all sessions and prekeys.
    pub fn records(&self, effects: &mut Effects) {
        let own = self.peers.iter().flat_map(|(id, peer)| {
            peer.conversation.all_rows().into_iter().map(|change| (*id, change))
        });
        let prekeys = self.prekeys.all_rows().into_iter().map(|change| (ContactId(0), change));
        for (id, change) in own.chain(prekeys) {
            let (kind, key) = row_of(id, &change);
            if let Change::Put { value, .. } = change {
                effects.put(kind, key, value);
            }
        }
        for (id, peer) in &self.peers {
            for place in peer.replays.places() {
                let value = peer.replays.write(place);
                effects.put(RecordKind::Seen, key_replays(*id, place), value);
            }
            if let Some(value) = peer.renewal.stored() {
                effects.put(RecordKind::Renewal, key32(id.0), value);
            }
        }
        for (id, held) in &self.bundles {
            effects.put(RecordKind::Bundle, key32(id.0), held.write());
        }
        for (key, kept) in &self.undecrypted {
            effects.put(RecordKind::Held, key64(*key), kept.write());
        }
    }
}

/// Returns kind and key of a ratchet row in the store.
fn row_of(id: ContactId, change: &Change) -> (RecordKind, Vec<u8>) {
    let (kind, prefix) = match change.table() {
        Table::Session => (RecordKind::Session, key32(id.0)),
        Table::Skipped => (RecordKind::Skipped, key32(id.0)),
        table => (RecordKind::Prekey, [table.number()].into()),
    };
    (kind, [prefix.as_slice(), change.key()].concat())
}

/// Returns the key of one chunk of the replay cache. Its length distinguishes it from the keys of
/// windows.
pub(crate) fn key_replays(contact: ContactId, place: u8) -> Vec<u8> {
    [contact.0.to_be_bytes().as_slice(), &[place]].concat()
}
