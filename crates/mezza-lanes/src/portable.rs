//! The kernel for every CPU: curve25519-dalek, `chacha20`, and our own Poly1305, one input after
//! another.

use alloc::boxed::Box;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20::{ChaCha20, Nonce};
use curve25519_dalek::edwards::{EdwardsBasepointTable, EdwardsPoint};
use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::BasepointTable;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::fixed_point::MultiplesTable;
use crate::poly1305::Poly1305Key;
use crate::wipe::wipe_bytes;
use crate::{FixedPoint, Kernel, Scalar, Strided};

/// Points that share an inversion, which costs as much as a quarter of a product from the table.
const INVERSION_GROUP: usize = 64;

/// Bytes of a ChaCha20 block.
const BLOCK_BYTES: usize = 64;
/// Bytes of key stream computed at a time.
const CHUNK_BYTES: usize = 4 * BLOCK_BYTES;

/// The portable kernel; it has no state.
pub struct PortableKernel;

impl Kernel for PortableKernel {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert_eq!(u.len(), out.len(), "an output for each point");
        for (u, out) in u.iter().zip(out) {
            multiply_point(k.expose(), u, out);
        }
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert!(
            k.len() == u.len() && u.len() == out.len(),
            "a scalar and an output for each point"
        );
        for ((k, u), out) in k.iter().zip(u).zip(out) {
            multiply_point(k, u, out);
        }
    }

    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint> {
        let table = Box::new(EdwardsBasepointTable::create(&to_edwards(u)?));
        Some(FixedPoint::new(u, MultiplesTable::Portable(table)))
    }

    fn is_fixed_point(&self, u: &[u8; 32]) -> bool {
        to_edwards(u).is_some()
    }

    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        assert_eq!(k.len(), out.len(), "an output for each scalar");
        for (k, out) in k.chunks(INVERSION_GROUP).zip(out.chunks_mut(INVERSION_GROUP)) {
            match &p.table {
                MultiplesTable::Portable(table) => multiply_fixed(table, k, out),
                _ => self.x25519_pairwise(k, &[*p.u(); INVERSION_GROUP][..k.len()], out),
            }
        }
    }

    fn seal_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>) {
        assert_eq!(keys.len(), m.message_count(), "a key for each message");
        for (key, (body, tag)) in keys.iter().zip(m.messages()) {
            let (stream, once) = Stream::new(key);
            stream.apply_stream(body);
            *tag = once.compute_tag(body);
        }
    }

    fn open_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
        assert!(keys.len() == m.message_count() && keys.len() == ok.len(), "a key and a flag each");
        for ((key, (body, tag)), ok) in keys.iter().zip(m.messages()).zip(ok) {
            let (stream, once) = Stream::new(key);
            *ok = once.compute_tag(body).ct_eq(tag).unwrap_u8();
            stream.apply_stream(body);
            zero_unless(*ok, body);
        }
    }
}

/// Zeroes `body` if `ok` is 0, and keeps it if `ok` is 1, in the same time.
pub fn zero_unless(ok: u8, body: &mut [u8]) {
    let mask = ok.wrapping_neg();
    for byte in body {
        *byte &= mask;
    }
}

fn multiply_point(k: &[u8; 32], u: &[u8; 32], out: &mut [u8; 32]) {
    let mut product = MontgomeryPoint(*u).mul_clamped(*k);
    out.copy_from_slice(product.as_bytes());
    product.zeroize();
}

/// Returns the point in Edwards form if it may be a fixed point. Both signs of x give the same u.
fn to_edwards(u: &[u8; 32]) -> Option<EdwardsPoint> {
    MontgomeryPoint(*u).to_edwards(0).filter(|point| !point.is_small_order())
}

fn multiply_fixed(table: &EdwardsBasepointTable, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
    let mut points = [EdwardsPoint::default(); INVERSION_GROUP];
    let points = &mut points[..k.len()];
    for (point, k) in points.iter_mut().zip(k) {
        *point = table.mul_base_clamped(*k);
    }
    let mut products = EdwardsPoint::to_montgomery_batch(points);
    for (product, out) in products.iter_mut().zip(out) {
        out.copy_from_slice(product.as_bytes());
        product.zeroize();
    }
    points.iter_mut().for_each(Zeroize::zeroize);
}

/// The key stream of a message, four blocks at a time: the cipher has a fast path for four.
struct Stream {
    cipher: ChaCha20,
    chunk: [u8; CHUNK_BYTES],
}

impl Stream {
    /// Starts the key stream. Returns it with the Poly1305 key from block 0.
    fn new(key: &[u8; 32]) -> (Self, Poly1305Key) {
        let cipher = ChaCha20::new(key.into(), &Nonce::default());
        let mut stream = Self { cipher, chunk: [0; CHUNK_BYTES] };
        stream.cipher.apply_keystream(&mut stream.chunk);
        let [r, s] = [0, 1].map(|i| u128::from_le_bytes(stream.chunk.as_chunks().0[i]));
        (stream, Poly1305Key::new(r, s))
    }

    /// Encrypts or decrypts `body`.
    fn apply_stream(mut self, body: &mut [u8]) {
        let (first, rest) = body.split_at_mut(body.len().min(CHUNK_BYTES - BLOCK_BYTES));
        xor_stream(first, &self.chunk[BLOCK_BYTES..]);
        for part in rest.chunks_mut(CHUNK_BYTES) {
            self.chunk.fill(0);
            self.cipher.apply_keystream(&mut self.chunk);
            xor_stream(part, &self.chunk);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        wipe_bytes(&mut self.chunk);
    }
}

fn xor_stream(text: &mut [u8], stream: &[u8]) {
    for (byte, key) in text.iter_mut().zip(stream) {
        *byte ^= key;
    }
}
