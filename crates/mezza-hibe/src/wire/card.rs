//! The card block: the public key with its parameters.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 1 | suite (high nibble), tree (low nibble) |
//! | 1 | 1 | k, ticks of an epoch |
//! | 2 | 4 | origin, a tick |
//! | 6 | 96 (L + 1) | `Z_0[0]` `Z_0[1]` .. `Z_L[1]` |
//! | 6 + 96 (L + 1) | 48 | z' |

use alloc::vec::Vec;

use mezza_core::{Reader, Writer, labelled_hash};

use super::{join_nibbles, low_of_suite};
use crate::bkp::{self, Parameters};
use crate::curve::gt::Gt;
use crate::curve::{G1_BYTES, G1Affine};
use crate::error::{CardBlockError, EncapsulateError, TreeError};
use crate::shape::{Epoch, Shape, Tick, TreeProfile};

/// Bytes in front of the points.
const HEAD_BYTES: usize = 6;
/// Bytes of a card block of [`Shape::Wide`].
pub const CARD_BLOCK_BYTES: usize = bytes_of(5);
/// Bytes of its public key: what a card block has behind its head.
pub const PUBLIC_KEY_BYTES: usize = CARD_BLOCK_BYTES - HEAD_BYTES;

const fn bytes_of(levels: usize) -> usize {
    HEAD_BYTES + 2 * G1_BYTES * (levels + 1) + G1_BYTES
}

/// `H_32("fshibe/v1/card`", card block): names the card block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CardBlockHash(pub [u8; 32]);

/// The card blocks that a reader accepts beyond suite 1 and the wide tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockPolicy {
    /// Nothing.
    #[default]
    Product,
    /// The small tree of the tests.
    TestTree,
}

/// A public key with its parameters; whoever holds it can seal for its owner.
pub struct CardBlock {
    shape: Shape,
    profile: TreeProfile,
    origin: Tick,
    parameters: Parameters,
    /// e(z', P2), which every envelope needs.
    base: Gt,
    bytes: Vec<u8>,
    hash: CardBlockHash,
}

impl core::fmt::Debug for CardBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CardBlock")
    }
}

impl CardBlock {
    /// The card block of a new public key.
    pub fn new(shape: Shape, profile: TreeProfile, origin: Tick, parameters: Parameters) -> Self {
        let mut w = Writer::with_capacity(bytes_of(shape.depth()));
        w.put_u8(join_nibbles(shape.nibble())).put_u8(profile.byte()).put_u32(origin.0);
        for point in parameters.z.iter().flatten().chain([&parameters.z_prime]) {
            w.put_bytes(&point.compress());
        }
        let bytes = w.finish();
        let hash = CardBlockHash(labelled_hash("fshibe/v1/card", &[&bytes]));
        let base = bkp::compute_base(&parameters);
        Self { shape, profile, origin, parameters, base, bytes, hash }
    }

    /// Reads one, 630 bytes for the wide tree. Every point is checked here, once (HIBE-1, HIBE-2);
    /// that and the base take 1.3 ms.
    pub fn decode(bytes: &[u8], policy: BlockPolicy) -> Result<Self, CardBlockError> {
        let too_short = CardBlockError::Length { bytes: bytes.len(), expected: CARD_BLOCK_BYTES };
        let kind = bytes.first().ok_or(too_short)?;
        let tree = low_of_suite(*kind).ok_or(CardBlockError::Suite)?;
        let shape = Shape::from_nibble(tree).filter(|shape| is_allowed(*shape, policy));
        let shape = shape.ok_or(CardBlockError::Tree)?;
        let expected = bytes_of(shape.depth());
        let length = CardBlockError::Length { bytes: bytes.len(), expected };
        if bytes.len() != expected {
            return Err(length);
        }
        let mut r = Reader::new(&bytes[1..]);
        let k = r.read_u8().map_err(|_| length)?;
        let profile = TreeProfile::from_byte(k).ok_or(CardBlockError::Profile)?;
        let origin = Tick(r.read_u32().map_err(|_| length)?);
        if !can_begin(shape, profile, origin) {
            return Err(CardBlockError::Origin);
        }
        let points: Vec<G1Affine> =
            (0..).zip(r.read_rest().as_chunks().0).map(decode_point).collect::<Result<_, _>>()?;
        let (z, z_prime) = points.as_chunks::<2>();
        let parameters = Parameters { z: z.to_vec(), z_prime: z_prime[0].clone() };
        Ok(Self::new(shape, profile, origin, parameters))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its name: pkh, 32 bytes.
    pub fn hash(&self) -> &CardBlockHash {
        &self.hash
    }

    /// The shape of its tree.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The length of its epochs.
    pub fn profile(&self) -> TreeProfile {
        self.profile
    }

    /// The tick at which its life begins.
    pub fn origin(&self) -> Tick {
        self.origin
    }

    /// The first tick behind its life.
    pub fn end_tick(&self) -> Tick {
        Tick(self.origin.0 + self.shape.epoch_count() * self.profile.epoch_ticks())
    }

    /// The epoch of a tick.
    pub fn epoch_of(&self, tick: Tick) -> Result<Epoch, TreeError> {
        let since = tick.0.checked_sub(self.origin.0).ok_or(TreeError::NotYet)?;
        let epoch = since / self.profile.epoch_ticks();
        if epoch < self.shape.epoch_count() { Ok(Epoch(epoch)) } else { Err(TreeError::Over) }
    }

    /// The epoch of a tick, as a floor follows it: `None` before the life of this card; after it two beyond
    /// the last one, so that the last one is over, too.
    pub fn epoch_at(&self, tick: Tick) -> Option<Epoch> {
        match self.epoch_of(tick) {
            Ok(epoch) => Some(epoch),
            Err(TreeError::Over) => Some(Epoch(self.shape.epoch_count()).plus(1)),
            Err(_) => None,
        }
    }

    /// The first tick of an epoch of this card.
    pub fn first_tick(&self, epoch: Epoch) -> Tick {
        Tick(self.origin.0 + epoch.0 * self.profile.epoch_ticks())
    }

    /// Returns the key that seals for the epoch of a tick. A sender keeps it while that epoch lasts.
    pub fn seal_key(&self, tick: Tick) -> Result<crate::envelope::SealKey, EncapsulateError> {
        let epoch = self.epoch_of(tick).map_err(|error| match error {
            TreeError::NotYet => EncapsulateError::NotYet,
            TreeError::Erased | TreeError::Over | TreeError::Leaf | TreeError::Damaged => {
                EncapsulateError::Over
            }
        })?;
        Ok(crate::envelope::SealKey::new(self, epoch))
    }

    /// Its points.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn base(&self) -> &Gt {
        &self.base
    }

    /// A second copy.
    pub(crate) fn duplicate(&self) -> Self {
        let Self { shape, profile, origin, ref parameters, ref bytes, hash, .. } = *self;
        let base = self.base.duplicate();
        let parameters = parameters.clone();
        Self { shape, profile, origin, parameters, base, bytes: bytes.clone(), hash }
    }
}

fn is_allowed(shape: Shape, policy: BlockPolicy) -> bool {
    shape == Shape::Wide || policy == BlockPolicy::TestTree
}

/// A multiple of the epoch, and no tick of the life is above 32 bits.
fn can_begin(shape: Shape, profile: TreeProfile, origin: Tick) -> bool {
    let life = shape.epoch_count().checked_mul(profile.epoch_ticks());
    let ends = life.and_then(|life| origin.0.checked_add(life)).is_some();
    ends && origin.0.is_multiple_of(profile.epoch_ticks())
}

fn decode_point((index, bytes): (usize, &[u8; G1_BYTES])) -> Result<G1Affine, CardBlockError> {
    let point = G1Affine::uncompress(bytes).ok().filter(G1Affine::in_subgroup);
    point.ok_or(CardBlockError::Point(index))
}
