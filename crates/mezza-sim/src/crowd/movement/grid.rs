//! People who sit on a square grid, as at a sit-in.

use super::{Movement, Place, draw_between};
use crate::SimRng;

/// The number of devices in range of each other, away from the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// 8 neighbours: a radius of 1.5 spacings.
    Eight,
    /// 20 neighbours: 2.3 spacings.
    Twenty,
    /// 36 neighbours: 3.2 spacings.
    ThirtySix,
}

impl Density {
    /// All densities.
    pub const ALL: [Self; 3] = [Self::Eight, Self::Twenty, Self::ThirtySix];

    /// Returns the number of neighbours away from the edge.
    pub fn neighbours(self) -> usize {
        [8, 20, 36][self as usize]
    }

    /// Returns the radius in spacings of the grid.
    fn radius(self) -> f64 {
        [1.5, 2.3, 3.2][self as usize]
    }
}

/// A square grid with a little jitter; the last row may be short.
#[derive(Debug)]
pub struct Grid {
    places: Vec<Place>,
    density: Density,
}

impl Grid {
    /// Makes a grid of `count` people.
    pub fn new(count: usize, density: Density, seed: u64) -> Self {
        let mut dice = SimRng::new(seed, 0x6772_6964);
        let side = count.isqrt() + usize::from(count.isqrt().pow(2) < count);
        let mut jitter = |at: usize| f64::from(at as u32) + draw_between(&mut dice, -0.03, 0.03);
        let places =
            (0..count).map(|n| Place { x: jitter(n % side), y: jitter(n / side) }).collect();
        Self { places, density }
    }
}

impl Movement for Grid {
    fn places_at(&mut self, _: u64) -> &[Place] {
        &self.places
    }

    fn radius(&self) -> f64 {
        self.density.radius()
    }

    fn is_still(&self) -> bool {
        true
    }
}
