//! The time of a round by phase, compared with the reproduction's two shares (E-V2).

use anyhow::Result;

use crate::bench::Bench;
use crate::goals::mixnet::measure_shares;
use crate::papers;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Minimum share of jobs, links and waiting in all cores' time.
const NAMED: f64 = 0.90;
/// Minimum share of cryptography in all CPU time: the reproduction's servers ran on one machine, as
/// ours do.
const CRYPTOGRAPHY: f64 = 0.8;

/// Runs the experiment.
///
/// # Errors
/// A failed round, or a raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let paper = papers::load_vuvuzela()?;
    paper.list_values("vuvuzela-breakdown").into_iter().for_each(|line| report.add_line(line));
    let (users, mu, rounds) =
        bench.profile.pick((60, 10, 2), (2_000, 200, 10), (20_000, 1_000, 10));
    let shares = measure_shares(bench, users, mu, rounds)?;
    report.add_line(format!(
        "ours, {users} users, mu {mu}, {rounds} rounds: shares of all cores' time"
    ));
    shares.lines().into_iter().for_each(|line| report.add_line(format!("  {line}")));
    let cryptography = shares.cryptography_share();
    let links = shares.links_share();
    let [own, network] = [shares.cryptography_in_round(), shares.links_and_waiting()];
    let printed = ["cryptography", "network"].map(|op| paper.find_first("vuvuzela-breakdown", op));
    report.add_line(format!(
        "of the elapsed time of all cores: cryptography {:.1} %, links and waiting {:.1} %; the paper, of the \
         elapsed time of its round: {:.0} % and {:.0} %, other machine",
        100.0 * own,
        100.0 * network,
        printed[0],
        printed[1]
    ));
    report.add_line(format!(
        "of all CPU time, noise made ahead included: cryptography {:.1} %, links {:.1} %",
        100.0 * cryptography,
        100.0 * links
    ));
    report.add_line("E-V2: its servers ran on one machine, so its network is likely to be waiting in its RPC; not measured here");
    let claim = "jobs, links and waiting of a round, share";
    report.shapes.push(Claim::above(claim, shares.work(), NAMED));
    let claim = "cryptography of all CPU time, share";
    report.shapes.push(Claim::above(claim, cryptography, CRYPTOGRAPHY));
    let claim = "E-V2: links and waiting of the elapsed time, share";
    report.shapes.push(Claim::below(claim, network, printed[1] / 100.0));
    Ok(report)
}
