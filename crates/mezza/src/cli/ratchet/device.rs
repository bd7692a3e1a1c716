//! A device of one suite with one contact, in memory: what `mezza ratchet peer` plays.

use anyhow::{Context as _, Result, anyhow, bail};
use mezza_core::{Blake2b512, Ephemeral, Machine, Sha512, SuiteId};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::{
    Bundle, Conversation, Identity, IdentityKey, List, OneTime, Padding, Prekeys, SignalBundle,
    wire, xeddsa,
};
use rand_core::Rng as _;

use super::is_container;
use crate::backend::AwsLc;
use crate::node::now;
use crate::rng::OsRng;

/// One-time keys that are handed in at a time: each device publishes one bundle.
const STOCK: usize = 1;
/// The largest number of an install in Signal's protocol.
const REGISTRATION_MAX: u32 = 16_380;

/// A device, and its session with the contact once there is one. Nothing of it is stored.
pub struct Device {
    suite: SuiteId,
    registration: u32,
    identity: Identity,
    prekeys: Prekeys,
    published: Published,
    talk: Option<Conversation<AwsLc>>,
}

/// What others may fetch.
#[derive(Default)]
struct Published {
    bundle: Vec<u8>,
    one_time: Option<OneTime>,
}

impl Device {
    /// A new device that speaks `suite` alone.
    pub fn new(suite: SuiteId) -> Result<Self> {
        let identity = Identity::new(fresh());
        let prekeys = Prekeys::new(identity.duplicate()).offering(&[suite]);
        let registration = 1 + OsRng.next_u32() % REGISTRATION_MAX;
        let published = Published::default();
        let mut device = Self { suite, registration, identity, prekeys, published, talk: None };
        device.prekeys.wake(now(), &mut OsRng);
        while let Some(output) = device.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let fresh = |count| (0..count).map(|_| fresh()).collect();
                    let input = Input::Fresh { spk: fresh(spk), opk: fresh(opk.min(STOCK)) };
                    device.prekeys.handle(input, now(), &mut OsRng)?;
                }
                Output::Publish { bundle, mut one_time, .. } => {
                    device.published = Published { bundle, one_time: one_time.pop() };
                }
                Output::Store(_) | Output::Low => {}
            }
        }
        Ok(device)
    }

    /// The identity key, 32 bytes.
    pub fn public(&self) -> IdentityKey {
        self.identity.public()
    }

    /// The wire form of the bundle of a container suite, and a one-time key.
    pub fn bundle(&self) -> (&[u8], Option<OneTime>) {
        (&self.published.bundle, self.published.one_time)
    }

    /// The bundle of Signal's suite.
    pub fn signal_bundle(&self) -> Option<SignalBundle> {
        let bundle = self.prekeys.signal_bundle(self.registration)?;
        Some(SignalBundle { one_time: self.published.one_time, ..bundle })
    }

    /// Begins a session from a bundle in its wire form.
    pub fn process(
        &mut self,
        bundle: &[u8],
        one_time: Option<OneTime>,
        remote: IdentityKey,
    ) -> Result<()> {
        let ours = List::new(&[self.suite])?;
        let checked = Bundle::decode(bundle)?.check_with(&ours, &remote, &ours, now())?;
        let (session, _) = checked.initiate(&self.identity, fresh(), one_time, &mut OsRng)?;
        let _ = self.talk(remote)?.begin(session, now());
        Ok(())
    }

    /// Begins a session from a bundle of Signal's suite.
    pub fn process_signal(&mut self, bundle: &SignalBundle, remote: IdentityKey) -> Result<()> {
        let checked = bundle.check(self.suite, &remote, self.registration)?;
        let (session, _) =
            checked.initiate(&self.identity, fresh(), bundle.one_time, &mut OsRng)?;
        let _ = self.talk(remote)?.begin(session, now());
        Ok(())
    }

    /// Seals a body; whether the message is a first message, and its bytes.
    pub fn seal(&mut self, body: &[u8]) -> Result<(bool, Vec<u8>)> {
        let talk = self.talk.as_mut().context("there is no session")?;
        let first = talk.is_pending();
        let ephemeral = talk.needs_ephemeral().then(fresh);
        let (message, _) = talk.seal(body, &[], Padding::Blocks, ephemeral, now())?;
        Ok((first, message))
    }

    /// Opens a message of the contact; whoever sends the first one is the contact.
    pub fn open(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let mut talk = match (self.talk.take(), wire::first_identity(message)) {
            (Some(talk), _) => talk,
            (None, Some(remote)) => Conversation::new(self.public(), IdentityKey::decode(&remote)?),
            (None, None) => bail!("there is no session"),
        };
        let opened = talk.open(message, &[], &self.identity, &mut self.prekeys, now());
        // Who sent only what does not open is no contact.
        self.talk = talk.has_session().then_some(talk);
        Ok(opened?.body.to_vec())
    }

    /// Signs as the suite does.
    pub fn sign(&self, text: &[u8]) -> [u8; 64] {
        if is_container(self.suite) {
            self.identity.sign::<Blake2b512>(&[text], &mut OsRng)
        } else {
            self.identity.sign::<Sha512>(&[text], &mut OsRng)
        }
    }

    /// Verifies as the suite does.
    pub fn verifies(&self, key: &IdentityKey, text: &[u8], signature: &[u8; 64]) -> bool {
        if is_container(self.suite) {
            xeddsa::verify::<Blake2b512>(key, &[text], signature)
        } else {
            xeddsa::verify_signed::<Sha512>(key, &[text], signature)
        }
    }

    fn talk(&mut self, remote: IdentityKey) -> Result<&mut Conversation<AwsLc>> {
        let local = self.public();
        let talk = self.talk.get_or_insert_with(|| Conversation::new(local, remote));
        if *talk.remote() == remote { Ok(talk) } else { Err(anyhow!("this is another contact")) }
    }
}

fn fresh() -> Ephemeral {
    Ephemeral::draw::<AwsLc>(&mut OsRng)
}
