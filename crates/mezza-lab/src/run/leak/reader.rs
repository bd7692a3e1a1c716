//! The bits that an observer has read so far.
#![expect(clippy::cast_precision_loss, reason = "numbers of handshakes stay far below 2^53")]

use anyhow::{Context as _, Result};
use mezza::testing::api::json::LeakReadingJson;
use serde_json::Value;

use crate::asa::Planted;
use crate::asa::symbol::SECRET_BITS;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The blocks of a secret that an observer has read.
pub struct Reading<'a> {
    planted: &'a Planted,
    expected: f64,
    blocks: Vec<Option<u32>>,
    /// The number of symbols that the observer read; `hits` of them equal the planted block, and
    /// `conflicts` contradict an earlier symbol.
    read: u64,
    hits: u64,
    conflicts: u64,
    /// The number of the handshake that completed the secret.
    complete: Option<u64>,
}

/// The effect of one line of the observer.
pub struct TakenLine {
    /// The number of the handshake, from 1.
    pub handshake: u64,
    /// True if its block was read for the first time.
    pub is_new: bool,
}

impl<'a> Reading<'a> {
    /// Makes an empty reading; `expected` handshakes should be enough.
    pub fn new(planted: &'a Planted, expected: f64) -> Self {
        let blocks = vec![None; planted.len()];
        Self { planted, expected, blocks, read: 0, hits: 0, conflicts: 0, complete: None }
    }

    /// Adds the observer's line about one handshake. Returns what it changed.
    ///
    /// # Errors
    /// If the line has another form.
    pub fn take_line(&mut self, said: &Value) -> Result<TakenLine> {
        let number = |key: &str| said[key].as_u64().with_context(|| format!("no {key}"));
        let handshake = number("handshake")?;
        let index = usize::try_from(number("index")?)?;
        let block = u32::try_from(number("block")?)?;
        let place = self.blocks.get_mut(index).context("no such block")?;
        self.read += 1;
        self.hits += u64::from(block == self.planted.block(index));
        let before = place.replace(block);
        self.conflicts += u64::from(before.is_some_and(|before| before != block));
        if self.complete.is_none() && self.blocks.iter().all(Option::is_some) {
            self.complete = Some(handshake);
        }
        Ok(TakenLine { handshake, is_new: before.is_none() })
    }

    /// Returns the mark of each block: `.` not read yet, `#` its last reading equals the secret, `x` it
    /// does not.
    pub fn mark_blocks(&self) -> String {
        let mark = |(index, block): (usize, &Option<u32>)| match block {
            None => '.',
            Some(block) if *block == self.planted.block(index) => '#',
            Some(_) => 'x',
        };
        self.blocks.iter().enumerate().map(mark).collect()
    }

    /// Returns the state after a handshake, for programs.
    pub fn to_json(&self, handshake: u64) -> LeakReadingJson {
        let marks = self.mark_blocks();
        let bits_of = |of: fn(char) -> bool| {
            let blocks = marks.chars().filter(|mark| of(*mark)).count() as u32;
            // The last block may be padded beyond the secret.
            (blocks * self.planted.lambda()).min(SECRET_BITS)
        };
        LeakReadingJson {
            handshake,
            recovered_bits: bits_of(|mark| mark == '#'),
            read_bits: bits_of(|mark| mark != '.'),
            hits: self.hits,
            contradictions: self.conflicts,
        }
    }

    /// Returns bits of a block.
    pub fn block_bits(&self) -> u32 {
        self.planted.lambda()
    }

    /// Returns the number of the handshake after which every block was read.
    pub fn complete(&self) -> Option<u64> {
        self.complete
    }

    /// Returns the expected number of handshakes of the whole secret.
    pub fn expected(&self) -> f64 {
        self.expected
    }

    /// Returns the expected number of handshakes until all blocks are read.
    pub fn handshakes_left(&self) -> f64 {
        let missing = self.blocks.iter().filter(|block| block.is_none()).count();
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A block counts as recovered only while its last reading is right: a guess that fills all blocks
    /// recovers nothing (GUARD-59).
    #[test]
    fn guard_59_bits_of_wrong_readings_are_not_recovered() {
        let planted = Planted::new([0xab; 16], 8);
        let mut reading = Reading::new(&planted, 54.0);
        let mut take = |handshake: u64, index: usize, block: u32| {
            let said = json!({ "handshake": handshake, "index": index, "block": block });
            let taken = reading.take_line(&said).unwrap();
            (taken.is_new, reading.to_json(handshake), reading.mark_blocks())
        };
        let (is_new, first, marks) = take(1, 0, 0xab);
        assert!(is_new && marks.starts_with("#..") && marks.len() == 16, "{marks}");
        assert_eq!((first.recovered_bits, first.read_bits), (8, 8));
        let (is_new, second, marks) = take(2, 0, 0xac);
        assert!(!is_new && marks.starts_with("x.."), "{marks}");
        assert_eq!((second.recovered_bits, second.read_bits), (0, 8));
        assert_eq!((second.hits, second.contradictions), (1, 1));
        for index in 1..16 {
            take(2 + index as u64, index, 0);
        }
        let (_, all, marks) = take(18, 15, 1);
        assert_eq!((all.recovered_bits, all.read_bits, &*marks), (0, 128, "xxxxxxxxxxxxxxxx"));
        assert_eq!(reading.complete(), Some(17));
        for said in [json!({}), json!({ "handshake": 1, "index": 16, "block": 0 })] {
            assert!(reading.take_line(&said).is_err(), "{said}");
        }
    }

    /// 43 blocks of 3 bits are 129: the padding of the last block is no bit of the secret.
    #[test]
    fn the_padding_of_the_last_block_is_not_counted() {
        let planted = Planted::new([0; 16], 3);
        let mut reading = Reading::new(&planted, 43.0);
        for index in 0..43 {
            let said = json!({ "handshake": index + 1, "index": index, "block": 0 });
            reading.take_line(&said).unwrap();
        }
        assert_eq!(reading.to_json(43).recovered_bits, 128);
    }
}
