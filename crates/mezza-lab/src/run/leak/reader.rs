//! The bits that an observer has read so far, displayed as they grow.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of handshakes and draws stay far below 2^53"
)]

use std::io::{IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::asa::Planted;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The blocks of a secret that an observer has read.
pub struct Reading<'a> {
    planted: &'a Planted,
    expected: f64,
    blocks: Vec<Option<u32>>,
    /// The number of symbols read; `hits` of them equal the planted block, and `conflicts`
    /// contradict an earlier symbol.
    read: u64,
    hits: u64,
    conflicts: u64,
    /// The number of the handshake that completed the secret.
    complete: Option<u64>,
}

impl<'a> Reading<'a> {
    /// Makes an empty reading; `expected` handshakes should be enough.
    pub fn new(planted: &'a Planted, expected: f64) -> Self {
        let blocks = vec![None; planted.len()];
        Self { planted, expected, blocks, read: 0, hits: 0, conflicts: 0, complete: None }
    }

    /// Adds the observer's line about one handshake.
    ///
    /// # Errors
    /// If the line has another form.
    pub fn take_line(&mut self, said: &Value) -> Result<()> {
        let number = |key: &str| said[key].as_u64().with_context(|| format!("no {key}"));
        let handshake = number("handshake")?;
        let index = usize::try_from(number("index")?)?;
        let block = u32::try_from(number("block")?)?;
        let place = self.blocks.get_mut(index).context("no such block")?;
        self.read += 1;
        self.hits += u64::from(block == self.planted.block(index));
        let is_new = place.is_none();
        self.conflicts += u64::from(place.replace(block).is_some_and(|before| before != block));
        if is_new {
            self.show_progress(handshake);
        }
        if self.complete.is_none() && self.blocks.iter().all(Option::is_some) {
            self.complete = Some(handshake);
        }
        Ok(())
    }

    /// Prints one line of progress; on a terminal it overwrites the previous one.
    fn show_progress(&self, handshake: u64) {
        let cells = self.blocks.iter().map(|block| if block.is_some() { '#' } else { '.' });
        let cells: String = cells.collect();
        let missing = self.blocks.iter().filter(|block| block.is_none()).count();
        let left = self.handshakes_left(missing).ceil() as u64;
        let conflicts = self.conflicts;
        let line = format!(
            "handshake {handshake:>4}  [{cells}]  about {left} more on average, {conflicts} contradictions"
        );
        let mut out = std::io::stderr().lock();
        let end = if out.is_terminal() && missing > 0 { '\r' } else { '\n' };
        // Progress is only for display, so errors are ignored.
        let _ = write!(out, "{line}{end}");
        let _ = out.flush();
    }

    /// Returns the expected number of handshakes until all blocks are read.
    fn handshakes_left(&self, missing: usize) -> f64 {
        let all = self.blocks.len() as f64;
        let harmonic = |n: usize| (1..=n).map(|k| 1.0 / k as f64).sum::<f64>();
        let stateful = (self.expected - all).abs() < 0.5;
        if stateful { missing as f64 } else { all * harmonic(missing) }
    }

    /// Returns the number of bits that equal the planted bits.
    pub fn right_bits(&self) -> f64 {
        let of = |(index, block): (usize, &Option<u32>)| {
            let lambda = self.planted.lambda();
            block.map_or(0, |block| lambda - (block ^ self.planted.block(index)).count_ones())
        };
        f64::from(self.blocks.iter().enumerate().map(of).sum::<u32>())
    }

    /// Adds the result, as lines and claims.
    pub fn add_results(&self, report: &mut Report, is_open: bool) {
        let Self { read, hits, conflicts, expected, .. } = self;
        let lambda = self.planted.lambda();
        let whole = self.blocks.iter().enumerate();
        let whole = whole.filter(|(n, block)| **block == Some(self.planted.block(*n))).count();
        let blocks = self.blocks.len();
        report.add_line(format!(
            "read: {whole} of {blocks} blocks of {lambda} bits are those of the secret; {hits} of {read} \
             symbols hit, {conflicts} contradict an earlier one"
        ));
        if let Some(complete) = self.complete.filter(|_| is_open) {
            report.add_line(format!(
                "complete after {complete} handshakes; {expected:.0} predicted on average"
            ));
        }
        let found = format!("{hits} of {read}");
        if is_open {
            let all = hits == read && whole == blocks;
            report.shapes.push(Claim::is("the observer reads the whole secret", found, all));
        } else {
            let chance = 0.5_f64.powi(i32::try_from(lambda).unwrap_or(i32::MAX));
            let p = crate::asa::statistics::binomial_p(*hits, *read, chance);
            let found = format!("{found}, chance {:.1}, p = {p:.3}", chance * *read as f64);
            let text = "the observer reads nothing: hits are those of chance (p > 0.001)";
            report.shapes.push(Claim::is(text, found, p > 0.001));
        }
    }
}
