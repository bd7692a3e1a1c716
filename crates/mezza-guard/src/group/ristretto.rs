//! ristretto255 (RFC 9496), the group that the product uses.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use curve25519_dalek::constants::{RISTRETTO_BASEPOINT_POINT, RISTRETTO_BASEPOINT_TABLE};
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoBasepointTable, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity as _;
use mezza_core::{CryptoRng, Hash512 as _, Sha512};
use zeroize::Zeroize as _;

use super::Group;
use crate::error::GroupError;

/// The label from which the second generator is hashed, so that its logarithm is unknown.
const H_LABEL: &[u8] = b"GUARD1-PEDERSEN-H";

/// ristretto255 with its base point as g and a point hashed from a label as h. Elements and scalars
/// have 32 bytes, little-endian.
#[derive(Clone)]
pub struct Ristretto {
    h: RistrettoPoint,
    multiples_of_h: Arc<RistrettoBasepointTable>,
}

impl Ristretto {
    /// Creates the group and computes the table of h, which takes about 0.1 ms.
    pub fn new() -> Self {
        // Hashed to the group, because with a known logarithm of h commitments could be opened to
        // any value.
        let h = RistrettoPoint::from_uniform_bytes(&Sha512::hash(&[H_LABEL]));
        Self { h, multiples_of_h: Arc::new(RistrettoBasepointTable::create(&h)) }
    }
}

impl Default for Ristretto {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Ristretto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ristretto")
    }
}

/// Reduces 64 little-endian bytes modulo q.
pub(crate) fn reduce_wide(bytes: &[u8; 64]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(bytes)
}

impl Group for Ristretto {
    type Element = RistrettoPoint;
    type Scalar = Scalar;

    fn name(&self) -> &'static str {
        "ristretto255"
    }

    fn element_bytes(&self) -> usize {
        32
    }

    fn scalar_bytes(&self) -> usize {
        32
    }

    fn g(&self) -> RistrettoPoint {
        RISTRETTO_BASEPOINT_POINT
    }

    fn h(&self) -> RistrettoPoint {
        self.h
    }

    fn decode(&self, bytes: &[u8]) -> Result<RistrettoPoint, GroupError> {
        let bytes = bytes.try_into().map_err(|_| GroupError::Element)?;
        let point = CompressedRistretto(bytes).decompress().ok_or(GroupError::Element)?;
        // The identity is a valid encoding, but coins do not change it (GUARD-1).
        self.check_proper(&point)?;
        Ok(point)
    }

    fn encode(&self, element: &RistrettoPoint) -> Vec<u8> {
        element.compress().to_bytes().to_vec()
    }

    fn is_identity(&self, element: &RistrettoPoint) -> bool {
        *element == RistrettoPoint::identity()
    }

    fn multiply(&self, a: &RistrettoPoint, b: &RistrettoPoint) -> RistrettoPoint {
        a + b
    }

    fn invert(&self, element: &RistrettoPoint) -> RistrettoPoint {
        -element
    }

    fn power(&self, base: &RistrettoPoint, exponent: &Scalar) -> RistrettoPoint {
        base * exponent
    }

    fn power_g(&self, exponent: &Scalar) -> RistrettoPoint {
        RISTRETTO_BASEPOINT_TABLE * exponent
    }

    fn power_h(&self, exponent: &Scalar) -> RistrettoPoint {
        &*self.multiples_of_h * exponent
    }

    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> Scalar {
        loop {
            let scalar = self.draw_scalar(rng);
            // A factor of 0 would replace the client's value by a constant (GUARD-3).
            if scalar != Scalar::ZERO {
                return scalar;
            }
        }
    }

    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> Scalar {
        let mut bytes = [0; 64];
        rng.fill_bytes(&mut bytes);
        let scalar = reduce_wide(&bytes);
        // 64 bytes are wider than q, so the reduction has no measurable bias. The bytes are wiped
        // at once.
        bytes.zeroize();
        scalar
    }

    fn decode_scalar(&self, bytes: &[u8]) -> Result<Scalar, GroupError> {
        let bytes = bytes.try_into().map_err(|_| GroupError::Scalar)?;
        // A scalar at or above q would be a second form of the same value (GUARD-2).
        Option::from(Scalar::from_canonical_bytes(bytes)).ok_or(GroupError::Scalar)
    }

    fn encode_scalar(&self, scalar: &Scalar) -> Vec<u8> {
        scalar.to_bytes().to_vec()
    }

    fn add_scalars(&self, a: &Scalar, b: &Scalar) -> Scalar {
        a + b
    }

    fn multiply_scalars(&self, a: &Scalar, b: &Scalar) -> Scalar {
        a * b
    }

    fn invert_scalar(&self, scalar: &Scalar) -> Option<Scalar> {
        // The inverse of 0 would be 0, which would erase a ciphertext.
        (*scalar != Scalar::ZERO).then(|| scalar.invert())
    }
}
