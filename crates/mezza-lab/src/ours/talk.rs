//! The library as its callers use it: [`Conversation`] and [`Prekeys`]. The database rows are made
//! and dropped.

use std::marker::PhantomData;

use anyhow::{Context as _, Result};
use mezza::testing::process::rng::OsRng;
use mezza_core::{Backend, EphemeralKey, Machine as _, StaticKey, Time};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::suite::{RatchetSuite, is_container};
use mezza_ratchet::{
    Bundle, CheckedBundle, Conversation, IdentityKey, IdentityKeyPair, OneTimePrekey, Padding,
    Prekeys, SignalBundle, SuiteList,
};

use super::device::MeasuredDevice;

/// The time of every operation.
pub const NOW: Time = Time::from_ms(1_800_000_000_000);
/// The registration number of every install.
pub const REGISTRATION: u32 = 4660;

/// A device that speaks one suite.
pub struct MeasuredConversation<S, B: Backend> {
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    talk: Conversation<B>,
    suite: PhantomData<fn() -> S>,
}

/// The bundle of a device, as a server returns it.
pub enum PublishedBundle {
    /// Bytes of our own format.
    Container(Vec<u8>, OneTimePrekey),
    /// Fields of Signal's format.
    Signal(Box<SignalBundle>),
}

impl PublishedBundle {
    /// Decodes the bundle and checks it against the identity of its device.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn check_against<S: RatchetSuite>(
        &self,
        remote: &IdentityKey,
    ) -> Result<(CheckedBundle, Option<OneTimePrekey>)> {
        Ok(match self {
            Self::Container(bytes, one_time) => {
                let floor = SuiteList::new(&[S::ID])?;
                let checked = Bundle::decode(bytes)?.check(remote, &floor, NOW)?;
                (checked, Some(*one_time))
            }
            Self::Signal(bundle) => (bundle.check_as::<S>(remote, REGISTRATION)?, bundle.one_time),
        })
    }
}

impl<S: RatchetSuite + 'static, B: Backend> MeasuredConversation<S, B> {
    fn new(identity: IdentityKeyPair, remote: IdentityKey) -> Self {
        let prekeys = Prekeys::new(identity.duplicate()).offer_suites(&[S::ID]);
        let talk = Conversation::new(identity.public_key(), remote);
        Self { identity, prekeys, talk, suite: PhantomData }
    }

    /// Returns the conversation.
    pub fn talk(&self) -> &Conversation<B> {
        &self.talk
    }

    /// Returns the conversation, mutable.
    pub fn talk_mut(&mut self) -> &mut Conversation<B> {
        &mut self.talk
    }
}

/// Makes two devices with fresh identities. Each is made from its own key pair and the other's
/// public key.
pub fn device_pair<B: Backend, D>(device: impl Fn(IdentityKeyPair, IdentityKey) -> D) -> (D, D) {
    let [near, far] = [0; 2].map(|_| IdentityKeyPair::new(StaticKey::random::<B>(&mut OsRng)));
    let a = near.public_key();
    let b = far.public_key();
    (device(near, b), device(far, a))
}

/// Makes one signed and one one-time prekey. Returns the bundle, the public one-time prekey, and
/// its key pair.
///
/// # Errors
/// If the library refuses.
pub fn publish_prekeys<B: Backend>(
    prekeys: &mut Prekeys,
) -> Result<(Vec<u8>, OneTimePrekey, StaticKey)> {
    let opk = StaticKey::random::<B>(&mut OsRng);
    prekeys.wake(NOW, &mut OsRng);
    let mut published = None;
    while let Some(output) = prekeys.poll() {
        match output {
            Output::Need { spk, .. } => {
                let draw = || StaticKey::random::<B>(&mut OsRng);
                let spk = std::iter::repeat_with(draw).take(spk).collect();
                let fresh = Input::Fresh { spk, opk: vec![opk.duplicate()] };
                prekeys.handle(fresh, NOW, &mut OsRng)?;
            }
            Output::Publish { bundle, mut one_time, .. } => {
                published = one_time.pop().map(|one_time| (bundle, one_time, opk.duplicate()));
            }
            Output::Store(_) | Output::Low => {}
        }
    }
    published.context("nothing was published")
}

impl<S: RatchetSuite + 'static, B: Backend> MeasuredDevice for MeasuredConversation<S, B> {
    type Bundle = PublishedBundle;

    fn make_pair() -> Result<(Self, Self)> {
        Ok(device_pair::<B, _>(Self::new))
    }

    fn publish_bundle(&mut self) -> Result<PublishedBundle> {
        self.prekeys = Prekeys::new(self.identity.duplicate()).offer_suites(&[S::ID]);
        let (bytes, one_time, _) = publish_prekeys::<B>(&mut self.prekeys)?;
        if is_container(S::ID) {
            return Ok(PublishedBundle::Container(bytes, one_time));
        }
        let bundle = self.prekeys.signal_bundle(REGISTRATION).context("no bundle")?;
        Ok(PublishedBundle::Signal(Box::new(SignalBundle { one_time: Some(one_time), ..bundle })))
    }

    fn begin_session(&mut self, bundle: &PublishedBundle) -> Result<()> {
        let (checked, one_time) = bundle.check_against::<S>(self.talk.remote())?;
        let base = EphemeralKey::random::<B>(&mut OsRng);
        let (session, _) =
            checked.initiate_session::<B>(&self.identity, base, one_time, &mut OsRng)?;
        drop(self.talk.add_session(session, NOW));
        Ok(())
    }

    fn seal(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        let fresh = self.talk.needs_ephemeral().then(|| EphemeralKey::random::<B>(&mut OsRng));
        let (message, _) = self.talk.seal(body, &[], Padding::Blocks, fresh, NOW)?;
        Ok(message)
    }

    fn open(&mut self, message: &[u8]) -> Option<usize> {
        let Self { identity, prekeys, talk, .. } = self;
        Some(talk.open(message, &[], identity, prekeys, NOW).ok()?.body.len())
    }
}
