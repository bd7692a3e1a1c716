//! Texts about notes whose fate is unknown after a restore.

use mezza_core::Time;
use mezza_messenger::view::{RestoreMark, RestoredView};

use super::format_count;
use crate::api::json::{RestoreMarkJson, RestoreMarkKind, RestoredJson};

/// The text of a note that a contact had and has no more.
const LOST_THERE: &str =
    "was on their device and is not any more: deleted there, or not in a restored backup";

/// Returns the reason why the fate of a note is unknown, with its text.
pub fn restore_mark(mark: RestoreMark) -> RestoreMarkJson {
    match mark {
        RestoreMark::Unsure(made) => RestoreMarkJson {
            what: RestoreMarkKind::Unsure,
            words: format!("may have been sent since {}: send it again, or discard it", day(made)),
        },
        RestoreMark::Lost => {
            RestoreMarkJson { what: RestoreMarkKind::Lost, words: LOST_THERE.into() }
        }
    }
}

/// Returns the notes to a contact whose fate is unknown after a restore, with their texts; `None`
/// if there are none.
pub fn restored(view: &RestoredView) -> Option<RestoredJson> {
    let mut words = Vec::new();
    let made = view.made.unwrap_or_default();
    if view.ahead > 0 {
        let notes = format_count(view.ahead.into(), "note of yours is", "notes of yours are");
        words.push(format!("{notes} on their device and not here"));
    }
    if view.unsure > 0 {
        let notes = format_count(view.unsure as u64, "note", "notes");
        words.push(format!("{notes} may have been sent since {}", day(made)));
    }
    if view.lost > 0 {
        let notes = format_count(view.lost as u64, "note is no longer", "notes are no longer");
        words.push(format!("{notes} on their device: deleted there, or not in a restored backup"));
    }
    (view.made.is_some() || !words.is_empty()).then(|| RestoredJson {
        made_ms: view.made.map(Time::as_ms),
        ahead: view.ahead,
        unsure: view.unsure,
        lost: view.lost,
        words,
    })
}

/// The day of a time, as `2026-11-12`, in UTC.
fn day(at: Time) -> String {
    // The days of a calendar that begins in March of year 0 (H. Hinnant, chrono-compatible dates).
    let z = i64::from(at.as_days()) + 719_468;
    let era = z / 146_097;
    let day_of_era = z - era * 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_as_people_write_it() {
        let of = |days: u64| day(Time::from_ms(days * Time::DAY_MS));
        assert_eq!(
            [of(0), of(59), of(19_782), of(20_785)],
            ["1970-01-01", "1970-03-01", "2024-02-29", "2026-11-28",]
        );
    }
}
