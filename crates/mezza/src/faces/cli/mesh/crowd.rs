//! `mezza mesh crowd`: a simulated crowd whose devices run the engine of `mezza mesh run`.

use mezza_mesh::limits::SECOND;
use mezza_sim::SimRng;
use mezza_sim::crowd::movement::Density;
use mezza_sim::crowd::{Crowd, RadioModel};
use serde_json::json;

use super::super::show::Out;
use crate::faces::cli::args::{CrowdArgs, MoveName};
use mezza_host::api::Exit;
use mezza_servers::mesh::crowd::{HostedCrew, Moves, START, crew_settings, draw_clocks};

/// Percentage of devices with a good clock, and the maximum error of the others, s.
const CLOCKS: (u64, u64) = (30, 300);
/// How often each user writes, s.
const EVERY_S: u64 = 30;

/// `mezza mesh crowd`
pub(super) fn run_crowd(out: Out, asked: &CrowdArgs) -> Exit {
    let users = asked.users as usize;
    let clocks = draw_clocks(users, CLOCKS.0, CLOCKS.1, &mut SimRng::new(asked.seed, 1));
    let crew = HostedCrew::new(crew_settings(users, Some(EVERY_S)), &clocks, asked.seed);
    let mut crowd = Crowd::new(crew, users, RadioModel::default(), asked.seed, START);
    let moves = match asked.movement {
        MoveName::Static => Moves::Sit(Density::Eight),
        MoveName::Converging => Moves::Meet(1_800),
        MoveName::Waypoint => Moves::Walk,
        MoveName::Festival => Moves::Celebrate,
    };
    let mut movement = moves.make_movement(users, asked.seed);
    out.print_line("minute   clocks within 1 s   messages   arrived   median");
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
        out.print_value(&json!({
            "minute": minute, "clocks_percent": share, "made": deliveries.made,
            "arrived": deliveries.arrived, "median_ms": median,
        }));
        out.print_line(format!(
            "{minute:>6}   {share:>16}%   {:>8}   {:>7}   {median:>4} ms",
            deliveries.made, deliveries.arrived
        ));
    }
    out.print_line(
        "a message arrives at its receiver or nowhere; it is lost if no device that has it meets the receiver \
         while its minute lasts",
    );
    Exit::Done
}
