//! The command line: transcripts of what it prints, exit codes included.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::{Command, CommandFactory};
use mezza::cli::args::Cli;

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
fn cli_3_exit_codes_with_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("world");
    let up = Program::start(
        &home,
        &["up", "--json", "--port", "0"],
        &[("MEZZA_RELAY_LISTEN", "127.0.0.1:0")],
    );
    until("the world", || up.out().contains("\"open\""));
    twins(&home);
    trycmd::TestCases::new()
        .env("MEZZA_HOME", home.to_str().unwrap())
        .env("MEZZA_LOG", "error")
        .case("tests/cmd/world/*.trycmd")
        .run();
}

/// Two contacts of one name, without relays: added by cards made here.
fn twins(home: &Path) {
    let mut rng = mezza::rng::OsRng;
    for _ in 0..2 {
        let now = mezza::node::now();
        let device =
            mezza_messenger::Device::<mezza::backend::AwsLc>::create("Eve", &[], now, &mut rng)
                .unwrap();
        let card = device.card(mezza_messenger::card::Form::Full).unwrap();
        ok(home, &["add", &mezza_messenger::uri::card(&card, false)]);
    }
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
