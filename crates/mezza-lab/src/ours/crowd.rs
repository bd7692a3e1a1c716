//! A crowd of devices that run the engine of `mezza-mesh`: their clocks, movement, liars and
//! results.

pub mod liars;

pub use mezza::testing::servers::mesh::crowd::Moves;
use mezza::testing::servers::mesh::crowd::{HostedCrew, START, crew_settings, draw_clocks};
use mezza_mesh::crew::{CrewSettings, MemberId};
use mezza_mesh::{CellLife, ClockMode, Grade};
use mezza_sim::SimRng;
use mezza_sim::crowd::movement::{Density, Movement};
use mezza_sim::crowd::{Crowd, RadioModel};

use liars::{Liar, LiarShare, Liars};

/// Maximum distance of clocks that share a time, µs.
const STEP: i64 = 1_000_000;
/// The start time of `MeshCore` repeaters without a clock: 2024-05-15 10:52:31 UTC, µs since 1970.
const PLACEHOLDER: u64 = 1_715_770_351_000_000;

/// Floods: bouts of `FLOOD_S` seconds, one every `FLOOD_EVERY_S` seconds, with `FLOOD_PER_S` cells
/// per second.
const FLOOD_S: u64 = 20;
const FLOOD_EVERY_S: u64 = 600;
const FLOOD_PER_S: u64 = 40;
/// Cells that devices remember in a crowd with floods.
const FLOOD_RING: usize = 8_192;

/// The parameters of a crowd. Times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The number of devices.
    pub users: usize,
    /// The movement of the devices.
    pub moves: Moves,
    /// The rule by which clocks vote.
    pub mode: ClockMode,
    /// Percentage of devices with a good clock.
    pub good_percent: u64,
    /// Maximum error of the other clocks.
    pub spread_s: u64,
    /// Percentage of devices that lost their clock and begin in May 2024.
    pub lost_percent: u64,
    /// The liars; `None` if all devices are honest.
    pub liars: Option<LiarShare>,
    /// Time between two messages of a user; `None` for no messages.
    pub every_s: Option<u64>,
    /// Bytes of a cell.
    pub cell_bytes: usize,
    /// The life of every cell.
    pub life: CellLife,
    /// Cells that the crowd stores; `None` for those that are made within three minutes.
    pub ring: Option<usize>,
    /// True if a device waits while another device in range sends.
    pub shared: bool,
    /// The seed of all random draws.
    pub seed: u64,
}

impl Scene {
    /// Returns the paper's scene: a static grid with eight neighbours, clock errors up to five
    /// minutes and no good clock, a message of 512 bytes every 30 s.
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
            life: CellLife::Minute,
            ring: None,
            shared: false,
            seed,
        }
    }

    /// Returns the paper's scene with our vote, and three of ten clocks good.
    pub fn ours(users: usize, seed: u64) -> Self {
        Self { mode: ClockMode::Level, good_percent: 30, ..Self::paper(users, seed) }
    }

    /// Returns the scene without messages, for measurements of clocks.
    #[must_use]
    pub fn without_messages(self) -> Self {
        Self { every_s: None, ..self }
    }

    /// Places all devices, and starts the crowd.
    pub fn begin_stage(&self) -> Stage {
        let mut dice = SimRng::new(self.seed, 0x0063_6c6f_636b);
        let settings = CrewSettings {
            mode: self.mode,
            cell_bytes: self.cell_bytes,
            life: self.life,
            ..crew_settings(self.users, self.every_s)
        };
        let settings = CrewSettings { ring: self.ring.unwrap_or(settings.ring), ..settings };
        let settings = match self.liars {
            // Room for the flooded cells during their lifetime.
            Some(LiarShare { liar: Liar::Every(_), .. }) => {
                CrewSettings { ring: FLOOD_RING, ..settings }
            }
            _ => settings,
        };
        let mut clocks = draw_clocks(self.users, self.good_percent, self.spread_s, &mut dice);
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
    /// Returns the grade and the error in µs of a clock that begins at a placeholder date. Our node
    /// recognises such a date, and takes no part in votes.
    fn lost_clock(&self) -> (Grade, i64) {
        let grade = if self.mode == ClockMode::Level { Grade::None } else { Grade::Poor };
        (grade, PLACEHOLDER.cast_signed() - START.cast_signed())
    }
}

/// A running crowd.
pub struct Stage {
    /// The devices and their radios.
    pub crowd: Crowd<Liars>,
    movement: Box<dyn Movement + Send>,
}

impl Stage {
    /// Advances the simulation by some seconds.
    pub fn run_for(&mut self, seconds: u64) {
        self.crowd.move_for(&mut *self.movement, START, seconds);
    }

    /// Advances the simulation with floods: in bouts of 20 s, one every ten minutes, each flooding
    /// device writes 40 cells per second without a receiver. Returns the number of these cells.
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

    /// Stops the messages of all users.
    pub fn stop_writing(&mut self) {
        let crew = &mut self.crowd.swarm_mut().hosted.0;
        (0..crew.len()).for_each(|device| {
            crew.stop_writing(MemberId::try_from(device).unwrap_or(MemberId::MAX));
        });
    }

    /// Returns the number of counted messages, and of those that arrived.
    pub fn deliveries(&self) -> (u64, u64) {
        let deliveries = self.crowd.swarm().hosted.0.deliveries();
        (deliveries.made, deliveries.arrived)
    }

    /// Starts counting messages.
    pub fn start_counting(&mut self) {
        let now = self.crowd.now();
        self.crowd.swarm_mut().hosted.0.count_from(now);
    }

    /// Returns the offsets of all honest clocks from the true time, µs, sorted.
    pub fn offsets(&self) -> Vec<i64> {
        let swarm = self.crowd.swarm();
        let honest = swarm.hosted.0.engines().zip(&swarm.roles).filter(|(_, role)| role.is_none());
        let mut offsets: Vec<i64> = honest.map(|(engine, _)| engine.clock().offset()).collect();
        offsets.sort_unstable();
        offsets
    }

    /// Returns the largest share of honest clocks that lie within one second.
    pub fn share_in_step(&self) -> f64 {
        let offsets = self.offsets();
        let mut most = 0;
        for (at, first) in offsets.iter().enumerate() {
            most = most.max(offsets.partition_point(|offset| offset - first <= STEP) - at);
        }
        share_of_count(most, offsets.len())
    }

    /// Returns the share of honest clocks within a second of `offset_s` seconds from the true time.
    pub fn share_near(&self, offset_s: i64) -> f64 {
        self.share_within(offset_s, 1)
    }

    /// Returns the share of honest clocks within `within_s` seconds of `offset_s` seconds from the
    /// true time.
    pub fn share_within(&self, offset_s: i64, within_s: u64) -> f64 {
        let offsets = self.offsets();
        let within = within_s.cast_signed() * STEP;
        let near = offsets.iter().filter(|offset| (*offset - offset_s * STEP).abs() <= within);
        share_of_count(near.count(), offsets.len())
    }

    /// Runs until `measure` returns at least nine tenths, checked every `step_s`. Returns the
    /// seconds, or `None` after `most_s`.
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

    /// Returns the share of counted messages that arrived.
    pub fn share_delivered(&self) -> f64 {
        let deliveries = self.crowd.swarm().hosted.0.deliveries();
        quotient_of_counts(deliveries.arrived, deliveries.made)
    }

    /// Returns the share of counted messages that arrived in their epoch by the receiver's clock.
    pub fn share_reached(&self) -> f64 {
        let deliveries = self.crowd.swarm().hosted.0.deliveries();
        quotient_of_counts(deliveries.reached, deliveries.made)
    }

    /// Returns mean and 95th percentile of the delivery times, s.
    pub fn latency(&self) -> (f64, f64) {
        let mut took = self.crowd.swarm().hosted.0.deliveries().took_ms.clone();
        took.sort_unstable();
        let sum: u64 = took.iter().map(|ms| u64::from(*ms)).sum();
        let high = took.get(took.len() * 95 / 100).copied().unwrap_or(0);
        (quotient_of_counts(sum, took.len() as u64) / 1_000.0, f64::from(high) / 1_000.0)
    }

    /// Returns the bytes sent per message and device.
    pub fn bytes_per_cell(&self) -> f64 {
        let crew = &self.crowd.swarm().hosted.0;
        quotient_of_counts(crew.sent_bytes().0, crew.deliveries().made * crew.len() as u64)
    }
}

/// Returns a share of a count; 0 of none.
#[expect(clippy::cast_precision_loss, reason = "counts of devices and messages")]
fn share_of_count(some: usize, all: usize) -> f64 {
    some as f64 / all.max(1) as f64
}

/// Returns a quotient of counts; the divisor is at least 1.
#[expect(clippy::cast_precision_loss, reason = "counts of devices, messages and bytes")]
pub fn quotient_of_counts(some: u64, all: u64) -> f64 {
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
            liars: Some(Liar::Collude(60).with_share(100)),
            ..Scene::ours(100, 3).without_messages()
        };
        let mut stage = scene.begin_stage();
        stage.run_for(60);
        assert!(stage.offsets().len() < 100);
        assert!(stage.share_near(0) > 0.8, "{}", stage.share_near(0));
    }
}
