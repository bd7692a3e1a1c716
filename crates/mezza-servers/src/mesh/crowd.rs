//! The devices of `mezza-mesh` in a crowd of `mezza-sim`: their number, clocks and movement, for
//! the command `mezza mesh crowd` and for the lab.

pub mod map;

use mezza_mesh::crew::{Crew, CrewSettings};
use mezza_mesh::limits::{NEVER, SECOND};
use mezza_mesh::{Grade, MeshFrame};
use mezza_sim::SimRng;
use mezza_sim::crowd::movement::{Converging, Density, Festival, Grid, Movement, Waypoint};
use mezza_sim::crowd::{DeviceId, Swarm};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

/// The time at which every simulated crowd begins: 2027-01-15 08:00 UTC, µs since 1970.
pub const START: u64 = 1_800_000_000_000_000;

/// Square metres for each walker: about nine walkers are in range of each other.
const AREA_M2: f64 = 35.0;
/// Square metres for each scattered walker: on average less than one other walker is in range.
const SCATTERED_AREA_M2: f64 = 700.0;
/// Distance from the centre at which groups begin, metres.
const RING_M: f64 = 300.0;

/// The movement of people in a crowd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moves {
    /// People sit on a grid.
    Sit(Density),
    /// Groups on a ring meet in its centre, and leave after this number of seconds.
    Meet(u64),
    /// People walk about.
    Walk,
    /// People walk about, so few that most are out of range of all others.
    Scatter,
    /// People go from stage to stage.
    Celebrate,
}

impl Moves {
    /// Returns the movement of `users` people.
    pub fn make_movement(self, users: usize, seed: u64) -> Box<dyn Movement + Send> {
        let count = f64::from(u32::try_from(users).unwrap_or(u32::MAX));
        let side_m = |area_m2: f64| (count * area_m2).sqrt();
        match self {
            Self::Sit(density) => Box::new(Grid::new(users, density, seed)),
            Self::Meet(leave_s) => Box::new(Converging::new(users, RING_M, leave_s, seed)),
            Self::Walk => Box::new(Waypoint::new(users, side_m(AREA_M2), seed)),
            Self::Scatter => Box::new(Waypoint::new(users, side_m(SCATTERED_AREA_M2), seed)),
            Self::Celebrate => Box::new(Festival::new(users, seed)),
        }
    }
}

/// Draws grade and error (µs) for the clocks of `users` devices. `good_percent` of them are good
/// and off by at most 250 ms; the others are poor and off by at most `spread_s`.
pub fn draw_clocks(
    users: usize,
    good_percent: u64,
    spread_s: u64,
    dice: &mut SimRng,
) -> Vec<(Grade, i64)> {
    let mut clock = || {
        let good = dice.between(0, 99) < good_percent;
        let most = if good { SECOND / 4 } else { spread_s * SECOND };
        let off = dice.between(0, 2 * most).cast_signed() - most.cast_signed();
        (if good { Grade::Good } else { Grade::Poor }, off)
    };
    (0..users).map(|_| clock()).collect()
}

/// Returns the settings of a crew whose users write every `every_s` seconds, or never. Cells live
/// for at most 90 s by any clock, and the ring of slots holds the cells of three minutes.
pub fn crew_settings(users: usize, every_s: Option<u64>) -> CrewSettings {
    let made = every_s.map_or(64, |every| 180 * users / usize::try_from(every).unwrap_or(30));
    CrewSettings {
        every: every_s.map_or(NEVER, |every| every * SECOND),
        ring: made.next_power_of_two().max(128),
        ..CrewSettings::default()
    }
}

/// The generator of one simulated device.
pub type CrowdRng = Xoshiro256PlusPlus;

/// A [`Crew`] of devices, in the form that the simulation of a crowd requires.
pub struct HostedCrew(pub Crew<CrowdRng>);

impl HostedCrew {
    /// Creates a crew, one device per entry of `clocks`: its grade, and the error of its clock in
    /// µs.
    pub fn new(settings: CrewSettings, clocks: &[(Grade, i64)], seed: u64) -> Self {
        let mut crew = Crew::new(settings, clocks.len());
        for (device, (grade, error)) in (0_u64..).zip(clocks) {
            let rng = Xoshiro256PlusPlus::seed_from_u64((seed << 24) ^ device);
            crew.add(*grade, *error, rng, START);
        }
        Self(crew)
    }
}

impl Swarm for HostedCrew {
    type Frame = MeshFrame;

    fn due_time(&self, device: DeviceId) -> u64 {
        self.0.due(device)
    }

    fn next_frame(&mut self, device: DeviceId, now: u64) -> Option<(MeshFrame, usize)> {
        self.0.next_frame(device, now)
    }

    fn receive_frame(
        &mut self,
        device: DeviceId,
        contact: u16,
        frame: &MeshFrame,
        now: u64,
    ) -> bool {
        self.0.handle_frame(device, contact, frame, now)
    }

    fn begin_contact(&mut self, a: DeviceId, b: DeviceId, now: u64) -> [u16; 2] {
        self.0.add_contact(a, b, now)
    }

    fn end_contact(&mut self, device: DeviceId, contact: u16, _: u64) {
        self.0.remove_neighbour(device, contact);
    }
}
