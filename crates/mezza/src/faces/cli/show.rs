//! Output: lines for the user, JSON for programs, no characters that control a terminal.

use std::io::{self, BufRead as _, ErrorKind, IsTerminal as _, Write};
use std::path::Path;
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mezza_messenger::policy::TIMERS_S;
use serde::Serialize;

use super::{client, paste};
use mezza_host::api::json::{ContactJson, NoteJson, StandingJson, VerifiedHow};
use mezza_host::api::{Exit, Fault, words};

/// The error text that lists the allowed timers.
const TIMERS: &str = "write 30s, 5m, 1h, 8h, 1d, 7d, 28d or off";

/// The first error of standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// The form of the output of a command.
#[derive(Clone, Copy)]
pub(crate) struct Out {
    /// True for JSON, one value per line; false for text.
    pub json: bool,
}

impl Out {
    /// Prints one line for the user. Its commands name the home (CLI-14).
    pub(crate) fn print_line(self, text: impl AsRef<str>) {
        self.print_foreign(paste::complete_commands(text.as_ref()));
    }

    /// Prints one line with text of others, or with commands for another machine, as it is.
    pub(crate) fn print_foreign(self, text: impl AsRef<str>) {
        if !self.json {
            print_raw(text.as_ref());
        }
    }

    /// Prints one value for programs.
    pub(crate) fn print_value(self, value: &impl Serialize) {
        if self.json {
            print_raw(&client::json_line(value));
        }
    }

    /// Prints a line for the user to standard error, so that standard output carries only the
    /// result.
    pub(crate) fn print_aside(self, text: &str) {
        if !self.json {
            let text = paste::complete_commands(text);
            let _ = writeln!(std::io::stderr().lock(), "mezza: {text}");
        }
    }

    /// Prints a line for the user, or a value for programs.
    pub(crate) fn print_either(self, value: &impl Serialize, text: impl AsRef<str>) {
        self.print_value(value);
        self.print_line(text);
    }
}

/// Prints a line unchanged. An error of standard output is remembered (CLI-6).
pub(crate) fn print_raw(text: &str) {
    remember_error(writeln!(io::stdout().lock(), "{text}"));
}

/// Prints bytes unchanged, and flushes.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    remember_error(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Remembers an error of standard output.
pub(crate) fn remember_error(written: io::Result<()>) {
    if let Err(error) = written {
        // The first error has the cause; later ones follow from it.
        let _ = FAILED.set(error);
    }
}

/// Flushes standard output. Returns true if it has taken everything so far.
pub(crate) fn is_printed() -> bool {
    remember_error(io::stdout().lock().flush());
    !is_over()
}

/// Returns true if standard output has failed, so that further output would be lost.
pub(crate) fn is_over() -> bool {
    FAILED.get().is_some()
}

/// Returns the fault of lost output, or `None` if the reader closed the pipe, as `head` does.
pub(crate) fn lost_output() -> Option<Fault> {
    remember_error(io::stdout().lock().flush());
    let error = FAILED.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)?;
    let text = format!("standard output cannot be written: {error}");
    Some(Fault::new(
        Exit::CannotWrite,
        text,
        "make room, or write somewhere else, and run it again",
    ))
}

/// Asks the user a question that `y` answers with yes. Returns `None` without a terminal.
pub(crate) fn ask_person(out: Out, question: &str) -> Option<bool> {
    if out.json || !io::stdin().is_terminal() {
        return None;
    }
    print_raw(&format!("{question} [y/N]"));
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    Some(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Formats a path. Parts that are not UTF-8 are replaced (CLI-7).
pub(crate) fn format_path(path: &Path) -> String {
    path.display().to_string()
}

/// Prints a fault; it ends with the next step (CLI-2).
pub(crate) fn print_fault(fault: &Fault, json: bool) {
    let fault = &Fault {
        text: paste::complete_commands(&fault.text),
        next: paste::complete_commands(&fault.next),
        ..fault.clone()
    };
    let text = if json {
        client::json_line(&serde_json::json!({
            "error": fault.text, "next": fault.next, "exit": fault.code.number(),
        }))
    } else {
        format!("mezza: {}", clean_lines(&fault.to_string(), "\n"))
    };
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Cleans foreign text for use in a line: no character may control a terminal (MSG-86).
pub(crate) fn clean_text(text: &str) -> String {
    text.chars().map(|c| if steers_terminal(c) { '\u{fffd}' } else { c }).collect()
}

/// Cleans foreign text that may have several lines, and joins its lines by `next`.
fn clean_lines(text: &str, next: &str) -> String {
    text.split('\n').map(clean_text).collect::<Vec<_>>().join(next)
}

/// Returns true for control characters, line ends, and marks that change the direction of writing.
pub(super) fn steers_terminal(c: char) -> bool {
    let line_end = matches!(c, '\u{2028}' | '\u{2029}');
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || line_end || turns
}

/// Returns a contact for a command to be pasted: its number in shell quotes. Its name is foreign
/// text (MSG-85).
pub(crate) fn handle(contact: &ContactJson) -> String {
    format!("'#{}'", contact.id)
}

/// Returns the contact as the user typed it if that is a plain shell word, so that the next step
/// matches the last one; else its number.
pub(crate) fn handle_as(contact: &ContactJson, typed: Option<&str>) -> String {
    let clear = |word: &&str| is_plain(word) && !contact.namesake;
    typed.filter(clear).map_or_else(|| handle(contact), str::to_owned)
}

/// Replaces `NAME` in the next step of a fault by the contact that the command named.
pub(crate) fn name_contact(fault: Fault, typed: &str) -> Fault {
    let word = match typed.strip_prefix('#') {
        Some(number) if is_plain(number) => format!("'#{number}'"),
        _ if is_plain(typed) => typed.to_owned(),
        _ => return fault,
    };
    Fault { next: fault.next.replace("NAME", &word), ..fault }
}

/// Returns true if every shell takes a word unquoted and the word is no option.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

/// Describes how many notes of a contact are missing while later ones arrived.
pub(crate) fn format_missing(count: usize) -> String {
    let notes = words::format_count(count as u64, "earlier note is", "earlier notes are");
    notes + " not here: lost on the way, or deleted here"
}

/// Formats a note as a line of a log.
pub(crate) fn format_note(note: &NoteJson, name: &str) -> String {
    let who = if note.incoming { clean_text(name) } else { "you".into() };
    let newer = || "(sent by a newer version)".into();
    let text = note.text.as_deref().map_or_else(newer, |text| clean_lines(text, "\n    "));
    let at = format_time(note.at_ms);
    if note.incoming {
        return format!("{at}  {who}: {text}");
    }
    let carrier = note.carrier.as_deref().map_or(String::new(), |c| format!(", {c}"));
    // The number is what `outbox send` and `outbox cancel` take.
    let mark = note.mark.as_ref();
    let mark = mark.map_or(String::new(), |mark| format!("; note {}: {}", note.id, mark.words));
    format!("{at}  {who}: {text}  [{}{carrier}{mark}]", note.words)
}

/// Formats a contact as a line.
pub(crate) fn format_contact(contact: &ContactJson) -> String {
    let standing = match contact.standing {
        StandingJson::Held => "nothing sent yet",
        StandingJson::Asked => "waiting for an answer",
        StandingJson::Open => "in conversation",
        StandingJson::Request => "wants to write to you",
        StandingJson::Blocked => "blocked",
    };
    let verified = match contact.verified.as_ref().map(|v| v.how) {
        Some(VerifiedHow::InPerson) => ", met in person",
        Some(VerifiedHow::Number) => ", number compared",
        None => ", not verified",
    };
    let unread = match contact.unread {
        0 => String::new(),
        n => format!(", {n} new"),
    };
    let twin = if contact.namesake { ", ANOTHER CONTACT HAS THIS NAME" } else { "" };
    format!(
        "#{:<3} {}  ({standing}{verified}{unread}{twin})",
        contact.id,
        clean_text(&contact.name)
    )
}

/// Formats a duration of a timer: `30 s`, `5 min`, `8 h`, `7 d`; `none` for 0.
pub(crate) fn format_duration(seconds: u32) -> String {
    match seconds {
        0 => "none".into(),
        s if s % 86_400 == 0 => format!("{} d", s / 86_400),
        s if s % 3_600 == 0 => format!("{} h", s / 3_600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// Formats milliseconds since 1970 in the time zone of this machine: `2026-11-21 14:05 CET`. A
/// machine in UTC has `2026-11-21 13:05Z`.
pub(crate) fn format_time(ms: u64) -> String {
    format_time_in(ms, &TimeZone::system())
}

fn format_time_in(ms: u64, zone: &TimeZone) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let Some(time) = time.map(|time| time.to_zoned_datetime(zone.clone())) else {
        return format_utc(ms);
    };
    if time.offset().is_zero() {
        return format_utc(ms);
    }
    time.strftime("%Y-%m-%d %H:%M %Z").to_string()
}

/// Formats milliseconds since 1970 as `2026-11-21 13:05Z`, for times of protocols.
pub(crate) fn format_utc(ms: u64) -> String {
    let minutes = ms / 60_000 % 1_440;
    format!("{} {:02}:{:02}Z", format_day(ms / 86_400_000), minutes / 60, minutes % 60)
}

/// Formats days since 1970 as `2026-11-21`.
pub(crate) fn format_day(days: u64) -> String {
    let (year, month, day) = split_date(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Splits days since 1970 into year, month, day. Years are counted from March, so that the leap day
/// is the last.
fn split_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

/// Parses `5m`, `24h`, `7d` or `off` into seconds: one of the timers of a conversation.
///
/// # Errors
/// A text for `clap` to show.
pub(crate) fn timer(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => return Err(TIMERS.into()),
    };
    let number = text[..text.len() - 1].parse::<u32>().ok();
    let seconds = number.and_then(|n| n.checked_mul(unit));
    seconds.filter(|s| TIMERS_S.contains(s)).ok_or_else(|| TIMERS.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_across_leap_days() {
        let cases = [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_778, (2026, 11, 21)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ];
        for (days, civil) in cases {
            assert_eq!(split_date(days), civil);
        }
        assert_eq!(format_utc(1_795_266_300_000), "2026-11-21 13:05Z");
    }

    #[test]
    fn times_are_those_of_the_zone() {
        let format =
            |zone: &str| format_time_in(1_795_266_300_000, &TimeZone::posix(zone).unwrap());
        assert_eq!(format("UTC0"), "2026-11-21 13:05Z");
        assert_eq!(format("CET-1CEST,M3.5.0,M10.5.0/3"), "2026-11-21 14:05 CET");
        assert_eq!(format("<+0530>-5:30"), "2026-11-21 18:35 +0530");
        // Even a time beyond any calendar is shown.
        assert!(format_time_in(u64::MAX, &TimeZone::UTC).ends_with('Z'));
    }

    #[test]
    fn durations_have_their_largest_whole_unit() {
        let shown = TIMERS_S.map(format_duration);
        assert_eq!(shown, ["30 s", "5 min", "1 h", "8 h", "1 d", "7 d", "28 d"]);
        assert_eq!(format_duration(0), "none");
    }

    #[test]
    fn texts_cannot_steer_a_terminal() {
        assert_eq!(clean_text("a\x1b[2Jb\u{202e}c\nd"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
        for c in ['\u{9b}', '\u{85}', '\r', '\u{7f}', '\u{61c}', '\u{2028}', '\u{2029}', '\u{2067}']
        {
            assert_eq!(clean_text(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
        }
        assert_eq!(clean_text("Zoë \u{1f600}"), "Zoë \u{1f600}");
    }

    /// Text that controls a terminal: a 7-bit escape sequence, an 8-bit one, and a forged log line.
    const HOSTILE: &str = "\x1b[2J\u{9b}2J\n2026-11-21 13:05Z  you: yes\u{202e}";
    /// [`HOSTILE`] as a line shows it.
    const SHOWN: &str = "\u{fffd}[2J\u{fffd}2J\u{fffd}2026-11-21 13:05Z  you: yes\u{fffd}";

    fn note_of(text: &str, incoming: bool) -> NoteJson {
        serde_json::from_value(serde_json::json!({
            "id": "1", "contact": "1", "incoming": incoming, "kind": "text", "text": text,
            "sent_ms": 0, "at_ms": 1_795_266_300_000_u64, "state": "received", "words": "received",
            "pin": 1, "facts": [],
        }))
        .unwrap()
    }

    #[test]
    fn msg_86_a_note_is_one_entry_of_a_log_whatever_it_says() {
        let own = format_time(1_795_266_300_000) + "  ";
        assert_eq!(format_note(&note_of("hi", true), HOSTILE), format!("{own}{SHOWN}: hi"));
        let text = SHOWN.replacen("\u{fffd}2026", "\n    2026", 1);
        assert_eq!(format_note(&note_of(HOSTILE, true), "Eve"), format!("{own}Eve: {text}"));
        assert_eq!(
            format_note(&note_of(HOSTILE, false), "Eve"),
            format!("{own}you: {text}  [received]")
        );
    }

    #[test]
    fn msg_86_a_contact_is_one_line_whatever_its_name() {
        let contact: ContactJson = serde_json::from_value(serde_json::json!({
            "id": "7", "name": HOSTILE, "claimed_name": HOSTILE, "standing": "open",
            "verified": null, "suites": [], "relay": null, "absent_parts": [], "unread": 0,
            "missing": 0, "trouble": null, "namesake": false, "last": null,
            "policy": { "carriers": ["relay"], "pin": 1, "fallback": "none", "timer_s": 0,
                        "delivered": true, "read": false },
        }))
        .unwrap();
        assert_eq!(
            super::format_contact(&contact),
            format!("#7   {SHOWN}  (in conversation, not verified)")
        );
        assert_eq!(handle(&contact), "'#7'");
    }

    #[test]
    fn msg_86_json_steers_no_terminal_and_keeps_every_character() {
        let text = client::json_line(&serde_json::json!({ "name": HOSTILE }));
        assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text}");
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["name"], HOSTILE);
    }

    #[test]
    fn timers() {
        assert_eq!(timer("24h"), Ok(86_400));
        assert_eq!(timer("off"), Ok(0));
        for right in ["30s", "5m", "1h", "8h", "1d", "7d", "28d"] {
            assert!(timer(right).is_ok() && TIMERS.contains(right), "{right}");
        }
        for wrong in ["", "h", "0m", "24", "9999999d", "5 m", "é", "2h", "29d"] {
            assert!(timer(wrong).is_err(), "{wrong}");
        }
    }
}
