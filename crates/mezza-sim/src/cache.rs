//! Writes that a disk has accepted and not synced: a loss of power undoes them.

use crate::SimRng;
use std::collections::VecDeque;

/// Writes between their call and their sync. A disk that loses power keeps the first few of them,
/// as one that writes in order does; their number is random.
#[derive(Debug)]
pub struct WriteCache<W>(VecDeque<W>);

impl<W> Default for WriteCache<W> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<W> WriteCache<W> {
    /// Adds a write.
    pub fn push_write(&mut self, write: W) {
        self.0.push_back(write);
    }

    /// Returns true if everything is synced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Syncs the oldest write. Returns it; the caller must carry it out on the disk.
    pub fn sync_next(&mut self) -> Option<W> {
        self.0.pop_front()
    }

    /// Simulates a loss of power. Returns the writes that had reached the disk, in order; the
    /// others are lost.
    pub fn lose_power(&mut self, dice: &mut SimRng) -> impl Iterator<Item = W> {
        let reached = dice.between(0, self.0.len() as u64) as usize;
        core::mem::take(&mut self.0).into_iter().take(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_power_leaves_the_first_few() {
        let dice = &mut SimRng::new(1, 0);
        let mut left = [0; 4];
        for _ in 0..200 {
            let mut cache = WriteCache::default();
            (0..3).for_each(|write| cache.push_write(write));
            let reached: Vec<usize> = cache.lose_power(dice).collect();
            assert!(reached.iter().copied().eq(0..reached.len()) && cache.is_empty());
            left[reached.len()] += 1;
        }
        assert!(left.iter().all(|count| *count > 20), "{left:?}");
    }

    #[test]
    fn what_is_synced_stays() {
        let mut cache = WriteCache::default();
        (0..3).for_each(|write| cache.push_write(write));
        assert_eq!((cache.sync_next(), cache.sync_next()), (Some(0), Some(1)));
        let lost = cache.lose_power(&mut SimRng::new(2, 0)).count();
        assert!(lost <= 1 && cache.sync_next().is_none());
    }
}
