//! `mezza mesh crowd`: a simulated crowd whose devices run the engine of `mezza mesh run`.

use mezza_mesh::Grade;
use mezza_mesh::crew::CrewSettings;
use mezza_mesh::limits::SECOND;
use mezza_sim::SimRng;
use mezza_sim::crowd::movement::{Converging, Density, Festival, Grid, Movement, Waypoint};
use mezza_sim::crowd::{Crowd, RadioModel};
use serde_json::json;

use super::super::show::Out;
use crate::api::Exit;
use crate::faces::cli::args::{CrowdArgs, MoveName};
use crate::servers::mesh::crowd::{HostedCrew, START};

/// Square metres for each walker: nine in range of each other, about.
const AREA_M2: f64 = 35.0;
/// Devices with a good clock, of a hundred; the others are off by up to five minutes.
const GOOD_PERCENT: u64 = 30;

/// `mezza mesh crowd`
pub(super) fn crowd(out: Out, asked: &CrowdArgs) -> Exit {
    let users = asked.users as usize;
    let mut dice = SimRng::new(asked.seed, 1);
    let clocks: Vec<_> = (0..users)
        .map(|_| {
            if dice.between(0, 99) < GOOD_PERCENT {
                return (Grade::Good, 0);
            }
            (Grade::Poor, dice.between(0, 600_000_000).cast_signed() - 300_000_000)
        })
        .collect();
    let settings = CrewSettings { ring: (8 * users).max(2_048), ..CrewSettings::default() };
    let crew = HostedCrew::new(settings, &clocks, asked.seed);
    let mut crowd = Crowd::new(crew, users, RadioModel::default(), asked.seed, START);
    let side = (f64::from(asked.users) * AREA_M2).sqrt();
    let mut movement: Box<dyn Movement> = match asked.movement {
        MoveName::Static => Box::new(Grid::new(users, Density::Eight, asked.seed)),
        MoveName::Converging => Box::new(Converging::new(users, 300.0, 1_800, asked.seed)),
        MoveName::Waypoint => Box::new(Waypoint::new(users, side, asked.seed)),
        MoveName::Festival => Box::new(Festival::new(users, asked.seed)),
    };
    out.line("minute   clocks within 1 s   messages   arrived   median");
    for minute in 1..=asked.minutes {
        let from = crowd.now();
        crowd.swarm_mut().0.count_from(from);
        crowd.move_for(&mut *movement, START, 60);
        let right =
            crowd.swarm().0.engines().filter(|e| e.clock().offset().unsigned_abs() < SECOND);
        let share = 100 * right.count() / users;
        let deliveries = crowd.swarm().0.deliveries();
        let mut took = deliveries.took_ms.clone();
        took.sort_unstable();
        let median = took.get(took.len() / 2).copied().unwrap_or(0);
        out.value(&json!({
            "minute": minute, "clocks_percent": share, "made": deliveries.made,
            "arrived": deliveries.arrived, "median_ms": median,
        }));
        out.line(format!(
            "{minute:>6}   {share:>16}%   {:>8}   {:>7}   {median:>4} ms",
            deliveries.made, deliveries.arrived
        ));
    }
    Exit::Done
}
