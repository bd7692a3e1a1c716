//! A token bucket: a burst at once, then one token per interval (MSG-27, MSG-53).

use mezza_core::{Time, snapshot};

use super::DateStep;

/// A token bucket: a burst at once, then one token per interval. Not stored: a restart begins with
/// a full burst.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    burst: u32,
    every_ms: u64,
    left: u32,
    since: Time,
}

snapshot!(struct Pace { burst, every_ms, left, since });

impl Pace {
    /// Creates a full bucket with `burst` tokens and one more per `every_ms` milliseconds.
    pub const fn new(burst: u32, every_ms: u64) -> Self {
        Self { burst, every_ms, left: burst, since: Time::from_ms(0) }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The time of the next token, if there is none now.
    pub fn take_turn(&mut self, now: Time) -> Result<(), Time> {
        // A clock that went back delays nothing.
        self.since = self.since.min(now);
        let grown = now.since_ms(self.since) / self.every_ms;
        if grown > 0 {
            let left = u64::from(self.left).saturating_add(grown);
            self.left = left.min(u64::from(self.burst)) as u32;
            self.since = now;
        }
        // The next token counts from the last one, so refused requests do not extend the wait.
        self.left = self.left.checked_sub(1).ok_or(self.since.plus_ms(self.every_ms))?;
        Ok(())
    }

    /// Moves the stored time after a correction of the date, so that the remaining wait stays the
    /// same.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.since = date.shift_running(self.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1_792_000_000_000);

    #[test]
    fn a_pace_is_a_burst_and_then_one_in_an_interval() {
        let mut pace = Pace::new(3, 1_000);
        assert!((0..3).all(|_| pace.take_turn(NOW).is_ok()));
        assert_eq!(pace.take_turn(NOW), Err(NOW.plus_ms(1_000)));
        assert!(pace.take_turn(NOW.plus_ms(1_000)).is_ok());
        assert!(pace.take_turn(NOW.plus_ms(1_999)).is_err());
        // A request that is too early does not restart the interval.
        assert!(
            pace.take_turn(NOW.plus_ms(2_600)).is_ok()
                && pace.take_turn(NOW.plus_ms(3_400)).is_err()
        );
        assert!(pace.take_turn(NOW.plus_ms(3_600)).is_ok());
        // The clock goes back.
        let then = NOW.minus_ms(Time::DAY_MS);
        assert_eq!(pace.take_turn(then), Err(then.plus_ms(1_000)));
        let later = NOW.plus_ms(Time::DAY_MS);
        assert_eq!((0..9).filter(|_| pace.take_turn(later).is_ok()).count(), 3);
    }
}
