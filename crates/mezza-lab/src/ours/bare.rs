//! The Double Ratchet of a suite without [`mezza_ratchet::Conversation`], so that suites without a
//! number on the wire can be measured and attacked.

use anyhow::{Context as _, Result};
use mezza::testing::process::rng::OsRng;
use mezza_core::{Backend, EphemeralKey, Secret, StaticKey, Time, Wiping};
use mezza_ratchet::session::Ratchet;
use mezza_ratchet::suite::{RatchetSuite, is_container};
use mezza_ratchet::wire::Wire as _;
use mezza_ratchet::x3dh::{self, ResponderKeys};
use mezza_ratchet::{
    Changes, IdentityKey, IdentityKeyPair, OneTimePrekey, Padding, Prekeys, SignalBundle, SuiteList,
};

use super::device::MeasuredDevice;
use super::talk::{PublishedBundle, REGISTRATION, device_pair, publish_prekeys};

/// The start time of every ratchet in this module.
const BEGAN: Time = Time::from_ms(1);

/// A device with one ratchet.
pub struct Bare<S, B> {
    identity: IdentityKeyPair,
    remote: IdentityKey,
    offered: Option<(StaticKey, StaticKey)>,
    ratchet: Option<Ratchet<S, B>>,
}

impl<S: RatchetSuite, B: Backend> Bare<S, B> {
    fn new(identity: IdentityKeyPair, remote: IdentityKey) -> Self {
        Self { identity, remote, offered: None, ratchet: None }
    }

    /// Returns the identity of this device.
    pub fn identity(&self) -> &IdentityKeyPair {
        &self.identity
    }

    /// Makes two copies of this device with the same session state, as after a restored backup.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn make_twins(&self, bundle: &PublishedBundle) -> Result<[Self; 2]> {
        let [base, turn] = [(); 2].map(|()| Secret::random(&mut OsRng));
        let twin = || -> Result<Self> {
            let mut twin = Self::new(self.identity.duplicate(), self.remote);
            twin.begin_from(bundle, EphemeralKey::from_scalar::<B>(base.duplicate()))?;
            // The first message makes a DH step. It is dropped, so that the next message makes
            // none.
            let fresh = EphemeralKey::from_scalar::<B>(turn.duplicate());
            twin.begun_ratchet()?.seal(b"", &[], Padding::Blocks, Some(fresh), BEGAN)?;
            Ok(twin)
        };
        Ok([twin()?, twin()?])
    }

    fn begin_from(&mut self, bundle: &PublishedBundle, base: EphemeralKey) -> Result<()> {
        let (checked, one_time) = bundle.check_against::<S>(&self.remote)?;
        let identity = &self.identity;
        let (ratchet, _) =
            x3dh::initiate_session::<S, B>(&checked, identity, base, one_time, &mut OsRng)?;
        self.ratchet = Some(ratchet);
        Ok(())
    }

    /// Returns the ratchet.
    ///
    /// # Errors
    /// If there is no session.
    pub fn begun_ratchet(&mut self) -> Result<&mut Ratchet<S, B>> {
        self.ratchet.as_mut().context("no session")
    }

    /// Opens a message. Returns its body, or `None` if the message is refused.
    pub fn open_body(&mut self, message: &[u8]) -> Option<Wiping<Vec<u8>>> {
        let envelope = S::Wire::decode(message).ok()?;
        if let (Some(first), None) = (&envelope.first, &self.ratchet) {
            let (spk, opk) = self.offered.as_ref()?;
            let list = SuiteList::new(&[S::ID]).ok();
            let opk = (first.opk_id != 0).then_some(opk);
            let offered = ResponderKeys { spk, list, opk, kem: None };
            let (ratchet, _) =
                x3dh::accept_session::<S, B>(first, &self.identity, &offered).ok()?;
            self.ratchet = Some(ratchet);
        }
        let ratchet = self.ratchet.as_mut()?;
        ratchet.open(&envelope.inner, &[], BEGAN, &mut Changes::new()).ok()
    }
}

impl<S: RatchetSuite + 'static, B: Backend> MeasuredDevice for Bare<S, B> {
    type Bundle = PublishedBundle;

    fn make_pair() -> Result<(Self, Self)> {
        Ok(device_pair::<B, _>(Self::new))
    }

    fn publish_bundle(&mut self) -> Result<PublishedBundle> {
        if is_container(S::ID) {
            let mut prekeys = Prekeys::new(self.identity.duplicate()).offer_suites(&[S::ID]);
            let (bytes, one_time, opk) = publish_prekeys::<B>(&mut prekeys)?;
            let (_, _, spk) = prekeys.signed_prekeys().next().context("no signed prekey")?;
            self.offered = Some((spk.duplicate(), opk));
            return Ok(PublishedBundle::Container(bytes, one_time));
        }
        let [spk, opk] = [0; 2].map(|_| StaticKey::random::<B>(&mut OsRng));
        let signature =
            self.identity.sign::<S::SignatureHash>(&[&[5], &spk.public_key().0], &mut OsRng);
        let spk_key = *spk.public_key();
        let one_time = OneTimePrekey { id: 7, key: *opk.public_key() };
        self.offered = Some((spk, opk));
        Ok(PublishedBundle::Signal(Box::new(SignalBundle {
            registration: REGISTRATION,
            spk_id: 9,
            spk: spk_key,
            signature,
            one_time: Some(one_time),
            kem: None,
        })))
    }

    fn begin_session(&mut self, bundle: &PublishedBundle) -> Result<()> {
        self.begin_from(bundle, EphemeralKey::random::<B>(&mut OsRng))
    }

    fn seal(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        let ratchet = self.begun_ratchet()?;
        match ratchet.seal(body, &[], Padding::Blocks, None, BEGAN) {
            Err(mezza_ratchet::SealError::NeedEphemeral) => {
                let fresh = EphemeralKey::random::<B>(&mut OsRng);
                Ok(ratchet.seal(body, &[], Padding::Blocks, Some(fresh), BEGAN)?)
            }
            sealed => Ok(sealed?),
        }
    }

    fn open(&mut self, message: &[u8]) -> Option<usize> {
        self.open_body(message).map(|body| body.len())
    }
}
