//! The common part of figures 3 to 8: one value for each point of the horizontal axis, or for each
//! minute of a run, and for each rule by which devices vote on the time. Each is the median of the
//! seeds, in a table, a plot and raw lines.

use anyhow::Result;
use mezza_mesh::ClockMode;
use mezza_sim::crowd::movement::Density;

use super::{Size, begin_report, map_seeds};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::{Moves, Scene, Stage};
use crate::plot::Plot;
use crate::run::experiment::Report;

/// A rule by which devices vote on the time, and the percentage of devices with a good clock.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    mode: ClockMode,
    good_percent: u64,
}

impl Kind {
    fn is_ours(&self) -> bool {
        self.mode != ClockMode::Paper
    }

    /// Returns a scene in which devices vote by this rule.
    pub fn apply_to(self, scene: Scene) -> Scene {
        Scene { mode: self.mode, good_percent: self.good_percent, ..scene }
    }
}

/// The paper's vote, in which no clock is better than another.
pub const PAPER: Kind = Kind { name: "paper's vote", mode: ClockMode::Paper, good_percent: 0 };
/// Our vote with 30 % good clocks.
pub const OURS: Kind = Kind { name: "ours, 30 % good", mode: ClockMode::Level, good_percent: 30 };
/// Our vote without good clocks.
pub const UNAIDED: Kind = Kind { name: "ours, none good", mode: ClockMode::Level, good_percent: 0 };

/// The measured quantity and its texts.
#[derive(Clone, Copy)]
pub struct Quantity {
    pub title: &'static str,
    pub unit: &'static str,
    /// The first part of the operation's name in a raw line.
    pub op: &'static str,
    pub decimals: usize,
    /// True if greater values are better.
    pub is_gain: bool,
}

impl Quantity {
    /// Returns true if a value is worse than another after rounding for print.
    pub fn is_worse(&self, value: f64, other: f64) -> bool {
        let scale = 10_f64.powi(i32::try_from(self.decimals).unwrap_or(0));
        let [value, other] = [value, other].map(|v| (v * scale).round());
        if self.is_gain { value < other } else { value > other }
    }
}

/// The table columns that one run of a kind produces.
#[derive(Clone, Copy)]
pub struct Columns {
    pub names: &'static [&'static str],
    pub kind: Kind,
    pub measure: fn(&Scene, u64) -> Vec<f64>,
}

/// A figure with one value for each point of its horizontal axis.
#[derive(Clone, Copy)]
pub struct Figure {
    /// The id of the experiment.
    pub exp: &'static str,
    /// The quantity of the horizontal axis.
    pub axis: &'static str,
    /// The text above the table, before the words on its values.
    pub said: &'static str,
    /// The text after them.
    pub ends: &'static str,
}

/// A figure with one value for each minute of a run.
#[derive(Clone, Copy)]
pub struct Course {
    pub moves: Moves,
    pub minutes: u64,
    /// Minutes between two samples.
    pub step: u64,
}

/// The measurement of one sample of a figure over minutes.
#[derive(Clone, Copy)]
pub struct Sample {
    /// True if no device sends messages.
    pub silent: bool,
    /// Runs the stage for so many seconds. Returns the value of the sample.
    pub measure: fn(&mut Stage, u64) -> f64,
}

/// Measures a figure over points. Returns its report and its columns.
pub fn by_points<P: Copy + Send + Sync>(
    bench: &mut Bench,
    figure: Figure,
    quantity: Quantity,
    runs: &[Columns],
    points: &[(f64, P)],
    scene: impl Fn(P, u64) -> Scene + Sync,
) -> Result<(Report, Vec<Vec<f64>>)> {
    let Figure { exp, axis, said, ends } = figure;
    let size = Size::for_profile(bench);
    let mut report = begin_report(exp, size)?;
    report.add_line(format!("{said}, {}; {ends}", size.name_middle()));
    let names = runs.iter().flat_map(|run| run.names);
    let head = names.fold(String::new(), |head, name| format!("{head} {name:>16}"));
    report.add_line(format!("  {axis:>14}{head}"));
    let mut plot = Plot::new(quantity.title, [axis, quantity.unit]);
    let mut values = Vec::new();
    for Columns { names, kind, measure } in runs {
        let of_kind = |point, seed| measure(&kind.apply_to(scene(point, seed)), size.seconds);
        let seeds = map_seeds(points, size.seeds, |(_, point), seed| of_kind(point, seed));
        for (at, name) in names.iter().enumerate() {
            let of_column =
                |seeds: &Vec<Vec<f64>>| seeds.iter().map(|row| row[at]).collect::<Vec<_>>();
            let column: Vec<f64> = seeds.iter().map(|seeds| median(&of_column(seeds))).collect();
            for ((x, _), value) in points.iter().zip(&column) {
                let value = if value.is_finite() { *value } else { -1.0 };
                let op = format!("{}_{x}", quantity.op);
                bench.note_count(&format!("ours:{name}"), &op, quantity.unit, value)?;
            }
            plot.add_curve(*name, points.iter().zip(&column).map(|((x, _), y)| [*x, *y]));
            values.push(column);
        }
    }
    let columns = runs.iter().flat_map(|run| run.names.iter().map(|name| (*name, &run.kind)));
    let columns: Vec<Curve<'_>> = columns
        .zip(&values)
        .map(|((name, kind), values)| Curve { name, is_ours: kind.is_ours(), values })
        .collect();
    let places: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    report.add_losses(list_losses(quantity, axis, &places, &columns));
    for (at, (x, _)) in points.iter().enumerate() {
        let cells = values.iter().map(|column| format_cell(column[at], quantity.decimals));
        report.add_line(format!("  {x:>14}{}", cells.collect::<String>()));
    }
    report.plot = Some(plot);
    Ok((report, values))
}

fn format_cell(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!(" {value:>16.decimals$}") } else { format!(" {:>16}", "-") }
}

/// A column of a table.
#[derive(Clone, Copy)]
struct Curve<'a> {
    name: &'a str,
    is_ours: bool,
    values: &'a [f64],
}

/// Lists each point at which a column of ours is worse than a column of others.
fn list_losses(
    quantity: Quantity,
    axis: &str,
    places: &[f64],
    columns: &[Curve<'_>],
) -> Vec<String> {
    let mut losses = Vec::new();
    for mine in columns.iter().filter(|column| column.is_ours) {
        for theirs in columns.iter().filter(|column| !column.is_ours) {
            for ((x, value), other) in places.iter().zip(mine.values).zip(theirs.values) {
                if quantity.is_worse(*value, *other) {
                    let [value, other] =
                        [*value, *other].map(|v| format_cell(v, quantity.decimals));
                    losses.push(format!(
                        "{}, {axis} {x}: {} {} against {} ({})",
                        mine.name,
                        value.trim(),
                        quantity.unit,
                        other.trim(),
                        theirs.name
                    ));
                }
            }
        }
    }
    losses
}

/// Measures a figure over minutes, sampled every `step` minutes. Returns its report and its curves.
pub fn by_minutes(
    bench: &mut Bench,
    exp: &'static str,
    quantity: Quantity,
    kinds: &[Kind],
    course: Course,
    sample: Sample,
) -> Result<(Report, Vec<Vec<[f64; 2]>>)> {
    let Course { moves, minutes, step } = course;
    let size = Size::for_profile(bench);
    let mut report = begin_report(exp, size)?;
    report.add_line(format!("each point is the {}", size.name_middle()));
    let mut plot = Plot::new(quantity.title, ["minutes", quantity.unit]);
    let mut curves = Vec::new();
    for kind in kinds.iter().copied() {
        let name = kind.name;
        let seeds = crate::parallel::map_parallel((0..size.seeds).collect(), |seed| {
            let scene = kind.apply_to(Scene { moves, ..Scene::paper(size.users, seed) });
            let mut stage =
                if sample.silent { scene.without_messages() } else { scene }.begin_stage();
            (0..minutes / step)
                .map(|_| (sample.measure)(&mut stage, 60 * step))
                .collect::<Vec<f64>>()
        });
        let count = seeds.first().map_or(0, Vec::len);
        let minute = |at: usize| f64::from(u32::try_from((at as u64 + 1) * step).unwrap_or(0));
        let point = |at| {
            let values: Vec<f64> = seeds.iter().map(|seed: &Vec<f64>| seed[at]).collect();
            [minute(at), median(&values)]
        };
        let curve: Vec<[f64; 2]> = (0..count).map(point).collect();
        for [minute, value] in &curve {
            let op = format!("minute_{minute}");
            bench.note_count(&format!("ours:{name}"), &op, quantity.unit, *value)?;
        }
        plot.add_curve(name, curve.iter().copied());
        curves.push(curve);
    }
    for (mine, theirs) in (0..kinds.len()).flat_map(|mine| (0..kinds.len()).map(move |o| (mine, o)))
    {
        if !kinds[mine].is_ours() || kinds[theirs].is_ours() {
            continue;
        }
        let both = curves[mine].iter().zip(&curves[theirs]);
        let worse: Vec<_> = both.filter(|(a, b)| quantity.is_worse(a[1], b[1])).collect();
        let gap = |(a, b): &(&[f64; 2], &[f64; 2])| (a[1] - b[1]).abs();
        if let Some(([minute, value], [_, other])) =
            worse.iter().copied().max_by(|a, b| gap(a).total_cmp(&gap(b)))
        {
            report.add_loss(format!(
                "{} in {} of {} points, most at minute {minute}: {value:.2} {} against {other:.2} ({})",
                kinds[mine].name,
                worse.len(),
                curves[mine].len(),
                quantity.unit,
                kinds[theirs].name
            ));
        }
    }
    report.plot = Some(plot);
    Ok((report, curves))
}

/// Returns the crowd sizes of the profile.
pub fn list_users(bench: &Bench, [smoke, quick, full]: [&'static [usize]; 3]) -> Vec<(f64, usize)> {
    let users = bench.profile.pick(smoke, quick, full);
    users.iter().map(|n| (f64::from(u32::try_from(*n).unwrap_or(0)), *n)).collect()
}

/// Returns all densities with their numbers of neighbours.
pub fn list_densities() -> [(f64, Density); 3] {
    Density::ALL.map(|d| (f64::from(u32::try_from(d.neighbours()).unwrap_or(0)), d))
}

/// Returns the maximum and the minimum of a column.
pub fn find_extremes(column: &[f64]) -> [f64; 2] {
    let greatest = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [greatest, column.iter().copied().fold(f64::INFINITY, f64::min)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_at_which_a_column_of_ours_is_worse_is_listed() {
        let quantity =
            |is_gain| Quantity { title: "t", unit: "percent", op: "op", decimals: 1, is_gain };
        let column = |name, is_ours, values| Curve { name, is_ours, values };
        let columns = [
            column("paper's vote", false, &[99.6, 98.0][..]),
            column("ours", true, &[99.56, f64::INFINITY]),
            column("ours, none good", true, &[77.1, 98.0]),
        ];
        let losses = |is_gain| list_losses(quantity(is_gain), "users", &[300.0, 600.0], &columns);
        // 99.56 and 99.6 print alike.
        let shares = ["ours, none good, users 300: 77.1 percent against 99.6 (paper's vote)"];
        assert_eq!(losses(true), shares);
        let times = ["ours, users 600: - percent against 98.0 (paper's vote)"];
        assert_eq!(losses(false), times);
    }
}
