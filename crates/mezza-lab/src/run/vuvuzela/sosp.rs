//! SOSP 2015, figure 9: latency over users, with noise in proportion to that paper (its mean for a
//! million users) and to the preset `standard`. This is context: the paper used other machines.

use anyhow::Result;
use mezza::testing::backend::kernel::choose_kernel;
use mezza_mixnet::Service;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::NoisePreset;

use crate::bench::Bench;
use crate::clock::{median, to_ns};
use crate::fit::fit_line;
use crate::ours::mixes::{LabCoordinator, MixSetup, RoundTiming};
use crate::papers;
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Minimum R^2 of latency over users.
const R2: f64 = 0.995;
/// The largest number of users in the figure, to which both means belong.
const USERS: f64 = 1_000_000.0;
/// The mean of the preset `standard`. With Rényi accounting it keeps the promise of SOSP 2015 for
/// the calls and invitations of a year as well.
const STANDARD_MU: u32 = NoisePreset::Standard.noise(Service::Conversation).mu;
/// The design's goal for two cores with vectors, messages per second.
const PER_S: f64 = 80_000.0;

/// A round at one point: wall time, and CPU time including the noise made before.
struct Cost {
    users: u32,
    wall_ns: f64,
    cpu_ns: f64,
}

impl Cost {
    /// Returns the CPU microseconds per message.
    fn each_us(&self) -> f64 {
        self.cpu_ns / 1e3 / f64::from(self.users)
    }

    fn per_s(&self) -> f64 {
        f64::from(self.users) * 1e9 / self.wall_ns
    }
}

/// Runs the experiment.
///
/// # Errors
/// A failed round, or a raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let paper = papers::load_vuvuzela()?;
    paper.list_values("sosp15-f9").into_iter().for_each(|line| report.add_line(line));
    let users: [u32; 6] = bench.profile.pick(
        [20, 40, 60, 80, 100, 120],
        [500, 1_000, 1_500, 2_000, 2_500, 3_000],
        [2_000, 5_000, 8_000, 12_000, 16_000, 20_000],
    );
    let middle = paper.level.get(1).map_or(f64::NAN, |level| f64::from(level.mu));
    let mut plot = Plot::new("latency of a round, noise in proportion to users", ["users", "ms"]);
    for (who, mu) in
        [("noise of SOSP 2015", middle), ("noise of `standard`", f64::from(STANDARD_MU))]
    {
        report.add_line("");
        report.add_line(format!("{who}: {:.3} messages a mix and kind for each user", mu / USERS));
        report.add_line(format!(
            "  {:>7} {:>9} {:>12} {:>14}",
            "users", "wall ms", "messages/s", "CPU us each"
        ));
        let costs = users.map(|users| measure_point(bench, users, mu / USERS));
        let costs = costs.into_iter().collect::<Result<Vec<_>>>()?;
        for cost in &costs {
            let users = cost.users;
            let wall = cost.wall_ns / 1e6;
            let each = cost.each_us();
            report
                .add_line(format!("  {users:>7} {wall:>9.1} {:>12.0} {each:>14.1}", cost.per_s()));
        }
        plot.add_curve(who, costs.iter().map(|c| [f64::from(c.users), c.wall_ns / 1e6]));
        let points: Vec<_> = costs.iter().map(|c| (vec![f64::from(c.users)], c.wall_ns)).collect();
        let claim = format!("{who}: latency is linear in users, R^2");
        report.shapes.push(Claim::above(claim, fit_line(&points).r2, R2));
        let most = costs.iter().map(Cost::per_s).fold(0.0, f64::max);
        report.add_line(if choose_kernel().name() == "ifma" {
            format!("  {most:.0} messages/s at the most; our goal of two cores is {PER_S:.0}: {}", if most < PER_S { "missed" } else { "met" })
        } else {
            format!("  {most:.0} messages/s at the most; {PER_S:.0} are meant for avx512ifma, which is missing")
        });
    }
    report.plot = Some(plot);
    Ok(report)
}

/// Runs some rounds with `users` users. Returns the median cost.
fn measure_point(bench: &mut Bench, users: u32, noise: f64) -> Result<Cost> {
    #[expect(clippy::cast_sign_loss, reason = "a level of noise is positive")]
    let mu = (noise * f64::from(users)).round() as u32;
    let law = Law { mode: Mode::Paper, mu, scale: 0 };
    let setup =
        MixSetup { mixes: 3, users_max: users, law, kernel: choose_kernel(), seed: bench.seed };
    let rounds = bench.profile.pick(1, 7, 7);
    let outcomes = LabCoordinator::measure_rounds(bench.folder.path(), setup, users, rounds)?;
    let middle =
        |of: &dyn Fn(&RoundTiming) -> f64| median(&outcomes.iter().map(of).collect::<Vec<_>>());
    let ahead = |outcome: &RoundTiming| {
        outcome.ahead.iter().flatten().map(|time| to_ns(*time)).sum::<f64>()
    };
    let wall_ns = middle(&|outcome| to_ns(outcome.wall));
    let cpu_ns = middle(&|outcome| to_ns(outcome.cpu) + ahead(outcome));
    bench.note_count("ours", &format!("wall_mu{mu}_users{users}"), "ns", wall_ns)?;
    bench.note_count("ours", &format!("cpu_mu{mu}_users{users}"), "ns", cpu_ns)?;
    Ok(Cost { users, wall_ns, cpu_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_by_hand() {
        let cost = Cost { users: 100, wall_ns: 2e6, cpu_ns: 4e6 };
        assert!((cost.each_us() - 40.0).abs() < 1e-9 && (cost.per_s() - 50_000.0).abs() < 1e-6);
    }
}
