//! The commands of `mezza --help`, in groups.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::args::Cli;

/// A group of commands in the help.
struct HelpGroup {
    title: &'static str,
    commands: &'static [&'static str],
}

/// All commands that are not hidden, each once.
const GROUPS: [HelpGroup; 5] = [
    HelpGroup {
        title: "Begin",
        commands: &["up", "init", "node", "unlock", "lock", "url", "status", "doctor"],
    },
    HelpGroup {
        title: "Write to people",
        commands: &[
            "card", "add", "contacts", "requests", "verify", "send", "log", "outbox", "set",
            "carriers",
        ],
    },
    HelpGroup {
        title: "Keep, move and remove data",
        commands: &["backup", "restore", "move", "export", "config", "purge"],
    },
    HelpGroup {
        title: "Networks and servers",
        commands: &["relay", "mixnet", "mesh", "link", "guard"],
    },
    HelpGroup {
        title: "For experts and scripts",
        commands: &["hibe", "ratchet", "cpu", "lab", "completions", "man"],
    },
];

/// Returns the grammar, with a help that lists the commands in groups.
pub(crate) fn grouped_command() -> Command {
    let command = Cli::command();
    let groups = format_groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ))
}

fn format_groups(command: &Command) -> String {
    let mut text = String::new();
    for HelpGroup { title, commands } in GROUPS {
        let _ = write!(text, "\n{title}:\n");
        for name in commands {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_16_each_command_is_in_one_group() {
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let all = command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name);
        let mut all: Vec<&str> = all.collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn cli_16_the_help_shows_each_command_with_its_purpose() {
        let mut command = grouped_command();
        let help = command.render_help().to_string();
        for one in Cli::command().get_subcommands().filter(|one| !one.is_hide_set()) {
            let about = one.get_about().unwrap().to_string();
            assert!(help.contains(&format!("  {:<12} {about}\n", one.get_name())), "{help}");
        }
        assert!(help.contains("--home <DIR>") && help.contains("First steps"), "{help}");
    }
}
