//! Table 3 and figures 7 and 11: the tunnel between two network namespaces on one cable.
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
use crate::peer;
use crate::plot::Plot;
use crate::profile::Profile;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The packet rate of the paper: 10,000 packets per second of 1,470 bytes. The tunnel gets 1,380
/// bytes, which fit into one frame of its carrier.
const PACKETS: &str = "10000";
const BYTES: &str = "1380";
/// A setting with one subkey, which means an exchange every 49,152 frames.
const ONE_SUBKEY: &str = "subkeys = 1\n";

/// The compared routes: name, and the address of the other side.
const WAYS: [(&str, &str); 3] = [
    ("reference: the cable", "10.9.0.2"),
    ("tunnel without security", "10.3.0.2"),
    ("tunnel, AES-256-GCM, n_k = 1", "10.7.0.2"),
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

/// One-way latencies of a run, us, each with the second in which the packet was sent.
struct Latencies(Vec<(u64, f64)>);

impl Latencies {
    fn measure_latencies(net: &Namespaces, to: &str, seconds: u64) -> Result<Self> {
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
        Ok(Self(parse_log(&std::fs::read_to_string(&log)?)))
    }

    fn sort_latencies(&self) -> Vec<f64> {
        sort_samples(self.0.iter().map(|(_, us)| *us).collect())
    }

    /// Returns mean, standard deviation, minimum and maximum, us.
    fn summarise_latencies(&self) -> [f64; 4] {
        let count = self.0.len().max(1) as f64;
        let mean = self.0.iter().map(|(_, us)| us).sum::<f64>() / count;
        let variance = self.0.iter().map(|(_, us)| (us - mean).powi(2)).sum::<f64>() / count;
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
    let seconds = bench.profile.pick(2, 20, 100);
    report.add_line(format!(
        "ours: {PACKETS} UDP packets a second of {BYTES} bytes for {seconds} s by sockperf, one way = half of a round trip"
    ));
    let number = |side| -> Result<f64> {
        Ok(net.read_shown(side, "lk0")?["rekeys"].as_f64().unwrap_or(0.0))
    };
    let before = number(1)?;
    let mut all = Vec::new();
    for (name, to) in WAYS {
        let found = Latencies::measure_latencies(&net, to, seconds)?;
        bench.note_count("ours", name, "us", found.summarise_latencies()[0])?;
        all.push((name, found));
    }
    let exchanges = number(1)? - before;
    report.add_line(format!("exchanges during the run of the tunnel with security: {exchanges}"));
    Ok(Some((all, exchanges)))
}

/// Measures table 3.
///
/// # Errors
/// A tunnel that does not come up.
pub fn table_3(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    report.add_line(
        "the paper, ms: reference 0.010, without security 0.013, encryption 0.016 (two threads)",
    );
    let Some((all, exchanges)) = measure_all(bench, &mut report)? else { return Ok(report) };
    report.add_line(format!("  {:<32}{:>9}{:>9}{:>9}{:>9}   ms", "", "mean", "sd", "min", "max"));
    let mut means = Vec::new();
    for (name, found) in &all {
        let [mean, deviation, least, most] = found.summarise_latencies().map(|us| us / 1e3);
        report.add_line(format!("  {name:<32}{mean:>9.4}{deviation:>9.4}{least:>9.4}{most:>9.4}"));
        means.push(1e3 * mean);
    }
    report.add_line("a difference of some us between two means is below the noise of such a run: see sd, and its sign");
    for (printed, (name, us)) in
        [10.0, 13.0, 16.0].into_iter().zip(all.iter().map(|(n, _)| n).zip(&means))
    {
        if *us > printed {
            report
                .add_loss(format!("{name}: {us:.0} us against {printed:.0} (paper, its machine)"));
        }
    }
    let claim = "encryption adds at most 6 us to the tunnel: us";
    report.shapes.push(Claim::below(claim, means[2] - means[1], 6.0));
    let claim = "exchanges while packets flowed";
    report.shapes.push(Claim::above(claim, exchanges, 1.0));
    Ok(report)
}

/// Measures figure 7.
///
/// # Errors
/// A tunnel that does not come up.
pub fn figure_7(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    report.add_line("the paper: spikes of latency in every scenario, and none at the exchanges");
    let Some((all, exchanges)) = measure_all(bench, &mut report)? else { return Ok(report) };
    let mut plot =
        Plot::new("Figure 7: latency over a wire", ["second", "one way, us: mean of each second"]);
    let mut worst = Vec::new();
    for (name, found) in &all {
        let last = found.0.iter().map(|(second, _)| *second).max().unwrap_or(0);
        let mean = |second: u64| {
            let own = found.0.iter().filter(|(at, _)| *at == second).map(|(_, us)| *us);
            let values: Vec<f64> = own.collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        let means: Vec<f64> = (0..last).map(mean).collect();
        plot.add_curve(*name, (0_u32..).zip(&means).map(|(second, us)| [f64::from(second), *us]));
        let sorted = found.sort_latencies();
        let p999 = quantile(&sorted, 0.999);
        report.add_line(format!(
            "  {name:<32} median {:>7.1} us, 99.9 % {p999:>8.1} us, worst second {:>8.1} us",
            quantile(&sorted, 0.5),
            means.iter().fold(0.0_f64, |most, us| most.max(*us))
        ));
        worst.push(p999);
    }
    report.plot = Some(plot);
    let claim = "exchanges add no spikes: 99.9 % with security / without";
    report.shapes.push(Claim::below(claim, worst[2] / worst[1], 1.5));
    report.shapes.push(Claim::above("exchanges while packets flowed", exchanges, 1.0));
    Ok(report)
}

/// Measures figure 11.
///
/// # Errors
/// A tunnel that does not come up.
pub fn figure_11(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    report.add_line(
        "the paper: up to 4 Gbit/s; encrypted as fast as plain with five threads or more",
    );
    let Some(mut net) = make_net(bench, &mut report, "subkeys = 10\n")? else { return Ok(report) };
    let mut serve = net.make_command(1, "iperf3");
    serve.arg("-s");
    net.spawn_child(serve)?;
    std::thread::sleep(Duration::from_millis(500));
    let cores = crate::machine::count_cores();
    let mut plot = Plot::new("Figure 11: TCP throughput", ["cores of the tunnel", "Gbit/s"]);
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
        report.add_line(format!("  {name:<32}{}   Gbit/s with 1 to {cores} cores", cells.concat()));
        plot.add_curve(*name, (1_u32..).zip(row).map(|(used, gbit)| [f64::from(used), *gbit]));
        bench.note_count("ours", name, "Gbit/s", median(row))?;
    }
    report.plot = Some(plot);
    let last = |row: usize| table[row].last().copied().context("no core").unwrap_or(f64::NAN);
    let claim = "with all cores encrypted is within 15 % of plain: ratio";
    report.shapes.push(Claim::above(claim, last(2) / last(1), 0.85));
    report.shapes.push(Claim::above("more than 1 Gbit/s, encrypted", last(2), 1.0));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::parse_log;

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
}
