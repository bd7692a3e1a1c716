//! Engines in a simulated crowd.

use mezza_mesh::crew::{Crew, CrewSettings, MemberId};
use mezza_mesh::{Grade, MeshFrame};
use mezza_sim::crowd::{Crowd, DeviceId, Place, RadioModel, Space, Swarm};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// A crew as mezza-sim hosts it.
pub struct Hosted(pub Crew<Xoshiro256PlusPlus>);

impl Swarm for Hosted {
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

/// 2027-01-15 08:00 UTC in µs.
pub const START: u64 = 1_800_000_000_000_000;

/// `side` times `side` devices on a grid, with clocks that are right.
pub fn grid(side: u32, seed: u64, settings: CrewSettings) -> Crowd<Hosted> {
    let mut crew = Crew::new(settings, (side * side) as usize);
    for device in 0..side * side {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed << 32 | u64::from(device));
        crew.add(Grade::Good, 0, rng, START);
    }
    let count = crew.len();
    let places: Vec<Place> = (0..side * side)
        .map(|n: MemberId| Place { x: f64::from(n % side), y: f64::from(n / side) })
        .collect();
    let mut crowd = Crowd::new(Hosted(crew), count, RadioModel::default(), seed, START);
    for (a, b) in Space::new(&places, 1.5).pairs(&places) {
        crowd.meet(a, b);
    }
    crowd
}

/// A crew some of whose frames are lies.
#[cfg(test)]
pub struct Lying {
    pub crew: Crew<Xoshiro256PlusPlus>,
    pub lie: Option<Lie>,
}

/// Changes a frame of a device.
#[cfg(test)]
pub type Lie = Box<dyn Fn(DeviceId, &mut MeshFrame, u64)>;

#[cfg(test)]
impl Swarm for Lying {
    type Frame = MeshFrame;

    fn due(&self, device: DeviceId) -> u64 {
        self.crew.due(device)
    }

    fn next(&mut self, device: DeviceId, now: u64) -> Option<(MeshFrame, usize)> {
        let (mut frame, bytes) = self.crew.next(device, now)?;
        if let Some(lie) = &self.lie {
            lie(device, &mut frame, now);
        }
        Some((frame, bytes))
    }

    fn hear(&mut self, device: DeviceId, contact: u16, frame: &MeshFrame, now: u64) -> bool {
        self.crew.hear(device, contact, frame, now)
    }

    fn meet(&mut self, a: DeviceId, b: DeviceId, now: u64) -> [u16; 2] {
        self.crew.meet(a, b, now)
    }

    fn part(&mut self, device: DeviceId, contact: u16, _: u64) {
        self.crew.part(device, contact);
    }
}

/// A grid of which three of ten clocks are good and the others off by up to five minutes.
#[cfg(test)]
pub fn uneven(side: u32, seed: u64, settings: CrewSettings) -> Crowd<Lying> {
    let mut crew = Crew::new(settings, (side * side) as usize);
    let mut dice = mezza_sim::SimRng::new(seed, 1);
    for device in 0..side * side {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed << 32 | u64::from(device));
        let off = dice.between(0, 600_000_000).cast_signed() - 300_000_000;
        let (grade, off) =
            if device % 10 < 4 && device % 10 > 0 { (Grade::Good, 0) } else { (Grade::Poor, off) };
        crew.add(grade, off, rng, START);
    }
    let count = crew.len();
    let mut crowd =
        Crowd::new(Lying { crew, lie: None }, count, RadioModel::default(), seed, START);
    let places: Vec<Place> = (0..side * side)
        .map(|n| Place { x: f64::from(n % side), y: f64::from(n / side) })
        .collect();
    for (a, b) in Space::new(&places, 1.5).pairs(&places) {
        crowd.meet(a, b);
    }
    crowd
}

#[cfg(test)]
use mezza_mesh::limits::SECOND;

#[test]
fn a_static_crowd_delivers_what_it_is_given() {
    let mut crowd = grid(6, 1, CrewSettings::default());
    crowd.run_until(START + 20 * SECOND);
    crowd.swarm_mut().0.count_from(START + 20 * SECOND);
    crowd.run_until(START + 140 * SECOND);
    let made = crowd.swarm().0.deliveries().made;
    for device in 0..36 {
        crowd.swarm_mut().0.silence(device);
    }
    crowd.run_until(START + 150 * SECOND);
    let deliveries = crowd.swarm().0.deliveries();
    assert!(made >= 100);
    assert_eq!((deliveries.made, deliveries.arrived), (made, made));
}

#[test]
fn mesh_51_equal_seed_equal_output() {
    let run = |seed| {
        let mut crowd = grid(5, seed, CrewSettings::default());
        crowd.run_until(START + 60 * SECOND);
        let counts: Vec<_> = crowd.swarm().0.engines().map(mezza_mesh::Engine::counts).collect();
        (counts, crowd.counts(), crowd.swarm().0.deliveries().took_ms.clone())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
