//! The common part of figures 3 to 8: a value by points or minutes for each kind of vote, as the
//! median of seeds, in a table, a plot and raw lines.

use anyhow::Result;
use mezza_mesh::ClockMode;
use mezza_sim::crowd::movement::Density;

use super::{Size, begin_report, map_seeds};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::{Moves, Scene, Stage};
use crate::plot::Plot;
use crate::run::experiment::Report;

/// A kind of vote, and the percentage of good clocks.
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
    fn is_worse(&self, value: f64, other: f64) -> bool {
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

/// A figure over points.
#[derive(Clone, Copy)]
pub struct Figure {
    /// The id of the experiment.
    pub exp: &'static str,
    /// The quantity of the horizontal axis.
    pub axis: &'static str,
    /// The text above the table.
    pub said: &'static str,
}

/// A figure over minutes.
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
    let Figure { exp, axis, said } = figure;
    let size = Size::for_profile(bench);
    let mut report = begin_report(exp, size)?;
    report.add_line(said);
    let names = runs.iter().flat_map(|run| run.names);
    let head = names.fold(String::new(), |head, name| format!("{head} {name:>16}"));
    report.add_line(format!("  {axis:>14}{head}"));
    let mut plot = Plot::new(quantity.title, [axis, quantity.unit]);
    let mut values = Vec::new();
    for Columns { names, kind, measure } in runs {
        let of_kind = |point, seed| {
            let Kind { mode, good_percent, .. } = *kind;
            measure(&Scene { mode, good_percent, ..scene(point, seed) }, size.seconds)
        };
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
    let names: Vec<&str> = runs.iter().flat_map(|run| run.names).copied().collect();
    let ours = runs.iter().flat_map(|run| run.names.iter().map(|_| run.kind.is_ours()));
    let ours: Vec<bool> = ours.collect();
    for (mine, theirs) in (0..names.len()).flat_map(|mine| (0..names.len()).map(move |o| (mine, o)))
    {
        for (at, (x, _)) in points.iter().enumerate().filter(|_| ours[mine] && !ours[theirs]) {
            let [value, other] = [values[mine][at], values[theirs][at]];
            if quantity.is_worse(value, other) {
                let [value, other] = [value, other].map(|v| format_cell(v, quantity.decimals));
                report.add_loss(format!(
                    "{}, {axis} {x}: {} {} against {} ({})",
                    names[mine],
                    value.trim(),
                    quantity.unit,
                    other.trim(),
                    names[theirs]
                ));
            }
        }
    }
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
    let mut plot = Plot::new(quantity.title, ["minutes", quantity.unit]);
    let mut curves = Vec::new();
    for Kind { name, mode, good_percent } in kinds.iter().copied() {
        let seeds = crate::parallel::map_parallel((0..size.seeds).collect(), |seed| {
            let scene = Scene { moves, mode, good_percent, ..Scene::paper(size.users, seed) };
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
