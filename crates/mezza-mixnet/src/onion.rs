//! Wrapping and unwrapping of onions and replies, many at once.
//!
//! ```text
//! onion at mix i    X_i 32 | AEAD(kf_i, onion at mix i+1), innermost the plaintext of the service
//! reply at client   AEAD(kr_0, AEAD(kr_1, .. AEAD(kr_(n-1), cell)))
//! kf_i | kr_i     = H_64("mezza/onion", Z, X_i, S_i, service, position, round)
//! ```
//!
//! The raw bytes of X and S are part of the hash, so another encoding of the same point gives other
//! keys. Every key seals once.

use alloc::vec;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, PublicKey, Wiping, labelled_hash, snapshot};
use mezza_lanes::{BASE, FixedPoint, Kernel, Scalar, Strided};

use crate::keys::SecretVec;
use crate::service::{LAYER_BYTES, RoundId, TAG_BYTES};

/// Bytes of the public key before a layer.
const KEY_BYTES: usize = 32;

/// One layer of one round, as all parties refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The round of the layer.
    pub id: RoundId,
    /// Position of the mix, from 0.
    pub position: u8,
    /// The round key of that mix.
    pub key: PublicKey,
}

snapshot!(struct Layer { id, position, key });

impl Layer {
    /// Derives `kf` into `forward` and `kr` into `back`.
    fn derive_keys(&self, z: &[u8; 32], x: &[u8; 32], forward: &mut [u8; 32], back: &mut [u8; 32]) {
        let RoundId { service, round } = self.id;
        let place = [service.number(), self.position];
        // Round, service and position are included, so that an onion of another one does not open
        // (MIX-8).
        let keys: Wiping<[u8; 64]> = Wiping::new(labelled_hash(
            "mezza/onion",
            &[z, x, &self.key.0, &place, &round.to_be_bytes()],
        ));
        forward.copy_from_slice(&keys[..32]);
        back.copy_from_slice(&keys[32..]);
    }
}

/// The result of unwrapping the onions of a batch.
#[derive(Debug, Default)]
pub struct Unwrapped {
    /// The next layer of each onion, followed by its tag.
    bodies: Wiping<Vec<u8>>,
    /// The key for each reply.
    pub reply_keys: SecretVec,
    /// 1 for an onion that opened, else 0.
    pub opened: Vec<u8>,
    /// The public key of each onion, for duplicates.
    pub keys: Vec<[u8; 32]>,
}

snapshot!(struct Unwrapped { bodies, reply_keys, opened, keys });

impl Unwrapped {
    /// Returns the next layer of each onion; zeros for a bad onion.
    pub fn inner_onions(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.keys.len()).map(|at| self.onion_at(at))
    }

    /// Returns the next layer of onion number `at`.
    ///
    /// # Panics
    /// If there is no onion with this number.
    pub fn onion_at(&self, at: usize) -> &[u8] {
        let stride = self.bodies.len() / self.keys.len();
        &self.bodies[at * stride..(at + 1) * stride - TAG_BYTES]
    }
}

/// Removes one layer from each onion of `size` bytes.
///
/// An onion is bad if its shared secret Z is 0 or it does not open.
///
/// # Panics
/// If `onions` is not a whole number of onions, or `size` is shorter than a layer. The caller
/// checks counts.
pub fn unwrap_layer(
    kernel: &dyn Kernel,
    secret: &Scalar,
    layer: &Layer,
    onions: &[u8],
    size: usize,
) -> Unwrapped {
    assert!(size > LAYER_BYTES && onions.len().is_multiple_of(size), "whole onions");
    let count = onions.len() / size;
    let stride = size - KEY_BYTES;
    let mut keys = vec![[0; 32]; count];
    // Opened in their final place, so that an onion is copied only once.
    let mut bodies = Wiping::new(Vec::with_capacity(count * stride));
    for (key, onion) in keys.iter_mut().zip(onions.chunks_exact(size)) {
        key.copy_from_slice(&onion[..KEY_BYTES]);
        bodies.extend_from_slice(&onion[KEY_BYTES..]);
    }
    let mut shared = SecretVec::zeros(count);
    // All onions of the job are processed together, including bad ones, so that the time shows
    // nothing about one of them.
    kernel.x25519_shared(secret, &keys, &mut shared);
    let mut forward = SecretVec::zeros(count);
    let mut back = SecretVec::zeros(count);
    for i in 0..count {
        layer.derive_keys(&shared[i], &keys[i], &mut forward[i], &mut back[i]);
    }
    let mut opened = vec![0; count];
    let all = Strided::new(&mut bodies, stride, 0, stride - TAG_BYTES);
    kernel.open_each(&forward, all, &mut opened);
    let found = opened.iter_mut().zip(shared.iter());
    for ((opened, shared), body) in found.zip(bodies.chunks_exact_mut(stride)) {
        // A point of small order gives Z = 0, which is publicly known (MIX-7).
        *opened &= u8::from(*shared != [0; 32]);
        if *opened == 0 {
            // The bytes did not open, so they are unauthenticated and must not be read.
            body.fill(0);
        }
    }
    Unwrapped { bodies, reply_keys: back, opened, keys }
}

/// The method of multiplying with the fixed points of wrapping.
#[derive(Clone, Copy, Debug)]
pub enum Multiply<'a> {
    /// A table for the base point and one per layer, for many onions.
    Tables(&'a Tables),
    /// Montgomery ladders, for few onions.
    Ladders,
}

/// Tables of the base point and of the round keys of some layers.
#[derive(Debug)]
pub struct Tables {
    base: FixedPoint,
    layers: Vec<FixedPoint>,
}

snapshot!(struct Tables {
    base => *base.u(), layers => layers.iter().map(|point| *point.u()).collect::<Vec<_>>(),
});

impl Tables {
    /// Computes the tables of the round keys of `layers`. Returns `None` if a key has small order
    /// or is on the twist.
    pub fn new(kernel: &dyn Kernel, layers: &[Layer]) -> Option<Self> {
        let base = kernel.fixed_point(&BASE)?;
        // A key of small order or on the twist has no table, and no client would accept it (MIX-6).
        let layers = layers.iter().map(|layer| kernel.fixed_point(&layer.key.0));
        Some(Self { base, layers: layers.collect::<Option<_>>()? })
    }

    /// Computes the public key of each scalar.
    pub fn compute_publics(&self, kernel: &dyn Kernel, scalars: &SecretVec, out: &mut [[u8; 32]]) {
        kernel.x25519_fixed(&self.base, scalars, out);
    }
}

/// Onions and the keys that open their replies.
#[derive(Debug)]
pub struct Wrapped {
    /// The concatenated onions.
    pub onions: Vec<u8>,
    /// For each layer, outermost first, one reply key per onion.
    pub reply_keys: Vec<SecretVec>,
}

/// Memory for onions of `layers` layers around plaintexts of `size` bytes.
struct Nest {
    bytes: Vec<u8>,
    size: usize,
    layers: usize,
}

impl Nest {
    const fn stride(&self) -> usize {
        self.size + LAYER_BYTES * self.layers
    }

    /// Places every plaintext at its final position in the onion, so that layers are sealed in
    /// place.
    fn new(inner: &[u8], size: usize, layers: usize) -> Self {
        let count = inner.len() / size;
        let mut nest = Self { bytes: Vec::new(), size, layers };
        nest.bytes = vec![0; count * nest.stride()];
        let stride = nest.stride();
        let from = KEY_BYTES * layers;
        for (onion, plain) in nest.bytes.chunks_exact_mut(stride).zip(inner.chunks_exact(size)) {
            onion[from..from + size].copy_from_slice(plain);
        }
        nest
    }

    /// Seals layer `j`, counted from the outermost, around each onion.
    fn seal_layer(
        &mut self,
        kernel: &dyn Kernel,
        j: usize,
        publics: &[[u8; 32]],
        keys: &SecretVec,
    ) {
        let stride = self.stride();
        let at = KEY_BYTES * j;
        for (onion, public) in self.bytes.chunks_exact_mut(stride).zip(publics) {
            onion[at..at + KEY_BYTES].copy_from_slice(public);
        }
        let body = self.size + LAYER_BYTES * (self.layers - 1 - j);
        kernel.seal_each(keys, Strided::new(&mut self.bytes, stride, at + KEY_BYTES, body));
    }
}

/// Wraps each plaintext of `size` bytes in `layers`, outermost first. All scalars are drawn from
/// `rng`.
///
/// # Panics
/// If `inner` is not a whole number of plaintexts, or the tables have fewer layers.
pub fn wrap_onions(
    kernel: &dyn Kernel,
    multiply: Multiply<'_>,
    layers: &[Layer],
    inner: &[u8],
    size: usize,
    rng: &mut dyn CryptoRng,
) -> Wrapped {
    assert!(inner.len().is_multiple_of(size), "whole plaintexts");
    let count = inner.len() / size;
    let mut nest = Nest::new(inner, size, layers.len());
    let mut back = Vec::with_capacity(layers.len());
    // The innermost layer comes first, because each layer seals the inner ones.
    for (j, layer) in layers.iter().enumerate().rev() {
        // Fresh for each layer, because equal X in two layers would link them for two mixes.
        let scalars = SecretVec::draw(count, rng);
        let mut publics = vec![[0; 32]; count];
        let mut shared = SecretVec::zeros(count);
        let mut forward = SecretVec::zeros(count);
        let mut backward = SecretVec::zeros(count);
        match multiply {
            Multiply::Tables(tables) => {
                // All onions share one key, so one table replaces a ladder per onion.
                kernel.x25519_fixed(&tables.base, &scalars, &mut publics);
                kernel.x25519_fixed(&tables.layers[j], &scalars, &mut shared);
            }
            Multiply::Ladders => {
                kernel.x25519_pairwise(&scalars, &vec![BASE; count], &mut publics);
                kernel.x25519_pairwise(&scalars, &vec![layer.key.0; count], &mut shared);
            }
        }
        for i in 0..count {
            layer.derive_keys(&shared[i], &publics[i], &mut forward[i], &mut backward[i]);
        }
        // The nonce is zero because every key seals once: it is derived from a fresh scalar.
        nest.seal_layer(kernel, j, &publics, &forward);
        back.push(backward);
    }
    back.reverse();
    Wrapped { onions: nest.bytes, reply_keys: back }
}

/// Seals one layer around one onion with a given key pair and shared secret; this is the outermost
/// layer of a client. Returns the onion and its reply key.
pub fn wrap_one(
    kernel: &dyn Kernel,
    layer: &Layer,
    public: &PublicKey,
    shared: &[u8; 32],
    inner: &[u8],
) -> (Vec<u8>, SecretVec) {
    let mut forward = SecretVec::zeros(1);
    let mut back = SecretVec::zeros(1);
    layer.derive_keys(shared, &public.0, &mut forward[0], &mut back[0]);
    let mut nest = Nest::new(inner, inner.len(), 1);
    nest.seal_layer(kernel, 0, &[public.0], &forward);
    (nest.bytes, back)
}

/// Seals each reply of `size` bytes under its key. Each result has `size + 16` bytes.
///
/// # Panics
/// If the numbers of keys and replies differ. The caller checks counts.
pub fn seal_replies(
    kernel: &dyn Kernel,
    back: &[[u8; 32]],
    replies: &[u8],
    size: usize,
) -> Vec<u8> {
    assert_eq!(replies.len(), back.len() * size, "a key for each reply");
    let stride = size + TAG_BYTES;
    let mut sealed = vec![0; back.len() * stride];
    for (to, from) in sealed.chunks_exact_mut(stride).zip(replies.chunks_exact(size)) {
        to[..size].copy_from_slice(from);
    }
    if !back.is_empty() {
        kernel.seal_each(back, Strided::new(&mut sealed, stride, 0, size));
    }
    sealed
}

/// Opens a reply with one key per layer, outermost layer first. Returns the content from the last
/// mix, or `None` if a layer does not open.
pub fn open_reply(kernel: &dyn Kernel, back: &SecretVec, mut reply: Vec<u8>) -> Option<Vec<u8>> {
    for key in back.iter() {
        let size = reply.len().checked_sub(TAG_BYTES)?;
        let mut ok = [0];
        kernel.open_each(&[*key], Strided::new(&mut reply, size + TAG_BYTES, 0, size), &mut ok);
        reply.truncate(size);
        // A mix changed the reply. It is unknown which one, so the whole reply counts as garbage.
        if ok == [0] {
            return None;
        }
    }
    Some(reply)
}

#[cfg(test)]
mod tests;
