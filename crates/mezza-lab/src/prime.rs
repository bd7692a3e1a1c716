//! Safe primes p = 2 q + 1 by a deterministic search: the same seed and size give the same prime,
//! for any number of threads (GUARD-43).
//!
//! ```text
//! q0 = Expand("guard1 safe-prime" | seed, bits/8), two top bits set, shifted right by 1, next 11 mod 12
//! candidate i is q0 + 12 i: p is 7 modulo 8 and 2 modulo 3
//! window of 2^22 candidates --sieve by all primes below 2^24, q and p at once--> survivors
//! survivor: 2^(q-1) = 1 mod q; 2^q = 1 mod p; 64 rounds of Miller-Rabin and a strong Lucas test on q
//! ```
//! p is then prime given q (Pocklington: q > sqrt p, gcd(2^2 - 1, p) = 1). The lowest i wins.

mod sieve;

pub use sieve::{SIEVE_MAX, Sieve, primes_below};

use anyhow::{Result, bail};
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize as _};
use crypto_primes::hazmat::{LucasCheck, MillerRabin, Primality, SelfridgeBase, lucas_test};
use mezza_guard::keys::expand_label;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

/// The label from which the start is derived.
const LABEL: &[u8] = b"guard1 safe-prime";
/// Sizes in bits that a search accepts.
pub const BITS: std::ops::RangeInclusive<u32> = 64..=8_192;
/// Candidates per window.
pub const WINDOW: u64 = 1 << 22;
/// Rounds of Miller-Rabin.
const ROUNDS: u32 = 64;
/// The twin prime constant, a factor of the density of safe primes.
const TWIN_PRIME_CONSTANT: f64 = 0.660_161_815_846_869_6;

/// A search: its size and seed.
#[derive(Clone, Debug)]
pub struct SafePrimeSearch {
    /// Bits of p.
    pub bits: u32,
    /// The seed, any bytes.
    pub seed: Vec<u8>,
    /// The number q of candidate 0.
    q0: BoxedUint,
}

impl SafePrimeSearch {
    /// Makes a search.
    ///
    /// # Errors
    /// A size outside [`BITS`], or that is no multiple of 8.
    pub fn new(bits: u32, seed: &[u8]) -> Result<Self> {
        if !BITS.contains(&bits) || !bits.is_multiple_of(8) {
            bail!(
                "{bits} bits; a multiple of 8 from {} to {} is searched for",
                BITS.start(),
                BITS.end()
            );
        }
        let mut bytes = expand_label(&[LABEL, seed].concat(), bits as usize / 8);
        bytes[0] |= 0xc0;
        let start = from_bytes(&bytes, bits)
            .shr_vartime(1)
            .unwrap_or_else(|| BoxedUint::zero_with_precision(bits));
        let rest = small_remainder(&start, 12);
        let q0 = start.wrapping_add(small_number(bits, (11 + 12 - rest) % 12));
        Ok(Self { bits, seed: seed.to_vec(), q0 })
    }

    /// Returns the number q of a candidate.
    pub fn candidate(&self, i: u64) -> BoxedUint {
        self.q0.wrapping_add(small_number(self.bits, 12 * i))
    }

    /// Returns the number p of a candidate.
    pub fn modulus(&self, i: u64) -> BoxedUint {
        let q = self.candidate(i);
        q.wrapping_add(&q).wrapping_add(small_number(self.bits, 1))
    }

    /// Sieves a window.
    pub fn sieve(&self, primes: &[u32], window: u64) -> Sieve {
        let remainder = |r: u32| small_remainder(&self.q0, r);
        Sieve::new(primes, window * WINDOW, WINDOW, remainder)
    }

    /// Returns true if a candidate that survived the sieve is a safe prime.
    pub fn is_safe_prime(&self, i: u64) -> bool {
        is_safe(&self.candidate(i), &self.modulus(i))
    }

    /// Returns the probability that a candidate is a safe prime (Bateman and Horn).
    pub fn density(&self) -> f64 {
        let ln_p = f64::from(self.bits) * std::f64::consts::LN_2;
        12.0 * TWIN_PRIME_CONSTANT / ((ln_p - std::f64::consts::LN_2) * ln_p)
    }
}

/// Converts a small number to the width of a search.
fn small_number(bits: u32, small: u64) -> BoxedUint {
    BoxedUint::from(small).resize(bits)
}

fn from_bytes(bytes: &[u8], bits: u32) -> BoxedUint {
    BoxedUint::from_be_slice(bytes, bits).unwrap_or_else(|_| BoxedUint::zero_with_precision(bits))
}

/// Computes a number modulo a small one, by 32-bit halves of its words.
pub fn small_remainder(number: &BoxedUint, modulus: u32) -> u64 {
    let modulus = u64::from(modulus);
    number.as_words().iter().rev().fold(0, |rest, word| {
        let rest = ((rest << 32) | (word >> 32)) % modulus;
        ((rest << 32) | (word & 0xffff_ffff)) % modulus
    })
}

/// Returns true if base^exponent = 1 modulo an odd number.
fn is_one(base: u64, exponent: &BoxedUint, modulus: &BoxedUint) -> bool {
    let Some(odd) = Odd::new(modulus.clone()).into_option() else { return false };
    let params = BoxedMontyParams::new_vartime(odd);
    let base = BoxedUint::from(base).resize(modulus.bits_precision());
    let power = BoxedMontyForm::new(base, &params).pow(exponent);
    power.retrieve() == small_number(modulus.bits_precision(), 1)
}

/// Tests q and p = 2 q + 1 completely, with the cheap tests first.
pub fn is_safe(q: &BoxedUint, p: &BoxedUint) -> bool {
    let before = q.wrapping_sub(small_number(q.bits_precision(), 1));
    if !is_one(2, &before, q) || !is_one(2, q, p) {
        return false;
    }
    let Some(odd) = Odd::new(q.clone()).into_option() else { return false };
    let strong = MillerRabin::new(odd.clone());
    // The bases are drawn from a fixed seed, so that the result depends only on (bits, seed).
    let mut rng = ChaCha20Rng::seed_from_u64(64);
    let passes = |primality: Primality| primality.is_probably_prime();
    (0..ROUNDS).all(|_| passes(strong.test_random_base(&mut rng)))
        && passes(lucas_test(odd, SelfridgeBase, LucasCheck::Strong))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the first safe prime of a small size without a sieve.
    fn naive(search: &SafePrimeSearch) -> u64 {
        (0..1 << 20).find(|i| search.is_safe_prime(*i)).unwrap()
    }

    #[test]
    fn guard_43_slow_a_safe_prime_depends_on_bits_and_seed_only() {
        let primes = primes_below(1 << 12);
        for (bits, seed) in [(64, &b"one"[..]), (64, b"two"), (128, b"one"), (256, b"")] {
            let search = SafePrimeSearch::new(bits, seed).unwrap();
            let sieved = (0..).find_map(|window| {
                search.sieve(&primes, window).survivors().find(|i| search.is_safe_prime(*i))
            });
            let i = naive(&search);
            assert_eq!(sieved, Some(i), "the sieve strikes out no safe prime");
            let p = search.modulus(i);
            assert_eq!((p.bit_width_vartime(), small_remainder(&p, 24)), (bits, 23));
        }
        assert!(
            SafePrimeSearch::new(60, b"").is_err() && SafePrimeSearch::new(8_200, b"").is_err()
        );
    }

    /// The second implementation finds the same primes with the same candidate numbers.
    #[test]
    fn safe_primes_are_those_of_the_vectors() {
        let mut seen = 0;
        for case in mezza_testing::read_cases("guard", 4) {
            if case.text("kind") != "safe-prime" {
                continue;
            }
            let bits: u32 = case.parse_value("bits");
            let search = SafePrimeSearch::new(bits, &case.bytes("seed")).unwrap();
            let i = naive(&search);
            assert_eq!(case.text("i"), i.to_string());
            assert_eq!(case.bytes("p"), search.modulus(i).to_be_bytes_trimmed_vartime().to_vec());
            seen += 1;
        }
        assert_eq!(seen, 4);
    }

    #[test]
    fn what_is_no_safe_prime_is_refused() {
        let of = |q: u64| [q, 2 * q + 1].map(|n| BoxedUint::from(n).resize(64));
        let is = |q| {
            let [q, p] = of(q);
            is_safe(&q, &p)
        };
        // 11 and 23, 1019 and 2039 are pairs of primes. 13 is prime and 27 is not; 35 is not and 71
        // is.
        assert!(is(11) && is(1_019));
        assert!(!is(13) && !is(35) && !is(341) && !is(561));
    }

    #[test]
    fn group_15_is_a_safe_prime_by_the_same_test() {
        let p = crate::modp::group_15();
        let p = BoxedUint::from_be_slice(p.as_ref().to_be_bytes().as_ref(), 3_072).unwrap();
        let q = p.shr_vartime(1).unwrap();
        let before = q.wrapping_sub(small_number(3_072, 1));
        assert!(is_one(2, &before, &q) && is_one(2, &q, &p));
    }
}
