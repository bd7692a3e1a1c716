//! People who walk to a random place, pause, and walk to the next one (random waypoint).

use super::{Movement, Place, draw_between, step_toward};
use crate::SimRng;

/// Seconds that pass before the first places are returned: by then speeds and places are
/// stationary.
const WARM_UP_S: u64 = 2_000;
/// Minimum and maximum walking speed, m/s, and longest pause, s.
const SPEEDS: (f64, f64) = (0.5, 1.5);
const PAUSE_S: u64 = 60;

#[derive(Debug)]
struct Walker {
    to: Place,
    speed: f64,
    pause_s: u64,
}

/// Walkers in a square.
#[derive(Debug)]
pub struct Waypoint {
    side_m: f64,
    walkers: Vec<Walker>,
    places: Vec<Place>,
    dice: SimRng,
    second: u64,
}

impl Waypoint {
    /// Places `count` people in a square of `side_m` metres.
    pub fn new(count: usize, side_m: f64, seed: u64) -> Self {
        let mut dice = SimRng::new(seed, 0x7770);
        let mut place = || Place {
            x: draw_between(&mut dice, 0.0, side_m),
            y: draw_between(&mut dice, 0.0, side_m),
        };
        let places: Vec<_> = (0..count).map(|_| place()).collect();
        let walkers = places.iter().map(|to| Walker { to: *to, speed: 1.0, pause_s: 0 }).collect();
        let mut all = Self { side_m, walkers, places, dice, second: 0 };
        (0..WARM_UP_S).for_each(|_| all.step_all());
        all
    }

    fn step_all(&mut self) {
        for (walker, place) in self.walkers.iter_mut().zip(&mut self.places) {
            if walker.pause_s > 0 {
                walker.pause_s -= 1;
                continue;
            }
            let (next, there) = step_toward(*place, walker.to, walker.speed);
            *place = next;
            if there {
                let mut coordinate = || draw_between(&mut self.dice, 0.0, self.side_m);
                walker.to = Place { x: coordinate(), y: coordinate() };
                walker.speed = draw_between(&mut self.dice, SPEEDS.0, SPEEDS.1);
                walker.pause_s = self.dice.between(0, PAUSE_S);
            }
        }
    }
}

impl Movement for Waypoint {
    fn places_at(&mut self, second: u64) -> &[Place] {
        while self.second < second {
            self.second += 1;
            self.step_all();
        }
        &self.places
    }
}
