//! Two people in one mixnet of real processes: they meet over a relay, and go on in cells.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::town::Town;
use crate::program::{json, ok, until};
use crate::two_homes::World;

/// The carrier and state of each note of a thread.
fn notes(home: &std::path::Path, name: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |note: &Value| (text(&note["text"]), text(&note["carrier"]), text(&note["state"]));
    json(home, &["log", name]).iter().map(one).collect()
}

#[test]
fn two_people_talk_over_the_mixnet() {
    let world = World::start();
    let town = Town::start(world.folder());
    let link = town.files.uri().unwrap().to_string();
    let (ann, ben) = (world.init("Ann"), world.init("Ben"));
    let _ann_node = world.node(&ann);
    let mut ben_node = world.node(&ben);
    for home in [&ann, &ben] {
        ok(home, &["mixnet", "join", &link]);
    }
    let up = |home: &std::path::Path| json(home, &["mixnet", "status"])[0]["up"] == true;
    until("both in the mixnet", || up(&ann) && up(&ben));
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
    let status = json(&ann, &["mixnet", "status"])[0].clone();
    assert_eq!((&status["demo"], &status["level"]), (&true.into(), &1.into()));
    assert!(status["rounds_used"].as_u64().unwrap() > 0, "{status}");
}
