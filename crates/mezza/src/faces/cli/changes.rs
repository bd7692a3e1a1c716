//! Changes of a conversation as lines between the notes of `mezza log`, as the page shows them.

use super::show::{clean_text, format_duration, format_time};
use mezza_host::api::json::{ChangeJson, ChangeWhat};

/// Changes that are not printed yet, the oldest first.
pub(super) struct Changes<'a> {
    waiting: std::slice::Iter<'a, ChangeJson>,
    name: &'a str,
}

impl<'a> Changes<'a> {
    /// Returns the changes after a time, in ms since 1970. Older ones belong to notes that are not shown.
    pub(super) fn after(changes: &'a [ChangeJson], after_ms: u64, name: &'a str) -> Self {
        let first = changes.iter().take_while(|change| change.at_ms < after_ms).count();
        Self { waiting: changes[first..].iter(), name }
    }

    /// Returns the lines of the changes up to a time, in ms since 1970.
    pub(super) fn lines_until(&mut self, until_ms: u64) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(change) = self.waiting.as_slice().first().filter(|one| one.at_ms <= until_ms)
        {
            self.waiting.next();
            let at = format_time(change.at_ms);
            lines.push(format!("{at}  -- {}", describe_change(change, &clean_text(self.name))));
        }
        lines
    }
}

fn describe_change(change: &ChangeJson, name: &str) -> String {
    let number = change.number.unwrap_or(0);
    let names = clean_text(&change.names.join(", "));
    match (change.what, change.own) {
        (ChangeWhat::Timer, true) if number == 0 => "you switched the timer off".into(),
        (ChangeWhat::Timer, false) if number == 0 => format!("{name} switched the timer off"),
        (ChangeWhat::Timer, true) => format!("you set the timer to {}", format_duration(number)),
        (ChangeWhat::Timer, false) => {
            format!("{name} set the timer to {}", format_duration(number))
        }
        (ChangeWhat::Carriers, true) => format!("your notes now use: {names}"),
        (ChangeWhat::Carriers, false) => {
            format!("{name} used another carrier, so your notes now use: {names}")
        }
        (ChangeWhat::Fallback, _) if number > 0 => {
            "you allowed the next carrier if the first is down".into()
        }
        (ChangeWhat::Fallback, _) => "you allowed no other carrier if the first is down".into(),
        (ChangeWhat::Level, _) => format!("you set the lowest level of your notes to {number}"),
        (ChangeWhat::Name, _) => format!("they now call themselves {names}"),
        (ChangeWhat::Life, _) if names.is_empty() => {
            "you left the life of your notes in the mesh to the setting of this node".into()
        }
        (ChangeWhat::Life, _) => format!("you set the life of your notes in the mesh to {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at_ms: u64, own: bool, what: ChangeWhat, number: u32) -> ChangeJson {
        ChangeJson {
            at_ms,
            own,
            what,
            number: Some(number),
            names: vec!["relay".into(), "mixnet".into()],
        }
    }

    #[test]
    fn cli_18_changes_stand_between_the_notes_of_their_time() {
        let all = [
            change(10, true, ChangeWhat::Level, 2),
            change(20, false, ChangeWhat::Timer, 3_600),
            change(30, true, ChangeWhat::Timer, 0),
            change(40, true, ChangeWhat::Carriers, 0),
        ];
        let mut changes = Changes::after(&all, 15, "Bob\x1b[2J");
        let lines = changes.lines_until(30);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("  -- Bob\u{fffd}[2J set the timer to 1 h"), "{lines:?}");
        assert!(lines[1].ends_with("  -- you switched the timer off"), "{lines:?}");
        assert!(changes.lines_until(30).is_empty());
        let rest = changes.lines_until(u64::MAX);
        assert!(rest[0].ends_with("  -- your notes now use: relay, mixnet"), "{rest:?}");
    }
}
