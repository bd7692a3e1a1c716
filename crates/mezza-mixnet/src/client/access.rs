//! The content of a slot: an access to a dead drop, a call, an invitation, or an idle imitation of
//! one.

use alloc::vec::Vec;

use mezza_core::{AeadKey, Backend, CryptoRng, EphemeralKey, Secret, Wiping, snapshot};

use crate::contact::{ConversationKeywheel, Role, RoundKeys};
use crate::service::{CELL_BYTES, DROP_BYTES, INVITATION_BYTES, TAG_BYTES, TOKEN_BYTES};
use crate::wire::Cell;
use crate::wire::cell::{MalformedCell, PLAIN_BYTES};

/// The bucket whose content is dropped.
pub const NO_BUCKET: u32 = 0;
/// Bytes of the plaintext of a conversation round.
const ACCESS_BYTES: usize = DROP_BYTES + CELL_BYTES;

/// One access to a dead drop, with the keys to read its reply. Used in one round only.
pub struct Access {
    bytes: Wiping<[u8; ACCESS_BYTES]>,
    open: Secret<32>,
}

snapshot!(struct Access { bytes, open });

/// The reply from a dead drop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "an answer is read at once and kept nowhere")]
pub enum DropResult {
    /// Our own cell returned, because the partner was not there.
    Absent,
    /// Neither our cell nor the partner's.
    Garbage,
    /// The partner's cell. A cell that opens but is malformed also counts as a meeting.
    Met(Result<Cell, MalformedCell>),
}

impl Access {
    /// Seals `cell` for one round of a contact. Two cells under one key would reveal their
    /// difference, so `turn` is consumed, and a chain supplies one per round (MIX-23).
    pub fn seal_cell<B: Backend>(turn: RoundKeys, cell: &Cell) -> Self {
        let mut bytes = Wiping::new([0; ACCESS_BYTES]);
        bytes[..DROP_BYTES].copy_from_slice(&turn.drop);
        // The nonce is zero because the key seals this one cell and is then out of the chain
        // (MIX-23).
        let mut plain = Wiping::new(cell.encode());
        let tag = B::Chacha::new(turn.seal.expose()).seal(&[0; 12], &[], &mut *plain);
        bytes[DROP_BYTES..DROP_BYTES + PLAIN_BYTES].copy_from_slice(&*plain);
        bytes[DROP_BYTES + PLAIN_BYTES..].copy_from_slice(&tag);
        Self { bytes, open: turn.open }
    }

    /// Returns the access of an idle slot, with the keys of a random root.
    pub fn for_idle_slot<B: Backend>(round: u64, rng: &mut dyn CryptoRng) -> Self {
        // The idle slot derives its keys from a random root, so that it takes the steps of a busy
        // one (MIX-22).
        let mut nobody = ConversationKeywheel::begin(&Secret::random(rng), Role::Initiator, round);
        let cell = Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
        Self::seal_cell::<B>(nobody.take_round_keys(), &cell)
    }

    /// Returns the plaintext of the onion, 272 bytes: drop id and sealed cell.
    pub fn bytes(&self) -> &[u8; ACCESS_BYTES] {
        &self.bytes
    }

    /// Reads the reply of the dead drop.
    pub fn read_reply<B: Backend>(self, reply: &[u8]) -> DropResult {
        // A drop with a single access returns its own cell (MIX-9). The bytes are public, so plain
        // equality is enough.
        if reply == &self.bytes[DROP_BYTES..] {
            return DropResult::Absent;
        }
        let Ok(mut cell) = <[u8; CELL_BYTES]>::try_from(reply).map(Wiping::new) else {
            return DropResult::Garbage;
        };
        let Some((text, tag)) = cell.split_last_chunk_mut::<TAG_BYTES>() else {
            return DropResult::Garbage;
        };
        // The random bytes of a third access and bytes changed by a mix both end here, and are not
        // distinguished.
        if !B::Chacha::new(self.open.expose()).open(&[0; 12], &[], text, tag) {
            return DropResult::Garbage;
        }
        let mut plain = Wiping::new([0; PLAIN_BYTES]);
        plain.copy_from_slice(text);
        // Only the partner has this key, so a cell that opens proves a meeting, even if it is
        // malformed.
        DropResult::Met(Cell::decode(&plain))
    }
}

impl core::fmt::Debug for Access {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Access")
    }
}

/// Returns the plaintext of a call or invitation: the bucket, then a token or a sealed invitation.
pub fn to_bucket(bucket: u32, entry: &[u8]) -> Vec<u8> {
    debug_assert!([TOKEN_BYTES, INVITATION_BYTES].contains(&entry.len()));
    [&bucket.to_be_bytes(), entry].concat()
}

/// Returns the plaintext of an idle call: 16 random bytes for bucket 0.
pub fn no_call(rng: &mut dyn CryptoRng) -> Vec<u8> {
    let mut token = [0; TOKEN_BYTES];
    // A real token is the output of a hash, so 16 random bytes look the same in the bucket
    // (MIX-22).
    rng.fill_bytes(&mut token);
    to_bucket(NO_BUCKET, &token)
}

/// Returns the plaintext of an idle invitation: a real public key and 228 random bytes for bucket
/// 0.
pub fn no_invitation<B: Backend>(rng: &mut dyn CryptoRng) -> Vec<u8> {
    let mut invitation = [0; INVITATION_BYTES];
    rng.fill_bytes(&mut invitation);
    // Random bytes are an X25519 key of the curve only half of the time, which a mix could test
    // (MIX-22).
    invitation[..32].copy_from_slice(EphemeralKey::random::<B>(rng).public_key().as_bytes());
    to_bucket(NO_BUCKET, &invitation)
}
