//! The interface for batches: many headers against four fixed points. The interface passes bytes,
//! so another engine changes only the time.

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::DecodeError;

use crate::bkp::HEADER_POINTS;
use crate::curve::gt::{Gt, GtBytes};
use crate::curve::lines::Lines;
use crate::curve::{G1_BYTES, G1Affine, G2_AFFINE_BYTES, G2Affine, silent};

/// Bytes of a header C: four compressed points of G1.
pub const HEADER_BYTES: usize = HEADER_POINTS * G1_BYTES;

/// The four points of a key, 192 bytes each, in the order of the header's points.
pub type KeyPoints = [[u8; G2_AFFINE_BYTES]; HEADER_POINTS];

/// Computes e(c\[0\], q\[0\]) .. e(c\[3\], q\[3\]) for many headers c. The result for a header is
/// the canonical encoding of the product, 576 bytes, or an error if a point of the header is
/// infinite or its encoding is refused.
pub trait PairingEngine {
    /// Four prepared points: secret, wiped on drop.
    type Prepared;

    /// Prepares four points of the subgroup.
    fn prepare_points(&self, q: &[G2Affine; HEADER_POINTS]) -> Self::Prepared;

    /// Returns the products of all headers `c`, in the same order.
    fn multi_pair(
        &self,
        q: &Self::Prepared,
        c: &[&[u8; HEADER_BYTES]],
    ) -> Vec<Result<GtBytes, DecodeError>>;
}

/// The implementations of the pairing engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairingKernel {
    /// Precomputed line functions and shared squarings over blst's field.
    #[default]
    Lines,
    /// Four pairings of blst, multiplied: simple code to compare with in tests.
    Plain,
}

/// The points of a key in the form that the engine needs.
pub enum PreparedKey {
    /// The form for [`PairingKernel::Lines`].
    Lines(Lines),
    /// The form for [`PairingKernel::Plain`].
    Plain(Box<[G2Affine; HEADER_POINTS]>),
}

silent!(PreparedKey);

impl PairingEngine for PairingKernel {
    type Prepared = PreparedKey;

    fn prepare_points(&self, q: &[G2Affine; HEADER_POINTS]) -> PreparedKey {
        let lines = match self {
            Self::Lines => Lines::new(&q.each_ref()),
            Self::Plain => None,
        };
        // If a line has the constant 0, the points are prepared for `Plain`.
        let plain = || PreparedKey::Plain(Box::new(q.each_ref().map(G2Affine::duplicate)));
        lines.map_or_else(plain, PreparedKey::Lines)
    }

    fn multi_pair(
        &self,
        q: &PreparedKey,
        c: &[&[u8; HEADER_BYTES]],
    ) -> Vec<Result<GtBytes, DecodeError>> {
        c.iter().map(|c| Ok(q.pairing_product(&header_points(c)?).to_bytes())).collect()
    }
}

impl PreparedKey {
    fn pairing_product(&self, c: &[G1Affine; HEADER_POINTS]) -> Gt {
        match self {
            Self::Lines(lines) => lines.multi_pair(c),
            Self::Plain(q) => {
                let pairs = c.iter().zip(q.iter());
                pairs.fold(Gt::one(), |product, (c, q)| product.mul(&Gt::pairing(c, q)))
            }
        }
    }
}

/// Decodes the points of a header. Error: a point is not canonical, not on the curve or infinite.
/// The points need not be in the subgroup (HIBE-2): a component of another order pairs to 1, and
/// changes the bytes that are hashed.
fn header_points(c: &[u8; HEADER_BYTES]) -> Result<[G1Affine; HEADER_POINTS], DecodeError> {
    let (points, _) = c.as_chunks::<G1_BYTES>();
    let points: Result<Vec<G1Affine>, DecodeError> =
        points.iter().map(G1Affine::uncompress).collect();
    points?.try_into().map_err(|_| DecodeError::Truncated)
}
