//! Rounds with several numbers of users and levels of noise, in turn, to measure the growth of
//! latency.

use std::collections::BTreeMap;

use anyhow::Result;
use mezza::testing::backend::kernel::choose_kernel;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use super::coordinator::LabCoordinator;
use super::round::MixSetup;
use crate::bench::Bench;
use crate::clock::{BenchRound, busy_words, deciding_value, figure_of, median, to_ns};
use crate::fit::{Fit, fit_line};
use crate::raw::RawFigure;

/// A number of users and a level of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridPoint {
    /// Mean noise of a mix, in singles; b = 0 as in the reproduction.
    pub mu: u32,
    /// Users of the round.
    pub users: u32,
}

impl GridPoint {
    /// Returns all combinations of users and levels of noise.
    pub fn make_grid(levels: &[u32], users: &[u32]) -> Vec<Self> {
        let of_level =
            |mu: &u32| users.iter().map(|users| Self { mu: *mu, users: *users }).collect();
        levels.iter().flat_map(|mu| -> Vec<Self> { of_level(mu) }).collect()
    }
}

/// Wall and CPU time of all rounds at some points, in nanoseconds.
pub struct GridSeries(Vec<(GridPoint, Vec<BenchRound<[f64; 2]>>)>);

impl GridSeries {
    /// Runs `rounds` rounds at each point, all points in turn, with three mixes for each level of
    /// noise.
    ///
    /// # Errors
    /// A failed round, or a raw line that cannot be written.
    pub fn measure(bench: &mut Bench, points: &[GridPoint], rounds: usize) -> Result<Self> {
        let mut coordinators = BTreeMap::new();
        for GridPoint { mu, .. } in points {
            let of_level = points.iter().filter(|point| point.mu == *mu);
            let users_max = of_level.map(|point| point.users).max().unwrap_or(1);
            let law = Law { mode: Mode::Paper, mu: *mu, scale: 0 };
            let setup =
                MixSetup { mixes: 3, users_max, law, kernel: choose_kernel(), seed: bench.seed };
            if !coordinators.contains_key(mu) {
                let mut coordinator = LabCoordinator::start(bench.folder.path(), setup)?;
                // The first round of a process is slower than later ones.
                coordinator.run_round(users_max)?;
                coordinators.insert(*mu, coordinator);
            }
        }
        let mut all: Vec<(GridPoint, Vec<BenchRound<[f64; 2]>>)> =
            points.iter().map(|point| (*point, Vec::new())).collect();
        for _ in 0..rounds {
            let work = || one_round(&mut coordinators, points);
            for BenchRound { value, busy } in bench.watch.rounds_or_give_up(work)? {
                for ((_, rounds), value) in all.iter_mut().zip(value) {
                    rounds.push(BenchRound { value, busy });
                }
            }
        }
        coordinators.into_values().try_for_each(LabCoordinator::stop_mixes)?;
        note_rounds(bench, &all)?;
        Ok(Self(all))
    }

    /// Returns the latency at each point, ns.
    pub fn latency(&self) -> Vec<(GridPoint, f64)> {
        self.map_points(deciding_value, 0)
    }

    /// Returns the CPU time at each point, the median of all rounds, ns.
    pub fn cpu(&self) -> Vec<(GridPoint, f64)> {
        let middle = |rounds: &[BenchRound<f64>]| {
            median(&rounds.iter().map(|round| round.value).collect::<Vec<_>>())
        };
        self.map_points(middle, 1)
    }

    fn map_points(
        &self,
        cost: impl Fn(&[BenchRound<f64>]) -> f64,
        at: usize,
    ) -> Vec<(GridPoint, f64)> {
        self.0.iter().map(|(point, rounds)| (*point, cost(&figure_of(rounds, at)))).collect()
    }

    /// Describes the number of rounds per point, and of disturbed rounds.
    pub fn describe_disturbed(&self) -> String {
        let Some((_, rounds)) = self.0.first() else { return String::new() };
        let words = busy_words(rounds).unwrap_or_else(|| "not busy".into());
        format!("{} rounds a point; {words}", rounds.len())
    }
}

/// Fits a line to figures over users.
pub fn over_users(figures: &[(GridPoint, f64)]) -> Fit {
    fit_points(figures, |point| vec![point.users.into()])
}

/// Fits a line to figures over noise.
pub fn over_noise(figures: &[(GridPoint, f64)]) -> Fit {
    fit_points(figures, |point| vec![point.mu.into()])
}

/// Fits a plane to figures over users and noise.
pub fn over_both(figures: &[(GridPoint, f64)]) -> Fit {
    fit_points(figures, |point| vec![point.users.into(), point.mu.into()])
}

fn fit_points(figures: &[(GridPoint, f64)], of: impl Fn(&GridPoint) -> Vec<f64>) -> Fit {
    fit_line(&figures.iter().map(|(point, ns)| (of(point), *ns)).collect::<Vec<_>>())
}

fn one_round(
    coordinators: &mut BTreeMap<u32, LabCoordinator>,
    points: &[GridPoint],
) -> Result<Vec<[f64; 2]>> {
    let mut costs = Vec::new();
    for GridPoint { mu, users } in points {
        let Some(coordinator) = coordinators.get_mut(mu) else { continue };
        let outcome = coordinator.run_round(*users)?;
        costs.push([to_ns(outcome.wall), to_ns(outcome.cpu)]);
    }
    Ok(costs)
}

fn note_rounds(bench: &mut Bench, all: &[(GridPoint, Vec<BenchRound<[f64; 2]>>)]) -> Result<()> {
    for (GridPoint { mu, users }, rounds) in all {
        for (number, BenchRound { value, busy }) in rounds.iter().enumerate() {
            for (clock, value) in [("wall", value[0]), ("process_cpu", value[1])] {
                let op = format!("round_mu{mu}_users{users}");
                let figure = RawFigure::single("ours", &op, clock, "ns", value);
                bench.note_figure(&RawFigure { round: number + 1, busy: *busy, ..figure })?;
            }
        }
    }
    Ok(())
}
