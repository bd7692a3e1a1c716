//! Commands in printed texts. A text in this program has its commands between backticks, and each
//! begins with the name of the program. On the way to the screen [`complete_commands`] adds the
//! home, so that the command can be pasted (CLI-14).

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use super::args::{GuardPlace, LinkPlace};
use mezza_host::process::home::{self, Home};
use mezza_servers::relay;

/// The options that printed commands need.
static PLACE: RwLock<CommandPlace> =
    RwLock::new(CommandPlace { home: None, link: String::new(), guard: String::new() });

/// Commands that use no home.
const HOMELESS: [&str; 4] = ["completions", "cpu", "lab", "man"];
/// Commands of `mixnet` that use a home. The others are of servers and guardians.
const MEMBER: [&str; 4] = ["join", "leave", "resume", "status"];
/// Commands of `hibe` that use no home.
const HIBE_HOMELESS: [&str; 2] = ["card", "wipe"];

/// The home of this run, and the options of `mezza link`, which are added to printed commands.
#[derive(Default)]
struct CommandPlace {
    home: Option<Home>,
    /// `--state` and `--config` as they were given, each with a leading space.
    link: String,
    /// `--dir` of `mezza guard` as it was given, with a leading space.
    guard: String,
}

/// Sets the home that printed commands name.
pub(crate) fn remember_home(home: &Home) {
    PLACE.write().unwrap_or_else(PoisonError::into_inner).home = Some(home.clone());
}

/// Sets the options that printed commands of `mezza link` repeat.
pub(crate) fn remember_link(place: &LinkPlace) {
    let option = |name: &str, path: Option<&Path>| {
        path.map_or_else(String::new, |path| format!(" --{name} {}", home::quote_path(path)))
    };
    let link = option("state", place.state.as_deref()) + &option("config", place.config.as_deref());
    PLACE.write().unwrap_or_else(PoisonError::into_inner).link = link;
}

/// Sets the folder that printed commands of `mezza guard` repeat.
pub(crate) fn remember_guard(place: &GuardPlace) {
    let dir = place.dir.as_deref();
    let guard = dir.map_or_else(String::new, |dir| format!(" --dir {}", home::quote_path(dir)));
    PLACE.write().unwrap_or_else(PoisonError::into_inner).guard = guard;
}

/// Adds the home to each command between backticks. Text of others must not pass through here: a
/// note is shown as it was written.
pub(crate) fn complete_commands(text: &str) -> String {
    PLACE.read().unwrap_or_else(PoisonError::into_inner).complete_text(text)
}

impl CommandPlace {
    fn complete_text(&self, text: &str) -> String {
        let parts: Vec<&str> = text.split('`').collect();
        let last = parts.len() - 1;
        // The last part has no backtick after it.
        let complete = |(at, part): (usize, &&str)| match part.strip_prefix("mezza ") {
            Some(words) if at % 2 == 1 && at < last => self.complete_command(words),
            _ => (*part).to_owned(),
        };
        parts.iter().enumerate().map(complete).collect::<Vec<_>>().join("`")
    }

    fn complete_command(&self, words: &str) -> String {
        let mut each = words.split_whitespace();
        let first = each.next().unwrap_or_default();
        let second = each.next().unwrap_or_default();
        if first == "link" {
            return format!(
                "mezza link{}{}",
                self.link,
                words.strip_prefix("link").unwrap_or(words)
            );
        }
        // A folder that was named needs no home.
        if first == "guard" && !self.guard.is_empty() {
            let rest = words.strip_prefix("guard").unwrap_or(words);
            return format!("mezza guard{}{rest}", self.guard);
        }
        match &self.home {
            Some(home) if needs_home(home, first, second) => home.format_command(words),
            _ => format!("mezza {words}"),
        }
    }
}

/// Returns true if the command reads or changes the home `home`.
fn needs_home(home: &Home, first: &str, second: &str) -> bool {
    match first {
        // The text already names a home, or asks for help.
        _ if first.starts_with('-') => false,
        "mixnet" => MEMBER.contains(&second),
        "hibe" => !HIBE_HOMELESS.contains(&second),
        // In a home without a relay the text refers to another operator's relay.
        "relay" if second == "uri" => relay::read_key(&home.relay()).is_ok(),
        _ => !HOMELESS.contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> CommandPlace {
        let home = Home::find(Some(Path::new("/srv/m"))).unwrap();
        let guard = " --dir /srv/guard".into();
        CommandPlace { home: Some(home), link: " --state /srv/link".into(), guard }
    }

    #[test]
    fn cli_14_each_command_between_backticks_names_the_home() {
        for (text, complete) in [
            ("next: `mezza node run`", "next: `mezza --home /srv/m node run`"),
            ("`mezza log bob` or `age -d F`", "`mezza --home /srv/m log bob` or `age -d F`"),
            ("pair: `mezza link pair IF`", "pair: `mezza link --state /srv/link pair IF`"),
            ("run `mezza guard run`", "run `mezza guard --dir /srv/guard run`"),
            ("`mezza relay init`", "`mezza --home /srv/m relay init`"),
            ("`mezza mixnet join LINK`", "`mezza --home /srv/m mixnet join LINK`"),
        ] {
            assert_eq!(place().complete_text(text), complete);
        }
    }

    #[test]
    fn cli_14_other_text_stays_as_it_is() {
        for text in [
            "mezza node run",
            "",
            &format!("an open {}mezza node run", '`'),
            "`mezza --home /x url`",
            "`mezza mixnet keygen --out FILE`",
            "`mezza lab run hibe` and `mezza hibe card DIR/card --qr`",
            "its operator knows it from `mezza relay uri`",
            "say `--home DIR`",
        ] {
            assert_eq!(place().complete_text(text), text);
        }
        assert_eq!(CommandPlace::default().complete_text("`mezza url`"), "`mezza url`");
    }
}
