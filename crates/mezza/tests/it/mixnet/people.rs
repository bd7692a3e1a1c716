//! Two people in one mixnet of real processes: they meet over a relay, and go on in cells.

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::town::Town;
use crate::program::{json, mezza, mixnet_status, ok, until};
use crate::two_homes::World;

/// The carrier and state of each note of a thread.
fn notes(home: &Path, name: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |note: &Value| (text(&note["text"]), text(&note["carrier"]), text(&note["state"]));
    json(home, &["log", name]).iter().map(one).collect()
}

fn is_up(home: &Path) -> bool {
    mixnet_status(home)["up"] == true
}

/// Takes both into the network, and waits for it.
fn join(town: &Town, homes: [&Path; 2]) {
    let link = town.files.make_uri().unwrap().to_string();
    for home in homes {
        ok(home, &["mixnet", "join", &link]);
    }
    until("both in the mixnet", || homes.into_iter().all(is_up));
}

#[test]
fn slow_two_people_talk_over_the_mixnet() {
    let world = World::start();
    let town = Town::start(world.folder());
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let _ann_node = world.node(&ann);
    let mut ben_node = world.node(&ben);
    join(&town, [&ann, &ben]);
    ok(&ann, &["add", ok(&ben, &["card"]).trim()]);
    ok(&ben, &["add", ok(&ann, &["card"]).trim()]);
    ok(&ann, &["send", "Ben", "over the relay", "--wait", "delivered"]);
    ok(&ben, &["send", "Ann", "and back", "--wait", "delivered"]);
    for (home, name) in [(&ann, "Ben"), (&ben, "Ann")] {
        ok(home, &["set", name, "--carriers", "mixnet"]);
    }
    ok(&ann, &["send", "Ben", "in cells", "--wait", "delivered"]);
    ok(&ben, &["send", "Ann", &"a longer answer ".repeat(40), "--wait", "delivered"]);
    ben_node.stop(Signal::SIGKILL);
    ok(&ann, &["send", "Ben", "while you were away"]);
    let _ben_node = world.node(&ben);
    until("what waited", || notes(&ben, "Ann").iter().any(|note| note.0 == "while you were away"));
    let seen = notes(&ann, "Ben");
    assert_eq!(seen[2], ("in cells".into(), "mixnet".into(), "delivered".into()));
    assert_eq!(seen[3].1, "mixnet");
    assert_eq!(seen.len(), 5);
    assert_eq!(notes(&ben, "Ann").len(), 5, "nothing twice");
    let status = mixnet_status(&ann);
    assert_eq!((&status["noise_grade"], &status["level"]), (&"nothing".into(), &1.into()));
    assert!(status["rounds_used"].as_u64().unwrap() > 0, "{status}");
}

#[test]
fn slow_a_stranger_is_met_by_invitation() {
    let world = World::start();
    let town = Town::start(world.folder());
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let _ann_node = world.node(&ann);
    let mut ben_node = world.node(&ben);
    join(&town, [&ann, &ben]);
    ok(&ann, &["add", ok(&ben, &["card"]).trim()]);
    let hint = "where none are held it waits";
    let higher = ok(&ann, &["set", "Ben", "--carriers", "mixnet", "--level-min", "4"]);
    assert!(higher.contains(hint), "{higher}");
    assert!(!ok(&ann, &["set", "Ben", "--level-min", "1"]).contains(hint));
    ok(&ann, &["send", "Ben", "guess who"]);

    let asks = || json(&ben, &["requests"])[0].clone();
    until("an invitation", || asks()["guests"].as_array().is_some_and(|all| all.len() == 1));
    let guest = asks()["guests"][0].clone();
    let number = asks()["guests"][0]["id"].clone();
    let number = number.as_str().unwrap();
    assert_eq!((&guest["asked"], asks()["requests"].as_array().unwrap().len()), (&false.into(), 0));
    assert!(ok(&ben, &["requests"]).contains("someone new (no name yet)"));
    let refused = mezza(&ben, &["requests", "accept", number]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && text.contains(" requests see "), "{text}");
    assert_eq!(notes(&ann, "Ben"), [("guess who".into(), String::new(), "queued".into())]);

    // The invitation survives a crash of its receiver.
    ben_node.stop(Signal::SIGKILL);
    let _ben_node = world.node(&ben);
    until("Ben is back", || is_up(&ben));
    ok(&ben, &["requests", "see", number]);
    until("their name", || asks()["requests"][0]["contact"]["claimed_name"] == "Ann");
    assert_eq!(asks()["requests"][0]["notes"][0]["text"], "guess who");
    assert!(asks()["guests"].as_array().unwrap().is_empty());
    assert_eq!(notes(&ann, "Ben")[0].2, "handed", "nobody was let in yet");

    ok(&ben, &["requests", "accept", number]);
    until("the receipt", || notes(&ann, "Ben")[0].2 == "delivered");
    ok(&ben, &["send", "Ann", "now I know", "--wait", "delivered"]);
    ok(&ann, &["send", "Ben", "and in the better suite", "--wait", "delivered"]);
    for (home, name) in [(&ann, "Ben"), (&ben, "Ann")] {
        let seen = notes(home, name);
        assert!(seen.len() == 3 && seen.iter().all(|note| note.1 == "mixnet"), "{seen:?}");
        until("the better suite", || {
            json(home, &["ratchet", "sessions", name])[0]["sessions"][0]["suite"] == "0x0102"
        });
    }
}

/// Returns the rounds of the budget in `mixnet status`.
fn rounds_used(home: &Path) -> u64 {
    mixnet_status(home)["rounds_used"].as_u64().unwrap()
}

#[test]
fn msg_97_slow_a_mixnet_is_left_and_joined_again() {
    let world = World::start();
    let town = Town::start(world.folder());
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let mut ann_node = world.node(&ann);
    let _ben_node = world.node(&ben);
    let none = mezza(&ann, &["mixnet", "leave", "--yes"]);
    let text = String::from_utf8_lossy(&none.stderr);
    assert!(none.status.code() == Some(66) && text.contains(" mixnet join "), "{text}");
    join(&town, [&ann, &ben]);
    ok(&ann, &["add", ok(&ben, &["card"]).trim()]);
    ok(&ben, &["add", ok(&ann, &["card"]).trim()]);
    ok(&ann, &["send", "Ben", "over the relay", "--wait", "delivered"]);
    ok(&ben, &["send", "Ann", "and back", "--wait", "delivered"]);
    ok(&ann, &["set", "Ben", "--carriers", "mixnet"]);
    ok(&ann, &["send", "Ben", "in cells", "--wait", "delivered"]);

    // Said before; nothing is done without an answer.
    let asked = mezza(&ann, &["mixnet", "leave"]);
    let text = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.code() == Some(2) && text.contains("--yes"), "{text}");
    assert!(text.contains("nothing leaves for Ben until another carrier is allowed"), "{text}");
    assert!(is_up(&ann));
    let spent = rounds_used(&ann);
    assert!(spent > 0);
    let left = ok(&ann, &["mixnet", "leave", "--yes"]);
    assert!(left.contains("left the mixnet of") && left.contains("is kept"), "{left}");
    let status = mezza(&ann, &["mixnet", "status"]);
    assert_eq!(status.status.code(), Some(66));
    ok(&ann, &["send", "Ben", "nobody takes this"]);
    assert_eq!(notes(&ann, "Ben").last().unwrap().2, "queued");
    ok(&ann, &["set", "Ben", "--carriers", "relay"]);
    until("the relay took it", || notes(&ann, "Ben").last().unwrap().2 == "delivered");

    // A crash between; what was spent is what it was, and grows from there.
    let other = format!("mezza-net:1:{}@127.0.0.1:1", "0".repeat(64));
    assert_eq!(mezza(&ann, &["mixnet", "join", &other]).status.code(), Some(69));
    ann_node.stop(Signal::SIGKILL);
    let _ann_node = world.node(&ann);
    ok(&ann, &["mixnet", "join", &town.files.make_uri().unwrap().to_string()]);
    assert!(rounds_used(&ann) >= spent, "{spent}");
    until("Ann is back", || is_up(&ann));
    ok(&ann, &["set", "Ben", "--carriers", "mixnet,relay", "--fallback", "listed"]);
    until("cells to Ben", || {
        ok(&ann, &["send", "Ben", "again", "--wait", "delivered"]);
        notes(&ann, "Ben").last().unwrap().1 == "mixnet"
    });
}
