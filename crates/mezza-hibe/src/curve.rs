//! Wrappers of BLS12-381: scalars, points and elements of Gt as types that wipe themselves, print
//! nothing and cannot be copied by accident.
//!
//! Groups are written additively, Gt multiplicatively. Only `raw` contains `unsafe` code (HIBE-5).

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

/// The domain separation tag of points that are hashed to G1 (RFC 9380, section 3.1).
const DST: &[u8] = b"FSHIBE-V01-CS01-with-BLS12381G1_XMD:SHA-256_SSWU_RO_";
/// The text that is hashed to `H_a`, a point that all users share.
const H_A: &[u8] = b"fshibe/v1/A";

/// Wipes the limbs of a blst value.
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

/// A secret element of the field of q elements, 32 bytes. blst's scalar type wipes itself.
pub struct Fr(raw::Scalar);

impl Fr {
    /// Draws 64 fresh bytes modulo q, again if the result is zero (HIBE-6).
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

    /// Returns 64 bytes, little-endian, modulo q.
    pub fn from_wide(bytes: &[u8; 64]) -> Self {
        Self(raw::scalar_from_wide(bytes))
    }

    /// Decodes a stored or received scalar. `None` if the scalar is zero or not below q.
    pub fn from_bytes(bytes: &[u8; SCALAR_BYTES]) -> Option<Self> {
        let scalar = Self(raw::Scalar { b: *bytes });
        (raw::scalar_is_canonical(&scalar.0) && !scalar.is_zero()).then_some(scalar)
    }

    /// Returns zero, which [`Self::random`] never returns.
    pub fn zero() -> Self {
        Self(raw::Scalar::default())
    }

    /// Returns a public number, such as a component of a path, as a scalar.
    pub fn from_small(m: u8) -> Self {
        let mut scalar = Self::zero();
        scalar.0.b[0] = m;
        scalar
    }

    /// Returns the scalar as 32 bytes, little-endian.
    pub fn as_bytes(&self) -> &[u8; SCALAR_BYTES] {
        &self.0.b
    }

    /// Returns the sum modulo q.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        Self(raw::scalar_add(&self.0, &other.0))
    }

    /// Returns the product modulo q.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        Self(raw::scalar_mul(&self.0, &other.0))
    }

    /// Returns true if the scalar is zero. A fresh scalar is zero with a probability of 2^-255, so
    /// a branch on the result reveals nothing.
    fn is_zero(&self) -> bool {
        self.0.b.iter().fold(0, |all, byte| all | byte) == 0
    }
}

/// Defines a group and its affine form. A compressed point has `$n` bytes.
macro_rules! group {
    ($(#[$doc:meta])* $point:ident($raw:ident), $affine:ident($raw_affine:ident), $bytes:ident,
     $add:ident $add_affine:ident $double:ident $mult:ident $cneg:ident $to:ident $from:ident
     $all:ident $generator:ident $compress:ident $uncompress:ident $infinite:ident $subgroup:ident) => {
        $(#[$doc])*
        pub struct $point(raw::$raw);

        /// A point of the group in affine coordinates.
        pub struct $affine(raw::$raw_affine);

        impl $point {
            /// Returns the neutral element.
            pub fn infinity() -> Self {
                Self(raw::$raw::default())
            }

            /// Returns the sum. The formula works for all points and does not branch.
            #[must_use]
            pub fn add(&self, other: &Self) -> Self {
                Self(raw::$add(&self.0, &other.0))
            }

            /// Returns the sum. The formula works for all points and does not branch.
            #[must_use]
            pub fn add_affine(&self, other: &$affine) -> Self {
                Self(raw::$add_affine(&self.0, &other.0))
            }

            /// Returns the inverse.
            #[must_use]
            pub fn neg(&self) -> Self {
                let raw::$raw { x, y, z } = self.0;
                Self(raw::$raw { x, y: raw::$cneg(&y, true), z })
            }

            /// Returns the product with a secret scalar, in constant time (HIBE-4).
            #[must_use]
            pub fn mul(&self, scalar: &Fr) -> Self {
                Self(raw::$mult(&self.0, &scalar.0))
            }

            /// Returns the product with a public number, such as a component of a path.
            #[must_use]
            pub fn small_mul(&self, m: u8) -> Self {
                (0..u8::BITS).rev().fold(Self::infinity(), |sum, bit| {
                    let double = Self(raw::$double(&sum.0));
                    if m >> bit & 1 == 1 { double.add(self) } else { double }
                })
            }

            /// Returns the affine form. The point must not be infinite; a random point is infinite
            /// with a probability of 2^-255.
            pub fn to_affine(&self) -> $affine {
                $affine(raw::$to(&self.0))
            }

            /// Encodes points that are not infinite in compressed form, one after the other.
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
            /// Returns the standard generator.
            pub fn generator() -> Self {
                Self(raw::$generator())
            }

            /// Decodes a point. Error: the encoding is not canonical, or the point is infinite or
            /// not on the curve (HIBE-1). The subgroup is not checked.
            pub fn uncompress(bytes: &[u8; $bytes]) -> Result<Self, DecodeError> {
                let point = raw::$uncompress(bytes).map(Self);
                let finite = point.filter(|point| !raw::$infinite(&point.0));
                finite.ok_or(DecodeError::Value)
            }

            /// Returns the canonical encoding.
            pub fn compress(&self) -> [u8; $bytes] {
                raw::$compress(&self.0)
            }

            /// Returns true if the order of the point is q.
            pub fn in_subgroup(&self) -> bool {
                raw::$subgroup(&self.0)
            }

            /// Returns the point in the form for additions.
            pub fn to_point(&self) -> $point {
                $point(raw::$from(&self.0))
            }

            /// Returns the inverse.
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

/// Implements `Debug` of a secret type; the output is only the name of the type (HIBE-70).
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
    /// A point of the curve of G1. The subgroup is a separate check.
    G1(P1), G1Affine(P1Affine), G1_BYTES,
    p1_add p1_add_affine p1_double p1_mult fp_cneg p1_to_affine p1_from_affine p1s_to_affine
    p1_generator p1_compress p1_uncompress p1_is_infinite p1_in_subgroup
}
group! {
    /// A point of the curve of G2. The subgroup is a separate check.
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
    /// Returns a copy of the point.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0)
    }

    /// Returns both coordinates without compression, 192 bytes.
    pub fn serialize(&self) -> [u8; G2_AFFINE_BYTES] {
        raw::p2_serialize(&self.0)
    }

    /// Decodes the output of [`Self::serialize`]. Returns an error if the point is infinite.
    pub fn deserialize(bytes: &[u8; G2_AFFINE_BYTES]) -> Result<Self, DecodeError> {
        let point = raw::p2_deserialize(bytes).map(Self);
        point.filter(|point| !raw::p2_is_infinite(&point.0)).ok_or(DecodeError::Value)
    }
}

/// The number of multiplications in Fp of one trial: 62 squarings in Fp12 at 36; 136 pairs of
/// lines, each with 21 products in Fp2 at 3 and 4 at each of two points; the final exponentiation;
/// four square roots.
#[doc(hidden)]
pub const TRIAL_FP_MULTIPLICATIONS: u32 = 62 * 36 + 136 * (21 * 3 + 2 * 4) + 7_700 + 1_900;

/// Does `count` multiplications in Fp, in four independent chains as in a tower of fields. The lab
/// uses the time as its unit.
#[doc(hidden)]
pub fn fp_multiplications(count: u32) {
    let start = G1Affine::generator().0;
    let mut chains = [start.x, start.y, start.x, start.y];
    for _ in 0..count.div_ceil(4) {
        chains = chains.each_ref().map(|x| raw::fp_mul(x, &start.x));
    }
    core::hint::black_box(chains);
}

/// Hashes a message to a point of G1 with the domain separation tag `dst` (RFC 9380, suite
/// BLS12381G1_XMD:SHA-256_SSWU_RO_).
pub fn hash_to_g1(message: &[u8], dst: &[u8]) -> G1 {
    G1(raw::hash_to_g1(message, dst))
}

/// Returns `H_a` = a P1; a is unknown to everyone, because `H_a` is a hash.
pub fn h_a() -> G1 {
    hash_to_g1(H_A, DST)
}
