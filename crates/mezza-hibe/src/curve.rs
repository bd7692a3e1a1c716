//! BLS12-381 as this crate sees it: scalars, points and elements of Gt as types that wipe
//! themselves, print nothing and cannot be copied by accident.
//!
//! Groups are written additively, Gt multiplicatively. Only `raw` holds `unsafe` code (HIBE-5).

pub(crate) mod comb;
pub mod gt;
pub(crate) mod lines;
mod raw;

use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, Wiping};
use zeroize::Zeroize;

/// Bytes of a scalar: little-endian, below q.
pub const SCALAR_BYTES: usize = 32;
/// Bytes of a compressed point of G1.
pub const G1_BYTES: usize = 48;
/// Bytes of a compressed point of G2.
pub const G2_BYTES: usize = 96;
/// Bytes of a point of G2 that is not compressed.
pub const G2_AFFINE_BYTES: usize = 192;

/// The domain of the points that are hashed to G1 (RFC 9380, section 3.1).
const DST: &[u8] = b"FSHIBE-V01-CS01-with-BLS12381G1_XMD:SHA-256_SSWU_RO_";
/// The text that is hashed to `H_a`, the first vector that all users share.
const H_A: &[u8] = b"fshibe/v1/A";

/// Wipes the limbs of a value of blst.
trait Limbs {
    fn wipe_limbs(&mut self);
}

impl Limbs for raw::Fp {
    fn wipe_limbs(&mut self) {
        self.l.zeroize();
    }
}

impl Limbs for raw::Fp2 {
    fn wipe_limbs(&mut self) {
        self.fp.iter_mut().for_each(Limbs::wipe_limbs);
    }
}

impl Limbs for raw::Fp6 {
    fn wipe_limbs(&mut self) {
        self.fp2.iter_mut().for_each(Limbs::wipe_limbs);
    }
}

impl Limbs for raw::Fp12 {
    fn wipe_limbs(&mut self) {
        self.fp6.iter_mut().for_each(Limbs::wipe_limbs);
    }
}

/// A secret element of the field of q elements, 32 bytes. blst's scalar wipes itself.
pub struct Fr(raw::Scalar);

impl Fr {
    /// 64 fresh bytes modulo q, drawn again if that is zero (HIBE-6).
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        loop {
            let mut wide = Wiping::new([0; 64]);
            rng.fill_bytes(&mut *wide);
            let scalar = Self::from_wide(&wide);
            if !scalar.is_zero() {
                return scalar;
            }
        }
    }

    /// 64 bytes, little-endian, modulo q.
    pub fn from_wide(bytes: &[u8; 64]) -> Self {
        Self(raw::scalar_from_wide(bytes))
    }

    /// A stored or received scalar: refused unless it is below q and not zero.
    pub fn from_bytes(bytes: &[u8; SCALAR_BYTES]) -> Option<Self> {
        let scalar = Self(raw::Scalar { b: *bytes });
        (raw::scalar_is_canonical(&scalar.0) && !scalar.is_zero()).then_some(scalar)
    }

    /// Zero, which no draw gives.
    pub fn zero() -> Self {
        Self(raw::Scalar::default())
    }

    /// A public number: a component of a path.
    pub fn from_small(m: u8) -> Self {
        let mut scalar = Self::zero();
        scalar.0.b[0] = m;
        scalar
    }

    /// Its 32 bytes, little-endian.
    pub fn as_bytes(&self) -> &[u8; SCALAR_BYTES] {
        &self.0.b
    }

    /// The sum.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        Self(raw::scalar_add(&self.0, &other.0))
    }

    /// The product.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        Self(raw::scalar_mul(&self.0, &other.0))
    }

    /// A fresh scalar is zero with a chance of 2^-255, so this branch tells nothing.
    fn is_zero(&self) -> bool {
        self.0.b.iter().fold(0, |all, byte| all | byte) == 0
    }
}

/// A group with its affine form: `$n` bytes a compressed point.
macro_rules! group {
    ($(#[$doc:meta])* $point:ident($raw:ident), $affine:ident($raw_affine:ident), $bytes:ident,
     $add:ident $add_affine:ident $double:ident $mult:ident $cneg:ident $to:ident $from:ident
     $all:ident $generator:ident $compress:ident $uncompress:ident $infinite:ident $subgroup:ident) => {
        $(#[$doc])*
        pub struct $point(raw::$raw);

        /// The same as affine coordinates.
        pub struct $affine(raw::$raw_affine);

        impl $point {
            /// The neutral element.
            pub fn infinity() -> Self {
                Self(raw::$raw::default())
            }

            /// The sum; complete and without branches.
            #[must_use]
            pub fn add(&self, other: &Self) -> Self {
                Self(raw::$add(&self.0, &other.0))
            }

            /// The sum; complete and without branches.
            #[must_use]
            pub fn add_affine(&self, other: &$affine) -> Self {
                Self(raw::$add_affine(&self.0, &other.0))
            }

            /// The inverse.
            #[must_use]
            pub fn neg(&self) -> Self {
                let raw::$raw { x, y, z } = self.0;
                Self(raw::$raw { x, y: raw::$cneg(&y, true), z })
            }

            /// The product with a secret scalar, in constant time (HIBE-4).
            #[must_use]
            pub fn mul(&self, scalar: &Fr) -> Self {
                Self(raw::$mult(&self.0, &scalar.0))
            }

            /// The product with a public number: a component of a path.
            #[must_use]
            pub fn small_mul(&self, m: u8) -> Self {
                (0..u8::BITS).rev().fold(Self::infinity(), |sum, bit| {
                    let double = Self(raw::$double(&sum.0));
                    if m >> bit & 1 == 1 { double.add(self) } else { double }
                })
            }

            /// The affine form. The point is not infinite, but with a chance of 2^-255.
            pub fn to_affine(&self) -> $affine {
                $affine(raw::$to(&self.0))
            }

            /// The compressed forms of points that are not infinite, one behind the other.
            pub fn compress_each<'a>(points: impl Iterator<Item = &'a Self>) -> Wiping<Vec<u8>> {
                let affine = raw::$all(points.map(|point| &point.0));
                let mut bytes = Wiping::new(Vec::with_capacity($bytes * affine.len()));
                for point in affine.into_iter().map($affine) {
                    bytes.extend_from_slice(&*Wiping::new(point.compress()));
                }
                bytes
            }
        }

        impl $affine {
            /// The standard generator.
            pub fn generator() -> Self {
                Self(raw::$generator())
            }

            /// A canonical encoding of a point on the curve that is not infinite (HIBE-1). Whether
            /// it is in the subgroup is another question.
            pub fn uncompress(bytes: &[u8; $bytes]) -> Result<Self, DecodeError> {
                let point = raw::$uncompress(bytes).map(Self);
                let finite = point.filter(|point| !raw::$infinite(&point.0));
                finite.ok_or(DecodeError::Value)
            }

            /// The canonical encoding.
            pub fn compress(&self) -> [u8; $bytes] {
                raw::$compress(&self.0)
            }

            /// Returns true if its order is q.
            pub fn in_subgroup(&self) -> bool {
                raw::$subgroup(&self.0)
            }

            /// The same point, ready to be added to.
            pub fn to_point(&self) -> $point {
                $point(raw::$from(&self.0))
            }

            /// The inverse.
            #[must_use]
            pub fn neg(&self) -> Self {
                let raw::$raw_affine { x, y } = self.0;
                Self(raw::$raw_affine { x, y: raw::$cneg(&y, true) })
            }
        }

        impl Drop for $point {
            fn drop(&mut self) {
                self.0.x.wipe_limbs();
                self.0.y.wipe_limbs();
                self.0.z.wipe_limbs();
            }
        }

        impl Drop for $affine {
            fn drop(&mut self) {
                self.0.x.wipe_limbs();
                self.0.y.wipe_limbs();
            }
        }

        silent!($point $affine);
    };
}

/// Debug of a secret prints its name only (HIBE-70).
macro_rules! silent {
    ($($name:ident)*) => {$(
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
pub(crate) use silent;

silent!(Fr);
group! {
    /// A point of G1, or of its curve.
    G1(P1), G1Affine(P1Affine), G1_BYTES,
    p1_add p1_add_affine p1_double p1_mult fp_cneg p1_to_affine p1_from_affine p1s_to_affine
    p1_generator p1_compress p1_uncompress p1_is_infinite p1_in_subgroup
}
group! {
    /// A point of G2, or of its curve.
    G2(P2), G2Affine(P2Affine), G2_BYTES,
    p2_add p2_add_affine p2_double p2_mult fp2_cneg p2_to_affine p2_from_affine p2s_to_affine
    p2_generator p2_compress p2_uncompress p2_is_infinite p2_in_subgroup
}

impl Clone for G1Affine {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl G2Affine {
    /// A second copy.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0)
    }

    /// The coordinates without compression, 192 bytes.
    pub fn serialize(&self) -> [u8; G2_AFFINE_BYTES] {
        raw::p2_serialize(&self.0)
    }

    /// Reads what [`Self::serialize`] wrote; the point may not be infinite.
    pub fn deserialize(bytes: &[u8; G2_AFFINE_BYTES]) -> Result<Self, DecodeError> {
        let point = raw::p2_deserialize(bytes).map(Self);
        point.filter(|point| !raw::p2_is_infinite(&point.0)).ok_or(DecodeError::Value)
    }
}

/// Multiplications in Fp that a trial takes, by counting: 62 squarings in Fp12 at 36; 136 pairs of lines,
/// with 21 products in Fp2 at 3 and 4 at each of two points; the final exponentiation; four square roots.
#[doc(hidden)]
pub const TRIAL_FP_MULTIPLICATIONS: u32 = 62 * 36 + 136 * (21 * 3 + 2 * 4) + 7_700 + 1_900;

/// So many multiplications in Fp, of which four do not wait for each other, as in a tower of fields: what
/// the lab counts in.
#[doc(hidden)]
pub fn fp_multiplications(count: u32) {
    let start = G1Affine::generator().0;
    let mut chains = [start.x, start.y, start.x, start.y];
    for _ in 0..count.div_ceil(4) {
        chains = chains.each_ref().map(|x| raw::fp_mul(x, &start.x));
    }
    core::hint::black_box(chains);
}

/// A point of G1 hashed in the domain `dst` (RFC 9380, suite BLS12381G1_XMD:SHA-256_SSWU_RO_).
pub fn hash_to_g1(message: &[u8], dst: &[u8]) -> G1 {
    G1(raw::hash_to_g1(message, dst))
}

/// `H_a` = a P1 for an a that nobody knows.
pub fn h_a() -> G1 {
    hash_to_g1(H_A, DST)
}
