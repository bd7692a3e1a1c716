//! Stalls: the process of a node in a mixnet stands still for seconds, as on a laptop that sleeps,
//! and gets all at once what was announced meanwhile (SIGSTOP, 7 s, SIGCONT). Its clock is put back
//! and forth, and its entry lies.
//!
//! ```text
//! writer -> Ann's node <--TLS--> liar <--TLS--> entry, mixes <--TLS--> liar <--TLS--> Ben's node
//!               ^
//!               +---- stopped and continued on a clock that jumps, between notes of both
//! ```
//!
//! Held afterwards: the node starts from its vault, nothing is quarantined, every note that it took is
//! there, and every note of both comes to the other side in cells, once. Twenty stalls take three
//! minutes, so that a run has four unless `MEZZA_TEST_STALLS=n` says otherwise.

pub mod clock;
mod liar;

use std::path::Path;
use std::time::Duration;

use mezza::testing::api::json::Health;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::mixnet::town::Town;
use crate::program::{Program, free_port, json, mezza, mixnet_status, ok, until};
use crate::two_homes::World;
use clock::Clock;
use liar::Liar;

/// Stalls of a run that does not say otherwise.
const STALLS: u32 = 4;
/// Longer than a round of any service of the demo network is announced ahead.
const STALL: Duration = Duration::from_secs(7);
/// How long the node runs between two stalls: rounds open and close, and calls go out.
const BREATH: Duration = Duration::from_millis(1_500);

/// Where the clock of the node stands, beside the true time, in one stall after the other.
const CLOCKS_S: [i64; 4] = [-3_600, 7_200, 0, -30];

/// A whole thread.
fn thread(home: &Path, name: &str) -> Vec<Value> {
    json(home, &["log", name, "-n", "500"])
}

/// The texts that came in of one thread, sorted.
fn came(home: &Path, name: &str) -> Vec<String> {
    let notes = thread(home, name);
    let came = notes.iter().filter(|note| note["incoming"] == true);
    let mut texts: Vec<String> = came.map(|note| note["text"].as_str().unwrap().into()).collect();
    texts.sort();
    texts
}

fn is_up(home: &Path) -> bool {
    mixnet_status(home)["up"] == true
}

/// Both know each other and go in cells alone.
fn meet(town: &Town, ann: &Path, ben: &Path) {
    let link = town.files.make_uri().unwrap().to_string();
    for home in [ann, ben] {
        ok(home, &["mixnet", "join", &link]);
    }
    until("both in the mixnet", || is_up(ann) && is_up(ben));
    ok(ann, &["add", ok(ben, &["card"]).trim()]);
    ok(ben, &["add", ok(ann, &["card"]).trim()]);
    ok(ann, &["send", "Ben", "over the relay", "--wait", "delivered"]);
    ok(ben, &["send", "Ann", "and back", "--wait", "delivered"]);
    for (home, name) in [(ann, "Ben"), (ben, "Ann")] {
        ok(home, &["set", name, "--carriers", "mixnet"]);
    }
}

fn stall(node: &Program) {
    let id = Pid::from_raw(node.id().try_into().unwrap());
    kill(id, Signal::SIGSTOP).unwrap();
    std::thread::sleep(STALL);
    kill(id, Signal::SIGCONT).unwrap();
}

/// A note that was written just now, while the clock stood beside the true time.
fn is_dated(home: &Path, name: &str, off_s: i64) -> bool {
    let sent_ms = thread(home, name).last().unwrap()["sent_ms"].as_u64().unwrap();
    let true_ms = mezza::testing::clock::now().as_ms().saturating_add_signed(off_s * 1_000);
    sent_ms.abs_diff(true_ms) < 15_000
}

/// Says what both nodes have and logged, if the test fails.
struct Told<'a>([(&'a Program, &'a str); 2]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for (node, contact) in self.0 {
            for args in [&["log", contact, "-n", "500", "--json"][..], &["mixnet", "status"]] {
                let told = mezza(&node.home, args).stdout;
                println!("{args:?}\n{}", String::from_utf8_lossy(&told));
            }
            println!("{}", node.log());
        }
    }
}

#[test]
fn msg_46_slow_a_node_that_stalls_in_a_mixnet_opens_again_with_all_it_acknowledged() {
    let stalls = std::env::var("MEZZA_TEST_STALLS").map_or(STALLS, |n| n.parse().unwrap());
    let world = World::start();
    let Some(clock) = Clock::find(world.folder()) else { return };
    let behind = format!("127.0.0.1:{}", free_port());
    let town = Town::with(world.folder(), |_| behind.clone());
    let liar = Liar::start(&town.files, &behind);
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let mut node = world.node_with(&ann, &clock.environment());
    let ben_node = world.node(&ben);
    meet(&town, &ann, &ben);
    let mut to_ben = came(&ben, "Ann");
    let mut to_ann = came(&ann, "Ben");
    for (number, off_s) in (1..=stalls).zip(CLOCKS_S.into_iter().cycle()) {
        clock.put(off_s);
        let out = format!("{number:02} to Ben");
        let back = format!("{number:02} to Ann");
        ok(&ann, &["send", "Ben", &out]);
        assert!(is_dated(&ann, "Ben", off_s), "the clock stands {off_s} s off");
        ok(&ben, &["send", "Ann", &back]);
        to_ben.push(out);
        to_ann.push(back);
        stall(&node);
        std::thread::sleep(BREATH);
    }
    to_ben.sort();
    to_ann.sort();
    clock.put(0);
    let lies = liar.stop();
    assert!(lies > u64::from(stalls), "{lies} lies");
    node.stop(Signal::SIGKILL);
    drop(node);
    let node = world.node_with(&ann, &clock.environment());
    let _told = Told([(&node, "Ben"), (&ben_node, "Ann")]);
    let health: Health = node.client().unwrap().get("/v1/health").unwrap();
    let aside = health.lines.iter().find(|line| line.text.contains("could not be read"));
    assert!(aside.is_none(), "{}", aside.unwrap().text);
    until("the mixnet again", || is_up(&ann));
    let own = thread(&ann, "Ben").into_iter().filter(|note| note["incoming"] == false);
    assert_eq!(own.count(), to_ben.len(), "what the node took is there");
    until("all notes to Ben", || came(&ben, "Ann").len() >= to_ben.len());
    until("all notes to Ann", || came(&ann, "Ben").len() >= to_ann.len());
    assert_eq!((came(&ben, "Ann"), came(&ann, "Ben")), (to_ben, to_ann), "each note once");
    println!("stalls: {stalls}, lies: {lies}\n{}", node.log());
}
