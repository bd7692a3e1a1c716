//! Table 4 and figures 8 to 10 need the paper's `LiFi` hardware. This module simulates a link with
//! its parameters: 9 Mbit/s, and time slots of 1.5 ms that both directions use in turn. Frames are
//! really sealed and opened; time is virtual.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts and times of a figure, far below 2^52 and never negative"
)]

use anyhow::{Context as _, Result};
use mezza_seka::limits::FRAMES_PER_SUBKEY;
use mezza_seka::wire::{DATA_OVERHEAD_BYTES, Ke1, Ke2, Ke3};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::bench::Bench;
use crate::clock::{quantile, sort_samples};
use crate::ours::seka::{frame_cost_us, tag_cost_us};
use crate::papers;
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Bits that the link carries per microsecond.
const BITS_PER_US: f64 = 9.0;
/// Length of a slot, and of the pause between two slots of one direction, us.
const SLOT_US: f64 = 1_500.0;
/// Headers of Ethernet and of the carrier on a Li-Fi link, bytes.
const CARRIER_BYTES: f64 = 16.0;
/// An echo request of `ping`, with its Ethernet header, bytes.
const PING_BYTES: f64 = 98.0;
/// Bytes of a packet in the paper's flow of 1 Mbit/s.
const FLOW_BYTES: f64 = 600.0;
/// Subkeys of a session in the paper's flow.
const SUBKEYS: u32 = 10;
/// The note that every page has.
const LABEL: &str =
    "SIMULATED: no LiFi was measured; a TDMA link of 9 Mbit/s, slots of 1.5 ms in turn";

/// The number of the paper's table of round trips, which figure 10 draws.
const TRIPS: &str = "4";
/// The greatest difference of the 99th percentiles in a claim, ms: ours, as the paper prints none.
const HIGH_MS: f64 = 0.1;
/// The greatest factor by which an exchange may raise the greatest latency in a claim: ours.
const SPIKE: f64 = 1.5;

/// Adds the printed values of an experiment, and table 4 if it is of round trips.
fn begin_report(exp: &str, has_trips: bool) -> Result<Report> {
    let mut report = Report::default();
    let paper = papers::load_seka()?;
    let printed = paper.list_values(exp).into_iter().chain(paper.list_statements(exp));
    printed.for_each(|line| report.add_line(line));
    for row in paper.list_rows(TRIPS).into_iter().filter(|_| has_trips) {
        let [median, sd, least, most] = row.values();
        report.add_line(format!(
            "printed: {:<14} median {median}, sd {sd}, {least} to {most} ms (table 4)",
            row.name
        ));
    }
    Ok(report)
}

/// Lists each kind of protection that adds more to the median round trip than in table 4. The
/// medians are those of encryption, authentication and reference, ms.
fn add_trip_losses(report: &mut Report, medians: [f64; 3]) -> Result<()> {
    let paper = papers::load_seka()?;
    let reference = paper.find_row(TRIPS, "Reference")?.middle;
    for (name, median) in ["Encryption", "Authentication"].into_iter().zip(medians) {
        let added = median - medians[2];
        let printed = paper.find_row(TRIPS, name)?.middle - reference;
        if (100.0 * added).round() > (100.0 * printed).round() {
            report.add_loss(format!(
                "{} adds {added:.2} ms, simulated, against {printed:.2} (paper, measured)",
                name.to_lowercase()
            ));
        }
    }
    Ok(())
}

/// The protection of each frame.
#[derive(Clone, Copy, PartialEq)]
enum Scenario {
    Reference,
    /// A tag over a plaintext frame. Only the lab has this: the product's link always encrypts.
    Authentication,
    Encryption,
}

impl Scenario {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Encryption, "encryption"),
        (Self::Authentication, "authentication"),
        (Self::Reference, "reference"),
    ];

    /// Returns the bytes on the link for a frame, and the CPU time at each end, us.
    fn frame_cost(self, bytes: f64, ends: FrameCost) -> (f64, f64) {
        let protected = bytes + CARRIER_BYTES + DATA_OVERHEAD_BYTES as f64;
        match self {
            Self::Reference => (bytes + CARRIER_BYTES, 0.0),
            Self::Authentication => (protected, ends.tag_us),
            Self::Encryption => (protected, ends.seal_us),
        }
    }
}

/// CPU time of a frame at one end, as half of the time at both ends, us.
#[derive(Clone, Copy)]
struct FrameCost {
    /// Time for sealing or opening.
    seal_us: f64,
    /// Time for making or checking the tag of a plaintext frame.
    tag_us: f64,
}

impl FrameCost {
    /// Measures both times, and adds them to the report.
    fn measure(report: &mut Report, bytes: f64) -> Result<Self> {
        let seal = frame_cost_us(bytes as usize)?;
        let tag = tag_cost_us(bytes as usize)?;
        report.add_line(LABEL);
        report.add_line(format!(
            "a frame of {bytes} bytes is sealed and opened in {seal:.2} us here, its tag alone made and checked in {tag:.2} us"
        ));
        report.add_line("these two times are measured on this machine and depend on it; they are too short to show in the figures below");
        report.add_line("authentication: a tag over the plain frame, of the same size; the product's link always encrypts");
        report.add_line("only differences between these rows mean something: all of them have the simulated link's own times");
        Ok(Self { seal_us: seal / 2.0, tag_us: tag / 2.0 })
    }
}

/// One direction: its slots, and the time until which its queue is busy.
struct Direction {
    offset_us: f64,
    free_us: f64,
}

impl Direction {
    /// Returns the arrival time of a frame that is ready at `now`. A frame waits if it does not fit
    /// into the rest of a slot.
    fn send_frame(&mut self, now: f64, bytes: f64) -> f64 {
        let takes = bytes * 8.0 / BITS_PER_US;
        let mut at = now.max(self.free_us);
        let since = (at - self.offset_us).rem_euclid(2.0 * SLOT_US);
        if since + takes > SLOT_US {
            at += 2.0 * SLOT_US - since;
        }
        self.free_us = at + takes;
        self.free_us
    }
}

/// Both directions, and the pending frames of an exchange.
struct Link {
    down: Direction,
    up: Direction,
    /// The time at which the next frame of the exchange is ready, and its index of three.
    exchange: Option<(f64, usize)>,
    rng: ChaCha20Rng,
}

/// The frames of an exchange: bytes, and true for the downlink.
const EXCHANGE: [(usize, bool); 3] = [(Ke1::BYTES, true), (Ke2::BYTES, false), (Ke3::BYTES, true)];

impl Link {
    fn new(seed: u64) -> Self {
        let direction = |offset_us| Direction { offset_us, free_us: 0.0 };
        let rng = ChaCha20Rng::seed_from_u64(seed);
        Self { down: direction(0.0), up: direction(SLOT_US), exchange: None, rng }
    }

    fn choose_direction(&mut self, down: bool) -> &mut Direction {
        if down { &mut self.down } else { &mut self.up }
    }

    /// Returns the arrival time of a frame that is ready at `now`. Earlier frames of an exchange
    /// are sent first.
    fn send_frame(&mut self, down: bool, now: f64, bytes: f64) -> f64 {
        while let Some((ready, step)) = self.exchange.take_if(|(ready, _)| *ready <= now) {
            let (bytes, down) = EXCHANGE[step];
            let arrived =
                self.choose_direction(down).send_frame(ready, bytes as f64 + CARRIER_BYTES);
            self.exchange = (step + 1 < EXCHANGE.len()).then_some((arrived, step + 1));
        }
        self.choose_direction(down).send_frame(now, bytes)
    }

    /// Draws the delay of an operating system before a frame is ready: up to 200 us.
    fn draw_delay(&mut self) -> f64 {
        f64::from(self.rng.next_u32() % 200)
    }
}

/// Simulates echo requests, one every 10 ms. Returns their round trips in ms.
fn round_trips(bench: &Bench, scenario: Scenario, ends: FrameCost) -> Vec<f64> {
    let mut link = Link::new(bench.seed);
    let (bytes, crypto) = scenario.frame_cost(PING_BYTES, ends);
    let count = bench.profile.pick(1_000_u32, 100_000, 100_000);
    let trip = |number: u32| {
        let begun = f64::from(number) * 10_000.0 + f64::from(link.rng.next_u32() % 3_000);
        let ready = begun + link.draw_delay() + crypto;
        let there = link.send_frame(true, ready, bytes);
        let answered = there + link.draw_delay() + 2.0 * crypto;
        (link.send_frame(false, answered, bytes) + crypto - begun) / 1e3
    };
    (0..count).map(trip).collect()
}

/// Simulates a flow of 1 Mbit/s in one direction. Returns its latencies in ms, and the number of
/// exchanges meanwhile. Frames of an exchange use the same link; no frame waits for a key.
fn run_flow(bench: &Bench, scenario: Scenario, down: bool, ends: FrameCost) -> (Vec<f64>, u32) {
    let mut link = Link::new(bench.seed + 1);
    let (bytes, crypto) = scenario.frame_cost(FLOW_BYTES, ends);
    let count = bench.profile.pick(5_000_u32, 750_000, 750_000);
    let renews = SUBKEYS * FRAMES_PER_SUBKEY * 3 / 4;
    let mut exchanges = 0;
    let one = |number: u32| {
        let begun = f64::from(number) * FLOW_BYTES * 8.0;
        if scenario != Scenario::Reference && number > 0 && number.is_multiple_of(renews) {
            exchanges += 1;
            link.exchange = Some((begun, 0));
        }
        let ready = begun + link.draw_delay() + crypto;
        (link.send_frame(down, ready, bytes) + crypto - begun) / 1e3
    };
    ((0..count).map(one).collect(), exchanges)
}

/// Returns median, standard deviation, minimum and maximum.
fn summarise_values(values: &[f64]) -> [f64; 4] {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
    let sorted = sort_samples(values.to_vec());
    [quantile(&sorted, 0.5), variance.sqrt(), quantile(&sorted, 0.0), quantile(&sorted, 1.0)]
}

/// Simulates table 4.
///
/// # Errors
/// A failed pairing.
pub fn table_4(bench: &mut Bench) -> Result<Report> {
    let mut report = begin_report("seka-t4", true)?;
    let ends = FrameCost::measure(&mut report, PING_BYTES)?;
    report.add_line(format!(
        "  {:<14}{:>9}{:>9}{:>9}{:>9}   ms, round trip",
        "", "median", "sd", "min", "max"
    ));
    let mut medians = Vec::new();
    for (scenario, name) in Scenario::ALL {
        let [median, deviation, least, most] =
            summarise_values(&round_trips(bench, scenario, ends));
        report
            .add_line(format!("  {name:<14}{median:>9.2}{deviation:>9.2}{least:>9.2}{most:>9.2}"));
        bench.note_count("simulated", name, "ms", median)?;
        medians.push(median);
    }
    let medians = <[f64; 3]>::try_from(medians).ok().context("three rows")?;
    let limit = find_added_ms("seka-t4")?;
    for (name, median) in ["encryption", "authentication"].into_iter().zip(medians) {
        let claim = format!(
            "{name} adds less to the median round trip than the paper's bound on the average: ms"
        );
        report.shapes.push(Claim::below(claim, (median - medians[2]).abs(), limit));
    }
    add_trip_losses(&mut report, medians)?;
    Ok(report)
}

/// Simulates figure 10.
///
/// # Errors
/// A failed pairing.
pub fn figure_10(bench: &mut Bench) -> Result<Report> {
    let mut report = begin_report("seka-f10", true)?;
    let ends = FrameCost::measure(&mut report, PING_BYTES)?;
    let mut plot = Plot::new("Figure 10: round trips, simulated", ["ms", "share of packets, %"]);
    let mut all = Vec::new();
    for (scenario, name) in Scenario::ALL {
        let trips = round_trips(bench, scenario, ends);
        let share = |bin: u32| {
            let low = f64::from(bin) * 0.25;
            let inside = trips.iter().filter(|ms| (low..low + 0.25).contains(*ms)).count();
            [low, 100.0 * inside as f64 / trips.len() as f64]
        };
        plot.add_curve(name, (0..40).map(share));
        let sorted = sort_samples(trips);
        report.add_line(format!(
            "  {name:<14} 1 % {:.2}, median {:.2}, 99 % {:.2} ms",
            quantile(&sorted, 0.01),
            quantile(&sorted, 0.5),
            quantile(&sorted, 0.99)
        ));
        all.push(sorted);
    }
    report.plot = Some(plot);
    let claim = "protection moves the 99th percentile by less than a limit of ours: ms";
    let gap = |at: usize| (quantile(&all[at], 0.99) - quantile(&all[2], 0.99)).abs();
    report.shapes.push(Claim::below(claim, gap(0).max(gap(1)), HIGH_MS));
    add_trip_losses(&mut report, [0, 1, 2].map(|at| quantile(&all[at], 0.5)))?;
    Ok(report)
}

/// Returns the printed bound on the average delay that protection adds, ms.
fn find_added_ms(exp: &str) -> Result<f64> {
    let name = "authentication and encryption slow the network on average by less than";
    Ok(papers::load_seka()?.find_first(exp, name))
}

fn report_figure(bench: &mut Bench, title: &'static str, down: bool) -> Result<Report> {
    let exp = if down { "seka-f8" } else { "seka-f9" };
    let mut report = begin_report(exp, false)?;
    let limit = find_added_ms(exp)?;
    let ends = FrameCost::measure(&mut report, FLOW_BYTES)?;
    report.add_line(
        "an exchange is its three frames on the link: the time to compute keys is not simulated",
    );
    let mut plot = Plot::new(title, ["minute", "one way, ms: mean of each minute"]);
    let mut rows = Vec::new();
    for (scenario, name) in Scenario::ALL {
        let (values, exchanges) = run_flow(bench, scenario, down, ends);
        let minute = (60.0 * 1e6 / (FLOW_BYTES * 8.0)) as usize;
        let means = values.chunks(minute).map(|part| part.iter().sum::<f64>() / part.len() as f64);
        plot.add_curve(name, (0_u32..).zip(means).map(|(at, ms)| [f64::from(at), ms]));
        let found = summarise_values(&values);
        let [median, deviation, least, most] = found;
        report.add_line(format!(
            "  {name:<14} median {median:.2}, sd {deviation:.2}, {least:.2} to {most:.2} ms; exchanges: {exchanges}"
        ));
        bench.note_count("simulated", name, "ms", median)?;
        rows.push((found, exchanges));
    }
    report.plot = Some(plot);
    let [(ours, exchanges), (tags, _), (reference, _)] =
        <[_; 3]>::try_from(rows).ok().context("three rows")?;
    for (name, row) in [("encryption", ours), ("authentication", tags)] {
        let claim =
            format!("{name} adds less to the median than the paper's bound on the average: ms");
        report.shapes.push(Claim::below(claim, (row[0] - reference[0]).abs(), limit));
    }
    let claim = "the frames of an exchange raise the greatest latency by less than a factor, which is ours: with / without";
    report.shapes.push(Claim::below(claim, ours[3] / reference[3], SPIKE));
    if bench.profile.pick(false, true, true) {
        report.shapes.push(Claim::above("exchanges during the flow", f64::from(exchanges), 0.0));
    }
    Ok(report)
}

/// Simulates figure 8.
///
/// # Errors
/// A failed pairing.
pub fn figure_8(bench: &mut Bench) -> Result<Report> {
    report_figure(bench, "Figure 8: latency of the downlink, simulated", true)
}

/// Simulates figure 9.
///
/// # Errors
/// A failed pairing.
pub fn figure_9(bench: &mut Bench) -> Result<Report> {
    report_figure(bench, "Figure 9: latency of the uplink, simulated", false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_that_adds_more_than_in_the_paper_is_listed() {
        let losses = |medians| {
            let mut report = Report::default();
            add_trip_losses(&mut report, medians).unwrap();
            report.losing
        };
        assert_eq!(
            losses([1.85, 1.81, 1.80]),
            ["encryption adds 0.05 ms, simulated, against 0.01 (paper, measured)",]
        );
        assert!(losses([1.80; 3]).is_empty());
    }

    #[test]
    fn the_printed_bound_is_a_number() {
        for exp in ["seka-f8", "seka-f9", "seka-t4"] {
            assert!((find_added_ms(exp).unwrap() - 0.1).abs() < 1e-12, "{exp}");
        }
    }
}
