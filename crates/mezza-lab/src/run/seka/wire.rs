//! Table 3 and figures 7 and 11: the tunnel over a virtual cable between two network namespaces of
//! one machine.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts and times of a figure, far below 2^52 and never negative"
)]

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::bench::Bench;
use crate::clock::{median, quantile, sort_samples};
use crate::goals::seka::net::{Namespaces, run_checked};
use crate::goals::seka::tunnel::{mean_of_best, measure_tcp};
use crate::plot::Plot;
use crate::profile::Profile;
use crate::run::experiment::Report;
use crate::shape::Claim;
use crate::{papers, peer};

/// The packet rate of the paper: 10,000 packets per second of 1,470 bytes. The tunnel gets 1,380
/// bytes, which fit into one frame of its carrier.
const PACKETS: &str = "10000";
const BYTES: &str = "1380";
/// The setup, for every page.
const SETUP: &str = "a virtual cable between two network namespaces of one machine";
/// The rows of table 3 that belong to [`WAYS`]: with two threads.
const PRINTED: [&str; 3] = ["Reference", "Tunnel w/o Security (2)", "Encryption (2)"];
/// Indices in [`WAYS`].
const PLAIN: usize = 1;
const SECURE: usize = 2;
/// Rounds of a latency run. Each measures all routes in turn.
const ROUNDS: u64 = 5;
/// The greatest difference of means in a claim, us: ours; the paper's means differ by 3, with one
/// thread by 5.
const ADDED_US: f64 = 6.0;
/// A 99.9th percentile above so many medians is a spike in a claim: ours.
const SPIKE: f64 = 10.0;

/// A setting with one subkey, which means an exchange every 49,152 frames.
const ONE_SUBKEY: &str = "subkeys = 1\n";

/// The compared routes: name, and the address of the other side.
const WAYS: [(&str, &str); 3] = [
    ("reference: virtual cable", "10.9.0.2"),
    ("tunnel without security", "10.3.0.2"),
    ("tunnel, AES-256-GCM", "10.7.0.2"),
];

/// Makes the namespaces with both tunnels. If that is impossible, adds the reason to the report.
fn make_net(bench: &Bench, report: &mut Report, settings: &str) -> Result<Option<Namespaces>> {
    let absent = if bench.profile == Profile::Smoke {
        Some("a smoke run makes no tunnels".to_owned())
    } else if nix::unistd::geteuid().is_root() {
        peer::find_peer("tunnels", &["true"])?.err()
    } else {
        Some("network namespaces need root".to_owned())
    };
    if let Some(reason) = absent {
        report.absent.push(reason);
        return Ok(None);
    }
    let mut net = Namespaces::new(bench.folder.path())?;
    net.start_link("lk0", "udp", "10.7.0", settings)?;
    net.start_special("lkp", "none", "10.3.0", 4_799)?;
    Ok(Some(net))
}

/// Begins a report with the printed values of an experiment.
fn begin_report(exp: &str) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let paper = papers::load_seka()?;
    let printed = paper.list_values(exp).into_iter().chain(paper.list_statements(exp));
    printed.for_each(|line| report.add_line(line));
    Ok(report)
}

/// One-way latencies of a run, us, each with the second in which the packet was sent, and the number
/// of packets of each round.
#[derive(Default)]
struct Latencies {
    packets: Vec<(u64, f64)>,
    rounds: Vec<usize>,
}

impl Latencies {
    /// Measures a round that begins at a second of the run.
    fn measure_round(
        &mut self,
        net: &Namespaces,
        to: &str,
        [begins, seconds]: [u64; 2],
    ) -> Result<()> {
        let mut serve = net.make_command(1, "sockperf");
        let mut server = serve.args(["server", "-i", to, "-p", "11111"]).spawn()?;
        std::thread::sleep(Duration::from_millis(300));
        let log = net.folder().join("latency.csv");
        let mut ask = net.make_command(0, "sockperf");
        ask.args(["under-load", "-i", to, "-p", "11111", "-m", BYTES, "--mps", PACKETS]);
        ask.args(["--reply-every", "1", "-t", &seconds.to_string(), "--full-log"]).arg(&log);
        let said = run_checked(ask.stdout(Stdio::piped()));
        let _ = server.kill();
        let _ = server.wait();
        said?;
        let packets = parse_log(&std::fs::read_to_string(&log)?);
        // sockperf sends its last packets some milliseconds late.
        let at = |second: u64| begins + second.min(seconds - 1);
        self.rounds.push(packets.len());
        self.packets.extend(packets.into_iter().map(|(second, us)| (at(second), us)));
        Ok(())
    }

    fn sort_latencies(&self) -> Vec<f64> {
        sort_samples(self.packets.iter().map(|(_, us)| *us).collect())
    }

    /// Returns a value of each round, from its latencies in us.
    fn map_rounds(&self, value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let mut rest: Vec<f64> = self.packets.iter().map(|(_, us)| *us).collect();
        let mut values = Vec::new();
        for count in &self.rounds {
            let later = rest.split_off(*count);
            values.push(value(&rest));
            rest = later;
        }
        values
    }

    /// Returns mean, standard deviation, minimum and maximum, us.
    fn summarise_latencies(&self) -> [f64; 4] {
        let count = self.packets.len().max(1) as f64;
        let mean = self.packets.iter().map(|(_, us)| us).sum::<f64>() / count;
        let variance = self.packets.iter().map(|(_, us)| (us - mean).powi(2)).sum::<f64>() / count;
        let sorted = self.sort_latencies();
        let at = |q| quantile(&sorted, q);
        [mean, variance.sqrt(), at(0.0), at(1.0)]
    }
}

/// Parses lines of sockperf's log: packet, send time and receive time in seconds, and in later
/// versions the latency, which follows from them. One way is half of a round trip.
fn parse_log(log: &str) -> Vec<(u64, f64)> {
    let line = |line: &str| {
        let numbers: Option<Vec<f64>> =
            line.split(',').map(|field| field.trim().parse().ok()).collect();
        let [_, sent, received, ..] = numbers?[..] else { return None };
        (received > sent).then_some((sent, received))
    };
    let times: Vec<(f64, f64)> = log.lines().filter_map(line).collect();
    let begun = times.first().map_or(0.0, |(sent, _)| *sent);
    let way = |(sent, received): &(f64, f64)| {
        ((sent - begun).max(0.0) as u64, (received - sent) * 1e6 / 2.0)
    };
    times.iter().map(way).collect()
}

/// Latencies of each tunnel by name, and the number of rekeys of our tunnel.
type AllLatencies = (Vec<(&'static str, Latencies)>, f64);

fn measure_all(bench: &mut Bench, report: &mut Report) -> Result<Option<AllLatencies>> {
    let Some(net) = make_net(bench, report, ONE_SUBKEY)? else { return Ok(None) };
    let seconds = bench.profile.pick(1, 4, 20);
    report.add_line(format!(
        "ours, on {SETUP}: {PACKETS} UDP packets a second of {BYTES} bytes by sockperf, one way = half of a round"
    ));
    report.add_line(format!(
        "trip; {ROUNDS} rounds of {seconds} s on each route in turn; n_k = 1; the paper: 1470 bytes by iperf, 100 s"
    ));
    let number = || -> Result<f64> {
        net.read_shown(1, "lk0")?["rekeys"].as_f64().context("`show` has no count of exchanges")
    };
    let mut all: Vec<(&'static str, Latencies)> =
        WAYS.map(|(name, _)| (name, Latencies::default())).into();
    let mut exchanges = 0.0;
    for round in 0..ROUNDS {
        for (at, (_, to)) in WAYS.into_iter().enumerate() {
            // Only exchanges while packets flow through that tunnel count.
            let before = number()?;
            all[at].1.measure_round(&net, to, [round * seconds, seconds])?;
            if at == SECURE {
                exchanges += number()? - before;
            }
        }
    }
    for (name, found) in &all {
        bench.note_count("ours", name, "us", found.summarise_latencies()[0])?;
    }
    report
        .add_line(format!("exchanges during the rounds of the tunnel with security: {exchanges}"));
    Ok(Some((all, exchanges)))
}

/// Measures table 3.
///
/// # Errors
/// A tunnel that does not come up.
pub fn table_3(bench: &mut Bench) -> Result<Report> {
    let mut report = begin_report("seka-t3")?;
    let Some((all, exchanges)) = measure_all(bench, &mut report)? else { return Ok(report) };
    report.add_line(format!("  {:<32}{:>9}{:>9}{:>9}{:>9}   ms", "", "mean", "sd", "min", "max"));
    let paper = papers::load_seka()?;
    for row in paper.list_rows("3") {
        report.add_line(format_row(&format!("paper: {}", row.name), row.values()));
    }
    report.add_line("the paper's link can also authenticate without encryption, ours always encrypts; in brackets: threads");
    for ((name, found), printed) in all.iter().zip(PRINTED) {
        let values = found.summarise_latencies().map(|us| us / 1e3);
        report.add_line(format_row(name, values));
        let printed = paper.find_row("3", printed)?.values();
        report.add_losses(list_losses(name, values, printed));
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let [plain, secure] = [PLAIN, SECURE].map(|at| all[at].1.map_rounds(mean));
    let added: Vec<f64> = secure.iter().zip(&plain).map(|(secure, plain)| secure - plain).collect();
    report.shapes.push(claim_added(&added));
    report.shapes.push(Claim::at_least("exchanges while packets flowed", exchanges, 2.0));
    Ok(report)
}

fn format_row(name: &str, [mean, sd, least, most]: [f64; 4]) -> String {
    format!("  {name:<32}{mean:>9.4}{sd:>9.4}{least:>9.4}{most:>9.4}")
}

/// Lists each value of a row that is greater than the paper's; both in ms.
fn list_losses(name: &str, ours: [f64; 4], printed: [f64; 4]) -> Vec<String> {
    let columns = ["mean", "sd", "min", "max"].into_iter().zip(ours).zip(printed);
    columns
        .filter(|((_, ours), printed)| ours > printed)
        .map(|((column, ours), printed)| {
            format!("{name}, {column}: {ours:.4} ms against {printed} (paper, its machine)")
        })
        .collect()
}

/// Claims that in each round the mean with encryption differs from that without by less than a
/// limit. A difference of two means that changes from round to round by more says nothing.
fn claim_added(added: &[f64]) -> Claim {
    let sorted = sort_samples(added.to_vec());
    let [least, middle, most] = [0.0, 0.5, 1.0].map(|q| quantile(&sorted, q));
    Claim::is(
        format!(
            "encryption adds less than {ADDED_US} us to the mean in each round, a limit of ours"
        ),
        format!("median {middle:+.2} us, {least:+.2} to {most:+.2} in {} rounds", added.len()),
        least > -ADDED_US && most < ADDED_US,
    )
}

/// Measures figure 7.
///
/// # Errors
/// A tunnel that does not come up.
pub fn figure_7(bench: &mut Bench) -> Result<Report> {
    let mut report = begin_report("seka-f7")?;
    let Some((all, exchanges)) = measure_all(bench, &mut report)? else { return Ok(report) };
    let mut plot = Plot::new(
        "Figure 7: latency over a virtual cable",
        ["second", "one way, us: mean of each second"],
    );
    let mut spikes = Vec::new();
    for (name, found) in &all {
        let last = found.packets.iter().map(|(second, _)| second + 1).max().unwrap_or(0);
        let mean = |second: u64| {
            let own = found.packets.iter().filter(|(at, _)| *at == second).map(|(_, us)| *us);
            let values: Vec<f64> = own.collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        let means: Vec<f64> = (0..last).map(mean).collect();
        plot.add_curve(*name, (0_u32..).zip(&means).map(|(second, us)| [f64::from(second), *us]));
        let sorted = found.sort_latencies();
        let p999 = quantile(&sorted, 0.999);
        let rounds =
            sort_samples(found.map_rounds(|us| quantile(&sort_samples(us.to_vec()), 0.999)));
        report.add_line(format!(
            "  {name:<32} median {:>7.1} us, 99.9 % {p999:>8.1} us ({:.1} to {:.1} in a round), mean of the worst second {:>8.1} us",
            quantile(&sorted, 0.5),
            quantile(&rounds, 0.0),
            quantile(&rounds, 1.0),
            means.iter().fold(0.0_f64, |most, us| most.max(*us))
        ));
        spikes.push(p999 / quantile(&sorted, 0.5));
    }
    report.plot = Some(plot);
    report.add_line("exchanges are counted here, not timed: whether spikes come with them, this run does not show");
    report.shapes.push(claim_spikes(&spikes));
    report.shapes.push(Claim::at_least("exchanges while packets flowed", exchanges, 2.0));
    Ok(report)
}

/// Claims that each route has spikes, also those without exchanges, from the 99.9th percentile of
/// each in medians.
fn claim_spikes(spikes: &[f64]) -> Claim {
    let least = spikes.iter().copied().fold(f64::NAN, f64::min);
    let text = "each route has spikes, also those without exchanges: least 99.9th percentile / median, a limit of ours";
    Claim::above(text, least, SPIKE)
}

/// Measures figure 11.
///
/// # Errors
/// A tunnel that does not come up.
pub fn figure_11(bench: &mut Bench) -> Result<Report> {
    let mut report = begin_report("seka-f11")?;
    report.add_line(format!("ours, on {SETUP}; n_k = 10, as there"));
    report.add_line("the paper varies the threads of its tunnel; here the processes of the tunnels may use so many cores. iperf3 and the");
    report.add_line("cable are not pinned and may use all of them, also in the row of the reference, which has no tunnel");
    let Some(mut net) = make_net(bench, &mut report, "subkeys = 10\n")? else { return Ok(report) };
    let mut serve = net.make_command(1, "iperf3");
    serve.arg("-s");
    net.spawn_child(serve)?;
    std::thread::sleep(Duration::from_millis(500));
    let cores = crate::machine::count_cores();
    let mut plot =
        Plot::new("Figure 11: TCP throughput", ["cores that the tunnels may use", "Gbit/s"]);
    let mut table = vec![Vec::new(); WAYS.len()];
    for used in 1..=cores {
        net.pin_cores(used)?;
        for ((_, to), row) in WAYS.iter().zip(&mut table) {
            let rounds = bench.profile.pick(1, 4, 8);
            let values: Result<Vec<f64>> =
                (0..rounds).map(|_| measure_tcp(&net, to, &["-t", "2"])).collect();
            row.push(mean_of_best(&values?));
        }
    }
    for ((name, _), row) in WAYS.iter().zip(&table) {
        let cells: Vec<_> = row.iter().map(|gbit| format!("{gbit:>7.2}")).collect();
        report.add_line(format!(
            "  {name:<32}{}   Gbit/s, tunnels on 1 to {cores} cores",
            cells.concat()
        ));
        plot.add_curve(*name, (1_u32..).zip(row).map(|(used, gbit)| [f64::from(used), *gbit]));
        bench.note_count("ours", name, "Gbit/s", median(row))?;
    }
    report.plot = Some(plot);
    let last = |row: usize| table[row].last().copied().context("no core").unwrap_or(f64::NAN);
    let [plain, secure] = [PLAIN, SECURE].map(last);
    if secure < plain {
        report.add_loss(format!(
            "encrypted: {secure:.2} Gbit/s against {plain:.2} (plain), on all cores; in the paper both are alike from 5 threads on"
        ));
    }
    let printed = papers::load_seka()?.find_first("seka-f11", "greatest throughput");
    if secure < printed {
        report.add_loss(format!(
            "encrypted: {secure:.2} Gbit/s against {printed} (paper, its machine)"
        ));
    }
    let claim = "with all cores encrypted / plain, a limit of ours: ratio";
    report.shapes.push(Claim::above(claim, secure / plain, 0.85));
    report.shapes.push(Claim::above(
        "more than the paper's 1 Gbit/s (its hypothesis), encrypted",
        secure,
        1.0,
    ));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_with_and_without_a_fourth_column() {
        let head = "sockperf: Summary: Latency is 20.000 usec\npacket, txTime(sec), rxTime(sec)\n";
        let three = format!("{head}0, 2.5, 2.50004\n1, 3.75, 3.75002\n------\n");
        let four = format!("{head}0, 2.5, 2.50004, 20.000\n1, 3.75, 3.75002, 10.000\n------\n");
        for log in [three, four] {
            let found = parse_log(&log);
            assert_eq!(found.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [0, 1]);
            assert!((found[0].1 - 20.0).abs() < 0.01 && (found[1].1 - 10.0).abs() < 0.01);
        }
    }

    #[test]
    fn a_difference_in_the_noise_of_the_rounds_decides_nothing() {
        assert!(claim_added(&[2.0, 3.5, -1.0]).holds);
        // The mean of these is far below the limit.
        let noisy = claim_added(&[-27.0, 4.0, 3.0]);
        assert!(!noisy.holds && !claim_added(&[2.0, 30.0]).holds && !claim_added(&[]).holds);
        assert_eq!(noisy.found, "median +3.00 us, -27.00 to +4.00 in 3 rounds");
    }

    #[test]
    fn a_route_without_spikes_fails_the_claim_and_a_column_that_loses_is_listed() {
        assert!(claim_spikes(&[200.0, 460.0, 556.0]).holds && !claim_spikes(&[200.0, 2.0]).holds);
        assert!(!claim_spikes(&[]).holds);
        let losses = list_losses("tunnel", [0.02, 0.002, 0.01, 0.5], [0.016, 0.003, 0.01, 0.392]);
        assert_eq!(
            losses,
            [
                "tunnel, mean: 0.0200 ms against 0.016 (paper, its machine)",
                "tunnel, max: 0.5000 ms against 0.392 (paper, its machine)",
            ]
        );
    }

    #[test]
    fn each_round_has_its_own_value() {
        let packets = [(0, 1.0), (1, 3.0), (2, 5.0)].to_vec();
        let found = Latencies { packets, rounds: vec![2, 1] };
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max).to_string();
        let values = found.map_rounds(|values| most(values).parse().unwrap_or(f64::NAN));
        assert_eq!(values.iter().map(f64::to_string).collect::<Vec<_>>(), ["3", "5"]);
        assert_eq!(found.map_rounds(|values| values.len() as f64).len(), 2);
    }

    #[test]
    fn the_rows_of_table_3_are_those_of_the_routes() {
        let paper = papers::load_seka().unwrap();
        let means = PRINTED.map(|name| paper.find_row("3", name).unwrap().middle.to_string());
        assert_eq!(means, ["0.01", "0.013", "0.016"]);
    }
}
