//! Elements of Gt: encoding in 576 bytes, power by a secret scalar, and the plain pairing.

use core::hint::black_box;

use mezza_core::Wiping;
use zeroize::Zeroize;

use super::{Fr, G1Affine, G2Affine, Limbs, raw, silent};

/// Bytes of an encoded element: the coefficients of w^0 to w^5 over Fp2, big-endian.
pub const GT_BYTES: usize = 576;

/// The bytes of an element, wiped on drop.
pub type GtBytes = Wiping<[u8; GT_BYTES]>;

/// The absolute value of the curve parameter z; q = z^4 - z^2 + 1.
const Z: u64 = 0xd201_0000_0001_0000;
/// The number of digits of a scalar to the base |z|.
const DIGITS: usize = 4;
/// The number of products of subsets of the four bases.
const PRODUCTS: usize = 1 << DIGITS;

/// An element of the group of order q, wiped on drop.
pub struct Gt(pub(super) raw::Fp12);

silent!(Gt);

impl Gt {
    /// Returns the neutral element.
    pub fn one() -> Self {
        Self(raw::fp12_one())
    }

    /// Returns e(p, q). Both points must be in their subgroups and not infinite.
    pub fn pairing(p: &G1Affine, q: &G2Affine) -> Self {
        Self(raw::final_exp(&raw::miller_loop(&q.0, &p.0)))
    }

    /// Returns a copy of the element.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0)
    }

    /// Returns the product.
    #[must_use]
    pub fn mul(&self, other: &Self) -> Self {
        Self(raw::fp12_mul(&self.0, &other.0))
    }

    /// Encodes the coefficients of w^0 to w^5, each as c0 and c1 (w^6 = 1 + u).
    pub fn to_bytes(&self) -> GtBytes {
        Wiping::new(raw::fp12_bytes(&self.0))
    }

    /// Returns the power by a secret scalar, in constant time (HIBE-4). Frobenius is the power by
    /// z, so four digits of 64 bits are processed together, with a table of the 16 products of the
    /// bases.
    #[must_use]
    pub fn pow(&self, scalar: &Fr) -> Self {
        let table = self.basis_products();
        let mut digits = z_digits(scalar.as_bytes());
        let mut power = Self::one();
        for bit in (0..u64::BITS).rev() {
            let index = (0..DIGITS).fold(0, |index, i| index | (digits[i] >> bit & 1) << i);
            let squared = Self(raw::fp12_cyclotomic_sqr(&power.0));
            power = squared.mul(&select_entry(&table, index));
        }
        digits.zeroize();
        power
    }

    /// Returns the table: entry i is the product of the bases whose bits are set in i. z is
    /// negative, so odd powers of Frobenius are inverted; the inverse is the conjugate.
    fn basis_products(&self) -> [Self; PRODUCTS] {
        let conjugate = |mut f| {
            raw::fp12_conjugate(&mut f);
            Self(f)
        };
        let bases = [
            Self(self.0),
            conjugate(raw::fp12_frobenius::<1>(&self.0)),
            Self(raw::fp12_frobenius::<2>(&self.0)),
            conjugate(raw::fp12_frobenius::<3>(&self.0)),
        ];
        let mut table = core::array::from_fn(|_| Self::one());
        for i in 1..PRODUCTS {
            let top = i.ilog2() as usize;
            table[i] = bases[top].mul(&table[i ^ 1 << top]);
        }
        table
    }
}

impl Drop for Gt {
    fn drop(&mut self) {
        self.0.wipe_limbs();
    }
}

/// Returns entry `index` of the table. Every entry is read.
fn select_entry(table: &[Gt; PRODUCTS], index: u64) -> Gt {
    let mut out = raw::Fp12 { fp6: [raw::Fp6::default(); 2] };
    for (i, entry) in (0..).zip(table) {
        let different = index ^ i;
        // `black_box` hides from the compiler that the mask has only two values, so that it cannot
        // branch on them.
        let mask = black_box(((different | different.wrapping_neg()) >> 63).wrapping_sub(1));
        for (to, from) in out.fp6.iter_mut().zip(&entry.0.fp6) {
            for (to, from) in to.fp2.iter_mut().zip(&from.fp2) {
                for (to, from) in to.fp.iter_mut().zip(&from.fp) {
                    to.l.iter_mut().zip(from.l).for_each(|(to, from)| *to |= from & mask);
                }
            }
        }
    }
    Gt(out)
}

/// Returns digits below |z|, of which the sum of digit |z|^i is the scalar. Three divisions are
/// done bit by bit with a masked subtraction, because the time of a CPU's division depends on its
/// operands.
fn z_digits(scalar: &[u8; 32]) -> [u64; DIGITS] {
    let mut rest: [u64; 4] = core::array::from_fn(|i| {
        u64::from_le_bytes(core::array::from_fn(|byte| scalar[8 * i + byte]))
    });
    let digits = core::array::from_fn(|_| divide_by_z(&mut rest));
    rest.zeroize();
    digits
}

/// Divides by |z| in place and returns the remainder.
fn divide_by_z(dividend: &mut [u64; 4]) -> u64 {
    let mut remainder = 0_u64;
    for word in dividend.iter_mut().rev() {
        let mut quotient = 0;
        for bit in (0..u64::BITS).rev() {
            let carry = remainder >> 63;
            remainder = remainder << 1 | *word >> bit & 1;
            // The mask is all ones if the remainder with its carry is |z| or more.
            let below = u64::from(remainder.overflowing_sub(Z).1);
            let mask = black_box((carry | (below ^ 1)).wrapping_neg());
            remainder = remainder.wrapping_sub(Z & mask);
            quotient = quotient << 1 | mask & 1;
        }
        *word = quotient;
    }
    remainder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_give_the_scalar_back() {
        for fill in [1_u8, 0x3f, 0x5a, 0x72] {
            let mut bytes = [fill; 32];
            bytes[31] &= 0x3f;
            let digits = z_digits(&bytes);
            assert!(digits.iter().all(|digit| *digit < Z));
            let mut sum = [0_u64; 4];
            for digit in digits.iter().rev() {
                let mut carry = u128::from(*digit);
                for word in &mut sum {
                    carry += u128::from(*word) * u128::from(Z);
                    *word = carry as u64;
                    carry >>= 64;
                }
            }
            let back: alloc::vec::Vec<u8> =
                sum.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(back, bytes);
        }
    }

    #[test]
    fn a_power_is_the_pairing_of_the_multiple() {
        let p = G1Affine::generator();
        let q = G2Affine::generator();
        for fill in [1_u8, 0x3f, 0x5a] {
            let mut bytes = [fill; 32];
            bytes[31] &= 0x3f;
            let s = Fr::from_bytes(&bytes).expect("a scalar");
            let multiple = p.to_point().mul(&s).to_affine();
            let power = Gt::pairing(&p, &q).pow(&s);
            assert_eq!(power.to_bytes(), Gt::pairing(&multiple, &q).to_bytes());
        }
    }
}
