//! CURVE25519 as in the thesis: all 8 l points, scalars up to 8 l. The coset of the cofactor is
//! visible through every firewall, which the lab demonstrates.

use crypto_bigint::{NonZero, U256};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity as _, IsIdentity as _};
use mezza_core::CryptoRng;
use mezza_guard::keys::expand_label;
use mezza_guard::{Group, GroupError};

/// 8 l, big-endian: 2^255 + 8 times 27742317777372353535851937790883648493.
const ORDER: &str = "80000000000000000000000000000000a6f7cef517bce6b2c09318d2e7ae9f68";

/// The whole curve, as Edwards points of 32 bytes; g and h are points of full order.
#[derive(Clone)]
pub struct FullCurve {
    order: NonZero<U256>,
    g: EdwardsPoint,
    h: EdwardsPoint,
}

impl FullCurve {
    /// Makes the curve with generators from a label.
    pub fn new() -> Self {
        let order = U256::from_be_hex(ORDER);
        Self {
            order: NonZero::new(order).unwrap_or(NonZero::<U256>::ONE),
            g: point_of_full_order("thesis g"),
            h: point_of_full_order("thesis h"),
        }
    }

    /// Returns the coset of a point: l P, which is one of 8 points.
    pub fn coset(point: &EdwardsPoint) -> [u8; 32] {
        // l - 1 is a scalar, and l P = (l - 1) P + P.
        (point * (Scalar::ZERO - Scalar::ONE) + point).compress().to_bytes()
    }
}

/// Returns the first point of full order among the hashes of a label; its coset generates all
/// eight.
fn point_of_full_order(label: &str) -> EdwardsPoint {
    let bytes = expand_label(label.as_bytes(), 32 * 64);
    let points = bytes.chunks_exact(32).filter_map(|chunk| {
        let bytes = <[u8; 32]>::try_from(chunk).ok()?;
        CompressedEdwardsY(bytes).decompress()
    });
    let is_full = |point: &EdwardsPoint| {
        let coset = CompressedEdwardsY(FullCurve::coset(point)).decompress();
        coset.is_some_and(|coset| !(coset + coset + coset + coset).is_identity())
    };
    // One point in two has full order, so 64 hashes contain one.
    points.into_iter().find(is_full).unwrap_or_else(EdwardsPoint::identity)
}

impl Group for FullCurve {
    type Element = EdwardsPoint;
    type Scalar = U256;

    fn name(&self) -> &'static str {
        "curve25519-full"
    }

    fn element_bytes(&self) -> usize {
        32
    }

    fn scalar_bytes(&self) -> usize {
        32
    }

    fn g(&self) -> EdwardsPoint {
        self.g
    }

    fn h(&self) -> EdwardsPoint {
        self.h
    }

    fn decode(&self, bytes: &[u8]) -> Result<EdwardsPoint, GroupError> {
        let bytes = bytes.try_into().map_err(|_| GroupError::Element)?;
        let point = CompressedEdwardsY(bytes).decompress().ok_or(GroupError::Element)?;
        if point.is_identity() { Err(GroupError::Element) } else { Ok(point) }
    }

    fn encode(&self, element: &EdwardsPoint) -> Vec<u8> {
        element.compress().to_bytes().to_vec()
    }

    fn is_identity(&self, element: &EdwardsPoint) -> bool {
        element.is_identity()
    }

    fn multiply(&self, a: &EdwardsPoint, b: &EdwardsPoint) -> EdwardsPoint {
        a + b
    }

    fn invert(&self, element: &EdwardsPoint) -> EdwardsPoint {
        -element
    }

    /// Computes k P = 8 (k1 P) + k0 P with k = 8 k1 + k0. As k1 is below l, the library multiplies
    /// by that integer.
    fn power(&self, base: &EdwardsPoint, exponent: &U256) -> EdwardsPoint {
        let k1 = exponent.shr_vartime(3);
        let k0 = exponent.as_words()[0] & 7;
        let k1 = Scalar::from_bytes_mod_order(little_endian(&k1));
        (0..k0).fold((base * k1).mul_by_cofactor(), |sum, _| sum + base)
    }

    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> U256 {
        loop {
            let drawn = self.draw_scalar(rng);
            if drawn != U256::ZERO {
                return drawn;
            }
        }
    }

    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> U256 {
        loop {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            let drawn = U256::from_be_slice(&bytes);
            if drawn < *self.order.as_ref() {
                return drawn;
            }
        }
    }

    fn decode_scalar(&self, bytes: &[u8]) -> Result<U256, GroupError> {
        let scalar = (bytes.len() == 32).then(|| U256::from_be_slice(bytes));
        scalar.filter(|scalar| scalar < self.order.as_ref()).ok_or(GroupError::Scalar)
    }

    fn encode_scalar(&self, scalar: &U256) -> Vec<u8> {
        scalar.to_be_bytes().as_ref().to_vec()
    }

    fn add_scalars(&self, a: &U256, b: &U256) -> U256 {
        a.add_mod(b, &self.order)
    }

    fn multiply_scalars(&self, a: &U256, b: &U256) -> U256 {
        a.mul_mod(b, &self.order)
    }

    fn invert_scalar(&self, scalar: &U256) -> Option<U256> {
        scalar.invert_mod(&self.order).into_option()
    }
}

fn little_endian(number: &U256) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(number.to_le_bytes().as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_order_is_eight_times_l_and_powers_are_exact() {
        let curve = FullCurve::new();
        let last = curve.order.as_ref().wrapping_sub(&U256::ONE);
        for base in [curve.g, curve.h] {
            // 8 l P = 0, so (8 l - 1) P = -P, torsion included.
            assert!(curve.power(&base, &last) == -base);
            assert!(
                curve.power(&base, &U256::from_u64(13)) == (0..12).fold(base, |sum, _| sum + base)
            );
        }
        // Small multiples have all eight cosets.
        let multiples = (0..8).map(|k| curve.power(&curve.g, &U256::from_u64(k)));
        let cosets: BTreeSet<[u8; 32]> = multiples.map(|point| FullCurve::coset(&point)).collect();
        assert_eq!(cosets.len(), 8);
    }
}
