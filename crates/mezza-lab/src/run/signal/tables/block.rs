//! One cell of the paper's tables: a pair of operations on one input, for all providers.

use std::rc::Rc;

use anyhow::Result;

use super::pair::{Input, Pair};
use super::programs::{
    ALL, AWS_LC, AWS_LC_NO_AES, AWS_LC_NO_SHA, BC, BC_PLAIN, JDK, JDK_PLAIN, OPENSSL, OWN,
    Programs, Provider, RING, RUSTCRYPTO, SOFT,
};
use crate::bench::{Bench, BenchCase, Comparison, Ratio, Series};
use crate::papers::Column;
use crate::run::experiment::Report;
use crate::shape::{Claim, Spread};

/// Calls per batch on short inputs and on files.
const CALLS: [usize; 2] = [500, 2];
/// Minimum bytes of an input that counts as a file.
pub const FILE_BYTES: usize = 100_000;

/// The results of one cell.
pub struct Block {
    /// The input.
    pub input: Input,
    /// The pair of operations.
    pub pair: Pair,
    row: usize,
    /// The figures of all cells, by row, provider and operation.
    contest: Rc<Comparison<(usize, Provider, &'static str)>>,
}

/// A line of the table: its name, the provider of the primitive that the paper chose, and the
/// provider of the primitive that it replaces.
type Line = (&'static str, Provider, Provider);

const HASH_LINES: &[Line] = &[
    ("RustCrypto", RUSTCRYPTO, RUSTCRYPTO),
    ("RustCrypto / aws-lc", RUSTCRYPTO, AWS_LC),
    ("RustCrypto / ring", RUSTCRYPTO, RING),
    ("ours / RustCrypto", OWN, RUSTCRYPTO),
    ("OpenSSL", OPENSSL, OPENSSL),
    ("RustCrypto, no instructions", SOFT, SOFT),
    ("JVM (BouncyCastle / JDK)", BC, JDK),
    ("JVM, intrinsics off", BC_PLAIN, JDK_PLAIN),
];

const AEAD_LINES: &[Line] = &[
    ("RustCrypto", RUSTCRYPTO, RUSTCRYPTO),
    ("aws-lc", AWS_LC, AWS_LC),
    ("ring / RustCrypto", RING, RUSTCRYPTO),
    ("OpenSSL", OPENSSL, OPENSSL),
    ("aws-lc, no SHA instructions", AWS_LC_NO_SHA, AWS_LC_NO_SHA),
    ("aws-lc, no AES, no SHA instructions", AWS_LC_NO_AES, AWS_LC_NO_AES),
    ("RustCrypto, no instructions", SOFT, SOFT),
    ("JVM (JDK)", JDK, JDK),
    ("JVM, intrinsics off", JDK_PLAIN, JDK_PLAIN),
];

/// Providers that run without a virtual machine and with all instructions.
const NATIVE: [Provider; 5] = [RUSTCRYPTO, OWN, AWS_LC, RING, OPENSSL];

impl Block {
    /// Measures all cells in one comparison.
    ///
    /// # Errors
    /// If a raw line cannot be written.
    pub fn measure_all(
        bench: &mut Bench,
        programs: &mut Programs,
        rows: &[(Input, Pair)],
    ) -> Result<Vec<Self>> {
        let mut cases = Vec::new();
        for (row, (input, pair)) in rows.iter().enumerate() {
            for op in pair.ops() {
                for provider in ALL {
                    let Some(peer) = programs.find_program(provider) else { continue };
                    let who = format!("variant:{}", provider.name);
                    let asked = format!("{}:{op}", provider.prefix);
                    let calls = CALLS[usize::from(input.size >= FILE_BYTES)];
                    let case = BenchCase { who, peer, op: asked, size: input.size, calls };
                    cases.push(((row, provider, op), case));
                }
            }
        }
        let contest = Rc::new(bench.run_interleaved(&mut programs.running, cases)?);
        let block = |(row, (input, pair)): (usize, &(Input, Pair))| {
            let input = *input;
            let pair = *pair;
            let contest = Rc::clone(&contest);
            Self { input, pair, row, contest }
        };
        Ok(rows.iter().enumerate().map(block).collect())
    }

    /// Returns the figures of one provider.
    pub fn find_series(&self, provider: Provider, op: &'static str) -> Option<&Series> {
        self.contest.find_series(&(self.row, provider, op)).ok()
    }

    fn find_ratio(&self, new: Provider, old: Provider) -> Option<Ratio> {
        Some(self.find_series(new, self.pair.new)?.ratio_to(self.find_series(old, self.pair.old)?))
    }

    /// Returns the fastest native provider of an operation, with all instructions on.
    fn find_fastest(&self, op: &'static str) -> Option<(Provider, &Series)> {
        let each = NATIVE.into_iter().filter_map(|p| Some((p, self.find_series(p, op)?)));
        each.min_by(|a, b| a.1.deciding_cost().total_cmp(&b.1.deciding_cost()))
    }

    /// Adds the table of this cell to the report.
    pub fn print_table(&self, report: &mut Report, new: Option<&Column>, old: Option<&Column>) {
        let (Self { input, pair, .. }, quiet) = (self, self.contest.describe_disturbed());
        report.add_line(format!("{} {}, warm, thread CPU, {quiet}", pair.words, input.words));
        report.add_line(format!("{:<38}{:>15}{:>15}   new / old", "", pair.new, pair.old));
        let paper = [new, old].map(|column| column.map(|column| column.average));
        let printed = paper[0].zip(paper[1]).map(|(new, old)| new / old);
        report.add_line(format_line(
            "paper (other machine, running time)",
            paper,
            printed.map(|r| format!("{r:.3}")),
        ));
        let lines = if pair.gcm.is_none() { HASH_LINES } else { AEAD_LINES };
        let mut losing = Vec::new();
        for &(name, new, old) in lines {
            let series = [self.find_series(new, pair.new), self.find_series(old, pair.old)];
            let said = self.find_ratio(new, old).map(|ratio| {
                let reading = if ratio.value < 1.0 { "as the paper" } else { "REVERSES" };
                let Ratio { value, low, high, .. } = ratio;
                if value >= 1.0 {
                    let on = format!("{} {}", pair.words, input.words);
                    losing.push(format!("{on}, {name}: {value:.2} times the time of the old one"));
                }
                format!("{value:.2} [{low:.2}, {high:.2}] {reading}")
            });
            report.add_line(format_line(name, series.map(|s| s.map(Series::deciding_cost)), said));
        }
        let own = self.find_series(OWN, pair.new).zip(self.find_fastest(pair.new));
        if let Some((own, (fastest, best))) = own
            && own.deciding_cost() > best.deciding_cost()
        {
            let [ours, theirs] = [own, best].map(|series| group_digits(series.deciding_cost()));
            let on = format!("{} {}", pair.words, input.words);
            losing
                .push(format!("{on}, our BLAKE2b: {ours} ns against {theirs} ({})", fastest.name));
        }
        for text in losing {
            report.add_loss(text);
        }
        if let Some(((a, new), (b, old))) =
            self.find_fastest(pair.new).zip(self.find_fastest(pair.old))
        {
            let name = format!("best here ({} / {})", a.name, b.name);
            let ns = [new, old].map(|series| Some(series.deciding_cost()));
            report.add_line(format_line(
                &name,
                ns,
                Some(format!("{:.2}", new.ratio_to(old).value)),
            ));
        }
        if let Some(gcm) = pair.gcm {
            self.add_gcm_losses(report, gcm);
            let ns = |p| {
                self.find_series(p, gcm).map_or("-".into(), |s| group_digits(s.deciding_cost()))
            };
            report.add_line(format!(
                "AES-256-GCM, which the paper omits: aws-lc {}, ring {}, OpenSSL {}, aws-lc without \
                 instructions {}, JDK {} ns",
                ns(AWS_LC),
                ns(RING),
                ns(OPENSSL),
                ns(AWS_LC_NO_AES),
                ns(JDK)
            ));
        }
    }

    /// Lists each library whose ChaCha20-Poly1305 takes more time than its AES-256-GCM.
    fn add_gcm_losses(&self, report: &mut Report, gcm: &'static str) {
        let Self { input, pair, .. } = self;
        for provider in [AWS_LC, RING, OPENSSL, AWS_LC_NO_AES, JDK] {
            let series = |op| self.find_series(provider, op);
            let Some((chacha, gcm)) = series(pair.new).zip(series(gcm)) else { continue };
            let costs = [chacha, gcm].map(Series::deciding_cost);
            let on = format!("{} {}, {}", pair.words, input.words, provider.name);
            if let Some(text) = describe_gcm_loss(&on, costs) {
                report.add_loss(text);
            }
        }
    }

    /// Adds the paper's claims, and our own.
    pub fn add_claims(&self, report: &mut Report) {
        let on = format!("{} {}", self.pair.words, self.input.words);
        match self.pair.gcm {
            None => self.hash_shapes(report, &on),
            Some(gcm) => self.aead_shapes(report, &on, gcm),
        }
    }

    fn aead_shapes(&self, report: &mut Report, on: &str, gcm: &'static str) {
        let Self { input, pair, .. } = self;
        let masks = [
            ("all instructions", self.find_fastest(pair.old).map(|(_, old)| old), AWS_LC),
            ("no SHA instructions", self.find_series(AWS_LC_NO_SHA, pair.old), AWS_LC_NO_SHA),
            (
                "no AES, no SHA instructions",
                self.find_series(AWS_LC_NO_AES, pair.old),
                AWS_LC_NO_AES,
            ),
        ];
        for (mask, old, new) in masks {
            let ratio =
                self.find_series(new, pair.new).zip(old).map(|(new, old)| new.ratio_to(old));
            let claim = format!("{on}: aws-lc's ChaCha20-Poly1305 / the best AES-CBC-HMAC, {mask}");
            report.shapes.extend(claim_faster(claim, ratio));
        }
        if input.size < FILE_BYTES {
            return;
        }
        let ratio = |provider| {
            let gcm = self.find_series(provider, gcm)?;
            let chacha = self.find_series(provider, pair.new)?;
            Some(gcm.ratio_to(chacha))
        };
        let claim = format!("{on}: AES-256-GCM / ChaCha20-Poly1305, all instructions (E-G7)");
        report.shapes.extend(claim_faster(claim, ratio(AWS_LC)));
        if let Some(ratio) = ratio(AWS_LC_NO_AES) {
            let claim = format!("{on}: AES-256-GCM / ChaCha20-Poly1305, no AES instructions");
            report.shapes.push(Claim::above_in_rounds(claim, spread_of(ratio), 2.0));
        }
    }

    fn hash_shapes(&self, report: &mut Report, on: &str) {
        if has_sha512() {
            report.add_line(format!(
                "{on}: this processor has SHA-512 instructions, no claim is made"
            ));
        } else {
            for provider in NATIVE {
                let ratio = self.find_ratio(RUSTCRYPTO, provider);
                let claim = format!("{on}: RustCrypto's BLAKE2b / SHA-512 of {}", provider.name);
                report.shapes.extend(claim_faster(claim, ratio));
            }
        }
        if self.input.size < FILE_BYTES {
            return;
        }
        if let Some(ratio) = self.find_ratio(BC, JDK) {
            let claim = format!("{on}: the JVM takes more time for BLAKE2b, ratio");
            report.shapes.push(Claim::above_in_rounds(claim, spread_of(ratio), 1.0));
        }
        let ratio = self.find_ratio(BC_PLAIN, JDK_PLAIN);
        report.shapes.extend(claim_faster(
            format!("{on}: the JVM with its intrinsics off takes less, ratio"),
            ratio,
        ));
    }
}

/// Describes a loss of ChaCha20-Poly1305 to AES-256-GCM, from the costs of both in ns, or returns
/// `None`. A loss of one nanosecond is one.
fn describe_gcm_loss(on: &str, [chacha, gcm]: [f64; 2]) -> Option<String> {
    (chacha.round() > gcm.round()).then(|| {
        let times = chacha / gcm;
        let [chacha, gcm] = [chacha, gcm].map(group_digits);
        format!("{on}: {chacha} ns against {gcm} of AES-256-GCM, which the paper omits ({times:.2} times)")
    })
}

fn format_line(name: &str, ns: [Option<f64>; 2], ratio: Option<String>) -> String {
    let [new, old] = ns.map(|ns| ns.map_or("-".into(), |ns| format!("{} ns", group_digits(ns))));
    format!("{name:<38}{new:>15}{old:>15}   {}", ratio.unwrap_or_else(|| "-".into()))
}

/// Returns true if this processor has instructions for SHA-512, which should reverse Table 1.
fn has_sha512() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.split_whitespace().any(|flag| flag == "sha512")
}

/// Makes a claim that a ratio is below one.
fn claim_faster(claim: String, ratio: Option<Ratio>) -> Option<Claim> {
    ratio.map(|ratio| Claim::below_in_rounds(claim, spread_of(ratio), 1.0))
}

fn spread_of(ratio: Ratio) -> Spread {
    let Ratio { value, low, high, .. } = ratio;
    Spread { value, low, high }
}

/// Formats a whole number with its thousands separated.
pub fn group_digits(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_to_aes_gcm_is_listed_on_short_texts_too() {
        let text = "encrypt a short text, 32 B, aws-lc: 282 ns against 224 of AES-256-GCM, which the paper omits (1.26 times)";
        let on = "encrypt a short text, 32 B, aws-lc";
        assert_eq!(describe_gcm_loss(on, [282.0, 224.0]).as_deref(), Some(text));
        assert_eq!(describe_gcm_loss(on, [224.0, 282.0]), None);
        assert_eq!(describe_gcm_loss(on, [264.4, 264.0]), None);
    }

    #[test]
    fn thousands() {
        let texts = [7.4, 999.0, 1_000.0, 21_146_063.0].map(group_digits);
        assert_eq!(texts, ["7", "999", "1,000", "21,146,063"]);
    }
}
