//! Multiples of a fixed point by secret scalars: 43 windows of 6 bits with signed digits.
//!
//! Entry k of row w in the table is (k + 1) 2^(6 w) P. A table has 132,096 bytes for G1 and 264,192
//! for G2. All entries of a row are read and one is selected by a mask; the digits are computed
//! without branches (HIBE-4). A table is wiped on drop, because the fixed point may be secret too.

use alloc::vec::Vec;
use core::hint::black_box;

use zeroize::Zeroize;

use super::{Fr, G1, G1Affine, G2, G2Affine, Limbs, raw};

/// Bits of a window.
const WINDOW_BITS: usize = 6;
/// The number of windows, for the 255 bits of a scalar and the last carry.
const WINDOWS: usize = 43;
/// The number of entries in a row, for the digits 1 to 32.
const ENTRIES: usize = 1 << (WINDOW_BITS - 1);
/// The least number of products in G2 for which a table saves time.
const TABLE_PRODUCTS_MIN: u32 = 32;

/// A group whose points can be the base of a comb. In a table, an affine point is `[u64; WORDS]`,
/// and zeros stand for the infinite point.
pub(crate) trait Base: Sized {
    /// The limbs of an affine point.
    type Words: Copy + AsMut<[u64]> + AsRef<[u64]>;
    /// The infinite point.
    const ZERO: Self::Words;

    fn infinity() -> Self;
    fn plus(&self, other: &Self) -> Self;
    fn doubled(&self) -> Self;
    /// Returns the sum with a point of the table, or with its inverse if `negative`.
    fn plus_words(&self, words: &Self::Words, negative: bool) -> Self;
    fn words_of(points: &[Self]) -> Vec<Self::Words>;
}

/// The table of one fixed point.
pub(crate) struct Comb<B: Base>(Vec<B::Words>);

impl<B: Base> Comb<B> {
    /// Makes the table of a point.
    pub fn new(base: B) -> Self {
        let mut table = Vec::with_capacity(WINDOWS * ENTRIES);
        let mut base = base;
        for _ in 0..WINDOWS {
            let mut row = Vec::with_capacity(ENTRIES);
            row.push(base.plus(&B::infinity()));
            for k in 2..=ENTRIES {
                row.push(if k % 2 == 0 {
                    row[k / 2 - 1].doubled()
                } else {
                    base.plus(&row[k - 2])
                });
            }
            base = row[ENTRIES - 1].doubled();
            let mut words = B::words_of(&row);
            table.extend_from_slice(&words);
            wipe_table::<B>(&mut words);
        }
        Self(table)
    }

    /// Returns the product of the fixed point and a secret scalar.
    pub fn mul(&self, scalar: &Fr) -> B {
        let mut digits = signed_digits(scalar.as_bytes());
        let rows = self.0.chunks_exact(ENTRIES);
        let product = rows.zip(&digits).fold(B::infinity(), |sum, (row, digit)| {
            let mut words = select_entry::<B>(row, u64::from(digit.unsigned_abs()));
            let sum = sum.plus_words(&words, *digit < 0);
            words.as_mut().zeroize();
            sum
        });
        digits.zeroize();
        product
    }
}

impl<B: Base> Drop for Comb<B> {
    fn drop(&mut self) {
        wipe_table::<B>(&mut self.0);
    }
}

fn wipe_table<B: Base>(table: &mut [B::Words]) {
    for words in table {
        words.as_mut().zeroize();
    }
}

/// A secret point of G2 that is multiplied by scalars, with a table if one saves time.
pub(crate) struct Factor {
    point: G2,
    table: Option<Comb<G2>>,
}

impl Factor {
    /// Creates a factor without a table.
    pub const fn new(point: G2) -> Self {
        Self { point, table: None }
    }

    /// Makes a table, if a table saves time for this number of products.
    pub fn prepare_table(&mut self, products: u32) {
        if products >= TABLE_PRODUCTS_MIN && self.table.is_none() {
            self.table = Some(Comb::new(self.point.add(&G2::infinity())));
        }
    }

    /// The point.
    pub const fn point(&self) -> &G2 {
        &self.point
    }

    /// Returns the product with a secret scalar, in constant time.
    pub fn mul(&self, scalar: &Fr) -> G2 {
        self.table.as_ref().map_or_else(|| self.point.mul(scalar), |table| table.mul(scalar))
    }
}

/// Returns the digits of a scalar: each is between -31 and 32, and the sum of digit 2^(6 w) is the
/// scalar.
fn signed_digits(scalar: &[u8; 32]) -> [i8; WINDOWS] {
    let mut carry = 0;
    core::array::from_fn(|w| {
        let byte = WINDOW_BITS * w / 8;
        let shift = WINDOW_BITS * w % 8;
        let next = if byte + 1 < 32 { scalar[byte + 1] } else { 0 };
        let both = u16::from_le_bytes([scalar[byte], next]);
        let digit = i16::try_from(both >> shift & 0x3f).unwrap_or(0) + carry;
        carry = (32 - digit) >> 15 & 1;
        (digit - (carry << WINDOW_BITS)) as i8
    })
}

/// Returns entry `digit` - 1 of a row, or the infinite point for digit 0. Every entry is read.
fn select_entry<B: Base>(row: &[B::Words], digit: u64) -> B::Words {
    let mut out = B::ZERO;
    for (k, entry) in (1..).zip(row) {
        let different = digit ^ k;
        // The mask is all ones if `different` is 0. `black_box` hides from the compiler that the
        // mask has only two values; otherwise it could branch on them.
        let mask = black_box(((different | different.wrapping_neg()) >> 63).wrapping_sub(1));
        for (word, entry) in out.as_mut().iter_mut().zip(entry.as_ref()) {
            *word |= entry & mask;
        }
    }
    out
}

/// Implements `Base`: converts `$n` limbs to coordinates and back.
macro_rules! base {
    ($point:ident $affine:ident $raw:ident, $n:literal, $double:ident, $cneg:ident, $all:ident,
     |$words:ident| $read:expr, |$p:ident| $write:expr) => {
        impl Base for $point {
            type Words = [u64; $n];
            const ZERO: Self::Words = [0; $n];

            fn infinity() -> Self {
                Self::infinity()
            }

            fn plus(&self, other: &Self) -> Self {
                self.add(other)
            }

            fn doubled(&self) -> Self {
                Self(raw::$double(&self.0))
            }

            fn plus_words(&self, $words: &Self::Words, negative: bool) -> Self {
                let (x, y) = $read;
                self.add_affine(&$affine(raw::$raw { x, y: raw::$cneg(&y, negative) }))
            }

            fn words_of(points: &[Self]) -> Vec<Self::Words> {
                let mut affine = raw::$all(points.iter().map(|point| &point.0));
                let words = affine.iter().map(|$p| {
                    let mut words = Self::ZERO;
                    let limbs = $write;
                    words.iter_mut().zip(limbs).for_each(|(word, limb)| *word = limb);
                    words
                });
                let words = words.collect();
                for point in &mut affine {
                    point.x.wipe_limbs();
                    point.y.wipe_limbs();
                }
                words
            }
        }
    };
}

fn fp(words: &[u64], at: usize) -> raw::Fp {
    raw::Fp { l: core::array::from_fn(|i| words[6 * at + i]) }
}

fn fp2(words: &[u64], at: usize) -> raw::Fp2 {
    raw::Fp2 { fp: [fp(words, at), fp(words, at + 1)] }
}

base!(G1 G1Affine P1Affine, 12, p1_double, fp_cneg, p1s_to_affine,
      |words| (fp(words, 0), fp(words, 1)), |p| p.x.l.into_iter().chain(p.y.l));
base!(G2 G2Affine P2Affine, 24, p2_double, fp2_cneg, p2s_to_affine,
      |words| (fp2(words, 0), fp2(words, 2)),
      |p| p.x.fp.into_iter().chain(p.y.fp).flat_map(|fp| fp.l));

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// Returns the scalar of 32 little-endian bytes, which must be below q.
    fn scalar(bytes: [u8; 32]) -> Fr {
        Fr::from_bytes(&bytes).expect("a scalar")
    }

    fn edges() -> Vec<Fr> {
        let mut below_q = raw::Scalar::default();
        below_q.b[0] = 1;
        let q_minus_1 = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000000";
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().rev().enumerate() {
            *byte = u8::from_str_radix(&q_minus_1[2 * i..2 * i + 2], 16).expect("hex");
        }
        let mut all: Vec<Fr> = (0..255)
            .map(|bit| {
                let mut power = [0; 32];
                power[bit / 8] = 1 << (bit % 8);
                scalar(power)
            })
            .collect();
        all.push(scalar(bytes));
        for fill in [0x11_u8, 0x5a, 0x20, 0x3f] {
            let mut filled = [fill; 32];
            filled[31] &= 0x3f;
            all.push(scalar(filled));
        }
        all
    }

    #[test]
    fn a_comb_multiplies_as_blst_does() {
        let g1 = G1Affine::generator().to_point();
        let g2 = G2Affine::generator().to_point();
        let combs = (Comb::new(g1.small_mul(1)), Comb::new(g2.small_mul(1)));
        for s in edges() {
            let one = combs.0.mul(&s).to_affine();
            let two = combs.1.mul(&s).to_affine();
            assert_eq!(one.compress(), g1.mul(&s).to_affine().compress());
            assert_eq!(two.compress(), g2.mul(&s).to_affine().compress());
        }
    }

    #[test]
    fn a_factor_with_a_table_gives_what_it_gives_without() {
        let mut factor = Factor::new(G2Affine::generator().to_point().small_mul(7));
        let s = scalar([0x3f; 32]);
        let without = factor.mul(&s).to_affine().compress();
        factor.prepare_table(TABLE_PRODUCTS_MIN - 1);
        assert!(factor.table.is_none());
        factor.prepare_table(TABLE_PRODUCTS_MIN);
        assert_eq!(factor.mul(&s).to_affine().compress(), without);
        let mut table = factor.table.take().expect("a table");
        wipe_table::<G2>(&mut table.0);
        assert!(table.0.as_flattened().iter().all(|word| *word == 0));
    }

    /// A group whose points are numbers, and which counts its additions.
    struct Number(u64);

    /// The number of additions so far; only one test counts.
    static ADDED: AtomicUsize = AtomicUsize::new(0);

    impl Base for Number {
        type Words = [u64; 1];
        const ZERO: [u64; 1] = [0];

        fn infinity() -> Self {
            Self(0)
        }

        fn plus(&self, other: &Self) -> Self {
            Self(self.0.wrapping_add(other.0))
        }

        fn doubled(&self) -> Self {
            self.plus(self)
        }

        fn plus_words(&self, words: &[u64; 1], negative: bool) -> Self {
            ADDED.fetch_add(1, Ordering::Relaxed);
            let sign = if negative { u64::MAX } else { 1 };
            self.plus(&Self(words[0].wrapping_mul(sign)))
        }

        fn words_of(points: &[Self]) -> Vec<[u64; 1]> {
            points.iter().map(|point| [point.0]).collect()
        }
    }

    /// Every scalar, also one with zero digits, needs the same additions. `examples/hibe_timing.rs`
    /// measures that all scalars also take the same time.
    #[test]
    fn hibe_4_a_comb_does_the_same_for_every_scalar() {
        let comb = Comb::new(Number(1));
        for s in edges() {
            ADDED.store(0, Ordering::Relaxed);
            let low = comb.mul(&s).0;
            assert_eq!(ADDED.load(Ordering::Relaxed), WINDOWS);
            assert_eq!(low.to_le_bytes(), s.as_bytes()[..8]);
        }
    }

    #[test]
    fn digits_add_up() {
        for s in edges() {
            let digits = signed_digits(s.as_bytes());
            assert!(digits.iter().all(|digit| (-31..=32).contains(digit)));
            // Horner's method over limbs of 64 bits, in two's complement.
            let mut sum = [0_u64; 5];
            for digit in digits.iter().rev() {
                let mut carry = 0;
                for word in &mut sum {
                    let wide = u128::from(*word) << WINDOW_BITS | carry;
                    *word = wide as u64;
                    carry = wide >> 64;
                }
                let mut add = i128::from(*digit);
                for word in &mut sum {
                    add += i128::from(*word);
                    *word = u64::try_from(add.rem_euclid(1 << 64)).expect("64 bits");
                    add >>= 64;
                }
            }
            let bytes: Vec<u8> = sum.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(&bytes[..32], s.as_bytes());
        }
    }
}
