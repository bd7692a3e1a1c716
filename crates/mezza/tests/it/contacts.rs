//! Commands about a contact: what they show, mark, remove, and propose next.

use std::path::Path;

use crate::cli::card_of;
use crate::program::{Program, json, mezza, ok, passphrase, until};

/// A node without a relay.
fn lonely(folder: &Path) -> Program {
    let home = folder.join("home");
    let pass = passphrase(folder, "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    ok(&home, &[&["init", "--name", "Nora"], &pass[..]].concat());
    Program::node(&home, &pass, &[])
}

/// Two people at one relay who know each other: their nodes, and what has to live as long.
fn friends(folder: &Path) -> (Program, Vec<Program>) {
    let port = crate::program::free_port();
    let relay_home = folder.join("relay");
    ok(&relay_home, &["relay", "init", "--listen", &format!("127.0.0.1:{port}")]);
    let relay = Program::relay(&relay_home, port, &[]);
    let uri = ok(&relay_home, &["relay", "uri"]);
    let pass = passphrase(folder, "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    let [ann, ben] = ["ann", "ben"].map(|name| {
        let home = folder.join(name);
        ok(&home, &[&["init", "--name", name, "--relay", uri.trim()], &pass[..]].concat());
        Program::node(&home, &pass, &[])
    });
    for (one, other, name) in [(&ann, &ben, "ben"), (&ben, &ann, "ann")] {
        until("the mailbox", || other.is_reachable());
        let added = ok(&one.home, &["add", ok(&other.home, &["card"]).trim(), "--as", "friend"]);
        assert!(added.contains(" send friend \"hello\"`"), "{added}");
        ok(&one.home, &["set", "friend", "--as", name]);
    }
    (ann, vec![ben, relay])
}

fn unread(home: &Path, name: &str) -> u64 {
    json(home, &["contacts", name])[0]["unread"].as_u64().unwrap()
}

fn stderr(home: &Path, args: &[&str], code: i32) -> String {
    let output = mezza(home, args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn cli_21_a_waiting_note_goes_at_the_level_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let (ann, _others) = friends(folder.path());
    let ann = &ann.home;
    ok(ann, &["send", "ben", "hello", "--wait", "delivered"]);
    ok(ann, &["set", "ben", "--level-min", "4"]);
    stderr(ann, &["send", "ben", "in a hurry", "--wait", "handed", "--timeout", "1"], 1);
    let waiting = json(ann, &["outbox"])[0]["notes"][0]["id"].as_str().unwrap().to_owned();
    // The conversation still wants that level, and lowering it leaves the note as it is.
    stderr(ann, &["outbox", "lower", &waiting], 1);
    ok(ann, &["set", "ben", "--level-min", "1"]);
    assert!(ok(ann, &["outbox"]).contains("lowest level"));
    ok(ann, &["outbox", "lower", &waiting]);
    until("the note at Ben's", || ok(ann, &["outbox"]).contains("nothing waits"));
    stderr(ann, &["outbox", "lower", "999999"], 66);
}

#[test]
fn cli_22_a_life_in_the_mesh_is_set_for_a_conversation_and_for_one_note() {
    let folder = tempfile::tempdir().unwrap();
    let (ann, _others) = friends(folder.path());
    let ann = &ann.home;
    let policy = || json(ann, &["contacts", "ben"])[0]["policy"].clone();
    let before = policy();
    assert!(before.get("mesh_life").is_none(), "{before}");
    // Nothing is written where a life means nothing.
    let refused = stderr(ann, &["send", "ben", "by courier", "--mesh-life", "half-day"], 1);
    assert!(refused.contains("do not go over the mesh"), "{refused}");
    assert_eq!(json(ann, &["log", "ben"]).len(), 0);
    let said = ok(ann, &["set", "ben", "--mesh-life", "half-hour"]);
    assert!(said.contains("half-hour; a thief of the receiver's device reads it"), "{said}");
    assert!(said.contains("do not go over the mesh yet"), "{said}");
    let mut wanted = before.clone();
    wanted["mesh_life"] = "half-hour".into();
    assert_eq!(policy(), wanted, "and nothing else");
    ok(ann, &["set", "ben", "--carriers", "relay,mesh", "--fallback", "listed"]);
    assert_eq!(policy()["mesh_life"], "half-hour", "other rules leave it");
    ok(ann, &["send", "ben", "by courier", "--mesh-life", "half-day"]);
    ok(ann, &["send", "ben", "as ever"]);
    let notes = json(ann, &["log", "ben"]);
    assert_eq!((&notes[0]["mesh_life"], notes[1].get("mesh_life")), (&"half-day".into(), None));
    // The word of the settings and its plural mean the same.
    ok(ann, &["set", "ben", "--mesh-life", "minutes"]);
    assert_eq!(policy()["mesh_life"], "minute");
    ok(ann, &["set", "ben", "--mesh-life", "default"]);
    assert!(policy().get("mesh_life").is_none());
    let log = ok(ann, &["log", "ben"]);
    assert!(log.contains("you set the life of your notes in the mesh to half-hour"), "{log}");
}

#[test]
fn cli_10_slow_log_marks_as_read_what_it_shows_and_pages_back() {
    let folder = tempfile::tempdir().unwrap();
    let (ann, others) = friends(folder.path());
    let ann = &ann.home;
    let ben = &others[0].home;
    for text in ["one", "two", "three"] {
        ok(ben, &["send", "ann", text, "--wait", "delivered"]);
    }
    assert_eq!(unread(ann, "ben"), 3);
    assert!(ok(ann, &["log", "ben", "--peek"]).contains("three"));
    assert_eq!(unread(ann, "ben"), 3);
    // Fewer than are unread: what was not shown was not read.
    let some = ok(ann, &["log", "ben", "-n", "2"]);
    assert!(!some.contains("one") && some.contains("3 notes are unread"), "{some}");
    assert_eq!(unread(ann, "ben"), 3);
    let before = some.split("--before ").nth(1).unwrap().split('`').next().unwrap();
    let older = ok(ann, &["log", "ben", "--before", before]);
    assert!(older.contains("one") && !older.contains("two"), "{older}");
    assert!(ok(ann, &["log", "ben"]).contains("one"));
    assert_eq!(unread(ann, "ben"), 0);
    let mut follower = Program::start(ann, &["log", "ben", "-f"], &[]);
    until("the follower", || follower.out().contains("three"));
    ok(ben, &["send", "ann", "four", "--wait", "delivered"]);
    until("the note", || follower.out().contains("four"));
    until("it to be read", || unread(ann, "ben") == 0);
    follower.stop(nix::sys::signal::Signal::SIGTERM);
}

#[test]
fn cli_10_a_contact_is_removed_after_asking() {
    let folder = tempfile::tempdir().unwrap();
    let node = lonely(folder.path());
    let home = &node.home;
    ok(home, &["add", &card_of("Eve")]);
    ok(home, &["send", "Eve", "hello"]);
    let asked = stderr(home, &["contacts", "remove", "Eve"], 2);
    assert!(asked.contains("Eve and all notes with them") && asked.contains("--yes"), "{asked}");
    assert_eq!(
        stderr(home, &["contacts", "remove", "Ev", "--yes"], 66).matches("did you mean").count(),
        1
    );
    assert!(ok(home, &["contacts"]).contains("Eve"));
    assert!(ok(home, &["contacts", "remove", "Eve", "--yes"]).contains("Eve is removed"));
    assert!(ok(home, &["contacts"]).contains("no contacts yet"));
    assert!(json(home, &["outbox"])[0]["notes"].as_array().unwrap().is_empty());
}

#[test]
fn cli_10_the_next_step_names_whom_the_command_named() {
    let folder = tempfile::tempdir().unwrap();
    let node = lonely(folder.path());
    let home = &node.home;
    let card = card_of("Bob the Builder");
    // Over a card without an address nothing leaves, so no note is proposed.
    let added = ok(home, &["add", &card, "--as", "bob"]);
    assert!(added.contains("this card has no address") && !added.contains(" send "), "{added}");
    assert!(ok(home, &["verify", "bob"]).contains(" verify bob --matches`"));
    assert!(ok(home, &["verify", "1"]).contains(" verify 1 --matches`"));
    assert!(ok(home, &["verify", "#1"]).contains(" verify '#1' --matches`"));
    ok(home, &["set", "bob", "--block"]);
    let refused = stderr(home, &["send", "bob", "hello"], 1);
    assert!(refused.contains(" set bob --unblock`"), "{refused}");
    // A word that a shell would take apart is not shown to be pasted.
    let refused = stderr(home, &["set", "BOB", "--as", "Bob the Builder"], 0);
    assert!(refused.is_empty(), "{refused}");
    let refused = stderr(home, &["send", "Bob the Builder", "hello"], 1);
    assert!(refused.contains(" set NAME --unblock`"), "{refused}");
}

#[test]
fn cli_5_adding_a_known_card_says_what_it_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let node = lonely(folder.path());
    let card = card_of("Eve");
    let added = |args: &[&str]| {
        let out = ok(&node.home, &[&["add", &card], args].concat());
        out.lines().next().unwrap().to_owned()
    };
    assert_eq!(added(&[]), "added Eve as #1");
    assert_eq!(added(&[]), "Eve (#1) was known already, and has the newest of both cards");
    assert_eq!(added(&["--as", "evelyn"]), "#1 was known already as Eve, and is called evelyn now");
    assert_eq!(added(&[]), "evelyn (#1) was known already, and has the newest of both cards");
}

#[test]
fn cli_10_a_card_is_drawn_into_a_file_and_a_text_may_begin_with_a_dash() {
    let folder = tempfile::tempdir().unwrap();
    let node = lonely(folder.path());
    let home = &node.home;
    let picture = folder.path().join("me.png");
    ok(home, &["card", "--qr", "--out", picture.to_str().unwrap()]);
    let shown = ok(home, &["card", "show", picture.to_str().unwrap()]);
    assert!(shown.starts_with("name     Nora"), "{shown}");
    ok(home, &["add", &card_of("Eve")]);
    let help = ok(home, &["send", "--help"]);
    assert!(help.contains("mezza send bob -- \"-5 degrees\""), "{help}");
    ok(home, &["send", "Eve", "--", "-5 degrees"]);
    assert!(ok(home, &["log", "Eve"]).contains("you: -5 degrees"));
}

#[test]
fn cli_12_slow_what_could_not_be_printed_is_not_marked_as_read() {
    let folder = tempfile::tempdir().unwrap();
    let (ann, others) = friends(folder.path());
    let ann = &ann.home;
    let ben = &others[0].home;
    ok(ben, &["send", "ann", "one", "--wait", "delivered"]);
    assert_eq!(unread(ann, "ben"), 1);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let lost = crate::program::command(ann, &["log", "ben"]).stdout(full).output().unwrap();
    assert_eq!(lost.status.code(), Some(73), "{lost:?}");
    assert_eq!(unread(ann, "ben"), 1, "nobody has seen it");
    ok(ann, &["log", "ben"]);
    assert_eq!(unread(ann, "ben"), 0);
}
