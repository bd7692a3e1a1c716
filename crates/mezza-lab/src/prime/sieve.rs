//! A sieve that tests q and p = 2 q + 1 together.

/// Maximum of the primes in the sieve.
pub const SIEVE_MAX: u32 = 1 << 24;

/// Returns all primes from 5 to below a limit.
pub fn primes_below(limit: u32) -> Vec<u32> {
    let mut composite = vec![false; limit as usize];
    let mut primes = Vec::new();
    for n in 2..limit as usize {
        if composite[n] {
            continue;
        }
        if n >= 5 {
            primes.push(n as u32);
        }
        for multiple in (n * n..limit as usize).step_by(n) {
            composite[multiple] = true;
        }
    }
    primes
}

/// The candidates of a window that no small prime divides.
pub struct Sieve {
    first: u64,
    struck: Vec<bool>,
}

impl Sieve {
    /// Strikes out every i of `count` from `first` on with q = 0 or q = (r - 1) / 2 modulo some
    /// prime r, since r then divides q or p. `remainder` returns q0 modulo r.
    pub fn new(primes: &[u32], first: u64, count: u64, remainder: impl Fn(u32) -> u64) -> Self {
        let mut struck = vec![false; usize::try_from(count).unwrap_or_default()];
        for &r in primes {
            let modulus = u64::from(r);
            let q0 = remainder(r);
            let twelfth = find_inverse(12 % modulus, modulus);
            for bad in [0, (modulus - 1) / 2] {
                // Solve q0 + 12 i = bad modulo r.
                let i = (bad + modulus - q0 % modulus) % modulus * twelfth % modulus;
                let offset = (i + modulus - first % modulus) % modulus;
                for at in (offset..count).step_by(r as usize) {
                    struck[at as usize] = true;
                }
            }
        }
        Self { first, struck }
    }

    /// Returns the remaining candidates in order.
    pub fn survivors(&self) -> impl Iterator<Item = u64> + '_ {
        (self.first..).zip(&self.struck).filter(|(_, struck)| !**struck).map(|(i, _)| i)
    }
}

/// Computes the inverse modulo a prime by Fermat's theorem.
fn find_inverse(x: u64, prime: u64) -> u64 {
    let mut power = 1;
    let mut base = x;
    let mut exponent = prime - 2;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * base % prime;
        }
        base = base * base % prime;
        exponent >>= 1;
    }
    power
}
