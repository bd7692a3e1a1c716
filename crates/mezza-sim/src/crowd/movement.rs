//! How people move: a still grid, groups that meet, random waypoints, a festival, and recorded traces.
//!
//! A movement returns all places once per simulated second. Its random numbers come only from its
//! seed, so the protocol does not influence where people go.

mod converging;
mod festival;
mod grid;
pub mod trace;
mod waypoint;

pub use converging::Converging;
pub use festival::Festival;
pub use grid::{Density, Grid};
pub use waypoint::Waypoint;

use super::{Crowd, DeviceId, Place, Space, Swarm};

/// Range of a radio where distances are metres.
pub const RADIUS_M: f64 = 10.0;
/// Walking speed, m/s.
const WALK: f64 = 1.4;
/// One step of movement, µs.
const STEP: u64 = 1_000_000;

/// The positions of people over time.
pub trait Movement {
    /// Returns the places of all devices `second` seconds after the start. Calls must have
    /// increasing seconds.
    fn places_at(&mut self, second: u64) -> &[Place];

    /// Returns the range of a radio, in the unit of the places.
    fn radius(&self) -> f64 {
        RADIUS_M
    }

    /// Returns true if no device ever moves.
    fn is_still(&self) -> bool {
        false
    }
}

impl<S: Swarm> Crowd<S> {
    /// Runs the crowd for `seconds` seconds while people move. `start` is the time at which the
    /// movement began, µs.
    pub fn move_for(&mut self, movement: &mut dyn Movement, start: u64, seconds: u64) {
        for _ in 0..seconds {
            let second = (self.now() - start) / STEP;
            if second == 0 || !movement.is_still() {
                let radius = movement.radius();
                let places = movement.places_at(second);
                let pairs = Space::new(places, radius).pairs_within(places);
                self.arrange_pairs(&pairs);
            }
            self.run_until(start + (second + 1) * STEP);
        }
    }

    /// Sets the pairs in range of each other; they must be sorted.
    pub fn arrange_pairs(&mut self, pairs: &[(DeviceId, DeviceId)]) {
        let before: Vec<_> = self.pairs().collect();
        for (a, b) in before.iter().filter(|pair| pairs.binary_search(pair).is_err()) {
            self.end_contact(*a, *b);
        }
        for (a, b) in pairs.iter().filter(|pair| before.binary_search(pair).is_err()) {
            self.begin_contact(*a, *b);
        }
    }
}

/// Returns the place after one step from `from` toward `to`, and true if `to` is reached.
fn step_toward(from: Place, to: Place, metres: f64) -> (Place, bool) {
    let distance = from.distance_squared(to).sqrt();
    if distance <= metres {
        return (to, true);
    }
    let share = metres / distance;
    (Place { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share }, false)
}

/// Draws a number between 0 and 1.
fn draw_unit(dice: &mut crate::SimRng) -> f64 {
    f64::from(dice.between(0, u64::from(u32::MAX)) as u32) / f64::from(u32::MAX)
}

/// Draws a number between two others.
fn draw_between(dice: &mut crate::SimRng, low: f64, high: f64) -> f64 {
    low + (high - low) * draw_unit(dice)
}

/// Returns the integer part of a number that is not negative.
#[expect(clippy::cast_sign_loss, reason = "the caller has looked")]
fn whole_part(number: f64) -> u64 {
    number as u64
}

/// Draws a number of the standard normal distribution (Box and Muller).
fn draw_normal(dice: &mut crate::SimRng) -> f64 {
    let u = draw_unit(dice).max(1e-9);
    let v = draw_unit(dice);
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests;
