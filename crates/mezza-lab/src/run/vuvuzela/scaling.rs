//! Latency over users for three levels of noise, b = 0, as in the reproduction; then more users and
//! more noise than the reproduction could serve (E-V1).

use anyhow::Result;

use crate::bench::Bench;
use crate::ours::mixes::{GridPoint, GridSeries, over_both, over_users};
use crate::papers;
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Minimum R^2 of the latency lines. The value below is for the CPU times of few users.
const LATENCY_R2: f64 = 0.995;
const CPU_R2: f64 = 0.98;

/// Runs the experiment.
///
/// # Errors
/// A failed round, or a raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let paper = papers::load_vuvuzela()?;
    paper.list_values("vuvuzela-scaling").into_iter().for_each(|line| report.add_line(line));
    report.add_line("time from the first frame of a batch to the last reply; every reply is opened. The paper draws \"end-to-end round");
    report.add_line("latency\" of its servers and prints no value; the window in which an entry waits for clients is not in ours");
    measure_few(bench, &mut report, &paper)?;
    measure_many(bench, &mut report)?;
    Ok(report)
}

/// Measures 10 to 400 users at the paper's levels of noise.
fn measure_few(bench: &mut Bench, report: &mut Report, paper: &papers::Vuvuzela) -> Result<()> {
    let levels = paper.find_values("vuvuzela-scaling", "mu").into_iter().map(|mu| {
        #[expect(clippy::cast_sign_loss, reason = "a level of noise is positive")]
        let mu = mu as u32;
        bench.profile.pick(mu / 10, mu, mu)
    });
    let levels: Vec<u32> = levels.collect();
    let users = [10, 80, 160, 240, 320, 400].map(|n| bench.profile.pick(n / 10 + 1, n, n));
    let rounds = bench.profile.pick(1, 30, 30);
    let series = GridSeries::measure(bench, &GridPoint::make_grid(&levels, &users), rounds)?;
    add_table(report, &series, &levels, &users);
    let cpu = series.cpu();
    let latency = series.latency();
    let mut plot = Plot::new("latency of a round against users", ["users", "ms"]);
    for mu in levels {
        let of_level = latency.iter().filter(|(point, _)| point.mu == mu);
        let points = of_level.map(|(point, ns)| [f64::from(point.users), ns / 1e6]);
        plot.add_curve(format!("mu {mu}"), points);
        let of_level: Vec<_> = cpu.iter().copied().filter(|(point, _)| point.mu == mu).collect();
        let claim = format!("mu {mu}: CPU time is linear in users, R^2");
        report.shapes.push(Claim::above(claim, over_users(&of_level).r2, CPU_R2));
    }
    report.plot = Some(plot);
    Ok(())
}

/// Measures thousands of users with thousands of noise messages.
fn measure_many(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let users: [u32; 6] = bench.profile.pick(
        [10, 20, 30, 40, 50, 60],
        [500, 1_000, 1_500, 2_000, 2_500, 3_000],
        [2_000, 5_000, 8_000, 12_000, 16_000, 20_000],
    );
    let levels: [u32; 2] = bench.profile.pick([10, 20], [200, 1_000], [1_000, 10_000]);
    let rounds = bench.profile.pick(1, 11, 11);
    let series = GridSeries::measure(bench, &GridPoint::make_grid(&levels, &users), rounds)?;
    report.add_line("");
    add_table(report, &series, &levels, &users);
    let fit = over_both(&series.latency());
    let [base, user, noise] = [0, 1, 2].map(|at| fit.coefficients[at]);
    report.add_line(format!(
        "  latency = {:.2} ms + {:.1} us x users + {:.1} us x mu, R^2 {:.4}",
        base / 1e6,
        user / 1e3,
        noise / 1e3,
        fit.r2
    ));
    report.add_line("  ladders in a round: 3 a user, 6 a mu (3 mixes, 2 of them with noise)");
    report.shapes.push(Claim::above("latency = A + B N + C mu, R^2", fit.r2, LATENCY_R2));
    let claim = "a mu costs about two users, C / B";
    report.shapes.push(Claim::above(claim, noise / user, 1.4));
    report.shapes.push(Claim::below(claim, noise / user, 2.6));
    Ok(())
}

fn add_table(report: &mut Report, series: &GridSeries, levels: &[u32], users: &[u32]) {
    let heads = levels.iter().map(|mu| format!("{:>22}", format!("mu {mu}: wall, CPU ms")));
    report.add_line(format!("  {:>7}{}", "users", heads.collect::<String>()));
    let wall = series.latency();
    let cpu = series.cpu();
    for users in users {
        let cell = |mu: &u32| {
            let at = GridPoint { mu: *mu, users: *users };
            let of = |figures: &[(GridPoint, f64)]| {
                figures.iter().find(|(point, _)| *point == at).map_or(f64::NAN, |(_, ns)| ns / 1e6)
            };
            format!("{:>22}", format!("{:.1} {:>8.1}", of(&wall), of(&cpu)))
        };
        report.add_line(format!("  {users:>7}{}", levels.iter().map(cell).collect::<String>()));
    }
    report.add_line(format!("  {}", series.describe_disturbed()));
}
