//! Parses times and durations of the command line.

use mezza_core::Time;
use mezza_hibe::Tick;
use mezza_host::clock;
use toml::value::{Date, Datetime, Offset};

/// Seconds of a tick.
const TICK_S: i64 = 30;

/// Parses a tick: `tick:N`, a time as RFC 3339 with its offset, or `+SPAN` from the clock of this system.
///
/// # Errors
/// A text for `clap` to show.
pub(crate) fn parse(text: &str) -> Result<Tick, String> {
    if let Some(number) = text.strip_prefix("tick:") {
        return number.parse().map(Tick).map_err(|_| "a tick is a number below 2^32".into());
    }
    if let Some(later) = text.strip_prefix('+') {
        return Ok(Tick::from_time(clock::now().plus_ms(span(later)?)));
    }
    let wrong = || "write a time like 2026-11-25T10:41:00Z, +2m or tick:N".to_owned();
    let seconds = text.parse().ok().and_then(|time| unix_seconds(&time)).ok_or_else(wrong)?;
    let tick = u32::try_from(seconds.div_euclid(TICK_S));
    tick.map(Tick).map_err(|_| "that is before 1970 or after the last tick".into())
}

/// Returns the seconds since 1970 of a time with date and offset.
fn unix_seconds(time: &Datetime) -> Option<i64> {
    let date = time.date?;
    let clock = time.time?;
    let offset = match time.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let minutes = i64::from(clock.hour) * 60 + i64::from(clock.minute) - offset;
    Some(unix_days(date)? * 86_400 + minutes * 60 + i64::from(clock.second.unwrap_or(0)))
}

/// Returns the days since 1970. Years are counted from March, so that the leap day is the last.
fn unix_days(date: Date) -> Option<i64> {
    let year = i64::from(date.year);
    let month = i64::from(date.month);
    let day = i64::from(date.day);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_era = year.checked_rem(400)?;
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = 365 * of_era + of_era / 4 - of_era / 100 + of_year;
    Some(year / 400 * 146_097 + days - 719_468)
}

/// Parses `90s`, `30m`, `17h` or `23d` into milliseconds.
///
/// # Errors
/// A text for `clap` to show.
pub(crate) fn span(text: &str) -> Result<u64, String> {
    let units =
        [("s", Time::SECOND_MS), ("m", Time::MINUTE_MS), ("h", Time::HOUR_MS), ("d", Time::DAY_MS)];
    let found = units.into_iter().find_map(|(unit, ms)| {
        text.strip_suffix(unit)?.parse::<u32>().ok().and_then(|n| ms.checked_mul(n.into()))
    });
    found.filter(|ms| *ms > 0).ok_or_else(|| "write a span like 90s, 30m, 17h or 23d".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ticks_of_half_a_minute() {
        for (text, tick) in [
            ("tick:7", 7),
            ("1970-01-01T00:00:30Z", 1),
            ("2026-11-25T10:41:00Z", 59_853_442),
            ("2026-11-25T10:41:59Z", 59_853_443),
            ("2026-11-25T12:41:00+02:00", 59_853_442),
            ("2000-02-29T00:00:00Z", 31_726_080),
            ("2100-03-01T00:00:00Z", 136_918_080),
        ] {
            assert_eq!(parse(text), Ok(Tick(tick)), "{text}");
        }
        for wrong in [
            "",
            "tick:",
            "tick:-1",
            "10:41",
            "2026-11-25",
            "2026-11-25T10:41:00",
            "1969-12-31T23:59:00Z",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_can_count_from_now() {
        let before = Tick::from_time(clock::now());
        let later = parse("+2m").unwrap();
        assert!((before.0 + 4..before.0 + 6).contains(&later.0), "{later:?}");
        for wrong in ["+", "+2", "+0m", "+-2m"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_have_a_unit() {
        assert_eq!(span("90s"), Ok(90_000));
        assert_eq!(span("23d"), Ok(23 * 86_400_000));
        for wrong in ["", "5", "0m", "m", "-1h", "5 m", "1w"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
