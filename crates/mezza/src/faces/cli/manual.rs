//! Man pages: those that clap makes of the grammar, with the sections that it does not know.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;
use crate::faces::config::Settings;
use mezza_host::api::Exit;

/// A line of a section: a term, and its meaning.
struct Entry {
    term: String,
    meaning: String,
}

impl Entry {
    fn new(term: &str, meaning: &str) -> Self {
        Self { term: term.into(), meaning: meaning.into() }
    }
}

/// Files of all commands but those of links.
const FILES: [(&str, &str); 8] = [
    (
        "~/.local/share/mezza/",
        "the home: identity, notes and settings. XDG_DATA_HOME moves it, --home names another",
    ),
    (
        "~/.local/share/mezza/config.toml",
        "settings: `key = value`, as `mezza config print` shows them",
    ),
    ("~/.local/share/mezza/vault/", "sealed records: keys, contacts, notes"),
    ("~/.local/share/mezza/relay/", "key and store of a relay, if one runs here"),
    ("~/.local/share/mezza/run/", "sockets and the one-time address of a running node"),
    ("~/.local/share/mezza-demo/", "the home of the demonstration of `mezza up`"),
    (
        "~/.local/state/mezza/",
        "how far vaults have come, so that a restored copy is noticed. XDG_STATE_HOME moves it",
    ),
    ("/var/lib/mezza/", "state of the units of the Debian package"),
];

/// Files of `mezza link`.
const LINK_FILES: [(&str, &str); 3] = [
    ("/etc/mezza/link.toml", "settings of links; --config names another file"),
    ("/var/lib/mezza/link/", "pairings and keys; --state names another folder"),
    ("/run/mezza/link.sock", "the socket of the running daemon; with --state it is in that folder"),
];

/// Writes a page for each command into `dir`.
///
/// # Errors
/// The system's error if a file cannot be written.
pub(super) fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_ours =
            name.starts_with("mezza") && path.extension().is_some_and(|ending| ending == "1");
        if is_ours {
            let page = fs::read_to_string(&path)?;
            fs::write(&path, complete_page(&page, name.starts_with("mezza-link")))?;
        }
    }
    Ok(())
}

/// Adds the sections before that of the version. A page that has them already stays as it is.
fn complete_page(page: &str, is_link: bool) -> String {
    if page.contains("\n.SH \"EXIT STATUS\"\n") {
        return page.to_owned();
    }
    let files: &[(&str, &str)] = if is_link { &LINK_FILES } else { &FILES };
    let files = files.iter().map(|(term, meaning)| Entry::new(term, meaning));
    let sections = format_section("EXIT STATUS", exits())
        + &format_section("ENVIRONMENT", variables())
        + &format_section("FILES", files);
    match page.find(".SH VERSION\n") {
        Some(at) => format!("{}{sections}{}", &page[..at], &page[at..]),
        None => page.to_owned() + &sections,
    }
}

fn exits() -> impl Iterator<Item = Entry> {
    Exit::ALL.into_iter().map(|exit| Entry::new(&exit.number().to_string(), exit.meaning()))
}

fn variables() -> impl Iterator<Item = Entry> {
    let fixed = [
        ("MEZZA_HOME", "the home, if --home names none"),
        (
            "MEZZA_PASSPHRASE_FILE",
            "the file with the passphrase of the vault, if no option names one",
        ),
        ("XDG_DATA_HOME", "the folder of the home, ~/.local/share if unset"),
        ("XDG_STATE_HOME", "the folder of the state, ~/.local/state if unset"),
        ("TZ", "the time zone of printed times"),
    ];
    let fixed = fixed.into_iter().map(|(term, meaning)| Entry::new(term, meaning));
    let settings = toml::Table::try_from(Settings::default()).unwrap_or_default();
    let settings = settings.into_iter().map(|(key, value)| Entry {
        term: format!("MEZZA_{}", key.to_uppercase()),
        meaning: format!("the setting {key}, {value} if unset"),
    });
    fixed.chain(settings)
}

fn format_section(title: &str, entries: impl Iterator<Item = Entry>) -> String {
    let mut text =
        if title.contains(' ') { format!(".SH \"{title}\"\n") } else { format!(".SH {title}\n") };
    for Entry { term, meaning } in entries {
        let _ = writeln!(text, ".TP\n{}\n{}", escape_roff(&term), escape_roff(&meaning));
    }
    text
}

/// Escapes text for roff. A line that begins with a dot or a quote would be a request.
fn escape_roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "\\(ga");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_17_each_page_has_files_environment_and_exit_status() {
        let folder = tempfile::tempdir().unwrap();
        write_pages(folder.path()).unwrap();
        // A second run over the same folder adds nothing twice.
        write_pages(folder.path()).unwrap();
        let mut pages = 0;
        for entry in fs::read_dir(folder.path()).unwrap() {
            let page = fs::read_to_string(entry.unwrap().path()).unwrap();
            for section in ["FILES", "ENVIRONMENT", "\"EXIT STATUS\""] {
                assert_eq!(page.matches(&format!(".SH {section}\n")).count(), 1, "{page}");
            }
            assert!(page.contains(".TP\n66\n") && page.contains(".TP\nMEZZA_WEB_PORT\n"), "{page}");
            pages += 1;
        }
        assert!(pages > 80, "{pages}");
    }

    #[test]
    fn cli_17_text_is_no_request_of_roff() {
        assert_eq!(escape_roff(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(escape_roff("a\\b --home"), "a\\eb \\-\\-home");
        let page = complete_page(".TH mezza 1\n.SH VERSION\nv0.1.0\n", true);
        assert!(page.find("EXIT STATUS") < page.find("VERSION"), "{page}");
        assert!(page.contains("/etc/mezza/link.toml") && !page.contains("config.toml"), "{page}");
    }
}
