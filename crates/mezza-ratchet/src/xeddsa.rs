//! `XEdDSA` (signal.org/docs/specifications/xeddsa) over any hash with 64 bytes of output: the
//! published form, with the sign bit of the Edwards key forced to 0.
//!
//! ```text
//! sign    E = kB; a = k mod q, negated if the sign bit of E is 1; A = E with sign bit 0
//!         r = H(FE | FF x31 | a | M | Z) mod q;  R = rB;  h = H(R | A | M) mod q;  s = r + ha
//! verify  A from u and the sign bit b of the signature;  accept iff sB - hA = R
//! ```

use alloc::vec::Vec;

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::scalar::Scalar;
use mezza_core::{Hash512, Secret};
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroize;

use crate::IdentityKey;

/// Domain separation of the nonce hash: 2^256 - 1 - 1, little-endian.
const NONCE_PREFIX: [u8; 32] = {
    let mut prefix = [0xff; 32];
    prefix[0] = 0xfe;
    prefix
};

/// Signs the concatenation of `parts` with the clamped scalar `k` and the 64 fresh bytes `z`.
///
/// Returns `R[32] | s[32]`. Bit 7 of the last byte is 0.
pub fn sign<H: Hash512>(k: &Secret<32>, parts: &[&[u8]], z: &Secret<64>) -> [u8; 64] {
    let mut a = Scalar::from_bytes_mod_order(*k.expose());
    let mut key = EdwardsPoint::mul_base(&a).compress().to_bytes();
    let negate = Choice::from(key[31] >> 7);
    a = Scalar::conditional_select(&a, &-a, negate);
    key[31] &= 0x7f;

    let mut nonce_parts = Vec::with_capacity(parts.len() + 3);
    nonce_parts.push(NONCE_PREFIX.as_slice());
    nonce_parts.push(a.as_bytes());
    nonce_parts.extend_from_slice(parts);
    nonce_parts.push(z.expose());
    let mut wide = H::hash(&nonce_parts);
    let mut r = Scalar::from_bytes_mod_order_wide(&wide);
    let point = EdwardsPoint::mul_base(&r).compress().to_bytes();
    let s = r + hash_challenge::<H>(&point, &key, parts) * a;

    wide.zeroize();
    r.zeroize();
    a.zeroize();
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&point);
    signature[32..].copy_from_slice(s.as_bytes());
    signature
}

/// Verifies a signature of the container suites: bit 7 of the last byte must be 0.
pub fn verify<H: Hash512>(key: &IdentityKey, parts: &[&[u8]], signature: &[u8; 64]) -> bool {
    signature[63] >> 7 == 0 && verify_signed::<H>(key, parts, signature)
}

/// Verifies a signature in which bit 7 of the last byte is the sign of the Edwards key, as in
/// Signal's libraries. Both values of the bit are accepted.
pub fn verify_signed<H: Hash512>(key: &IdentityKey, parts: &[&[u8]], signature: &[u8; 64]) -> bool {
    check_equation::<H>(key, parts, signature).unwrap_or(false)
}

fn check_equation<H: Hash512>(
    key: &IdentityKey,
    parts: &[&[u8]],
    signature: &[u8; 64],
) -> Option<bool> {
    let (point, scalar) = signature.split_first_chunk::<32>()?;
    let mut s = *scalar.first_chunk::<32>()?;
    let sign = s[31] >> 7;
    s[31] &= 0x7f;
    let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s))?;
    let a = MontgomeryPoint(*key.as_bytes()).to_edwards(sign)?;
    let h = hash_challenge::<H>(point, a.compress().as_bytes(), parts);
    let r = EdwardsPoint::vartime_double_scalar_mul_basepoint(&h, &-a, &s);
    Some(r.compress().as_bytes() == point)
}

/// Computes the challenge h = H(R | A | M) mod q.
fn hash_challenge<H: Hash512>(point: &[u8; 32], key: &[u8; 32], parts: &[&[u8]]) -> Scalar {
    let mut all = Vec::with_capacity(parts.len() + 2);
    all.push(point.as_slice());
    all.push(key.as_slice());
    all.extend_from_slice(parts);
    Scalar::from_bytes_mod_order_wide(&H::hash(&all))
}
