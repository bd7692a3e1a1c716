//! A crowd of devices that run the engine of `mezza-mesh`: who they are, how they move, who lies, and what
//! came of it.

pub mod liars;

pub use mezza::testing::servers::mesh::crowd::Moves;
use mezza::testing::servers::mesh::crowd::{HostedCrew, START, crew_settings, draw_clocks};
use mezza_mesh::crew::{CrewSettings, MemberId};
use mezza_mesh::{ClockMode, Grade};
use mezza_sim::SimRng;
use mezza_sim::crowd::movement::{Density, Movement};
use mezza_sim::crowd::{Crowd, RadioModel};

use liars::{Liar, Liars};

/// Clocks within this distance share the time, µs.
const STEP: i64 = 1_000_000;
/// Where repeaters of `MeshCore` begin without a clock: 2024-05-15 10:52:31 UTC, µs since 1970.
const PLACEHOLDER: u64 = 1_715_770_351_000_000;

/// Floods come in bouts of so many seconds, one in so many seconds, with so many cells a second.
const FLOOD_S: u64 = 20;
const FLOOD_EVERY_S: u64 = 600;
const FLOOD_PER_S: u64 = 40;
/// Cells that a crowd with floods keeps in mind.
const FLOOD_RING: usize = 8_192;

/// A crowd before it begins. Times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// How many.
    pub users: usize,
    /// How they move.
    pub moves: Moves,
    /// How clocks vote.
    pub mode: ClockMode,
    /// Devices whose clock is good, of a hundred.
    pub good_percent: u64,
    /// The others' clocks are off by at most this.
    pub spread_s: u64,
    /// Devices that lost their clock, of a hundred: they begin in May 2024.
    pub lost_percent: u64,
    /// The behaviour of liars, and how many of a thousand lie.
    pub liars: Option<(Liar, u64)>,
    /// Time between two messages of a user; none are written if there is none.
    pub every_s: Option<u64>,
    /// Bytes of a cell.
    pub cell_bytes: usize,
    /// True if a device waits while somebody in range sends.
    pub shared: bool,
    /// Everything else follows from it.
    pub seed: u64,
}

impl Scene {
    /// The paper's: a static grid with eight neighbours, clocks off by up to five minutes and none good,
    /// a message of 512 bytes every 30 s.
    pub fn paper(users: usize, seed: u64) -> Self {
        Self {
            users,
            moves: Moves::Sit(Density::Eight),
            mode: ClockMode::Paper,
            good_percent: 0,
            spread_s: 300,
            lost_percent: 0,
            liars: None,
            every_s: Some(30),
            cell_bytes: 512,
            shared: false,
            seed,
        }
    }

    /// The same crowd with our vote, and three of ten clocks good.
    pub fn ours(users: usize, seed: u64) -> Self {
        Self { mode: ClockMode::Level, good_percent: 30, ..Self::paper(users, seed) }
    }

    /// Without messages: for questions about clocks.
    #[must_use]
    pub fn without_messages(self) -> Self {
        Self { every_s: None, ..self }
    }

    /// Sets everybody in place.
    pub fn begin_stage(&self) -> Stage {
        let mut dice = SimRng::new(self.seed, 0x0063_6c6f_636b);
        let settings = CrewSettings {
            mode: self.mode,
            cell_bytes: self.cell_bytes,
            ..crew_settings(self.users, self.every_s)
        };
        let settings = match self.liars {
            // Room for the cells of floods as long as they live.
            Some((Liar::Every(_), _)) => CrewSettings { ring: FLOOD_RING, ..settings },
            _ => settings,
        };
        let mut clocks = draw_clocks(self.users, (self.good_percent, self.spread_s), &mut dice);
        if self.lost_percent > 0 {
            for clock in &mut clocks {
                if dice.between(0, 99) < self.lost_percent {
                    *clock = self.lost_clock();
                }
            }
        }
        let crew = HostedCrew::new(settings, &clocks, self.seed);
        let liars = Liars::new(crew, self.liars, &mut dice);
        let radio = RadioModel { shared: self.shared, ..RadioModel::default() };
        let crowd = Crowd::new(liars, self.users, radio, self.seed, START);
        Stage { crowd, movement: self.moves.make_movement(self.users, self.seed) }
    }
}

impl Scene {
    /// The grade and the error of a clock that begins at a placeholder date, µs. Our node knows such a date
    /// for what it is, and takes part in no vote.
    fn lost_clock(&self) -> (Grade, i64) {
        let grade = if self.mode == ClockMode::Level { Grade::None } else { Grade::Poor };
        (grade, PLACEHOLDER.cast_signed() - START.cast_signed())
    }
}

/// A crowd on its way.
pub struct Stage {
    /// The devices and their radios.
    pub crowd: Crowd<Liars>,
    movement: Box<dyn Movement + Send>,
}

impl Stage {
    /// Lets time pass.
    pub fn run_for(&mut self, seconds: u64) {
        self.crowd.move_for(&mut *self.movement, START, seconds);
    }

    /// Lets seconds pass in which devices flood: in bouts of 20 s, one in ten minutes, each writes 40 cells a
    /// second for nobody. Returns the number of their cells.
    pub fn run_day(&mut self, seconds: u64) -> u64 {
        let mut flooded = 0;
        for _ in 0..seconds {
            let now = self.crowd.now();
            if (now - START) / 1_000_000 % FLOOD_EVERY_S < FLOOD_S {
                for device in self.crowd.swarm().find_floods(now) {
                    for _ in 0..FLOOD_PER_S {
                        self.crowd.swarm_mut().hosted.0.send_message(device, MemberId::MAX, now);
                        flooded += 1;
                    }
                    self.crowd.check_device(device);
                }
            }
            self.run_for(1);
        }
        flooded
    }

    /// Counted messages and those of them that arrived.
    pub fn deliveries(&self) -> (u64, u64) {
        let deliveries = self.crowd.swarm().hosted.0.deliveries();
        (deliveries.made, deliveries.arrived)
    }

    /// Counts messages from now on.
    pub fn start_counting(&mut self) {
        let now = self.crowd.now();
        self.crowd.swarm_mut().hosted.0.count_from(now);
    }

    /// Offsets of the clocks of all honest devices from the truth, µs, sorted.
    pub fn offsets(&self) -> Vec<i64> {
        let swarm = self.crowd.swarm();
        let honest = swarm.hosted.0.engines().zip(&swarm.roles).filter(|(_, role)| role.is_none());
        let mut offsets: Vec<i64> = honest.map(|(engine, _)| engine.clock().offset()).collect();
        offsets.sort_unstable();
        offsets
    }

    /// The largest share of honest clocks that share a time: all within one second.
    pub fn share_in_step(&self) -> f64 {
        let offsets = self.offsets();
        let mut most = 0;
        for (at, first) in offsets.iter().enumerate() {
            most = most.max(offsets.partition_point(|offset| offset - first <= STEP) - at);
        }
        share_of_count(most, offsets.len())
    }

    /// The share of honest clocks within a second of `offset_s` seconds from the truth.
    pub fn share_near(&self, offset_s: i64) -> f64 {
        self.share_within(offset_s, 1)
    }

    /// The share of honest clocks within so many seconds of `offset_s` seconds from the truth.
    pub fn share_within(&self, offset_s: i64, within_s: u64) -> f64 {
        let offsets = self.offsets();
        let within = within_s.cast_signed() * STEP;
        let near = offsets.iter().filter(|offset| (*offset - offset_s * STEP).abs() <= within);
        share_of_count(near.count(), offsets.len())
    }

    /// Seconds until the share of clocks that `measure` gives is at least nine tenths, looked at each
    /// `step_s`; `None` if it is not by `most_s`.
    pub fn run_until(
        &mut self,
        most_s: u64,
        step_s: u64,
        measure: fn(&Self) -> f64,
    ) -> Option<f64> {
        let mut passed = 0;
        while passed < most_s {
            self.run_for(step_s);
            passed += step_s;
            if measure(self) >= 0.9 {
                return Some(f64::from(u32::try_from(passed).unwrap_or(u32::MAX)));
            }
        }
        None
    }

    /// The share of the counted messages that arrived.
    pub fn share_delivered(&self) -> f64 {
        let deliveries = self.crowd.swarm().hosted.0.deliveries();
        quotient_of_counts(deliveries.arrived, deliveries.made)
    }

    /// The share of the counted messages that arrived at all: by their receiver's clock in its epoch.
    pub fn share_reached(&self) -> f64 {
        let deliveries = self.crowd.swarm().hosted.0.deliveries();
        quotient_of_counts(deliveries.reached, deliveries.made)
    }

    /// Mean and 95th percentile of how long messages took, s.
    pub fn latency(&self) -> (f64, f64) {
        let mut took = self.crowd.swarm().hosted.0.deliveries().took_ms.clone();
        took.sort_unstable();
        let sum: u64 = took.iter().map(|ms| u64::from(*ms)).sum();
        let high = took.get(took.len() * 95 / 100).copied().unwrap_or(0);
        (quotient_of_counts(sum, took.len() as u64) / 1_000.0, f64::from(high) / 1_000.0)
    }

    /// Bytes sent for each message and device.
    pub fn bytes_per_cell(&self) -> f64 {
        let crew = &self.crowd.swarm().hosted.0;
        quotient_of_counts(crew.sent_bytes().0, crew.deliveries().made * crew.len() as u64)
    }
}

/// A share of a count.
#[expect(clippy::cast_precision_loss, reason = "counts of devices and messages")]
fn share_of_count(some: usize, all: usize) -> f64 {
    some as f64 / all.max(1) as f64
}

/// A quotient of counts.
#[expect(clippy::cast_precision_loss, reason = "counts of devices, messages and bytes")]
fn quotient_of_counts(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_scene_ends_the_same_on_any_thread() {
        let end = |seed| {
            let mut stage = Scene::ours(60, seed).begin_stage();
            stage.start_counting();
            stage.run_for(60);
            (stage.offsets(), stage.share_delivered().to_bits())
        };
        let on_threads = crate::parallel::map_parallel(vec![1, 2, 1], end);
        assert!(on_threads[0] == on_threads[2] && on_threads[0] != on_threads[1]);
        assert_eq!(on_threads[1], end(2));
    }

    #[test]
    fn good_clocks_are_agreed_on_and_liars_are_not_counted() {
        let scene = Scene {
            liars: Some((Liar::Collude(60), 100)),
            ..Scene::ours(100, 3).without_messages()
        };
        let mut stage = scene.begin_stage();
        stage.run_for(60);
        assert!(stage.offsets().len() < 100);
        assert!(stage.share_near(0) > 0.8, "{}", stage.share_near(0));
    }
}
