//! Onions and replies, many at once.
//!
//! ```text
//! onion at mix i    X_i 32 | AEAD(kf_i, onion at mix i+1), innermost the plaintext of the service
//! reply at client   AEAD(kr_0, AEAD(kr_1, .. AEAD(kr_(n-1), cell)))
//! kf_i | kr_i     = H_64("mezza/onion", Z, X_i, S_i, service, position, round)
//! ```
//!
//! The raw bytes of X and S are bound, so that another encoding of the same point is another onion.
//! Every key seals once.

use alloc::vec;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, PublicKey, Wiping, labelled_hash, snapshot};
use mezza_lanes::{BASE, FixedPoint, Kernel, Scalar, Strided};

use crate::keys::SecretVec;
use crate::service::{LAYER_BYTES, RoundId, TAG_BYTES};

/// Bytes of a public key in front of a layer.
const KEY_BYTES: usize = 32;

/// One layer of one round as all parties name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Which round.
    pub id: RoundId,
    /// Which mix, from 0.
    pub position: u8,
    /// The round key of that mix.
    pub key: PublicKey,
}

snapshot!(struct Layer { id, position, key });

impl Layer {
    /// Writes `kf` and `kr` of an onion.
    fn derive_keys(&self, z: &[u8; 32], x: &[u8; 32], forward: &mut [u8; 32], back: &mut [u8; 32]) {
        let RoundId { service, round } = self.id;
        let place = [service.number(), self.position];
        // Round, service and position are bound, so an onion of another one does not open (MIX-8).
        let keys: Wiping<[u8; 64]> = Wiping::new(labelled_hash(
            "mezza/onion",
            &[z, x, &self.key.0, &place, &round.to_be_bytes()],
        ));
        forward.copy_from_slice(&keys[..32]);
        back.copy_from_slice(&keys[32..]);
    }
}

/// The messages that a mix finds in a batch.
#[derive(Debug, Default)]
pub struct Unwrapped {
    /// The next layer of each onion with its tag behind it.
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
    /// The next layer of each onion; zeros where an onion is bad.
    pub fn inner_onions(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.keys.len()).map(|at| self.onion_at(at))
    }

    /// The next layer of onion number `at`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn onion_at(&self, at: usize) -> &[u8] {
        let stride = self.bodies.len() / self.keys.len();
        &self.bodies[at * stride..(at + 1) * stride - TAG_BYTES]
    }
}

/// Takes one layer off each onion of `size` bytes.
///
/// An onion whose Z is 0 or that does not open is bad.
///
/// # Panics
/// If `onions` is no whole number of onions, or `size` holds no layer: the caller checks counts.
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
    // Opened where they will stay: an onion is copied once.
    let mut bodies = Wiping::new(Vec::with_capacity(count * stride));
    for (key, onion) in keys.iter_mut().zip(onions.chunks_exact(size)) {
        key.copy_from_slice(&onion[..KEY_BYTES]);
        bodies.extend_from_slice(&onion[KEY_BYTES..]);
    }
    let mut shared = SecretVec::zeros(count);
    // All onions of the job at once, bad ones included: the time shows nothing about one of them.
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
        // A point of small order gives Z = 0, which its sender and anybody else knows (MIX-7).
        *opened &= u8::from(*shared != [0; 32]);
        if *opened == 0 {
            // What did not open is unauthenticated, and must not be read by mistake.
            body.fill(0);
        }
    }
    Unwrapped { bodies, reply_keys: back, opened, keys }
}

/// The code that multiplies with the fixed points of wrapping.
#[derive(Clone, Copy, Debug)]
pub enum Multiply<'a> {
    /// A table for the base point and one for each layer: for many onions.
    Tables(&'a Tables),
    /// Ladders: for a few.
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
    /// The tables of the round keys of `layers`; `None` if one of them is no point to multiply
    /// with: of small order, or on the twist.
    pub fn new(kernel: &dyn Kernel, layers: &[Layer]) -> Option<Self> {
        let base = kernel.fixed_point(&BASE)?;
        // A key of small order or on the twist has no table, and no client would accept it (MIX-6).
        let layers = layers.iter().map(|layer| kernel.fixed_point(&layer.key.0));
        Some(Self { base, layers: layers.collect::<Option<_>>()? })
    }

    /// The public key of each scalar.
    pub fn compute_publics(&self, kernel: &dyn Kernel, scalars: &SecretVec, out: &mut [[u8; 32]]) {
        kernel.x25519_fixed(&self.base, scalars, out);
    }
}

/// Onions and the keys that open their replies.
#[derive(Debug)]
pub struct Wrapped {
    /// The onions, one behind the other.
    pub onions: Vec<u8>,
    /// For each layer, outermost first, one reply key for each onion.
    pub reply_keys: Vec<SecretVec>,
}

/// Room for onions of `layers` layers around plaintexts of `size` bytes.
struct Nest {
    bytes: Vec<u8>,
    size: usize,
    layers: usize,
}

impl Nest {
    const fn stride(&self) -> usize {
        self.size + LAYER_BYTES * self.layers
    }

    /// Every plaintext lies where it will lie in the whole onion: layers are sealed in place.
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

    /// Puts layer `j`, counted from the outermost, around each onion.
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

/// Wraps each plaintext of `size` bytes in `layers`, outermost first. All scalars come from `rng`.
///
/// # Panics
/// If `inner` is no whole number of plaintexts, or the tables are of fewer layers: a bug of ours.
pub fn wrap_onions(
    kernel: &dyn Kernel,
    multiply: Multiply<'_>,
    layers: &[Layer],
    (inner, size): (&[u8], usize),
    rng: &mut dyn CryptoRng,
) -> Wrapped {
    assert!(inner.len().is_multiple_of(size), "whole plaintexts");
    let count = inner.len() / size;
    let mut nest = Nest::new(inner, size, layers.len());
    let mut back = Vec::with_capacity(layers.len());
    // From the innermost layer outwards: each one seals what the ones before it produced.
    for (j, layer) in layers.iter().enumerate().rev() {
        // Fresh for each layer: equal X in two layers would link them for two mixes.
        let scalars = SecretVec::draw(count, rng);
        let mut publics = vec![[0; 32]; count];
        let mut shared = SecretVec::zeros(count);
        let mut forward = SecretVec::zeros(count);
        let mut backward = SecretVec::zeros(count);
        match multiply {
            Multiply::Tables(tables) => {
                // One key for many onions: a table costs once what each ladder costs again.
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
        // Zero nonce: every key seals once, as it follows from a fresh scalar.
        nest.seal_layer(kernel, j, &publics, &forward);
        back.push(backward);
    }
    back.reverse();
    Wrapped { onions: nest.bytes, reply_keys: back }
}

/// Puts one layer with a given pair around one onion: the outermost one of a client, whose pair
/// and shared secret come from outside. Gives the onion and its reply key.
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

/// Seals each reply of `size` bytes under its key: `size + 16` bytes each.
///
/// # Panics
/// If there are not as many keys as replies: the caller checks counts.
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

/// Opens a reply, outermost layer first, under one key for each layer: what the last mix put in.
/// `None` if any layer does not open.
pub fn open_reply(kernel: &dyn Kernel, back: &SecretVec, mut reply: Vec<u8>) -> Option<Vec<u8>> {
    for key in back.iter() {
        let size = reply.len().checked_sub(TAG_BYTES)?;
        let mut ok = [0];
        kernel.open_each(&[*key], Strided::new(&mut reply, size + TAG_BYTES, 0, size), &mut ok);
        reply.truncate(size);
        // Some mix changed the reply. Which one cannot be told, so the whole reply counts as
        // garbage.
        if ok == [0] {
            return None;
        }
    }
    Some(reply)
}

#[cfg(test)]
mod tests;
