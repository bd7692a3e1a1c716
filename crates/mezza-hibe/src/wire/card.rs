//! The card block: the public key with its parameters.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 1 | suite (high nibble), tree (low nibble) |
//! | 1 | 1 | k, ticks of an epoch; 1 in a tree of several lives |
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
use crate::lives::{Life, TreeCalendar};
use crate::shape::{Epoch, Shape, Tick, TreeProfile};

/// Bytes of a card block before its points.
const HEAD_BYTES: usize = 6;
/// Bytes of a card block of [`Shape::Wide`] and of [`Shape::Lives`].
pub const CARD_BLOCK_BYTES: usize = bytes_of(5);
/// Bytes of the public key: the points of a card block of [`Shape::Wide`].
pub const PUBLIC_KEY_BYTES: usize = CARD_BLOCK_BYTES - HEAD_BYTES;

const fn bytes_of(levels: usize) -> usize {
    HEAD_BYTES + 2 * G1_BYTES * (levels + 1) + G1_BYTES
}

/// The hash `H_32("fshibe/v1/card`", card block), which identifies the card block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CardBlockHash(pub [u8; 32]);

/// The card blocks that a reader accepts in addition to suite 1 with trees 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockPolicy {
    /// No other card blocks.
    #[default]
    Product,
    /// Also card blocks with the small trees of the tests.
    TestTree,
}

/// A public key with its parameters. Everyone who has the card block can seal for its owner.
pub struct CardBlock {
    calendar: TreeCalendar,
    parameters: Parameters,
    /// The value e(z', P2), which every envelope needs.
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
    /// Creates the card block of a new public key.
    pub fn new(shape: Shape, profile: TreeProfile, origin: Tick, parameters: Parameters) -> Self {
        let mut w = Writer::with_capacity(bytes_of(shape.depth()));
        w.put_u8(join_nibbles(shape.nibble())).put_u8(profile.byte()).put_u32(origin.0);
        for point in parameters.z.iter().flatten().chain([&parameters.z_prime]) {
            w.put_bytes(&point.compress());
        }
        let bytes = w.finish();
        let hash = CardBlockHash(labelled_hash("fshibe/v1/card", &[&bytes]));
        let base = bkp::compute_base(&parameters);
        let calendar = TreeCalendar { shape, profile, origin };
        Self { calendar, parameters, base, bytes, hash }
    }

    /// Decodes a card block, 630 bytes for trees 1 and 2. Every point is checked here and only here
    /// (HIBE-1, HIBE-2). The checks and e(z', P2) take 1.3 ms.
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
        // The lengths of epochs in tree 2 are fixed (HIBE-84).
        if shape == Shape::Lives && profile != TreeProfile::Minute {
            return Err(CardBlockError::Profile);
        }
        let origin = Tick(r.read_u32().map_err(|_| length)?);
        let calendar = TreeCalendar { shape, profile, origin };
        if !calendar.can_begin() {
            return Err(CardBlockError::Origin);
        }
        let points = (0..).zip(r.read_rest().as_chunks().0);
        let points = points.map(|(index, bytes)| decode_point(index, bytes));
        let points = points.collect::<Result<Vec<_>, _>>()?;
        let (z, z_prime) = points.as_chunks::<2>();
        let parameters = Parameters { z: z.to_vec(), z_prime: z_prime[0].clone() };
        Ok(Self::new(shape, profile, origin, parameters))
    }

    /// Returns the bytes of the card block.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the hash of the card block: pkh, 32 bytes.
    pub fn hash(&self) -> &CardBlockHash {
        &self.hash
    }

    /// Returns the shape of the card's tree.
    pub fn shape(&self) -> Shape {
        self.calendar.shape
    }

    /// Returns the profile, which gives the length of the card's shortest epochs.
    pub fn profile(&self) -> TreeProfile {
        self.calendar.profile
    }

    /// Returns the tick at which the life of the card begins.
    pub fn origin(&self) -> Tick {
        self.calendar.origin
    }

    /// Returns the calendar, which converts between ticks and epochs of the card.
    pub fn calendar(&self) -> &TreeCalendar {
        &self.calendar
    }

    /// Returns the lives that the card's tree serves, the shortest life first.
    pub fn lives(&self) -> impl Iterator<Item = Life> + use<> {
        self.calendar.branches().map(|branch| branch.life)
    }

    /// Returns the shortest life of the card. The card ends with this life.
    pub fn shortest_life(&self) -> Life {
        self.calendar.shortest_branch().life
    }

    /// Returns the first tick after the life of the card.
    pub fn end_tick(&self) -> Tick {
        self.calendar.end_tick()
    }

    /// Returns the epoch of the shortest life that contains a tick.
    ///
    /// # Errors
    /// The same as [`TreeCalendar::find_epoch`].
    pub fn epoch_of(&self, tick: Tick) -> Result<Epoch, TreeError> {
        self.find_epoch(self.shortest_life(), tick)
    }

    /// Returns the epoch of a life that contains a tick.
    ///
    /// # Errors
    /// The same as [`TreeCalendar::find_epoch`].
    pub fn find_epoch(&self, life: Life, tick: Tick) -> Result<Epoch, TreeError> {
        self.calendar.find_epoch(life, tick)
    }

    /// Returns the epoch of a life at a tick, for the floor rule. `None` before the life of the
    /// card, and for a life that the card does not have. After the end of the branch, the result is
    /// two beyond the last epoch, so that the floor passes the last epoch too.
    pub fn find_floor_epoch(&self, life: Life, tick: Tick) -> Option<Epoch> {
        match self.find_epoch(life, tick) {
            Ok(epoch) => Some(epoch),
            Err(TreeError::Over) => Some(self.calendar.find_branch(life)?.end.plus(1)),
            Err(_) => None,
        }
    }

    /// Returns the first tick of an epoch of this card. An epoch without a branch counts as one of
    /// the shortest life.
    pub fn first_tick(&self, epoch: Epoch) -> Tick {
        let calendar = &self.calendar;
        let branch = calendar.find_branch_with(epoch);
        calendar.first_tick(&branch.unwrap_or_else(|| calendar.shortest_branch()), epoch)
    }

    /// Returns the key that seals for the shortest life at a tick. A sender keeps this key while
    /// the epoch lasts.
    ///
    /// # Errors
    /// The same as [`seal_key_for`](Self::seal_key_for).
    pub fn seal_key(&self, tick: Tick) -> Result<crate::envelope::SealKey, EncapsulateError> {
        self.seal_key_for(self.shortest_life(), tick)
    }

    /// Returns the key that seals for a life at a tick. A sender keeps this key while the epoch
    /// lasts.
    ///
    /// # Errors
    /// `NotYet` and `Over` for a tick outside of the life of the card (HIBE-48), `NoLife` for a life that
    /// the card does not have (HIBE-86).
    pub fn seal_key_for(
        &self,
        life: Life,
        tick: Tick,
    ) -> Result<crate::envelope::SealKey, EncapsulateError> {
        let epoch = self.find_epoch(life, tick).map_err(|error| match error {
            TreeError::NotYet => EncapsulateError::NotYet,
            TreeError::NoLife => EncapsulateError::NoLife,
            TreeError::Erased | TreeError::Over | TreeError::Leaf | TreeError::Damaged => {
                EncapsulateError::Over
            }
        })?;
        // Longer lives have epochs after the last one of the shortest life, but the card has ended
        // then (HIBE-84).
        if tick >= self.end_tick() {
            return Err(EncapsulateError::Over);
        }
        Ok(crate::envelope::SealKey::new(self, epoch))
    }

    /// Returns the points of the card.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn base(&self) -> &Gt {
        &self.base
    }

    /// Returns a copy of the card block.
    pub(crate) fn duplicate(&self) -> Self {
        let Self { calendar, ref parameters, ref bytes, hash, .. } = *self;
        let base = self.base.duplicate();
        let parameters = parameters.clone();
        Self { calendar, parameters, base, bytes: bytes.clone(), hash }
    }
}

fn is_allowed(shape: Shape, policy: BlockPolicy) -> bool {
    matches!(shape, Shape::Wide | Shape::Lives) || policy == BlockPolicy::TestTree
}

fn decode_point(index: usize, bytes: &[u8; G1_BYTES]) -> Result<G1Affine, CardBlockError> {
    let point = G1Affine::uncompress(bytes).ok().filter(G1Affine::in_subgroup);
    point.ok_or(CardBlockError::Point(index))
}
