//! A device of one suite with one contact, in memory, as used by `mezza ratchet peer`.

use std::collections::VecDeque;

use mezza_core::{Blake2b512, EphemeralKey, Machine, Sha512, StaticKey, SuiteId, Time, blake2b};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::{
    Bundle, Conversation, IdentityKey, IdentityKeyPair, OneTimePrekey, Padding, Prekeys, SealError,
    SignalBundle, SuiteList, wire, xeddsa,
};
use rand_core::Rng as _;

use super::given::{Chance, Clock};
use super::is_container;
use super::refusal::Refusal;
use mezza_host::backend::AwsLc;

/// The largest registration number in Signal's protocol.
const REGISTRATION_MAX: u32 = 16_380;

/// The options of a peer.
pub(super) struct Given {
    /// The suite of its devices.
    pub suite: SuiteId,
    /// One-time keys that a device hands in with each bundle.
    pub one_time: usize,
    /// The random generator of the peer.
    pub chance: Chance,
    /// The clock.
    pub clock: Clock,
}

/// A device, and its session with the contact once there is one. Nothing of it is stored.
pub(super) struct PeerDevice {
    given: Given,
    registration: u32,
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    /// The bundle of a container suite and the one-time keys, for others to fetch.
    bundle: Vec<u8>,
    one_time: VecDeque<OneTimePrekey>,
    talk: Option<Conversation<AwsLc>>,
}

impl PeerDevice {
    /// Makes a device that supports a single suite.
    pub(super) fn new(mut given: Given) -> Result<Self, Refusal> {
        let identity = IdentityKeyPair::new(StaticKey::random::<AwsLc>(&mut given.chance));
        let prekeys = Prekeys::new(identity.duplicate()).offer_suites(&[given.suite]);
        let registration = 1 + given.chance.next_u32() % REGISTRATION_MAX;
        let bundle = Vec::new();
        let one_time = VecDeque::new();
        let mut device =
            Self { given, registration, identity, prekeys, bundle, one_time, talk: None };
        device.wake()?;
        Ok(device)
    }

    /// Replaces the device by a new one, with the same clock and the remaining random stream.
    pub(super) fn start_anew(&mut self) -> Result<(), Refusal> {
        let given = Given {
            suite: self.given.suite,
            one_time: self.given.one_time,
            chance: std::mem::replace(&mut self.given.chance, Chance::System),
            clock: self.given.clock,
        };
        *self = Self::new(given)?;
        Ok(())
    }

    /// Erases expired keys and rotates due ones.
    fn wake(&mut self) -> Result<(), Refusal> {
        let now = self.now();
        if let Some(talk) = &mut self.talk {
            let _ = talk.sweep_expired(now);
        }
        self.prekeys.wake(now, &mut self.given.chance);
        self.settle_outputs()
    }

    /// Makes a fresh signed prekey and fresh one-time keys at once.
    pub(super) fn rotate_keys(&mut self) -> Result<(), Refusal> {
        let now = self.now();
        self.prekeys.handle(Input::Rotate, now, &mut self.given.chance)?;
        self.settle_outputs()
    }

    /// Carries out the outputs of the prekeys.
    fn settle_outputs(&mut self) -> Result<(), Refusal> {
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let opk = opk.min(self.given.one_time);
                    let now = self.now();
                    let mut fresh =
                        |count| (0..count).map(|_| self.fresh_key().into_static()).collect();
                    let spk = fresh(spk);
                    let opk = fresh(opk);
                    let fresh = Input::Fresh { spk, opk };
                    self.prekeys.handle(fresh, now, &mut self.given.chance)?;
                }
                Output::Publish { bundle, one_time, replace } => {
                    self.bundle = bundle;
                    if replace {
                        self.one_time.clear();
                    }
                    self.one_time.extend(one_time);
                }
                Output::Store(_) | Output::Low => {}
            }
        }
        Ok(())
    }

    fn now(&self) -> Time {
        self.given.clock.now()
    }

    /// Sets the clock, if it was given on the command line.
    pub(super) fn set_clock(&mut self, time: Time) -> Result<(), Refusal> {
        let Clock::At(now) = &mut self.given.clock else {
            return Err(Refusal::new("no-clock", "this peer was started without `--now`"));
        };
        *now = time;
        self.wake()
    }

    /// Returns a hash over the whole state of the device, so that a test can see that a refusal
    /// changed nothing. Clock and random stream are not included.
    pub(super) fn hash_state(&self) -> [u8; 32] {
        let talk = self.talk.as_ref().map(Conversation::encode);
        let talk = talk.as_ref().map_or(&[][..], |rows| rows.as_slice());
        let prekeys = self.prekeys.encode();
        let one_time: Vec<u8> = self.one_time.iter().flat_map(OneTimePrekey::encode).collect();
        let parts = [prekeys.as_slice(), talk, &self.bundle, &one_time];
        let lengths: Vec<u8> = parts.iter().flat_map(|part| part.len().to_be_bytes()).collect();
        let [prekeys, talk, bundle, one_time] = parts;
        let registration = self.registration.to_be_bytes();
        let mut hash = [0; 32];
        let own = self.identity.pair().scalar().expose();
        let all = [&lengths, own.as_slice(), &registration, prekeys, talk, bundle, one_time];
        blake2b(&mut hash, &[], "mezza peer state", &all);
        hash
    }

    /// Returns the identity key, 32 bytes.
    pub(super) fn public(&self) -> IdentityKey {
        self.identity.public_key()
    }

    /// Returns the bundle of a container suite in its wire form.
    pub(super) fn bundle(&self) -> &[u8] {
        &self.bundle
    }

    /// Returns the next one-time key that was not issued, or `None` if none is left.
    pub(super) fn one_time(&mut self) -> Option<OneTimePrekey> {
        self.one_time.pop_front()
    }

    /// Returns the bundle of Signal's suite, without a one-time key.
    pub(super) fn signal_bundle(&self) -> Result<SignalBundle, Refusal> {
        let bundle = self.prekeys.signal_bundle(self.registration);
        bundle.ok_or_else(|| Refusal::new("no-prekey", "there is no signed prekey"))
    }

    /// Begins a session from a bundle in its wire form.
    pub(super) fn process_bundle(
        &mut self,
        bundle: &[u8],
        one_time: Option<OneTimePrekey>,
        remote: IdentityKey,
    ) -> Result<(), Refusal> {
        let ours = SuiteList::new(&[self.given.suite])?;
        let now = self.now();
        self.is_contact(&remote)?;
        let checked = Bundle::decode(bundle)?.check_with(&ours, &remote, &ours, now)?;
        let base = self.fresh_key();
        let (session, _) =
            checked.initiate_session(&self.identity, base, one_time, &mut self.given.chance)?;
        let _ = self.conversation_with(remote).add_session(session, now);
        Ok(())
    }

    /// Begins a session from a bundle of Signal's suite.
    pub(super) fn process_signal(
        &mut self,
        bundle: &SignalBundle,
        remote: IdentityKey,
    ) -> Result<(), Refusal> {
        self.is_contact(&remote)?;
        let checked = bundle.check(self.given.suite, &remote, self.registration)?;
        let base = self.fresh_key();
        let now = self.now();
        let (session, _) = checked.initiate_session(
            &self.identity,
            base,
            bundle.one_time,
            &mut self.given.chance,
        )?;
        let _ = self.conversation_with(remote).add_session(session, now);
        Ok(())
    }

    /// Seals a body. Returns true if the message is a first message, and its bytes.
    pub(super) fn seal(&mut self, body: &[u8]) -> Result<(bool, Vec<u8>), Refusal> {
        let now = self.now();
        let talk = self.talk.as_mut().ok_or(SealError::NoSession)?;
        let first = talk.is_pending();
        let draw = || EphemeralKey::random::<AwsLc>(&mut self.given.chance);
        let ephemeral = talk.needs_ephemeral().then(draw);
        let (message, _) = talk.seal(body, &[], Padding::Blocks, ephemeral, now)?;
        Ok((first, message))
    }

    /// Opens a message of the contact. The sender of the first message becomes the contact.
    pub(super) fn open(&mut self, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        let now = self.now();
        let mut talk = match (self.talk.take(), wire::first_identity(message)) {
            (Some(talk), _) => talk,
            (None, Some(remote)) => Conversation::new(self.public(), remote),
            (None, None) => return Err(SealError::NoSession.into()),
        };
        let opened = talk.open(message, &[], &self.identity, &mut self.prekeys, now);
        // A sender whose messages do not open does not become the contact.
        self.talk = talk.has_session().then_some(talk);
        let body = opened?.body.to_vec();
        self.settle_outputs()?;
        Ok(body)
    }

    /// Signs with the suite's signature scheme.
    pub(super) fn sign_text(&mut self, text: &[u8]) -> [u8; 64] {
        if is_container(self.given.suite) {
            self.identity.sign::<Blake2b512>(&[text], &mut self.given.chance)
        } else {
            self.identity.sign::<Sha512>(&[text], &mut self.given.chance)
        }
    }

    /// Verifies with the suite's signature scheme.
    pub(super) fn verifies(&self, key: &IdentityKey, text: &[u8], signature: &[u8; 64]) -> bool {
        if is_container(self.given.suite) {
            xeddsa::verify::<Blake2b512>(key, &[text], signature)
        } else {
            xeddsa::verify_signed::<Sha512>(key, &[text], signature)
        }
    }

    fn fresh_key(&mut self) -> EphemeralKey {
        EphemeralKey::random::<AwsLc>(&mut self.given.chance)
    }

    fn is_contact(&self, remote: &IdentityKey) -> Result<(), Refusal> {
        match &self.talk {
            Some(talk) if talk.remote() != remote => {
                Err(Refusal::new("other-contact", "this device has another contact"))
            }
            _ => Ok(()),
        }
    }

    fn conversation_with(&mut self, remote: IdentityKey) -> &mut Conversation<AwsLc> {
        let local = self.public();
        self.talk.get_or_insert_with(|| Conversation::new(local, remote))
    }
}
