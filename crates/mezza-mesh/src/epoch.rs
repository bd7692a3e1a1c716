//! Ticks, lives (lifetime classes of cells) and epochs, which determine the live cells
//! (docs/protocols/mesh.md, "Cell").

/// The life of a cell: how long the keys for the cell exist, and so how long devices carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellLife {
    /// Epochs of 1 tick; at most 1 minute.
    #[default]
    Minute,
    /// Epochs of 5 ticks; at most 5 minutes.
    FiveMinutes,
    /// Epochs of 60 ticks; at most 1 hour.
    HalfHour,
    /// Epochs of 1,440 ticks; at most 1 day.
    HalfDay,
}

impl CellLife {
    /// All lives (lifetime classes), by their number on the wire.
    pub const ALL: [Self; 4] = [Self::Minute, Self::FiveMinutes, Self::HalfHour, Self::HalfDay];

    /// Returns true if devices carry cells of this life for hours, and so store them over a restart
    /// (MESH-82).
    pub const fn is_carried(self) -> bool {
        matches!(self, Self::HalfHour | Self::HalfDay)
    }

    /// Returns the number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the life of a number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the ticks of an epoch.
    pub fn ticks(self) -> u32 {
        [1, 5, 60, 1_440][self as usize]
    }

    /// Returns the epoch of a tick.
    pub fn epoch_of(self, tick: u32) -> u32 {
        tick / self.ticks()
    }

    /// Returns the age of a cell sealed at `tick`, at a device whose clock shows `cur`.
    pub fn judge_tick(self, tick: u32, cur: u32) -> Age {
        let sealed = self.epoch_of(tick);
        let now = self.epoch_of(cur);
        // Cells of the previous epoch are still live, since their keys are still stored (MESH-2).
        if now > sealed.saturating_add(1) {
            Age::Stale
        } else if sealed > now.saturating_add(1) {
            // The sender's clock is ahead by more than one epoch, so the cell may be live later
            // (MESH-2).
            Age::Ahead
        } else {
            Age::Live
        }
    }

    /// Returns the last tick at which a cell of `tick` is live.
    pub fn last_tick(self, tick: u32) -> u32 {
        (self.epoch_of(tick).saturating_add(2)).saturating_mul(self.ticks()) - 1
    }
}

/// The age of a tick at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The receiver may still have the key.
    Live,
    /// The last useful tick of the cell has passed.
    Stale,
    /// Sealed by a clock that is ahead of this one.
    Ahead,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mesh_2_a_cell_is_live_in_its_own_epoch_and_both_beside_it() {
        for life in CellLife::ALL {
            let k = life.ticks();
            let tick = 10 * k;
            assert_eq!(life.judge_tick(tick, 9 * k - 1), Age::Ahead, "{life:?}");
            assert_eq!(life.judge_tick(tick, 9 * k), Age::Live);
            assert_eq!(life.judge_tick(tick, 12 * k - 1), Age::Live);
            assert_eq!(life.judge_tick(tick, 12 * k), Age::Stale);
            assert_eq!(life.last_tick(tick), 12 * k - 1);
            assert_eq!(CellLife::from_number(life.number()), Some(life));
        }
        assert_eq!(CellLife::from_number(4), None);
        assert_eq!(CellLife::Minute.judge_tick(u32::MAX, u32::MAX), Age::Live);
    }
}
