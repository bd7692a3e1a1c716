//! Tools of several tests: the generator of the vectors, small trees, a seeded chance.

pub mod mauled;

use std::convert::Infallible;

use mezza_core::blake2b;
use mezza_hibe::{
    Bucket, CardBlock, EnvelopeKey, Epoch, HeldKeys, KeyTree, Life, Shape, System, Tick,
    TreeProfile, Trial, trial_open,
};
use mezza_testing::hex;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::{TryCryptoRng, TryRng};

/// Block i is BLAKE2b-512(00 01 .. 1f | u64 i); each draw of 64 bytes takes one.
pub struct Blocks(u64);

impl Blocks {
    pub fn new() -> Self {
        Self(0)
    }
}

impl TryRng for Blocks {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("only scalars are drawn")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("only scalars are drawn")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        assert_eq!(bytes.len(), 64, "only scalars are drawn");
        let seed: [u8; 32] = core::array::from_fn(|i| i as u8);
        blake2b(bytes, &[], "", &[&seed, &self.0.to_be_bytes()]);
        self.0 += 1;
        Ok(())
    }
}

impl TryCryptoRng for Blocks {}

pub fn chance(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// The digest in which the vectors give long values.
pub fn digest(bytes: &[u8]) -> String {
    let mut out = [0; 32];
    blake2b(&mut out, &[], "", &[bytes]);
    hex(&out)
}

/// An envelope for a card at a tick.
pub fn envelope_for(system: &System, card: &CardBlock, tick: Tick, payload: &[u8]) -> Vec<u8> {
    let key = card.seal_key(tick).expect("within the life of the card");
    let key = EnvelopeKey::new(system, &key, tick, &mut chance(tick.0.into())).expect("a key");
    key.seal(payload, Bucket::SMALLEST, tick).expect("an envelope").into_bytes()
}

/// An envelope of a life for a card at a tick.
pub fn envelope_of_life(system: &System, card: &CardBlock, life: Life, tick: Tick) -> Vec<u8> {
    let key = card.seal_key_for(life, tick).expect("within the life of the card");
    let key = EnvelopeKey::new(system, &key, tick, &mut chance(tick.0.into())).expect("a key");
    key.seal(b"x", Bucket::SMALLEST, tick).expect("an envelope").into_bytes()
}

/// Somebody with a tree of the full size.
pub struct Person {
    pub system: System,
    pub tree: KeyTree,
}

impl Person {
    pub fn new(seed: u64, now: Tick) -> Self {
        Self::with(seed, TreeProfile::Minute, now)
    }

    pub fn with(seed: u64, profile: TreeProfile, now: Tick) -> Self {
        let system = System::new();
        let tree = KeyTree::create(&system, Shape::Wide, profile, now, &mut chance(seed));
        Self { system, tree: tree.expect("a tree") }
    }

    pub fn epoch(&self, tick: Tick) -> Epoch {
        self.tree.card().epoch_of(tick).expect("within the life")
    }

    pub fn envelope(&self, tick: Tick, payload: &[u8]) -> Vec<u8> {
        envelope_for(&self.system, self.tree.card(), tick, payload)
    }

    /// The keys of the epoch before, of this one and of the next.
    pub fn hold(&self, now: Tick) -> HeldKeys {
        let rng = &mut chance(77);
        let current = self.epoch(now);
        let mut held = HeldKeys::new();
        for epoch in [current.minus(1), current, current.plus(1)] {
            if let Ok(key) = self.tree.open_key(&self.system, epoch, rng) {
                held.insert(key);
            }
        }
        held
    }

    pub fn trial(&mut self, now: Tick, envelope: &[u8]) -> Trial {
        trial_open(&self.system, &self.hold(now), envelope)
    }
}
