//! A cell of the attack matrix: one attack on one element behind one firewall, with N runs and one
//! verdict.
#![expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]

use std::fmt;

use super::statistics::{binomial_p, clopper_pearson, uniform_p};

/// The expected result of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The attacker reads every symbol.
    Open,
    /// The attacker's hits do not exceed chance.
    Closed,
}

/// The result of a cell.
#[derive(Clone, Debug)]
pub struct AttackCell {
    /// The name of the attack and of the field that it uses.
    pub name: String,
    /// The expected result.
    pub expected: Expected,
    /// The number of runs.
    pub runs: u64,
    /// Runs in which the attacker's symbol equalled the planted symbol.
    pub hits: u64,
    /// The probability of a hit by chance.
    pub chance: f64,
    /// Counts of the values of the second byte of the observed field. In both encodings of
    /// ristretto255 that byte is free, while first and last bytes have fixed bits.
    pub bytes: [u64; 256],
}

/// The family-wise error of all closed cells of a run.
pub const FAMILY_ERROR: f64 = 0.01;
/// Runs of a cell: enough to detect an advantage of 0.01 with probability 99 %.
pub const RUNS: u64 = 16_590;

impl AttackCell {
    /// Returns the share of runs in which the attacker read the planted symbol.
    pub fn rate(&self) -> f64 {
        self.hits as f64 / self.runs as f64
    }

    /// Returns the exact binomial p of a closed cell; 1 for an open cell, which is outside the
    /// family.
    pub fn p(&self) -> f64 {
        match self.expected {
            Expected::Open => 1.0,
            // If a hit by chance is impossible, a single hit refutes the cell.
            Expected::Closed if self.chance == 0.0 => f64::from(u8::from(self.hits == 0)),
            Expected::Closed => binomial_p(self.hits, self.runs, self.chance),
        }
    }

    /// Returns the chi-square p of the hypothesis that the bytes of the observed field are uniform.
    pub fn bytes_p(&self) -> f64 {
        uniform_p(&self.bytes)
    }

    /// Returns true if the result is as expected, given the cell's p adjusted by Holm.
    pub fn holds(&self, adjusted: f64) -> bool {
        match self.expected {
            Expected::Open => self.hits + 1 >= self.runs && self.runs > 0,
            Expected::Closed => adjusted >= FAMILY_ERROR,
        }
    }
}

impl fmt::Display for AttackCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, expected, runs, hits, chance, .. } = self;
        let [low, high] = clopper_pearson(*hits, *runs);
        let advantage = (self.rate() - chance).abs();
        let word = if *expected == Expected::Open { "open" } else { "closed" };
        write!(
            f,
            "{name:<44} {word:<6} {hits:>6} of {runs:>6}  rate {:.4} [{low:.4}, {high:.4}]  chance {chance:.4}  advantage {advantage:.4}",
            self.rate()
        )
    }
}
