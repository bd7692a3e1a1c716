//! The command line: transcripts of what it prints, exit codes included.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use mezza::testing::faces::cli::args::Cli;
use mezza_messenger::{CarrierSet, Device};

use crate::program::{Program, json, mezza, ok, until};

/// Every command but the ones that clap makes itself, with the words that call it.
fn commands(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
    for sub in command.get_subcommands() {
        let path = [path, &[sub.get_name().to_owned()]].concat();
        commands(sub, &path, found);
        found.push(path);
    }
}

fn all_commands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    commands(&Cli::command(), &[], &mut found);
    assert!(found.len() > 30, "{}", found.len());
    found
}

#[test]
fn cli_1_every_command_has_json_a_man_page_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("man");
    ok(folder.path(), &["man", man.to_str().unwrap()]);
    let shells: Vec<String> =
        ["bash", "zsh", "fish"].map(|shell| ok(folder.path(), &["completions", shell])).into();
    for words in all_commands() {
        let hidden = words[0] == "openapi";
        let page = man.join(format!("mezza-{}.1", words.join("-")));
        assert!(hidden || page.exists(), "{}", page.display());
        let last = words.last().unwrap();
        assert!(hidden || shells.iter().all(|shell| shell.contains(last.as_str())), "{last}");
        if words[0] == "lab" {
            // Another program, which has its own flags.
            continue;
        }
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--help");
        assert!(ok(folder.path(), &args).contains("--json"), "{words:?}");
    }
}

#[test]
fn cli_2_every_error_without_a_node_says_the_next_step() {
    let home = tempfile::tempdir().unwrap();
    trycmd::TestCases::new()
        .env("MEZZA_HOME", home.path().join("none").to_str().unwrap())
        .env("MEZZA_LOG", "error")
        .case("tests/cmd/alone/*.trycmd")
        .case("tests/cmd/alone/*.toml")
        .run();
}

#[test]
fn cli_3_slow_exit_codes_with_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("world");
    // An answer of echo is new for a moment during each check.
    let _up = Program::demonstration(&home);
    twins(&home);
    // One after the other: they share a node, and the last one stops it.
    for name in ["mixnet", "ratchet", "talk"] {
        trycmd::TestCases::new()
            .env("MEZZA_HOME", home.to_str().unwrap())
            .env("MEZZA_LOG", "error")
            .case(format!("tests/cmd/world/{name}.trycmd"))
            .run();
    }
}

/// Two contacts of one name, without relays: added by cards made here.
fn twins(home: &Path) {
    for _ in 0..2 {
        ok(home, &["add", &card_of("Eve")]);
    }
}

/// The card of somebody new, without relays.
pub fn card_of(name: &str) -> String {
    let now = mezza::testing::clock::now();
    let mut rng = mezza::testing::process::rng::OsRng;
    let carriers = CarrierSet::<mezza::testing::backend::AwsLc>::default();
    let device = Device::create(carriers, name, &[], now, &mut rng).unwrap();
    let card = device.card(mezza_messenger::card::CardForm::Full).unwrap();
    mezza_messenger::uri::encode_card(&card, false)
}

#[test]
fn cli_4_passphrases_are_no_arguments() {
    for words in all_commands() {
        let mut command = Cli::command();
        let mut found = &mut command;
        for word in &words {
            found = found.find_subcommand_mut(word).unwrap();
        }
        for argument in found.get_arguments() {
            let id = argument.get_id().as_str();
            assert!(!id.contains("pass") || id == "passphrase_file", "{words:?} {id}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let open = folder.path().join("open");
    std::fs::write(&open, "everybody reads this").unwrap();
    let args = ["init", "--name", "Nora", "--passphrase-file", open.to_str().unwrap()];
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(mezza(&home, &args).status.code(), Some(77));
    let named = crate::program::command(&home, &args[..3])
        .env(
            "MEZZA_PASSPHRASE_FILE",
            crate::program::passphrase(folder.path(), "long enough for all"),
        )
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(named.status.success(), "{}", String::from_utf8_lossy(&named.stderr));
}

#[test]
fn msg_80_an_option_that_a_command_does_not_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    trycmd::TestCases::new()
        .env("MEZZA_HOME", home.path().join("none").to_str().unwrap())
        .env("MEZZA_LOG", "error")
        .case("tests/cmd/options/*.trycmd")
        .run();
}

#[test]
fn msg_81_the_address_of_a_relay_is_what_people_can_reach() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("relay");
    let place = || {
        let uri = ok(&home, &["relay", "uri"]);
        let relay = mezza::testing::api::uri::relay_of(uri.trim()).unwrap();
        format!("{}:{}", relay.host, relay.port)
    };
    ok(&home, &["relay", "init"]);
    assert_eq!(place(), "127.0.0.1:7101");
    // The options of `init` hold from then on.
    ok(&home, &["relay", "init", "--listen", "127.0.0.2:0"]);
    assert_eq!(mezza(&home, &["relay", "uri"]).status.code(), Some(2), "no port yet");
    let mut relay = Program::start(&home, &["relay", "run"], &[]);
    until("the relay", || relay.out().contains("relay "));
    let listens = relay.out().split_whitespace().nth(1).unwrap().to_owned();
    assert!(listens.starts_with("127.0.0.2:"), "{listens}");
    // The relay that runs says where, and the person that this is no address for others.
    assert_eq!(place(), listens);
    let aside = mezza(&home, &["relay", "uri"]).stderr;
    assert!(String::from_utf8_lossy(&aside).contains("this machine alone"));
    assert_eq!(json(&home, &["relay", "uri"])[0]["loopback"], true);
    let status = json(&home, &["relay", "status"]).remove(0);
    assert_eq!((&status["listen"], &status["listens"]), (&listens.into(), &true.into()));
    // A word about the way in from outside is kept.
    ok(&home, &["relay", "uri", "--public", "Relay.Example:443"]);
    assert_eq!(place(), "relay.example:443");
    assert!(mezza(&home, &["relay", "uri"]).stderr.is_empty());
    assert_eq!(json(&home, &["relay", "uri"])[0]["loopback"], false);
    relay.stop(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(place(), "relay.example:443");
    let hint = mezza(&home, &["relay", "init", "--public", "[2001:db8::7]:7101"]).stderr;
    assert!(String::from_utf8_lossy(&hint).contains("listens on 127.0.0.2:0"), "{hint:?}");
    assert_eq!(place(), "2001:db8::7:7101");
    let status = json(&home, &["relay", "status"]).remove(0);
    assert_eq!((&status["listen"], &status["listens"]), (&"127.0.0.2:0".into(), &false.into()));
}

#[test]
fn msg_81_a_store_that_init_was_told_is_the_same_from_every_folder() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("relay");
    let in_folder = |name: &str, args: &[&str]| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        crate::program::command(&home, args).current_dir(folder).output().unwrap()
    };
    let made = in_folder("here", &["relay", "init", "--store", "sqlite:mail.db"]);
    assert!(made.status.success(), "{made:?}");
    let found = in_folder("elsewhere", &["relay", "status"]);
    assert!(found.status.success(), "{found:?}");
    let shown = ok(&home, &["config", "print"]);
    assert!(shown.contains("/here/mail.db"), "{shown}");
}

#[test]
fn msg_82_a_second_node_leaves_the_relay_its_port() {
    let folder = tempfile::tempdir().unwrap();
    // The port of the page is taken, by us or by another test: what counts is where a node goes.
    let _page = std::net::TcpListener::bind("127.0.0.1:7100");
    let home = folder.path().join("home");
    let node = Program::start(&home, &["node", "run", "--json"], &[]);
    until("the node", || node.out().contains("\"running\""));
    let line: serde_json::Value = serde_json::from_str(node.out().lines().next().unwrap()).unwrap();
    let port = line["port"].as_u64().unwrap();
    assert!((7_102..7_110).contains(&port) || (7_120..7_201).contains(&port), "{port}");
    // A relay stays where its cards say it is: it goes nowhere else, and names the option.
    let listen = format!("127.0.0.1:{port}");
    let refused = mezza(&home, &["relay", "run", "--listen", &listen]);
    assert_eq!(refused.status.code(), Some(78));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("; choose another") && text.contains("--listen"), "{text}");
}

#[test]
fn a_kernel_is_offered_where_one_computes_for_many() {
    for words in all_commands().into_iter().filter(|words| words[0] != "lab") {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--help");
        let folder = tempfile::tempdir().unwrap();
        let offered = ok(folder.path(), &args).contains("--kernel");
        let computes = matches!(args[..], ["cpu", _] | ["mixnet", "entry" | "mix" | "load", _]);
        assert_eq!(offered, computes, "{args:?}");
    }
}

#[test]
fn msg_84_init_takes_no_short_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let init = |text| {
        let pass = crate::program::passphrase(folder.path(), text);
        mezza(&home, &["init", "--name", "Nora", "--passphrase-file", pass.to_str().unwrap()])
    };
    let refused = init("x");
    assert_eq!(refused.status.code(), Some(77));
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "mezza: a new passphrase has at least 8 characters; take the six words that are offered on \
         the page or on a terminal\n"
    );
    assert!(init("12345678").status.success());
}

/// The commands that a text names, as words: what stands between two backticks and begins with the
/// program's name. A placeholder of the code is a number; where words are left out the command ends.
fn named_commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ").replace("\\\"", "\"");
    let named = text.split('`').filter(|part| part.starts_with("mezza "));
    let words = |command: &str| {
        let words = command.split_whitespace().take_while(|word| !word.ends_with(".."));
        let word = |word: &str| if word.contains('{') { "1" } else { word }.to_owned();
        words.map(|text| word(text.split('|').next().unwrap_or(text))).collect()
    };
    named.map(words).collect()
}

/// The commands in blocks of code, as words of a shell without quotes, pipes and comments.
fn block_commands(text: &str) -> Vec<Vec<String>> {
    let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let commands = blocks.filter_map(|line| {
        let line = line.split(" #").next().unwrap_or_default();
        let command = line.split("mezza ").nth(1).filter(|_| is_command(line))?;
        let ends = ["|", "&", ">"];
        let words = command.split_whitespace().take_while(|word| !ends.contains(word));
        let words = words.filter(|word| !word.contains('"') || word.ends_with('"'));
        Some(["mezza"].into_iter().chain(words).map(|word| word.trim_matches('"').into()).collect())
    });
    commands.collect()
}

/// Returns true if a line of a block begins with the program, or pipes something into it.
fn is_command(line: &str) -> bool {
    let line = line.trim_start_matches("$ ");
    line.starts_with("mezza ") || line.contains("| mezza ")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() { sources(&path, found) } else { found.push(path) }
    }
}

#[test]
fn every_command_that_a_text_names_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["README.md", "CHANGELOG.md", "docs/claims.md"];
    let mut files = files.map(|file| crates.join("../..").join(file)).to_vec();
    sources(&crates.join("src"), &mut files);
    sources(&crates.join("../../docs/guide"), &mut files);
    let mut seen = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e != "html")) {
        let text = std::fs::read_to_string(file).unwrap();
        let is_page = file.extension().is_some_and(|ending| ending == "md");
        let shown = if is_page { block_commands(&text) } else { Vec::new() };
        for words in named_commands(&text).into_iter().chain(shown) {
            seen += 1;
            // Missing arguments and placeholders are for the reader to fill in.
            let Err(error) = Cli::command().try_get_matches_from(&words) else { continue };
            let is_unknown =
                matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument);
            assert!(!is_unknown, "{}: {words:?}\n{error}", file.display());
        }
    }
    assert!(seen > 150, "{seen}");
}

/// Commands in a text for people: what stands between two backticks.
fn shown_commands(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn msg_85_slow_no_command_to_paste_holds_a_name() {
    const NAME: &str = "x\"; rm -rf ~ $(id) '";
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let pass = crate::program::passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    ok(&home, &[&["init", "--name", "Nora"], &pass[..]].concat());
    let _node = Program::node(&home, &pass, &[]);
    let card = card_of(NAME);
    let told = [
        ok(&home, &["add", &card]),
        ok(&home, &["set", "#1", "--carriers", "mixnet", "--level-min", "3"]),
        ok(&home, &["verify", "#1"]),
        String::from_utf8(mezza(&home, &["send", "#1", "x", "--carrier", "relay"]).stderr).unwrap(),
    ];
    assert!(told[0].contains(&format!("added {NAME} as #1")), "{told:?}");
    // Nothing can be sent with a card without an address, so no command is proposed.
    assert!(shown_commands(&told[0]).is_empty(), "{told:?}");
    for text in &told[1..] {
        let commands = shown_commands(text);
        assert!(!commands.is_empty(), "{text}");
        assert!(commands.iter().all(|command| !command.contains("rm -rf")), "{text}");
        assert!(commands.iter().any(|command| command.contains("'#1'")), "{text}");
    }
}

#[test]
fn json_is_one_value_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let checked = json(&home, &["config", "check"]);
    assert_eq!(checked, [serde_json::json!({ "ok": true })]);
    let failed = mezza(&home, &["contacts", "--json"]);
    let fault: serde_json::Value = serde_json::from_slice(&failed.stderr).unwrap();
    assert_eq!(fault["exit"], 69);
    assert!(failed.stdout.is_empty());
}
