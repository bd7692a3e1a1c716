//! T4: latency is linear in users and in noise.

use anyhow::Result;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::ours::mixes::{GridPoint, GridSeries, over_noise, over_users};
use crate::row::Row;

/// A function that fits a line to points.
type Fitting = fn(&[(GridPoint, f64)]) -> crate::fit::Fit;

/// T4: R^2 of each line, in percent to show its last digits.
pub const LIMITS: [Limit; 3] = [
    Limit::at_least("T4", "latency by users", 99.5, "% R^2"),
    Limit::at_least("T4", "latency by noise", 99.5, "% R^2"),
    Limit::at_least("T4", "CPU time of few users, the worst of three mu", 98.0, "% R^2"),
];

/// Measures over users, over noise, and over as few users as in the reproduction.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let users: [u32; 6] = bench.profile.pick(
        [10, 20, 30, 40, 50, 60],
        [500, 1_000, 1_500, 2_000, 2_500, 3_000],
        [2_000, 5_000, 8_000, 12_000, 16_000, 20_000],
    );
    let noise: [u32; 6] = bench.profile.pick(
        [4, 8, 12, 16, 20, 24],
        [200, 400, 600, 800, 1_000, 1_200],
        [1_000, 2_000, 4_000, 6_000, 8_000, 10_000],
    );
    // On a busy machine the minimum latency of these rounds decides.
    let rounds = bench.profile.pick(1, 11, 11);
    let mu = noise[0];
    let some = users[1];
    let by_users = GridSeries::measure(bench, &GridPoint::make_grid(&[mu], &users), rounds)?;
    let by_noise = GridSeries::measure(bench, &GridPoint::make_grid(&noise, &[some]), rounds)?;
    let [by_user, by_mu, _] = LIMITS;
    let row = |limit: Limit, goal: &str, series: &GridSeries, fit: Fitting| {
        let wall = fit(&series.latency());
        let cpu = fit(&series.cpu());
        let words = format!(
            "{:.2} ms + {:.1} us each; CPU time {:.1} us each, R^2 {:.4}; {}",
            wall.coefficients[0] / 1e6,
            wall.coefficients[1] / 1e3,
            cpu.coefficients[1] / 1e3,
            cpu.r2,
            series.describe_disturbed()
        );
        limit.make_row(100.0 * wall.r2).with_goal(goal).with_detail(words)
    };
    Ok(vec![
        row(
            by_user,
            &format!("latency of {} .. {} users, mu {mu}", users[0], users[5]),
            &by_users,
            over_users,
        ),
        row(
            by_mu,
            &format!("latency at mu {} .. {}, {some} users", mu, noise[5]),
            &by_noise,
            over_noise,
        ),
        measure_few(bench)?,
    ])
}

/// Measures with as few users as in the reproduction. CPU time decides, since the wall time of such
/// short rounds varies too much.
fn measure_few(bench: &mut Bench) -> Result<Row> {
    let levels = bench.profile.pick([10, 20, 30], [100, 200, 300], [100, 200, 300]);
    let users = [10, 80, 160, 240, 320, 400].map(|n| bench.profile.pick(n / 10 + 1, n, n));
    let rounds = bench.profile.pick(2, 30, 30);
    let series = GridSeries::measure(bench, &GridPoint::make_grid(&levels, &users), rounds)?;
    let cpu = series.cpu();
    let fits = levels.map(|mu| {
        over_users(&cpu.iter().copied().filter(|(point, _)| point.mu == mu).collect::<Vec<_>>())
    });
    let least = fits.iter().map(|fit| fit.r2).fold(f64::INFINITY, f64::min);
    let each = levels.iter().zip(&fits).map(|(mu, fit)| {
        format!("mu {mu}: {:.1} us of CPU a user, R^2 {:.4}", fit.coefficients[1] / 1e3, fit.r2)
    });
    let words = each.collect::<Vec<_>>().join("; ");
    let goal = format!("CPU time of {} .. {} users, the worst of three mu", users[0], users[5]);
    let [.., by_few] = LIMITS;
    let row = by_few.make_row(100.0 * least).with_goal(&goal);
    Ok(row.with_detail(format!("medians; {words}")).with_detail(series.describe_disturbed()))
}
