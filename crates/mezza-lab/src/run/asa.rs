//! `run asa`: the attack matrix. It tries every element of every variant without a firewall and
//! behind each firewall. An element must be open where the variant leaves it open, and otherwise
//! closed to chance.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "counts stay far below 2^53"
)]

use anyhow::Result;
use mezza_guard::{Group, Ristretto};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::experiment::{Experiment, Report};
use crate::asa::cell::{AttackCell, Expected, FAMILY_ERROR, RUNS};
use crate::asa::portfolio;
use crate::asa::session::run_handshake;
use crate::asa::statistics::adjust_holm;
use crate::asa::{AttackKey, Element, Planted, RejectionSampling, Sequence, element};
use crate::bench::Bench;
use crate::parallel;
use crate::shape::Claim;
use crate::variant::{self, Variant};

/// The experiment of the attack matrix.
pub const ALL: &[Experiment] = &[Experiment::calculated(
    "asa",
    "the attack matrix, each cell with its p",
    [10, 90, 1_000],
    report_asa,
)];

/// One cell of the attack matrix: an attack on one element behind one firewall.
#[derive(Clone, Copy)]
struct Try {
    element: &'static Element,
    firewall: &'static str,
    lambda: u32,
    sequence: Sequence,
}

impl Try {
    fn name(&self) -> String {
        let Self { element, firewall, lambda, sequence } = self;
        let word = if *sequence == Sequence::Stateful { "stateful" } else { "stateless" };
        format!("A3 {} {} / {firewall}, {lambda} bit {word}", element.variant.name(), element.name)
    }

    fn expected(&self) -> Expected {
        if self.element.is_open_behind(self.firewall) { Expected::Open } else { Expected::Closed }
    }

    fn run_cell<G: Group + 'static>(&self, group: &G, runs: u64, seed: u64) -> Result<AttackCell> {
        let Self { element, firewall, lambda, sequence } = *self;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut secret = [0; 16];
        rng.fill_bytes(&mut secret);
        let key = AttackKey::random(&mut rng);
        let planted = Planted::new(secret, lambda);
        let mut coins =
            RejectionSampling::new(key.clone(), planted.clone(), element.target, sequence);
        let mut hits = 0;
        let mut bytes = [0; 256];
        for message in 0..runs as usize {
            let wall = variant::make_firewall(element.variant, firewall, group)?;
            let seen = run_handshake(group, element.variant, wall, &mut coins, &mut rng)?;
            let Some(field) = element.find_observed(group, &seen) else { continue };
            if let Some(byte) = field.get(1) {
                bytes[usize::from(*byte)] += 1;
            }
            let symbol = key.find_symbol(&field, lambda);
            let index = sequence.block_index(symbol, message, planted.len());
            hits += u64::from(symbol.block == planted.block(index));
        }
        let chance = 0.5_f64.powi(lambda as i32);
        Ok(AttackCell { name: self.name(), expected: self.expected(), runs, hits, chance, bytes })
    }
}

/// Returns the cells that the options select: all elements behind all firewalls of their variants.
fn list_tries(bench: &Bench) -> Result<Vec<Try>> {
    let given = |key: &str| bench.params[key].as_str();
    let only = given("variant").map(Variant::find_named).transpose()?;
    let lambda = bench.params["lambda"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    let all = Variant::ALL.into_iter().filter(|variant| only.is_none_or(|only| only == *variant));
    let elements = all.clone().flat_map(element::elements_of_variant);
    let names: Vec<&str> = elements.map(|element| element.name).collect();
    if let Some(name) = given("element").filter(|name| !names.contains(name)) {
        return Err(variant::unknown_name("element", name, &names));
    }
    let mut tries = Vec::new();
    for variant in all {
        for element in element::elements_of_variant(variant) {
            if given("element").is_some_and(|name| name != element.name) {
                continue;
            }
            let of = |firewall: &&'static str| {
                let sequence = Sequence::Stateful;
                Try { element, firewall, lambda, sequence }
            };
            tries.extend(variant.firewalls().iter().map(of));
        }
    }
    Ok(tries)
}

/// Returns the runs of a cell. An open cell needs only a twentieth, since it succeeds each time.
fn count_runs(bench: &Bench, expected: Expected) -> u64 {
    let all = bench.profile.pick(600, RUNS, 4 * RUNS);
    if expected == Expected::Open { all / 20 } else { all }
}

fn report_asa(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let group = Ristretto::new();
    let tries = list_tries(bench)?;
    let numbered: Vec<(u64, Try)> = (0..).zip(tries).collect();
    let profiled = &*bench;
    let seed = bench.seed;
    let jobs = |again: u64| {
        numbered.iter().map(move |(number, one)| {
            let times = if again == 0 { 1 } else { 4 };
            let seed = seed.wrapping_mul(7_919).wrapping_add(number + 1_000 * again);
            (*one, times * count_runs(profiled, one.expected()), seed)
        })
    };
    let run = |(one, runs, seed): (Try, u64, u64)| one.run_cell(&group, runs, seed);
    let cells = parallel::map_parallel(jobs(0).collect(), run)
        .into_iter()
        .collect::<Result<Vec<AttackCell>>>()?;
    let adjusted = adjust_holm(&cells.iter().map(AttackCell::p).collect::<Vec<_>>());
    // A closed cell that fails is repeated once with a fresh seed and four times the runs.
    let again = jobs(1).zip(cells.iter().zip(&adjusted));
    let again = again.map(|(job, (cell, p))| (!cell.holds(*p)).then_some(job));
    let again: Vec<Option<(Try, u64, u64)>> = again.collect();
    report.add_line("attack, variant and element / firewall; over ristretto255, attacker and device in one process. open: the");
    report.add_line("attack must succeed each time; closed: no more often than by chance. A1 and A2: the secret in the place of");
    report.add_line("an IV or a coin (thesis 3.2.1); A3: draws repeated until a symbol fits (3.2.2); A4 to A11: other attacks;");
    report.add_line("W1 and W2: watchdogs, in which open means that tampering is found");
    for ((cell, p), again) in cells.iter().zip(&adjusted).zip(again) {
        report.add_line(format!("{cell}  Holm p {p:.3}, bytes p {:.3}", cell.bytes_p()));
        bench.note_count(&cell.name, "hits", "count", cell.hits as f64)?;
        let mut holds = cell.holds(*p);
        if let (false, Some(job)) = (holds, again) {
            let cell = run(job)?;
            holds = cell.holds(cell.p());
            report.add_line(format!("  repeated: {cell}"));
        }
        if !holds {
            let text = format!("{} is {:?}", cell.name, cell.expected);
            report.shapes.push(Claim::is(text, format!("{} of {}", cell.hits, cell.runs), false));
        }
    }
    let open = cells.iter().filter(|cell| cell.expected == Expected::Open).count();
    let text = format!(
        "A3: {open} open cells read each symbol, {} closed ones chance",
        cells.len() - open
    );
    let found = format!(
        "family-wise error {FAMILY_ERROR}, least Holm p {:.3}",
        adjusted.iter().copied().fold(1.0, f64::min)
    );
    if bench.params.as_object().is_none_or(serde_json::Map::is_empty) {
        report_portfolio(bench, &mut report)?;
    }
    let all = report.shapes.is_empty();
    let closed = cells.iter().filter(|cell| cell.expected == Expected::Closed);
    let least = closed.map(AttackCell::bytes_p).fold(1.0, f64::min) * cells.len() as f64;
    let least = least.min(1.0);
    report.shapes.push(Claim::above(
        "A3: bytes of the element pass a test of uniformity, Bonferroni p",
        least,
        FAMILY_ERROR,
    ));
    report.shapes.insert(0, Claim::is(text, found, all));
    Ok(report)
}

/// Runs the other attacks and the watchdogs. Holm's correction covers the cells whose chance is not
/// 0.
fn report_portfolio(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let cells = portfolio::run_attacks(bench.profile.pick(60, 400, 2_000), bench.seed)?;
    let adjusted = adjust_holm(&cells.iter().map(AttackCell::p).collect::<Vec<_>>());
    for (cell, p) in cells.iter().zip(adjusted) {
        report.add_line(cell.to_string());
        bench.note_count(&cell.name, "hits", "count", cell.hits as f64)?;
        if !cell.holds(p) {
            let text = format!("{} is {:?}", cell.name, cell.expected);
            report.shapes.push(Claim::is(text, format!("{} of {}", cell.hits, cell.runs), false));
        }
    }
    report.add_line("A10 length and timing, not run here: no firewall closes them (2.6 bits a record, 1 bit a tick)");
    report.add_line("A5 coset symbols, not run here, by calculation: 0.322 bit (Legendre) and 0.807 bit (mod 8) in the thesis' groups, 0 in ours");
    Ok(())
}
