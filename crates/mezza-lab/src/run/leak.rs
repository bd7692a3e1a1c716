//! `run wire` and `run leak`: an initiator, a firewall and an untampered peer as processes.
//!
//! `wire` shows one honest handshake with and without the firewall, as seen inside and on the wire.
//! `leak` gives the initiator a secret to leak, and an observer reads it from the wire.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of handshakes and draws stay far below 2^53"
)]

mod display;
mod reader;

use anyhow::{Context as _, Result};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::experiment::{Experiment, Report};
use crate::asa::{Element, Sequence, element};
use crate::bench::Bench;
use crate::shape::Claim;
use crate::variant::{self, GROUPS, Variant, unknown_name};
use crate::wires::child::WireProcess;
use crate::wires::{Attack, WireJob};
use display::Display;
use reader::Reading;

/// The experiments `wire` and `leak`.
pub const ALL: &[Experiment] = &[
    Experiment::calculated(
        "wire",
        "one handshake as processes, seen on each wire",
        [1; 3],
        report_wire,
    ),
    Experiment::calculated(
        "leak",
        "a tampered initiator's secret, and what an observer reads of it",
        [2, 5, 30],
        report_leak,
    ),
];

/// The options of the command line for both experiments.
#[derive(Clone, Debug)]
struct Chosen {
    variant: Variant,
    group: String,
    firewall: String,
    element: &'static Element,
    lambda: u32,
    is_stateful: bool,
    messages: Option<usize>,
    /// True if each reading is printed as a line of JSON, in place of the bar.
    is_stream: bool,
    seed: u64,
}

impl Chosen {
    fn new(bench: &Bench) -> Result<Self> {
        let given = |key: &str| bench.params[key].as_str();
        let variant = Variant::find_named(given("variant").unwrap_or("dh"))?;
        let firewall = given("firewall").unwrap_or("none").to_owned();
        variant::check_firewall(variant, &firewall)?;
        let all: Vec<&Element> = element::elements_of_variant(variant).collect();
        let named = match given("element") {
            None => all.first().copied(),
            Some(name) => all.iter().find(|element| element.name == name).copied(),
        };
        let names: Vec<&str> = all.iter().map(|element| element.name).collect();
        let what = format!("element of {}", variant.name());
        let element =
            named.ok_or_else(|| unknown_name(&what, given("element").unwrap_or(""), &names))?;
        let number = |key: &str| bench.params[key].as_u64();
        let group = given("group").unwrap_or(GROUPS[0]);
        if !GROUPS.contains(&group) {
            return Err(unknown_name("group", group, &GROUPS));
        }
        Ok(Self {
            variant,
            group: group.to_owned(),
            firewall,
            element,
            lambda: number("lambda").and_then(|n| u32::try_from(n).ok()).unwrap_or(8),
            is_stateful: bench.params["stateful"] == true,
            messages: number("messages").and_then(|n| usize::try_from(n).ok()),
            is_stream: bench.params["stream"] == true,
            seed: bench.seed,
        })
    }

    fn make_job(&self, role: &str, seed: u64, count: usize) -> WireJob {
        WireJob {
            role: role.into(),
            dials: None,
            variant: self.variant.name().into(),
            group: self.group.clone(),
            firewall: self.firewall.clone(),
            count,
            seed: self.seed.wrapping_mul(1_000_003).wrapping_add(seed),
            attack: None,
            shows: false,
        }
    }
}

/// The processes of one run, the initiator first.
struct Line {
    initiator: WireProcess,
    firewall: Option<WireProcess>,
    observer: WireProcess,
    responder: WireProcess,
}

impl Line {
    /// Starts the processes, from the far end on.
    fn start(chosen: &Chosen, count: usize, attack: Option<&Attack>, shows: bool) -> Result<Self> {
        let job = |role, seed| WireJob { shows, ..chosen.make_job(role, seed, count) };
        let seen = attack.map(|attack| Attack { secret: None, ..attack.clone() });
        let mut responder = WireProcess::start(&job("responder", 1))?;
        let dials = Some(responder.read_address()?);
        let mut observer =
            WireProcess::start(&WireJob { dials, attack: seen, ..job("observer", 2) })?;
        let mut dials = Some(observer.read_address()?);
        let mut firewall = None;
        if chosen.firewall != "none" {
            let mut started = WireProcess::start(&WireJob { dials, ..job("firewall", 3) })?;
            dials = Some(started.read_address()?);
            firewall = Some(started);
        }
        let attack = attack.cloned();
        let initiator = WireProcess::start(&WireJob { dials, attack, ..job("initiator", 4) })?;
        Ok(Self { initiator, firewall, observer, responder })
    }

    /// Returns the hash of all keys from both ends, and the draws of the initiator.
    fn read_ends(&mut self) -> Result<([String; 2], u64)> {
        let said = |process: &mut WireProcess| process.next_value()?.context("an end said nothing");
        let initiator = said(&mut self.initiator)?;
        let responder = said(&mut self.responder)?;
        let key = |said: &Value| said["agreed"].as_str().unwrap_or("").to_owned();
        Ok(([key(&initiator), key(&responder)], initiator["draws"].as_u64().unwrap_or(0)))
    }
}

/// Runs one honest handshake without the firewall and one with it.
fn report_wire(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let chosen = Chosen::new(bench)?;
    let named = match chosen.firewall.as_str() {
        "none" => chosen.variant.right_firewall().to_owned(),
        other => other.to_owned(),
    };
    let mut seen = Vec::new();
    for firewall in ["none", &named].map(str::to_owned) {
        let chosen = Chosen { firewall, ..chosen.clone() };
        let mut line = Line::start(&chosen, 1, None, true)?;
        let ([ours, theirs], _) = line.read_ends()?;
        let variant = chosen.variant.name();
        let group = &chosen.group;
        report.add_line(format!("{variant} over {group}, firewall {}", chosen.firewall));
        let shower = line.firewall.as_mut().unwrap_or(&mut line.observer);
        while let Some(said) = shower.next_value()? {
            let text = |key: &str| said[key].as_str().unwrap_or("").to_owned();
            if said["inside"].is_string() {
                report.add_line(format!("  inside {} {}", text("way"), text("inside")));
            }
            report.add_line(format!("  wire   {} {}", text("way"), text("wire")));
            seen.push((text("inside"), text("wire")));
        }
        report.add_line(format!(
            "  hash of the key: {ours} at the initiator, {theirs} at the responder"
        ));
        let what = format!("both ends agree, firewall {}, hashes of the key", chosen.firewall);
        report.shapes.push(Claim::is(what, format!("{ours} {theirs}"), ours == theirs));
    }
    report.shapes.push(claim_changed(&named, &seen));
    Ok(report)
}

/// Firewalls that by their definition pass some messages as they are.
const PARTIAL: [&str; 2] = ["basic", "rerand"];

/// Claims that a firewall changes messages, which are given as they were inside and on the wire: all
/// of them, or with [`PARTIAL`] firewalls at least one.
fn claim_changed(firewall: &str, seen: &[(String, String)]) -> Claim {
    let passed: Vec<_> = seen.iter().filter(|(inside, _)| !inside.is_empty()).collect();
    let changed = passed.iter().filter(|(inside, wire)| inside != wire).count();
    let found = format!("{changed} of {} messages changed by the firewall", passed.len());
    if PARTIAL.contains(&firewall) {
        let text = "at least one message is on the wire otherwise than inside";
        return Claim::is(text, found, changed > 0);
    }
    let is_whole = changed > 0 && changed == passed.len();
    Claim::is("no message is on the wire as it was inside", found, is_whole)
}

/// Runs handshakes with a planted secret of 128 bits and an observer that reads it; both ends still
/// agree on keys.
fn report_leak(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    let chosen = Chosen::new(bench)?;
    let mut rng = ChaCha20Rng::seed_from_u64(chosen.seed);
    let mut key = [0; 16];
    let mut secret = [0; 16];
    rng.fill_bytes(&mut key);
    rng.fill_bytes(&mut secret);
    let attack = Attack {
        element: chosen.element.name.into(),
        lambda: chosen.lambda,
        is_stateful: chosen.is_stateful,
        key,
        secret: Some(secret),
    };
    let sequence = attack.sequence();
    let expected = sequence.expected_messages(chosen.lambda);
    let count = chosen.messages.unwrap_or_else(|| count_enough(expected, sequence));
    let mut line = Line::start(&chosen, count, Some(&attack), false)?;
    let planted = attack.planted_secret().context("a secret was planted")?;
    let mut reading = Reading::new(&planted, expected);
    let display = Display::begin(&chosen, &reading, count)?;
    while let Some(said) = line.observer.next_value()? {
        let taken = reading.take_line(&said)?;
        display.show_reading(&reading, &taken)?;
    }
    if let Some(firewall) = &mut line.firewall {
        while firewall.next_value()?.is_some() {}
    }
    let ([ours, theirs], draws) = line.read_ends()?;
    display.end(&reading, ours == theirs)?;
    let Chosen { variant, group, firewall, element, .. } = &chosen;
    report.add_line(format!(
        "{} over {group}, element {}, firewall {firewall}: {count} handshakes, {:.1} draws each",
        variant.name(),
        element.name,
        draws as f64 / count as f64
    ));
    reading.add_results(&mut report, element.is_open_behind(firewall));
    report.shapes.push(Claim::is(
        "both ends agree each time, hashes of all keys",
        format!("{ours} {theirs}"),
        ours == theirs,
    ));
    bench.note_count("leak", "recovered_bits", "bits", reading.right_bits())?;
    bench.note_count("leak", "handshakes", "count", count as f64)?;
    Ok(report)
}

/// Returns a number of handshakes that almost certainly leaks all L parts of the secret: L if the
/// device counts its messages, otherwise three times L `H_L` (`H_L` is the harmonic number), and at
/// least 200. The same number is used with a firewall.
fn count_enough(expected: f64, sequence: Sequence) -> usize {
    let factor = if sequence == Sequence::Stateful { 1.0 } else { 3.0 };
    ((expected * factor).ceil() as usize).max(200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_on_changed_messages_can_fail_with_each_firewall() {
        let seen = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
        };
        let [all, some, none] = [
            seen(&[("", "a"), ("b", "c"), ("d", "e")]),
            seen(&[("b", "b"), ("d", "e")]),
            seen(&[("", "a"), ("b", "b")]),
        ];
        for (firewall, holds) in [("fw", [true, false, false]), ("basic", [true, true, false])] {
            assert_eq!([&all, &some, &none].map(|s| claim_changed(firewall, s).holds), holds);
        }
        assert!(!claim_changed("rerand", &[]).holds);
    }
}
