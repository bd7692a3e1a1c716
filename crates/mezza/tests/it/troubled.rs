//! A day on which much goes wrong, with real processes: nothing that was accepted is lost, and each light
//! tells within a minute what holds.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use mezza::testing::api::json::Health;
use nix::sys::signal::Signal;

use crate::program::{Program, free_port, json, ok};
use crate::stall::clock::Clock;
use crate::two_homes::World;

/// How long a light, or a note, may take once what was in its way is gone.
const MINUTE: Duration = Duration::from_secs(60);
/// How long the relay's store is locked, as by a program that copies it.
const LOCKED: Duration = Duration::from_secs(30);

/// Asks until the answer is yes, for a minute.
fn within_a_minute(what: &str, mut yes: impl FnMut() -> bool) {
    let began = Instant::now();
    while !yes() {
        assert!(began.elapsed() < MINUTE, "{what} did not come about within a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A line of the node's health: whether it is good, and what it says.
fn light(node: &Program, name: &str) -> (bool, String) {
    let health: Health = node.client().unwrap().get("/v1/health").unwrap();
    let line = health.lines.into_iter().find(|line| line.name == name).unwrap();
    (line.ok, line.text)
}

/// The notes of a thread that came in, or that went out and are in one of these states.
fn texts(home: &Path, name: &str, incoming: bool, states: &[&str]) -> BTreeSet<String> {
    let notes = json(home, &["log", name, "-n", "500"]);
    let ours = notes.iter().filter(|note| note["incoming"] == incoming);
    let held = ours.filter(|note| incoming || states.contains(&note["state"].as_str().unwrap()));
    held.map(|note| note["text"].as_str().unwrap().to_owned()).collect()
}

fn know_each_other(one: &Path, other: &Path) {
    ok(one, &["add", ok(other, &["card"]).trim()]);
    ok(other, &["add", ok(one, &["card"]).trim()]);
}

/// Everybody writes to everybody; whether all of it arrives within a minute.
fn all_can_talk(people: &[(&Path, &str)], what: &str) {
    let pairs = people.iter().flat_map(|from| people.iter().map(move |to| (from, to)));
    for ((home, name), (to, to_name)) in pairs.filter(|(from, to)| from.1 != to.1) {
        let text = format!("{what}, {name} to {to_name}");
        ok(home, &["send", to_name, &text]);
        within_a_minute(&text, || texts(to, name, true, &[]).contains(&text));
    }
}

#[test]
fn msg_94_slow_a_relay_in_trouble_loses_nothing_and_its_lights_are_true() {
    let world = World::start_stopped();
    let Some(clock) = Clock::find(world.folder()) else { return };
    let mut relay = world.run_relay(world.port(), &clock.environment());
    let homes = ["Ann", "Ben", "Cat"].map(|name| (world.init(name), name));
    let mut nodes: Vec<Program> = homes.iter().map(|(home, _)| world.node(home)).collect();
    let people: Vec<(&Path, &str)> =
        homes.iter().map(|(home, name)| (home.as_path(), *name)).collect();
    for (at, (one, _)) in people.iter().enumerate() {
        people[at + 1..].iter().for_each(|(other, _)| know_each_other(one, other));
    }
    all_can_talk(&people, "at first");

    // A program that copies the store holds its lock.
    let store = rusqlite::Connection::open(relay.home.join("relay/mail.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    ok(&homes[0].0, &["send", "Ben", "during"]);
    std::thread::sleep(LOCKED);
    store.execute_batch("ROLLBACK").unwrap();
    drop(store);
    within_a_minute("what waited", || texts(&homes[1].0, "Ann", true, &[]).contains("during"));
    all_can_talk(&people, "after the lock");

    // It stops, and comes back at another port: cards say so.
    relay.stop(Signal::SIGTERM);
    within_a_minute("a light that is out", || nodes.iter().all(|node| !light(node, "relay").0));
    ok(&homes[0].0, &["send", "Cat", "before it moved"]);
    let moved = free_port();
    let listen = format!("127.0.0.1:{moved}");
    ok(&relay.home, &["relay", "init", "--listen", &listen, "--public", &listen]);
    let relay_home = relay.home.clone();
    drop(relay);
    let relay = world.run_relay(moved, &clock.environment());
    let uri = ok(&relay_home, &["relay", "uri"]).trim().to_owned();
    for (home, _) in &people {
        ok(home, &["card", "renew", "--relay", &uri]);
    }
    for (one, _) in &people {
        for (other, _) in people.iter().filter(|(other, _)| other != one) {
            ok(one, &["add", ok(other, &["card"]).trim()]);
        }
    }
    within_a_minute("lights that are on", || {
        nodes.iter().all(|node| light(node, "relay").0 && light(node, "mailbox").0)
    });
    within_a_minute("what waited", || {
        texts(&homes[2].0, "Ann", true, &[]).contains("before it moved")
    });
    all_can_talk(&people, "after the move");

    // Cat is away while the relay's clock is 60 days ahead, and mail for Cat stays.
    nodes.pop();
    ok(&homes[0].0, &["send", "Cat", "early", "--wait", "handed"]);
    clock.put(60 * 86_400);
    within_a_minute("a doubt", || ok(&relay_home, &["relay", "status"]).contains("was expected"));
    all_can_talk(&people[..2], "60 days ahead");
    ok(&homes[1].0, &["send", "Cat", "late", "--wait", "handed"]);
    clock.put(-3_600);
    all_can_talk(&people[..2], "an hour behind");
    nodes.push(world.node(&homes[2].0));
    within_a_minute("what waited for Cat", || {
        let heard = |name: &str| texts(&homes[2].0, name, true, &[]);
        heard("Ann").contains("early") && heard("Ben").contains("late")
    });
    all_can_talk(&people, "in the end");
    assert!(nodes.iter().all(|node| light(node, "relay").0 && light(node, "mailbox").0));
    drop(relay);
}
