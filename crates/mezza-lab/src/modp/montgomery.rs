//! Products modulo an odd number of 3072 bits in Montgomery's form (Mathematics of Computation 44,
//! 1985): x is stored as x 2^3072 mod p. Columns are summed one after another in three limbs
//! (Comba, IBM Systems Journal 29, 1990): those of the product together with the multiples of p
//! that reduce it.
//!
//! No branch and no address depends on a secret value; only the modulus and the bit length of an
//! exponent are public.

use crypto_bigint::U3072;
use crypto_bigint::modular::FixedMontyParams;

/// Limbs of 64 bits, the lowest first.
const LIMBS: usize = 48;
/// A number as limbs.
type Limbs = [u64; LIMBS];
/// Bits of an exponent per window.
const WINDOW: usize = 5;

/// A value in Montgomery's form, below the modulus.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Residue(Limbs);

/// A modulus and its precomputed values.
pub struct Montgomery {
    p: Limbs,
    /// -1 / p modulo 2^64.
    inverse: u64,
    one: Residue,
    /// 2^6144 mod p.
    square: Residue,
}

fn to_limbs(number: &U3072) -> Limbs {
    let bytes = number.to_le_bytes();
    let (words, _) = bytes.as_ref().as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// The sum of a column, in three limbs.
#[derive(Clone, Copy, Default)]
struct Column {
    low: u128,
    high: u64,
}

impl Column {
    #[inline]
    fn plus(self, sum: u128) -> Self {
        let (low, is_over) = self.low.overflowing_add(sum);
        Self { low, high: self.high.wrapping_add(u64::from(is_over)) }
    }

    /// Adds the products of pairs of limbs: at most 96 products, which fit into three limbs.
    #[inline]
    fn dot<'a>(self, pairs: impl Iterator<Item = (&'a u64, &'a u64)>) -> Self {
        pairs.fold(self, |sum, (a, b)| sum.plus(u128::from(*a).wrapping_mul(u128::from(*b))))
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        let sum = self.plus(other.low);
        Self { high: sum.high.wrapping_add(other.high), ..sum }
    }

    #[inline]
    fn limb(self) -> u64 {
        self.low as u64
    }

    /// Returns the carry into the next column.
    #[inline]
    fn carry(self) -> Self {
        Self { low: self.low >> 64 | u128::from(self.high) << 64, high: 0 }
    }
}

/// Returns the indices of the limbs that contribute to one of the 96 columns of a product.
#[inline]
fn limb_places(column: usize) -> std::ops::RangeInclusive<usize> {
    (column + 1).saturating_sub(LIMBS)..=column.min(LIMBS - 1)
}

impl Montgomery {
    /// Precomputes the values of a modulus.
    pub fn new(params: &FixedMontyParams<{ U3072::LIMBS }>) -> Self {
        let p = to_limbs(params.modulus().as_ref());
        // Newton's iteration for 1 / p modulo 2^64: each step doubles the number of correct bits.
        let inverse =
            (0..6).fold(1_u64, |x, _| x.wrapping_mul(2_u64.wrapping_sub(p[0].wrapping_mul(x))));
        Self {
            p,
            inverse: inverse.wrapping_neg(),
            one: Residue(to_limbs(params.one())),
            square: Residue(to_limbs(params.r2())),
        }
    }

    /// Returns 1 in Montgomery's form.
    pub const fn one(&self) -> Residue {
        self.one
    }

    /// Converts a number below the modulus into Montgomery's form.
    pub fn enter_form(&self, number: &U3072) -> Residue {
        self.multiply(&Residue(to_limbs(number)), &self.square)
    }

    /// Converts a value from Montgomery's form.
    pub fn leave_form(&self, residue: &Residue) -> U3072 {
        let column =
            |at: usize| Column::default().plus(residue.0.get(at).copied().unwrap_or(0).into());
        to_number(&self.reduce_columns(column))
    }

    /// Computes the product of two numbers below the modulus, neither in Montgomery's form.
    pub fn product(&self, a: &U3072, b: &U3072) -> U3072 {
        to_number(&self.multiply(&Residue(to_limbs(a)), &self.enter_form(b)))
    }

    /// Computes a product.
    pub fn multiply(&self, a: &Residue, b: &Residue) -> Residue {
        self.reduce_columns(|at| {
            let a = &a.0[limb_places(at)];
            let b = &b.0[limb_places(at)];
            Column::default().dot(a.iter().zip(b.iter().rev()))
        })
    }

    /// Computes a square: products of different limbs are computed once and doubled.
    pub fn square(&self, a: &Residue) -> Residue {
        self.reduce_columns(|at| {
            let limbs = &a.0[limb_places(at)];
            let half = limbs.len() / 2;
            let once = Column::default().dot(limbs[..half].iter().zip(limbs.iter().rev()));
            let middle = limbs[half..].iter().take(limbs.len() % 2);
            once.and(once).dot(middle.clone().zip(middle))
        })
    }

    /// Divides a number below p 2^3072, given by its columns, by 2^3072 modulo p.
    #[inline]
    fn reduce_columns(&self, column: impl Fn(usize) -> Column) -> Residue {
        let p = &self.p;
        let mut multiples = [0; LIMBS];
        let mut upper = [0; LIMBS];
        let mut carry = Column::default();
        for at in 0..LIMBS {
            let sum = carry.and(column(at));
            let sum = sum.dot(multiples[..at].iter().zip(p[1..=at].iter().rev()));
            multiples[at] = sum.limb().wrapping_mul(self.inverse);
            carry = sum.dot([(&multiples[at], &p[0])].into_iter()).carry();
        }
        for at in LIMBS..2 * LIMBS {
            let first = at + 1 - LIMBS;
            let sum = carry.and(column(at));
            let sum = sum.dot(multiples[first..].iter().zip(p[first..].iter().rev()));
            upper[at - LIMBS] = sum.limb();
            carry = sum.carry();
        }
        self.subtract_once(&upper, carry.limb())
    }

    /// Subtracts p once if needed, from a number below 2 p whose top bit is `top`.
    fn subtract_once(&self, sum: &Limbs, top: u64) -> Residue {
        let mut less = [0; LIMBS];
        let mut borrow = 0;
        for at in 0..LIMBS {
            let (once, one) = sum[at].overflowing_sub(self.p[at]);
            let (twice, two) = once.overflowing_sub(borrow);
            (less[at], borrow) = (twice, u64::from(one) | u64::from(two));
        }
        let keeps = borrow & (top ^ 1);
        Residue(choose_limbs(&less, sum, keeps))
    }

    /// Computes `base` to the power of an exponent of at most `bits` bits, by windows of equal
    /// cost.
    pub fn power(&self, base: &Residue, exponent: &U3072, bits: u32) -> Residue {
        let exponent = to_limbs(exponent);
        let mut powers = [self.one; 1 << WINDOW];
        for at in 1..powers.len() {
            powers[at] = self.multiply(&powers[at - 1], base);
        }
        let windows = (bits as usize).div_ceil(WINDOW);
        (0..windows).rev().fold(self.one, |mut result, window| {
            for _ in 0..WINDOW {
                result = self.square(&result);
            }
            self.multiply(&result, &look_up(&powers, find_digit(&exponent, window * WINDOW)))
        })
    }
}

fn to_number(residue: &Residue) -> U3072 {
    U3072::from_le_slice(residue.0.map(u64::to_le_bytes).as_flattened())
}

/// Returns the window of an exponent that begins at `bit`.
fn find_digit(exponent: &Limbs, bit: usize) -> u64 {
    let at = bit / 64;
    let shift = bit % 64;
    let above = exponent.get(at + 1).copied().unwrap_or(0);
    let pair = u128::from(above) << 64 | u128::from(exponent.get(at).copied().unwrap_or(0));
    (pair >> shift) as u64 & ((1 << WINDOW) - 1)
}

/// Returns `one` if `flag` is 1, `zero` if `flag` is 0, without a branch.
fn choose_limbs(zero: &Limbs, one: &Limbs, flag: u64) -> Limbs {
    let mask = std::hint::black_box(flag).wrapping_neg();
    std::array::from_fn(|at| zero[at] ^ (mask & (zero[at] ^ one[at])))
}

/// Returns an entry of a table. All entries are read, so that the cache does not show the index.
pub fn look_up(table: &[Residue], wanted: u64) -> Residue {
    let mut found = [0; LIMBS];
    for (at, entry) in (0_u64..).zip(table) {
        let other = at ^ wanted;
        // All ones if the indices are equal: only then does the subtraction of one borrow.
        let mask = std::hint::black_box(other.wrapping_sub(1) >> 63).wrapping_neg();
        for (place, limb) in found.iter_mut().zip(&entry.0) {
            *place |= mask & limb;
        }
    }
    Residue(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modp::group_15;
    use crypto_bigint::RandomMod as _;
    use crypto_bigint::modular::FixedMontyForm;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng as _;

    /// Returns 0, 1, 2, p - 1, numbers whose carries run through every limb, and random numbers.
    fn numbers(count: usize) -> Vec<U3072> {
        let p = group_15();
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let most = p.as_ref().wrapping_sub(&U3072::ONE);
        let ones = U3072::MAX.shr_vartime(1);
        let edges = [U3072::ZERO, U3072::ONE, U3072::from_u64(2), most, ones];
        let drawn = (0..count).map(|_| U3072::random_mod_vartime(&mut rng, p.as_nz_ref()));
        edges.into_iter().chain(drawn).collect()
    }

    /// The results equal those of crypto-bigint.
    #[test]
    fn slow_products_squares_and_powers_are_those_of_the_library() {
        let params = FixedMontyParams::new_vartime(group_15());
        let own = Montgomery::new(&params);
        let theirs = |x: &U3072| FixedMontyForm::new(x, &params);
        let numbers = numbers(200);
        for a in &numbers {
            let entered = own.enter_form(a);
            assert!(own.leave_form(&entered) == *a);
            assert!(own.leave_form(&own.square(&entered)) == theirs(a).square().retrieve());
            for b in numbers.iter().take(12) {
                let product = theirs(a).mul(&theirs(b)).retrieve();
                assert!(own.leave_form(&own.multiply(&entered, &own.enter_form(b))) == product);
                assert!(own.product(a, b) == product);
            }
        }
        for exponent in numbers.iter().take(8) {
            let base = &numbers[7];
            let power = theirs(base).pow(exponent).retrieve();
            assert!(
                own.leave_form(&own.power(&own.enter_form(base), exponent, U3072::BITS)) == power
            );
        }
    }

    #[test]
    fn every_entry_of_a_table_is_found() {
        let table: Vec<Residue> = (0..64).map(|n| Residue([n; LIMBS])).collect();
        assert!((0..64).all(|n| look_up(&table, n) == Residue([n; LIMBS])));
    }
}
