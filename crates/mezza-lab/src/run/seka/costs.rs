//! Figures 5 and 6: the costs of Bootstrap and Key-Exchange, and of other key exchanges.

use anyhow::Result;

use crate::bench::{Bench, BenchCase, Comparison};
use crate::papers;
use crate::peer::{self, PeerProcess};
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Both parties of a run in one process, over memory, as in the paper.
const SETUP: &str = "both parties in one process, one thread, messages in memory; CPU time of both";
/// Calls per batch.
const CALLS: usize = 100;

fn measure_costs(
    bench: &mut Bench,
    ours: &[&'static str],
    theirs: &[&'static str],
) -> Result<(Comparison<&'static str>, Option<String>)> {
    let mut peers = vec![PeerProcess::start_ours()?];
    let found = if theirs.is_empty() {
        None
    } else {
        match peer::find_for(bench.profile, "handshakes")? {
            Ok(process) => {
                peers.push(process);
                None
            }
            Err(reason) => Some(reason),
        }
    };
    let case = |op: &str, peer: usize| {
        let (who, op) = if peer == 0 {
            ("ours", format!("seka:{op}"))
        } else {
            ("peer:handshakes", op.to_owned())
        };
        BenchCase { who: who.into(), peer, op, size: 0, calls: CALLS }
    };
    let theirs = if peers.len() == 1 { &[] } else { theirs };
    let cases = ours.iter().map(|op| (*op, case(op, 0)));
    let cases = cases.chain(theirs.iter().map(|op| (*op, case(op, 1)))).collect();
    Ok((bench.run_interleaved(&mut peers, cases)?, found))
}

/// Adds the lines and points of a bar chart: bar number n is at x = n.
fn add_bars(
    report: &mut Report,
    title: &'static str,
    contest: &Comparison<&'static str>,
    named: &[(&'static str, &str)],
) -> Result<Vec<f64>> {
    let mut plot = Plot::new(title, ["as listed, from 1", "us of CPU time, both parties"]);
    let mut costs = Vec::new();
    for (at, (op, name)) in (1_u32..).zip(named) {
        let us = contest.find_series(op)?.deciding_cost() / 1e3;
        report.add_line(format!("  {at}  {name:<44} {us:>9.1} us"));
        plot.add_curve(*name, [[f64::from(at), 0.0], [f64::from(at), us]].into_iter());
        costs.push(us);
    }
    report.plot = Some(plot);
    Ok(costs)
}

/// Measures figure 5.
///
/// # Errors
/// A raw line that cannot be written.
pub fn figure_5(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let ops =
        ["bootstrap-paper", "exchange-paper", "bootstrap-default", "exchange-default", "limit"];
    let (contest, _) = measure_costs(bench, &ops, &[])?;
    let paper = papers::load_seka()?;
    let printed = paper.list_values("seka-f5").into_iter().chain(paper.list_statements("seka-f5"));
    printed.for_each(|line| report.add_line(line));
    report.add_line(format!(
        "ours: {SETUP}; the paper: durations, on average, on each of its six processors"
    ));
    report.add_line("suite paper: tags by AES-128-GMAC, as in the paper; suite default: by HMAC-SHA-512; both with aws-lc");
    report
        .add_line("the paper prints no value of a phase: the limits of 10 % and of 90 % are ours");
    let names = [
        (ops[0], "Bootstrap, suite paper"),
        (ops[1], "Key-Exchange, suite paper"),
        (ops[2], "Bootstrap, suite default"),
        (ops[3], "Key-Exchange, suite default"),
        (ops[4], "limit: four X25519"),
    ];
    let costs = add_bars(&mut report, "Figure 5: Bootstrap and Key-Exchange", &contest, &names)?;
    report.add_line(contest.describe_disturbed());
    let [bootstrap, exchange, _, other, limit] = costs[..] else { return Ok(report) };
    let claim = "Bootstrap and Key-Exchange of suite paper differ by less than 10 %: ratio";
    report.shapes.push(Claim::below(claim, exchange / bootstrap, 1.10));
    let claim = "X25519 is at least 90 % of Bootstrap: share";
    report.shapes.push(Claim::above(claim, limit / bootstrap, 0.90));
    let claim = "the slower exchange is below the paper's 10 ms: ms";
    let most = paper.value.iter().find(|v| v.exp == "seka-f5").map_or(f64::NAN, |v| v.number);
    report.shapes.push(Claim::below(claim, other.max(exchange) / 1e3, most));
    Ok(report)
}

/// Measures figure 6.
///
/// # Errors
/// A raw line that cannot be written.
pub fn figure_6(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let ours = ["exchange-paper", "exchange-default"];
    let theirs = ["tls-p256", "tls-ed25519", "wireguard"];
    let (contest, absent) = measure_costs(bench, &ours, &theirs)?;
    report.add_line(format!("ours: {SETUP}"));
    report.add_line(
        "the paper's 4-way handshake, EAP-TLS and Dragonfly are those of iwd, which is not here:",
    );
    report.add_line(
        "TLS 1.3 and WireGuard, of other libraries, are printed under their own names and stand for none of them",
    );
    let paper = papers::load_seka()?;
    paper.list_values("seka-f6").into_iter().for_each(|line| report.add_line(line));
    let mut names =
        vec![(ours[0], "Key-Exchange, suite paper"), (ours[1], "Key-Exchange, suite default")];
    let here = absent.is_none();
    report.absent.extend(absent);
    report.absent.push("iwd: SAE, EAP-TLS and the 4-way handshake have no harness here".into());
    if here {
        names.push((theirs[0], "TLS 1.3, P-256, mutual (rustls)"));
        names.push((theirs[1], "TLS 1.3, Ed25519, mutual (rustls)"));
        names.push((theirs[2], "WireGuard's handshake (boringtun)"));
    }
    let costs = add_bars(&mut report, "Figure 6: key exchanges of others", &contest, &names)?;
    report.add_line(contest.describe_disturbed());
    if let [_, exchange, p256, ed25519, wireguard] = costs[..] {
        for (name, cost) in
            [("TLS, P-256", p256), ("TLS, Ed25519", ed25519), ("WireGuard's", wireguard)]
        {
            let claim = format!("Key-Exchange, suite default, costs less than {name}: ratio");
            report.shapes.push(Claim::below(claim, exchange / cost, 1.0));
        }
        let claim = "E-S6: TLS 1.3 on P-256 (rustls) / our Key-Exchange is below the least of the paper's factors";
        let least =
            paper.find_first("seka-f6", "SEKA outperforms the protocols of WPA by factors from");
        report.shapes.push(Claim::below(claim, p256 / exchange, least));
    }
    Ok(report)
}
