//! The first commands of a newcomer and of an operator: pasted ones, `--listen`, `status`, `doctor`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Program, free_port, json, mezza, ok, passphrase, until};

/// The commands of this program between backticks.
fn printed_commands(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|part| part.starts_with("mezza "));
    quoted.map(str::to_owned).collect()
}

fn stderr(home: &Path, args: &[&str]) -> String {
    String::from_utf8(mezza(home, args).stderr).unwrap()
}

#[test]
fn cli_14_a_printed_command_works_when_it_is_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("it's mine");
    let pass = passphrase(folder.path(), "long enough for all");
    let init = ["init", "--name", "Nora", "--passphrase-file", pass.to_str().unwrap()];
    let texts = [
        ok(&home, &init),
        stderr(&home, &["contacts"]),
        ok(&home, &["relay", "init"]),
        String::from_utf8(mezza(&home, &["doctor"]).stdout).unwrap(),
    ];
    for text in &texts {
        let commands = printed_commands(text);
        assert!(!commands.is_empty(), "{text}");
        assert!(commands.iter().all(|command| command.starts_with("mezza --home '")), "{text}");
    }
    // The next step of the second one, as a shell runs it in another folder of another user.
    let command = printed_commands(&texts[1]).remove(0);
    let programs = Path::new(env!("CARGO_BIN_EXE_mezza")).parent().unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("exec {command} --listen 127.0.0.1:0")]).env_clear();
    shell.env("PATH", programs).env("HOME", folder.path().join("elsewhere")).current_dir("/");
    let mut node = shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    until("the node of this home", || mezza(&home, &["node", "status"]).status.success());
    ok(&home, &["node", "stop"]);
    assert!(node.wait().unwrap().success());
}

#[test]
fn cli_15_each_command_that_listens_has_one_option_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let servers: [&[&str]; 7] = [
        &["up"],
        &["node", "run"],
        &["mesh", "run"],
        &["relay", "run"],
        &["mixnet", "entry"],
        &["mixnet", "mix"],
        &["mixnet", "bucket"],
    ];
    for server in servers {
        let help = ok(folder.path(), &[server, &["--help"]].concat());
        assert!(help.contains("--listen <ADDRESS:PORT>") && !help.contains("--port"), "{help}");
    }
    let refused = mezza(folder.path(), &["node", "run", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("for this machine alone"));
    let both = ["node", "run", "--listen", "127.0.0.1:0", "--port", "0"];
    assert_eq!(mezza(folder.path(), &both).status.code(), Some(2));
}

#[test]
fn cli_19_status_shows_what_runs_and_what_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let relay_home = folder.path().join("relay");
    let line = |home: &Path, name: &str| {
        let output = mezza(home, &["status", "--json"]);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = value["lines"].as_array().unwrap().iter().find(|line| line["name"] == name);
        found.cloned().map(|line| (line, output.status.code()))
    };
    let (node, code) = line(&home, "node").unwrap();
    assert_eq!((&node["ok"], code), (&false.into(), Some(69)), "{node}");
    assert_eq!(line(&home, "mesh node").unwrap().0["ok"], true);

    let port = free_port();
    ok(&relay_home, &["relay", "init", "--listen", &format!("127.0.0.1:{port}")]);
    assert_eq!(line(&relay_home, "server").unwrap().0["ok"], false);
    let _relay = Program::relay(&relay_home, port, &[]);
    assert_eq!(line(&relay_home, "server").unwrap().0["ok"], true);

    let uri = ok(&relay_home, &["relay", "uri"]);
    let pass = passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    ok(&home, &[&["init", "--name", "Nora", "--relay", uri.trim()], &pass[..]].concat());
    let node = Program::node(&home, &pass, &[]);
    until("the mailbox", || node.is_reachable());
    let (relay, code) = line(&home, "relay").unwrap();
    let text = relay["text"].as_str().unwrap();
    assert!(text.starts_with("up, level 1") && text.contains(&port.to_string()), "{relay}");
    assert_eq!(code, Some(0));
    assert!(ok(&home, &["status"]).contains("waits    nothing"));
    ok(&home, &["lock"]);
    let (node, code) = line(&home, "node").unwrap();
    assert_eq!((&node["ok"], code), (&false.into(), Some(1)), "{node}");
}

#[test]
fn cli_20_doctor_asks_for_no_node_where_a_relay_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("relay");
    let port = free_port();
    ok(&home, &["relay", "init", "--listen", &format!("127.0.0.1:{port}")]);
    let before = mezza(&home, &["doctor"]);
    let text = String::from_utf8(before.stdout).unwrap();
    assert!(text.contains("BAD  server") && !text.contains("no node"), "{text}");
    let _relay = Program::relay(&home, port, &[]);
    let lines = json(&home, &["doctor"]).remove(0)["lines"].clone();
    let lines = lines.as_array().unwrap();
    assert!(lines.iter().all(|line| line["ok"] == true && line["name"] != "node"), "{lines:?}");
}

#[test]
fn a_newcomer_shares_the_relay_of_whoever_invites() {
    let folder = tempfile::tempdir().unwrap();
    let relay_home = folder.path().join("relay");
    let port = free_port();
    ok(&relay_home, &["relay", "init", "--listen", &format!("127.0.0.1:{port}")]);
    let _relay = Program::relay(&relay_home, port, &[]);
    let uri = ok(&relay_home, &["relay", "uri"]);
    let pass = passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    let ann = folder.path().join("ann");
    ok(&ann, &[&["init", "--name", "Ann", "--relay", uri.trim()], &pass[..]].concat());
    let node = Program::node(&ann, &pass, &[]);
    until("Ann", || node.is_reachable());
    let card = folder.path().join("ann.card");
    std::fs::write(&card, ok(&ann, &["card"])).unwrap();
    let card = card.to_str().unwrap();
    let ben = folder.path().join("ben");
    ok(&ben, &[&["init", "--name", "Ben", "--relay", card], &pass[..]].concat());
    let ben_node = Program::node(&ben, &pass, &[]);
    until("Ben", || ben_node.is_reachable());
    let carriers = json(&ben, &["carriers"])[0]["carriers"].clone();
    assert_eq!(carriers[0]["relay"]["port"], port, "{carriers}");
    ok(&ben, &["add", card]);
    ok(&ben, &["send", "Ann", "thanks for the relay", "--wait", "handed"]);
    until("the request", || ok(&ann, &["requests"]).contains("thanks for the relay"));
    // A card without a relay has none to share.
    let lonely = crate::cli::card_of("Eve");
    let refused =
        stderr(&folder.path().join("eve"), &["init", "--name", "Eve", "--relay", &lonely]);
    assert!(refused.contains("names no relay"), "{refused}");
}
