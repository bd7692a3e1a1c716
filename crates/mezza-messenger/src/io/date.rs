//! Corrections of the date, and their effect on times stored before (MSG-103, MSG-104).

use mezza_core::Time;

/// A correction of the date, found by comparison with the time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateStep {
    /// Milliseconds by which the date moved; negative if it was set back.
    pub by_ms: i64,
    /// Start of the time in which the date was uncertain, if that began at a restart. How much time
    /// had passed before that restart is unknown, so earlier times are not moved. `None` if all
    /// times were taken with the date that is corrected now.
    pub since: Option<Time>,
}

impl DateStep {
    /// Returns the corrected form of a stored past moment; `now` is the corrected date. A result in
    /// the future is replaced by `now`.
    pub(crate) fn shift_moment(&self, at: Time, now: Time) -> Time {
        self.shift_time(at).min(now)
    }

    /// Returns the corrected form of a stored time that may be in the future.
    pub(crate) fn shift_time(&self, at: Time) -> Time {
        let is_known = at != Time::default() && self.since.is_none_or(|since| at >= since);
        if is_known { self.shift_running(at) } else { at }
    }

    /// Returns the corrected form of a time that was taken since the start and is not stored.
    pub(crate) fn shift_running(&self, at: Time) -> Time {
        let by_ms = self.by_ms.unsigned_abs();
        match self.by_ms {
            // Time 0 means "never".
            _ if at == Time::default() => at,
            0.. => at.plus_ms(by_ms),
            _ => at.minus_ms(by_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = Time::DAY_MS.cast_signed();
    const NOON: Time = Time::from_ms(1_792_000_000_000);

    fn day(n: i64) -> Time {
        DateStep { by_ms: n * DAY, since: None }.shift_running(NOON)
    }

    #[test]
    fn msg_104_a_correction_moves_what_the_doubted_date_stamped() {
        let ahead = DateStep { by_ms: 4 * DAY, since: Some(NOON) };
        assert_eq!(ahead.shift_moment(NOON, day(4)), day(4), "written in the doubt");
        assert_eq!(ahead.shift_moment(day(-1), day(4)), day(-1), "written before: time has passed");
        assert_eq!(ahead.shift_time(day(30)), day(34));
        let back = DateStep { by_ms: -40 * DAY, since: Some(NOON) };
        assert_eq!(back.shift_moment(NOON, day(-40)), day(-40));
        assert_eq!(back.shift_moment(day(-1), day(-40)), day(-40), "the future begins now");
        assert_eq!(back.shift_moment(day(-50), day(-40)), day(-50));
        let all = DateStep { by_ms: -DAY, since: None };
        assert_eq!(
            (all.shift_moment(day(-9), day(-1)), all.shift_running(day(2))),
            (day(-10), day(1))
        );
        let never = Time::default();
        assert_eq!((ahead.shift_running(never), all.shift_time(never)), (never, never));
    }
}
