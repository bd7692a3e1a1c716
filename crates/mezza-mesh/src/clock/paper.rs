//! The vote of the FoSAM paper, for reproduction only: it has no bound and no memory.

use rand_core::Rng;

use super::{AGREED_AFTER, ClockSample, ClockState, MeshClock};
use crate::chance::draw_below;
use crate::limits::MS;

/// Clocks within this distance agree.
const MARGIN: i64 = 500 * MS.cast_signed();

impl MeshClock {
    /// Adopts a random one of two samples that agree, else a random one of the three.
    pub(super) fn vote_paper(&mut self, rng: &mut (impl Rng + ?Sized)) {
        let mut all = core::mem::take(&mut self.samples);
        // The paper needs three samples for a majority.
        if all.len() < 3 {
            self.state = ClockState::Alone;
        } else {
            let [a, b, c] = draw_three(&mut all, rng);
            let before = self.offset;
            self.offset = match (b - a <= MARGIN, c - b <= MARGIN) {
                (true, false) => [a, b][draw_below(rng, 2)],
                (false, true) => [b, c][draw_below(rng, 2)],
                // If all agree or none do, the paper draws one of the three at random.
                _ => [a, b, c][draw_below(rng, 3)],
            };
            let held = (self.offset - before).abs() <= MARGIN;
            self.holds = if held { self.holds.saturating_add(1) } else { 0 };
            let agreed = self.holds >= AGREED_AFTER;
            self.state = if agreed { ClockState::Agreed } else { ClockState::Seeking };
            all.clear();
        }
        self.samples = all;
    }
}

/// Returns three different random samples, in order. There must be at least three.
fn draw_three(samples: &mut [ClockSample], rng: &mut (impl Rng + ?Sized)) -> [i64; 3] {
    for at in 0..3 {
        samples.swap(at, at + draw_below(rng, samples.len() - at));
    }
    let mut drawn = [samples[0].offset, samples[1].offset, samples[2].offset];
    drawn.sort_unstable();
    drawn
}
