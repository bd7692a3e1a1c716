//! A crowd as a map: where people are, and who has the message that one of them wrote.

use mezza_mesh::Grade;
use mezza_mesh::limits::SECOND;
use mezza_sim::SimRng;
use mezza_sim::crowd::{Crowd, Place, RadioModel};

use super::{HostedCrew, Moves, START, crew_settings, draw_clocks};

/// Seconds before the message is written, in which the devices agree on a time.
pub const WARM_UP_S: u64 = 60;
/// Seconds that are shown after it.
pub const SHOWN_S: u64 = 120;
/// Seconds between two moments.
pub const STEP_S: u64 = 2;
/// Side of the map; places are whole numbers below it.
pub const SIDE: u16 = 1_000;
/// Fewest and most people of a map.
pub const USERS: std::ops::RangeInclusive<usize> = 10..=200;
/// Percentage of devices with a good clock, and the maximum error of the others, s.
const CLOCKS: (u64, u64) = (30, 300);

/// The order of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapOrder {
    /// Number of people, within [`USERS`].
    pub users: usize,
    /// How they move.
    pub moves: Moves,
    /// Everything else follows from it.
    pub seed: u64,
    /// Grade and error (µs) of the clock of person 0, who writes.
    pub own_clock: (Grade, i64),
}

/// One moment of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapMoment {
    /// Seconds since the message was written.
    pub second: u64,
    /// The place of each person, east and north, below [`SIDE`].
    pub places: Vec<[u16; 2]>,
    /// The people whose devices hold the message, ascending.
    pub holders: Vec<u32>,
    /// Number of devices that are in range of person 0.
    pub around: usize,
    /// Percentage of the devices whose clocks are right within a second.
    pub clocks_percent: usize,
}

/// A crowd in which person 0 writes to the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdMap {
    /// Range of a radio, in the unit of the places.
    pub range: u16,
    /// The moments, [`STEP_S`] apart.
    pub moments: Vec<MapMoment>,
    /// Seconds until the receiver had the message and its key; `None` if it did not arrive in the
    /// time that is shown.
    pub arrived_s: Option<u64>,
}

/// The square around all places of a run.
struct Frame {
    west: f64,
    south: f64,
    side: f64,
}

impl Frame {
    fn around(all: &[Vec<Place>]) -> Self {
        let places = || all.iter().flatten();
        let low = |of: fn(&Place) -> f64| places().map(of).fold(f64::INFINITY, f64::min);
        let high = |of: fn(&Place) -> f64| places().map(of).fold(f64::NEG_INFINITY, f64::max);
        let [west, south] = [low(|place| place.x), low(|place| place.y)];
        let side = (high(|place| place.x) - west).max(high(|place| place.y) - south);
        Self { west, south, side: side.max(1.0) }
    }

    /// Returns a length in the unit of the map, at most its side.
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "clamped to 0..SIDE"
    )]
    fn scale(&self, metres: f64) -> u16 {
        let part = (metres / self.side * f64::from(SIDE - 1)).round();
        // Every place of the run is inside; a range may be longer than the side.
        part.clamp(0.0, f64::from(SIDE - 1)) as u16
    }

    fn place(&self, place: &Place) -> [u16; 2] {
        [self.scale(place.x - self.west), self.scale(place.y - self.south)]
    }
}

/// Simulates a crowd with the engine of the node. One seed gives the same map everywhere.
#[must_use]
pub fn draw_map(order: &MapOrder) -> CrowdMap {
    let MapOrder { users, moves, seed, own_clock } = *order;
    let mut clocks = draw_clocks(users, CLOCKS.0, CLOCKS.1, &mut SimRng::new(seed, 1));
    if let Some(own) = clocks.first_mut() {
        *own = own_clock;
    }
    let crew = HostedCrew::new(crew_settings(users, None), &clocks, seed);
    let mut crowd = Crowd::new(crew, users, RadioModel::default(), seed, START);
    let mut movement = moves.make_movement(users, seed);
    crowd.move_for(&mut *movement, START, WARM_UP_S);
    let now = crowd.now();
    let crew = &mut crowd.swarm_mut().0;
    crew.count_from(now);
    let receiver = users.saturating_sub(1) as u32;
    let slot = crew.send_message(0, receiver, now);
    crowd.check_device(0);

    let mut places = Vec::new();
    let mut moments = Vec::new();
    let mut arrived_s = None;
    for second in (0..=SHOWN_S).step_by(STEP_S as usize) {
        if second > 0 {
            crowd.move_for(&mut *movement, START, STEP_S);
        }
        let crew = &crowd.swarm().0;
        let holds = |device: &u32| crew.engine(*device).holds_slot(slot, crew.table());
        let is_right = |error: i64| error.unsigned_abs() < SECOND;
        let right = crew.engines().filter(|engine| is_right(engine.clock().offset())).count();
        if crew.deliveries().arrived > 0 {
            arrived_s = arrived_s.or(Some(second));
        }
        places.push(movement.places_at(WARM_UP_S + second).to_vec());
        moments.push(MapMoment {
            second,
            places: Vec::new(),
            holders: (0..users as u32).filter(holds).collect(),
            around: crowd.contacts(0).count(),
            clocks_percent: 100 * right / users.max(1),
        });
    }
    let frame = Frame::around(&places);
    for (moment, places) in moments.iter_mut().zip(&places) {
        moment.places = places.iter().map(|place| frame.place(place)).collect();
    }
    CrowdMap { range: frame.scale(movement.radius()), moments, arrived_s }
}

#[cfg(test)]
mod tests {
    use mezza_sim::crowd::movement::Density;

    use super::*;

    fn order(moves: Moves, seed: u64) -> MapOrder {
        MapOrder { users: 60, moves, seed, own_clock: (Grade::Good, 0) }
    }

    #[test]
    fn a_message_spreads_from_its_writer_and_ends_with_its_time() {
        let map = draw_map(&order(Moves::Sit(Density::Eight), 1));
        assert_eq!(map.moments.len() as u64, SHOWN_S / STEP_S + 1);
        assert_eq!(map.moments[0].holders, [0], "only the writer has it at first");
        let most = map.moments.iter().map(|moment| moment.holders.len()).max().unwrap();
        assert!(most > 30, "it spreads to {most} of 60 who sit close together");
        assert!(map.arrived_s.is_some());
        assert!(map.moments.last().unwrap().holders.is_empty(), "its minute is over");
        for moment in &map.moments {
            assert_eq!(moment.places.len(), 60);
            assert!(moment.places.iter().flatten().all(|place| *place < SIDE));
        }
    }

    #[test]
    fn one_seed_gives_one_map_and_walkers_walk() {
        let [one, same] = [draw_map(&order(Moves::Walk, 7)), draw_map(&order(Moves::Walk, 7))];
        assert_eq!(one, same);
        assert_ne!(one, draw_map(&order(Moves::Walk, 8)));
        assert_ne!(one.moments[0].places, one.moments[1].places);
        assert!(one.range > 0 && one.range < SIDE);
    }
}
