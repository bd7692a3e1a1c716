//! The devices of `mezza-mesh` in a crowd of `mezza-sim`: forty lines, which the lab uses too.

use mezza_mesh::crew::{Crew, CrewSettings};
use mezza_mesh::{Grade, MeshFrame};
use mezza_sim::crowd::{DeviceId, Swarm};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

/// Where every crowd begins: 2027-01-15 08:00 UTC, µs since 1970.
pub const START: u64 = 1_800_000_000_000_000;

/// The chance of a device.
pub type CrowdRng = Xoshiro256PlusPlus;

/// A crew as a swarm.
pub struct HostedCrew(pub Crew<CrowdRng>);

impl HostedCrew {
    /// A crew whose devices have these grades, and these errors of their own clocks in µs.
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

    fn due(&self, device: DeviceId) -> u64 {
        self.0.due(device)
    }

    fn next(&mut self, device: DeviceId, now: u64) -> Option<(MeshFrame, usize)> {
        self.0.next(device, now)
    }

    fn hear(&mut self, device: DeviceId, contact: u16, frame: &MeshFrame, now: u64) -> bool {
        self.0.hear(device, contact, frame, now)
    }

    fn meet(&mut self, a: DeviceId, b: DeviceId, now: u64) -> [u16; 2] {
        self.0.meet(a, b, now)
    }

    fn part(&mut self, device: DeviceId, contact: u16, _: u64) {
        self.0.part(device, contact);
    }
}
