//! Places in the plane, and pairs within a distance.

use super::DeviceId;

/// A place, metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// East.
    pub x: f64,
    /// North.
    pub y: f64,
}

impl Place {
    /// Returns the square of the distance, m².
    pub fn distance_squared(self, other: Self) -> f64 {
        (self.x - other.x).powi(2) + (self.y - other.y).powi(2)
    }
}

/// Places sorted into squares as wide as the radius, so that only nine squares are searched.
#[derive(Debug)]
pub struct Space {
    radius: f64,
    /// Square, device; sorted.
    squares: Vec<((i32, i32), DeviceId)>,
}

impl Space {
    /// Sorts the devices at these places, for a radius in metres.
    pub fn new(places: &[Place], radius: f64) -> Self {
        let mut squares: Vec<_> =
            places.iter().map(|place| grid_square(*place, radius)).zip(0..).collect();
        squares.sort_unstable();
        Self { radius, squares }
    }

    /// Returns all pairs within the radius, the lower number first, in order.
    pub fn pairs_within(&self, places: &[Place]) -> Vec<(DeviceId, DeviceId)> {
        let mut pairs = Vec::new();
        for (device, place) in (0..).zip(places) {
            let (x, y) = grid_square(*place, self.radius);
            for column in x - 1..=x + 1 {
                let from = self.squares.partition_point(|(at, _)| *at < (column, y - 1));
                let near = self.squares[from..].iter().take_while(|(at, _)| *at <= (column, y + 1));
                for (_, other) in near.filter(|(_, other)| *other > device) {
                    let other_place = places[*other as usize];
                    if place.distance_squared(other_place) <= self.radius * self.radius {
                        pairs.push((device, *other));
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }
}

fn grid_square(place: Place, radius: f64) -> (i32, i32) {
    ((place.x / radius).floor() as i32, (place.y / radius).floor() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimRng;

    #[test]
    fn the_same_pairs_as_by_comparing_all() {
        let mut dice = SimRng::new(9, 0);
        let mut coordinate = || f64::from(dice.between(0, 20_000) as u32) / 100.0 - 100.0;
        let places: Vec<_> = (0..300).map(|_| Place { x: coordinate(), y: coordinate() }).collect();
        let mut all = Vec::new();
        for a in 0..300_u32 {
            for b in a + 1..300 {
                if places[a as usize].distance_squared(places[b as usize]) <= 15.0 * 15.0 {
                    all.push((a, b));
                }
            }
        }
        assert!(all.len() > 300);
        assert_eq!(Space::new(&places, 15.0).pairs_within(&places), all);
    }
}
