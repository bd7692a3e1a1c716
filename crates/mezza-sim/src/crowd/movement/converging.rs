//! Small groups that walk to one place, stay, and leave again (reference point group model).

use super::{Movement, Place, WALK, draw_between, draw_normal, draw_unit, step_toward};
use crate::SimRng;

/// Standard deviation of the distance between a member and the reference point of its group,
/// metres.
const SPREAD_M: f64 = 3.0;

/// A group: its origin, its place of stay, and its members.
#[derive(Debug)]
struct Group {
    at: Place,
    home: Place,
    spot: Place,
    members: std::ops::Range<usize>,
}

/// Groups of 3 to 8 that meet.
#[derive(Debug)]
pub struct Converging {
    groups: Vec<Group>,
    offsets: Vec<Place>,
    places: Vec<Place>,
    second: u64,
    leave_s: u64,
}

impl Converging {
    /// Places `count` people on a ring of `ring_m` metres; groups that have arrived leave after
    /// `leave_s` seconds.
    pub fn new(count: usize, ring_m: f64, leave_s: u64, seed: u64) -> Self {
        let mut dice = SimRng::new(seed, 0x636f_6e76);
        let mut groups = Vec::new();
        let mut first = 0;
        // The centre has room for two people per three square metres.
        let radius = (1.5 * f64::from(count as u32) / std::f64::consts::PI).sqrt();
        while first < count {
            let last = (first + dice.between(3, 8) as usize).min(count);
            let place = |distance: f64, angle: f64| Place {
                x: distance * angle.cos(),
                y: distance * angle.sin(),
            };
            let angle = draw_between(&mut dice, 0.0, std::f64::consts::TAU);
            let home = place(ring_m * draw_between(&mut dice, 0.7, 1.3), angle);
            let spot = place(
                radius * draw_unit(&mut dice).sqrt(),
                draw_between(&mut dice, 0.0, std::f64::consts::TAU),
            );
            groups.push(Group { at: home, home, spot, members: first..last });
            first = last;
        }
        let mut offset = || SPREAD_M / 2.0 * draw_normal(&mut dice);
        let offsets = (0..count).map(|_| Place { x: offset(), y: offset() }).collect();
        Self { groups, offsets, places: vec![Place::default(); count], second: 0, leave_s }
    }
}

impl Movement for Converging {
    fn places_at(&mut self, second: u64) -> &[Place] {
        while self.second < second {
            self.second += 1;
            for group in &mut self.groups {
                let to = if self.second < self.leave_s { group.spot } else { group.home };
                group.at = step_toward(group.at, to, WALK).0;
            }
        }
        for group in &self.groups {
            for member in group.members.clone() {
                let offset = self.offsets[member];
                self.places[member] = Place { x: group.at.x + offset.x, y: group.at.y + offset.y };
            }
        }
        &self.places
    }
}
