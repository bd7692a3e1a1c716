//! Engines in a simulated crowd.

use mezza_mesh::crew::{Crew, CrewSettings, MemberId};
use mezza_mesh::{Grade, MeshFrame};
use mezza_sim::crowd::{Crowd, DeviceId, Place, RadioModel, Space, Swarm};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// A crew as mezza-sim hosts it, some of whose frames may be lies.
pub struct Hosted {
    pub crew: Crew<Xoshiro256PlusPlus>,
    pub lie: Option<Lie>,
}

/// Changes a frame of a device.
pub type Lie = Box<dyn Fn(DeviceId, &mut MeshFrame, u64)>;

impl Hosted {
    pub fn new(crew: Crew<Xoshiro256PlusPlus>) -> Self {
        Self { crew, lie: None }
    }
}

impl Swarm for Hosted {
    type Frame = MeshFrame;

    fn due_time(&self, device: DeviceId) -> u64 {
        self.crew.due(device)
    }

    fn next_frame(&mut self, device: DeviceId, now: u64) -> Option<(MeshFrame, usize)> {
        let (mut frame, bytes) = self.crew.next_frame(device, now)?;
        if let Some(lie) = &self.lie {
            lie(device, &mut frame, now);
        }
        Some((frame, bytes))
    }

    fn receive_frame(
        &mut self,
        device: DeviceId,
        contact: u16,
        frame: &MeshFrame,
        now: u64,
    ) -> bool {
        self.crew.handle_frame(device, contact, frame, now)
    }

    fn begin_contact(&mut self, a: DeviceId, b: DeviceId, now: u64) -> [u16; 2] {
        self.crew.add_contact(a, b, now)
    }

    fn end_contact(&mut self, device: DeviceId, contact: u16, _: u64) {
        self.crew.remove_neighbour(device, contact);
    }
}

/// 2027-01-15 08:00 UTC in µs.
pub const START: u64 = 1_800_000_000_000_000;

/// `side` times `side` devices on a grid; the grade and the error in µs of each clock.
fn on_a_grid(
    side: u32,
    seed: u64,
    settings: CrewSettings,
    mut clock: impl FnMut(MemberId) -> (Grade, i64),
) -> Crowd<Hosted> {
    let devices = 0..side * side;
    let mut crew = Crew::new(settings, devices.len());
    for device in devices.clone() {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed << 32 | u64::from(device));
        let (grade, off) = clock(device);
        crew.add(grade, off, rng, START);
    }
    let place = |n: MemberId| Place { x: f64::from(n % side), y: f64::from(n / side) };
    let places: Vec<Place> = devices.map(place).collect();
    let radio = RadioModel::default();
    let mut crowd = Crowd::new(Hosted::new(crew), places.len(), radio, seed, START);
    for (a, b) in Space::new(&places, 1.5).pairs_within(&places) {
        crowd.begin_contact(a, b);
    }
    crowd
}

/// A grid whose clocks are right.
pub fn grid(side: u32, seed: u64, settings: CrewSettings) -> Crowd<Hosted> {
    on_a_grid(side, seed, settings, |_| (Grade::Good, 0))
}

/// A grid of which three of ten clocks are good and the others off by up to five minutes.
pub fn uneven(side: u32, seed: u64, settings: CrewSettings) -> Crowd<Hosted> {
    let mut dice = mezza_sim::SimRng::new(seed, 1);
    on_a_grid(side, seed, settings, |device| {
        let off = dice.between(0, 600_000_000).cast_signed() - 300_000_000;
        if (1..4).contains(&(device % 10)) { (Grade::Good, 0) } else { (Grade::Poor, off) }
    })
}

#[cfg(test)]
use mezza_mesh::limits::SECOND;

#[test]
fn a_static_crowd_delivers_what_it_is_given() {
    let mut crowd = grid(6, 1, CrewSettings::default());
    crowd.run_until(START + 20 * SECOND);
    crowd.swarm_mut().crew.count_from(START + 20 * SECOND);
    crowd.run_until(START + 140 * SECOND);
    let made = crowd.swarm().crew.deliveries().made;
    for device in 0..36 {
        crowd.swarm_mut().crew.stop_writing(device);
    }
    crowd.run_until(START + 150 * SECOND);
    let deliveries = crowd.swarm().crew.deliveries();
    assert!(made >= 100);
    assert_eq!((deliveries.made, deliveries.arrived), (made, made));
}

#[test]
fn mesh_51_equal_seed_equal_output() {
    let run = |seed| {
        let mut crowd = grid(5, seed, CrewSettings::default());
        crowd.run_until(START + 60 * SECOND);
        let counts: Vec<_> = crowd.swarm().crew.engines().map(mezza_mesh::Engine::counts).collect();
        (counts, crowd.counts(), crowd.swarm().crew.deliveries().took_ms.clone())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
