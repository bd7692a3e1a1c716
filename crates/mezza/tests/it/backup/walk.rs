//! The whole way of a lost home: talk, backup, more talk, restore, move.
//!
//! ```text
//!   ann (home a) --backup--> ann (home c) --move--> ann (home e)
//!      +-- relay ---- ben                  ben uses the relay alone
//!      +-- mixnet --- cid                  cid uses the mixnet, and the relay where it cannot go on
//! ```

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Saved, WORDS, json_with, texts};
use crate::mixnet::town::Town;
use crate::program::{Program, json, mixnet_status, ok, until};
use crate::two_homes::World;

fn is_up(home: &Path) -> bool {
    mixnet_status(home)["up"] == true
}

fn rounds_used(home: &Path) -> u64 {
    mixnet_status(home)["rounds_used"].as_u64().unwrap()
}

/// Ann, Ben and Cid in a mixnet of real processes, and a backup of Ann.
struct Walk {
    saved: Saved,
    cid: PathBuf,
    town: Town,
    nodes: Vec<Program>,
}

impl Walk {
    /// Ann talks to Ben over the relay and to Cid over the mixnet, with the relay for keys. Her node is the first one.
    fn start() -> Self {
        let world = World::start();
        let town = Town::start(world.folder());
        let [ann, ben, cid] = ["Ann", "Ben", "Cid"].map(|name| world.init(name));
        let nodes = [&ann, &ben, &cid].map(|home| world.node(home)).into();
        let link = town.files.make_uri().unwrap().to_string();
        // The cards name the mixnet once their devices have joined it.
        for home in [&ann, &cid] {
            ok(home, &["mixnet", "join", &link]);
        }
        until("both in the mixnet", || is_up(&ann) && is_up(&cid));
        for (other, name) in [(&ben, "Ben"), (&cid, "Cid")] {
            ok(&ann, &["add", ok(other, &["card"]).trim()]);
            ok(other, &["add", ok(&ann, &["card"]).trim()]);
            ok(&ann, &["send", name, "hello", "--wait", "delivered"]);
            ok(other, &["send", "Ann", "hello back", "--wait", "delivered"]);
        }
        ok(&ann, &["set", "Cid", "--carriers", "mixnet,relay", "--fallback", "listed"]);
        ok(&cid, &["set", "Ann", "--carriers", "mixnet,relay", "--fallback", "listed"]);
        let folder = world.folder().join("usb");
        std::fs::create_dir(&folder).unwrap();
        let words = crate::program::passphrase(&folder, WORDS);
        let saved = Saved { world, ann, ben, file: folder.join("ann.age"), words };
        Self { saved, cid, town, nodes }
    }

    /// One note of Ann and one of each of these, which arrive.
    fn talk(&self, ann: &Path, others: &[&str], text: &str) {
        for name in others {
            let other = if *name == "Ben" { &self.saved.ben } else { &self.cid };
            ok(ann, &["send", name, &format!("{text} to {name}"), "--wait", "delivered"]);
            ok(other, &["send", "Ann", &format!("{text} of {name}"), "--wait", "delivered"]);
        }
    }

    /// Returns true if the last two notes with Cid were carried by the mixnet.
    fn are_in_cells(ann: &Path) -> bool {
        let notes = json(ann, &["log", "Cid", "--peek", "-n", "500"]);
        notes[notes.len() - 2..].iter().all(|note| note["carrier"] == "mixnet")
    }
}

/// Ann loses her home ten notes after her backup. Both sides see what was lost, and the conversation over
/// the relay goes on without a command. Then she moves, and nobody notices.
#[test]
fn backup_24_slow_a_lost_home_comes_back_over_relay_and_mixnet_and_moves() {
    let mut walk = Walk::start();
    let ann = walk.saved.ann.clone();
    for n in 1..=10 {
        ok(&ann, &["send", "Ben", &format!("to Ben {n}"), "--wait", "delivered"]);
        ok(&walk.saved.ben, &["send", "Ann", &format!("to Ann {n}"), "--wait", "delivered"]);
    }
    walk.talk(&ann, &["Ben", "Cid"], "before the backup");
    assert!(Walk::are_in_cells(&ann));
    // What is spent after the backup is not in it.
    let spent = rounds_used(&ann);
    assert!(spent > 0);
    walk.saved.make();
    for n in 11..=15 {
        ok(&ann, &["send", "Ben", &format!("to Ben {n}"), "--wait", "delivered"]);
        ok(&walk.saved.ben, &["send", "Ann", &format!("to Ann {n}"), "--wait", "delivered"]);
    }
    walk.nodes.remove(0).stop(Signal::SIGKILL);
    std::fs::remove_dir_all(&ann).unwrap();

    let (home, mut node) = walk.saved.restore("c");
    until("the restored home in the mixnet", || is_up(&home));
    assert!(rounds_used(&home) >= spent, "nothing of the budget is given back");
    let cid = json(&home, &["contacts", "Cid"])[0].clone();
    assert_eq!(cid["policy"]["carriers"], serde_json::json!(["mixnet", "relay"]), "{cid}");
    walk.talk(&home, &["Ben", "Cid"], "after the restore");
    // The keys come by the relay. With them the two meet in cells again.
    until("cells again", || {
        walk.talk(&home, &["Cid"], "and again");
        Walk::are_in_cells(&home)
    });

    // Both logs show what was lost, note by note.
    let lost = |value: &Value, field: &str| value["restored"][field].as_u64().unwrap_or_default();
    until("the count at Ann", || lost(&json(&home, &["contacts", "Ben"])[0], "ahead") == 5);
    let ben = &walk.saved.ben;
    until("the marks at Ben", || lost(&json(ben, &["contacts", "Ann"])[0], "lost") == 5);
    let said = ok(ben, &["log", "Ann", "--peek", "-n", "500"]);
    assert_eq!(said.matches("was on their device and is not any more").count(), 5, "{said}");
    let said = ok(&home, &["log", "Ben", "--peek", "-n", "500"]);
    assert!(said.contains("5 notes of yours are on their device and not here"), "{said}");
    let came = texts(ben, "Ann", true);
    assert!((1..=15).all(|n| came.contains(&format!("to Ben {n}"))), "{came:?}");

    // The move to a third home. The second one is empty afterwards.
    let spent = rounds_used(&home);
    node.stop(Signal::SIGTERM);
    let third = walk.saved.world.folder().join("e");
    move_home(&walk.saved, &home, &third);
    assert!(!home.join("vault/head").exists());
    let refused = json_with(&walk.saved, &home, &["node", "run", "--port", "0"]).unwrap_err();
    assert!(refused.1.contains("moved"), "{refused:?}");
    let _node = walk.saved.world.node(&third);
    until("the moved home in the mixnet", || is_up(&third));
    assert!(rounds_used(&third) >= spent);
    walk.talk(&third, &["Ben", "Cid"], "after the move");
    let contact = json(ben, &["contacts", "Ann"])[0].clone();
    assert!(contact["trouble"].is_null(), "{contact}");
    drop(walk.town);
    opens_with_age(&walk.saved);
}

/// Moves by file, as `mezza move` says.
fn move_home(saved: &Saved, old: &Path, new: &Path) {
    let run = |home: &Path, args: &[&str]| json_with(saved, home, args).unwrap();
    let text = |value: Value, field: &str| value[field].as_str().unwrap().to_owned();
    let file = saved.file.with_extension("move");
    let file = file.to_str().unwrap();
    let recipient = text(run(new, &["move", "in"]), "recipient");
    run(old, &["move", "out", &recipient, file]);
    let digits = text(run(new, &["move", "in", file]), "digits");
    let key = text(run(old, &["move", "out", "--digits", &digits]), "key");
    run(new, &["move", "in", file, "--key", &key]);
}

/// The notes of the backup are readable without this program.
fn opens_with_age(saved: &Saved) {
    let has = |name: &str| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !has("age") || !has("script") {
        eprintln!("SKIPPED: `age` and `script` are not installed: apt install age bsdutils");
        return;
    }
    let folder = saved.file.parent().unwrap();
    // `age` asks on a terminal, which `script` provides.
    let mut command = Command::new("script");
    command.args(["-qec", "age -d -o notes.tar ann.age && tar xf notes.tar", "/dev/null"]);
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut shown = Vec::new();
    let mut screen = child.stdout.take().unwrap();
    while !String::from_utf8_lossy(&shown).contains("passphrase") {
        let mut byte = [0];
        screen.read_exact(&mut byte).unwrap();
        shown.extend(byte);
    }
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(format!("{WORDS}\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    drop(typed);
    let notes = std::fs::read_to_string(folder.join("notes.jsonl")).unwrap();
    assert!(notes.contains("to Ben 10") && !notes.contains("to Ben 11"), "{notes}");
}
