//! A festival: stages with a timetable, groups of friends who go from one to the next, and stay for
//! times that vary widely (a self-similar walk with least action, after Lee et al.'s SLAW).

use super::{Movement, Place, WALK, draw_between, draw_normal, draw_unit, step_toward};
use crate::SimRng;

/// Half the width of the grounds, metres.
const HALF_M: f64 = 250.0;
/// Stages and other places of stay.
const STAGES: usize = 4;
const STALLS: usize = 20;
/// Length of a concert, s.
const CONCERT_S: u64 = 2_700;
/// Median of the time that a group stays, s, and the standard deviation of its logarithm.
const STAY_S: f64 = 900.0;
const STAY_SIGMA: f64 = 1.0;
/// Maximum number of people per square metre.
const CROWD: f64 = 4.0;

#[derive(Debug)]
struct Group {
    at: Place,
    to: Place,
    leave_s: u64,
    members: std::ops::Range<usize>,
}

/// People at a festival.
#[derive(Debug)]
pub struct Festival {
    spots: Vec<Place>,
    groups: Vec<Group>,
    offsets: Vec<Place>,
    places: Vec<Place>,
    dice: SimRng,
    second: u64,
}

impl Festival {
    /// Makes `count` people, who arrive through one gate during the first half hour.
    pub fn new(count: usize, seed: u64) -> Self {
        let mut dice = SimRng::new(seed, 0x6665_7374);
        let mut spot = || Place {
            x: draw_between(&mut dice, -HALF_M, HALF_M),
            y: draw_between(&mut dice, -HALF_M, HALF_M),
        };
        let spots: Vec<_> = (0..STAGES + STALLS).map(|_| spot()).collect();
        let mut groups = Vec::new();
        let mut first = 0;
        while first < count {
            let last = (first + dice.between(1, 6) as usize).min(count);
            let at = Place { x: draw_between(&mut dice, -HALF_M, HALF_M), y: -HALF_M };
            groups.push(Group {
                at,
                to: at,
                leave_s: dice.between(0, 1_800),
                members: first..last,
            });
            first = last;
        }
        let mut offset = || draw_normal(&mut dice);
        let offsets = (0..count).map(|_| Place { x: offset(), y: offset() }).collect();
        let places = vec![Place::default(); count];
        Self { spots, groups, offsets, places, dice, second: 0 }
    }

    fn step_all(&mut self) {
        let people = f64::from(self.places.len() as u32);
        for group in &mut self.groups {
            let (at, there) = step_toward(group.at, group.to, WALK);
            group.at = at;
            if !there || self.second < group.leave_s {
                continue;
            }
            // The playing stage, or a stall; near stalls are more likely than far ones.
            let plays = (self.second / CONCERT_S) as usize % STAGES;
            let spot = if draw_unit(&mut self.dice) < 0.6 {
                self.spots[plays]
            } else {
                let near = |spot: &&Place| group.at.distance_squared(**spot).max(1.0);
                let mut pick = self.dice.pick(&self.spots).copied();
                for _ in 0..2 {
                    let other = self.dice.pick(&self.spots).copied();
                    pick = [pick, other]
                        .iter()
                        .flatten()
                        .min_by(|a, b| near(a).total_cmp(&near(b)))
                        .copied();
                }
                pick.unwrap_or_default()
            };
            let radius = (people / CROWD / std::f64::consts::PI).sqrt() * 2.0;
            let angle = draw_unit(&mut self.dice) * std::f64::consts::TAU;
            let far = radius * draw_unit(&mut self.dice).sqrt();
            group.to = Place { x: spot.x + far * angle.cos(), y: spot.y + far * angle.sin() };
            let stay = STAY_S * (STAY_SIGMA * draw_normal(&mut self.dice)).exp();
            group.leave_s = self.second + super::whole_part(stay.clamp(60.0, 14_400.0));
        }
    }
}

impl Movement for Festival {
    fn places_at(&mut self, second: u64) -> &[Place] {
        while self.second < second {
            self.second += 1;
            self.step_all();
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
