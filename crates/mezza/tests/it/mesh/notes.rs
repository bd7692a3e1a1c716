//! Notes over the mesh alone: two homes, no relay, no server. Each node runs in a namespace of its own, and
//! one cable joins them.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::net::Net;
use super::node::{FirstClock, MeshNode};
use crate::program::{Program, json, mezza, ok, passphrase, until};

/// Two people, each with a home and a namespace.
struct Pair {
    net: Net,
    folder: tempfile::TempDir,
    pass: String,
}

/// A home, and the namespace of its node.
struct Place<'a> {
    space: &'a str,
    home: &'a Path,
    /// True if the node has no passphrase.
    locked: bool,
}

/// The clock of a node, and the life of its notes.
struct Later<'a> {
    ahead_ms: u64,
    life: &'a str,
}

/// The settings of a node in the mesh, with a clock that is right.
const ENV: [(&str, &str); 2] = [("MEZZA_MESH", "true"), ("MEZZA_TEST_CLOCK_GRADE", "good")];

impl Pair {
    fn new(test: &str) -> Option<Self> {
        let net = Net::new(test)?;
        let folder = tempfile::tempdir().unwrap();
        let pass = passphrase(folder.path(), "correct horse battery staple");
        let pass = pass.to_str().unwrap().to_owned();
        Some(Self { net, folder, pass })
    }

    fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn init(&self, name: &str) -> PathBuf {
        let home = self.home(name);
        ok(&home, &["init", "--name", name, "--passphrase-file", &self.pass]);
        home
    }

    fn node(&self, space: &str, home: &Path) -> Program {
        Program::node_within(space, home, &["--passphrase-file", &self.pass], &ENV)
    }

    /// A node whose notes have a life, on a machine whose clock is ahead.
    fn node_at(&self, place: &Place<'_>, time: &Later<'_>) -> Program {
        let ahead = time.ahead_ms.to_string();
        let bent = [("MEZZA_TEST_RTC_OFFSET_MS", ahead.as_str()), ("MEZZA_MESH_LIFE", time.life)];
        let env = [&ENV[..], &bent].concat();
        let args = ["--passphrase-file", &self.pass];
        let args: &[&str] = if place.locked { &[] } else { &args };
        Program::node_within(place.space, place.home, args, &env)
    }
}

/// The line of the mesh in the health of a node.
pub fn mesh_line(home: &Path) -> String {
    let output = mezza(home, &["doctor", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = lines.flat_map(|value| value["lines"].as_array().cloned().unwrap_or_default());
    let mut mesh = own.filter(|line| line["name"] == "mesh");
    mesh.next().map_or_else(String::new, |line| line["text"].as_str().unwrap_or_default().into())
}

/// The texts of a thread with who wrote them and how far they are.
pub fn thread(home: &Path, name: &str) -> Vec<(bool, String, String)> {
    let output = mezza(home, &["log", name, "-n", "500", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let notes = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = |note: Value| {
        let text = |key: &str| note[key].as_str().unwrap_or_default().to_owned();
        (note["incoming"] == true, text("text"), text("state"))
    };
    notes.map(line).collect()
}

/// ```text
/// ann ── ben        Ann has Ben's card; nobody has anything else
/// ```
#[test]
fn node_24_slow_two_homes_talk_over_the_mesh_without_any_server() {
    let Some(mut pair) = Pair::new("t") else { return };
    let [a, b] = ["a", "b"].map(|name| pair.net.space(name).unwrap());
    pair.net.cable(&a, &b);
    let [ann, ben] = ["Ann", "Ben"].map(|name| pair.init(name));
    // A node in no mesh makes no keys, and says what to do.
    let alone = Program::node(&ben, &["--passphrase-file", &pair.pass], &[]);
    let refused = mezza(&ben, &["card", "--mesh"]);
    assert_eq!(refused.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("mesh = true"));
    drop(alone);
    let mut ann_node = pair.node(&a, &ann);
    let mut ben_node = pair.node(&b, &ben);
    until("the nodes know their time", || {
        [&ann, &ben].iter().all(|home| mesh_line(home).contains("no keys"))
    });
    // One card with everything, 630 bytes of it for the mesh.
    let card = ok(&ben, &["card", "--mesh"]);
    ok(&ann, &["card", "--mesh"]);
    until("the nodes hear each other", || {
        [&ann, &ben].iter().all(|home| mesh_line(home).contains("neighbours are heard"))
    });
    ok(&ann, &["add", card.trim()]);
    ok(&ann, &["send", "Ben", "hello without a server"]);
    until("Ann's request", || ok(&ben, &["requests"]).contains("hello without a server"));
    let states = thread(&ann, "Ben");
    assert_eq!(states[0].2, "carried", "{states:?}");
    let requests = json(&ben, &["requests"]);
    let id = requests[0]["requests"][0]["contact"]["id"].as_str().unwrap().to_owned();
    ok(&ben, &["requests", "accept", &id]);
    until("the receipt", || thread(&ann, "Ben")[0].2 == "delivered");
    ok(&ben, &["send", "Ann", "and back"]);
    until("the answer", || thread(&ann, "Ben").iter().any(|note| note.0 && note.1 == "and back"));
    until("its receipt", || thread(&ben, "Ann").iter().all(|note| note.0 || note.2 == "delivered"));
    // Both end and start again; the keys and the session are there.
    for node in [&mut ann_node, &mut ben_node] {
        node.stop(Signal::SIGTERM);
    }
    let _ann_node = pair.node(&a, &ann);
    let _ben_node = pair.node(&b, &ben);
    ok(&ann, &["send", "Ben", "after a start"]);
    until("the note after a start", || {
        thread(&ann, "Ben").iter().all(|note| note.0 || note.2 == "delivered")
    });
    assert!(ok(&ben, &["log", "Ann"]).contains("after a start"));
}

/// ```text
/// ann ── carl ── ben        Carl's vault is locked all the time
/// ```
#[test]
fn mesh_85_slow_a_locked_node_carries_the_notes_of_others() {
    let Some(mut pair) = Pair::new("l") else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| pair.net.space(name).unwrap());
    pair.net.cable(&a, &c);
    pair.net.cable(&c, &b);
    let [ann, ben, carl] = ["Ann", "Ben", "Carl"].map(|name| pair.init(name));
    let _nodes = [pair.node(&a, &ann), pair.node(&b, &ben)];
    let _carl_node = Program::node_within(&c, &carl, &[], &ENV);
    until("the nodes know their time", || {
        [&ann, &ben].iter().all(|home| mesh_line(home).contains("no keys"))
    });
    let cards = [&ann, &ben].map(|home| ok(home, &["card", "--mesh"]));
    until("the ends hear the one between", || {
        [&ann, &ben].iter().all(|home| mesh_line(home).contains("neighbours are heard"))
    });
    ok(&ben, &["add", cards[0].trim()]);
    ok(&ann, &["add", cards[1].trim()]);
    ok(&ann, &["send", "Ben", "past a locked door"]);
    until("the note and its receipt", || thread(&ann, "Ben")[0].2 == "delivered");
    assert_eq!(json(&carl, &["node", "status"])[0]["status"]["state"], "locked");
}

/// ```text
/// ann ── 1 ── 2 ── 3 ── 4 ── 5 ── 6 ── ben        the six between have nobody's keys
/// ```
#[test]
fn node_24_slow_a_card_alone_begins_a_conversation_over_a_chain_of_eight() {
    let Some(mut pair) = Pair::new("8") else { return };
    let [a, b] = ["a", "b"].map(|name| pair.net.space(name).unwrap());
    let mut between: Vec<MeshNode> = (1..=6)
        .map(|n| {
            let name = n.to_string();
            MeshNode::new(&mut pair.net, pair.folder.path(), &name, FirstClock::GOOD)
        })
        .collect();
    let inner = between.iter().map(|node| node.space().to_owned());
    let chain: Vec<String> = [a.clone()].into_iter().chain(inner).chain([b.clone()]).collect();
    for link in chain.windows(2) {
        pair.net.cable(&link[0], &link[1]);
    }
    between.iter_mut().for_each(MeshNode::start);
    let [ann, ben] = ["Ann", "Ben"].map(|name| pair.init(name));
    let _nodes = [pair.node(&a, &ann), pair.node(&b, &ben)];
    until("the nodes know their time", || {
        [&ann, &ben].iter().all(|home| mesh_line(home).contains("no keys"))
    });
    let card = ok(&ben, &["card", "--mesh"]);
    ok(&ann, &["card", "--mesh"]);
    until("the ends have neighbours", || {
        [&ann, &ben].iter().all(|home| mesh_line(home).contains("neighbours are heard"))
    });
    until("those between have two each", || between.iter().all(|node| node.around() == 2));
    ok(&ann, &["add", card.trim()]);
    ok(&ann, &["send", "Ben", "seven hops away"]);
    until("Ann's request", || ok(&ben, &["requests"]).contains("seven hops away"));
    let requests = json(&ben, &["requests"]);
    let id = requests[0]["requests"][0]["contact"]["id"].as_str().unwrap().to_owned();
    ok(&ben, &["requests", "accept", &id]);
    until("the receipt", || thread(&ann, "Ben")[0].2 == "delivered");
    ok(&ben, &["send", "Ann", "and back"]);
    until("the answer", || thread(&ann, "Ben").iter().any(|note| note.0 && note.1 == "and back"));
    until("its receipt", || thread(&ben, "Ann").iter().all(|note| note.0 || note.2 == "delivered"));
}

/// Milliseconds of half a day, the longest epoch.
const HALF_DAY_MS: u64 = 43_200_000;
const MINUTE_MS: u64 = 60_000;

/// ```text
/// ann ── carl               Ann ends, Carl is killed
///        carl ── ben        so many minutes later; Carl's vault is locked all the time
/// ```
///
/// Returns true if Ben reads Ann's first note. Then Ann comes back, and reads Ben's receipt.
fn carry_note(test: &str, life: &str, minutes: u64) -> Option<bool> {
    let mut pair = Pair::new(test)?;
    let [a, b, c] = ["a", "b", "c"].map(|name| pair.net.space(name).unwrap());
    pair.net.cable(&a, &c);
    pair.net.cable(&c, &b);
    let [ann, ben, carl] = ["Ann", "Ben", "Carl"].map(|name| pair.init(name));
    let [ann_at, ben_at] =
        [(&a, &ann), (&b, &ben)].map(|(space, home)| Place { space, home, locked: false });
    let carl_at = Place { space: &c, home: &carl, locked: true };
    // A minute after half a day begins, so that no epoch ends by chance.
    let now = mezza::testing::clock::now().as_ms();
    let ahead_ms = now.next_multiple_of(HALF_DAY_MS) + MINUTE_MS - now;
    let first = Later { ahead_ms, life };
    let ben_node = pair.node_at(&ben_at, &first);
    until("Ben's node knows its time", || mesh_line(&ben).contains("no keys"));
    let card = ok(&ben, &["card", "--mesh"]);
    drop(ben_node);
    let ann_node = pair.node_at(&ann_at, &first);
    let carl_node = pair.node_at(&carl_at, &first);
    until("Ann's node knows its time", || mesh_line(&ann).contains("no keys"));
    ok(&ann, &["card", "--mesh"]);
    ok(&ann, &["add", card.trim()]);
    ok(&ann, &["send", "Ben", "carried for hours"]);
    until("Carl carries it", || thread(&ann, "Ben")[0].2 == "carried");
    drop(ann_node);
    drop(carl_node);
    let later = Later { ahead_ms: ahead_ms + minutes * MINUTE_MS, life };
    let _carl_node = pair.node_at(&carl_at, &later);
    let _ben_node = pair.node_at(&ben_at, &later);
    let carried = || json(&carl, &["mesh", "status"])[0]["carried"].as_u64();
    until("Ben hears Carl", || mesh_line(&ben).contains("neighbours are heard"));
    until("the note has come, or its time is over", || {
        carried() == Some(0) || ok(&ben, &["requests"]).contains("carried for hours")
    });
    if carried() == Some(0) {
        return Some(ok(&ben, &["requests"]).contains("carried for hours"));
    }
    let requests = json(&ben, &["requests"]);
    let id = requests[0]["requests"][0]["contact"]["id"].as_str().unwrap().to_owned();
    ok(&ben, &["requests", "accept", &id]);
    let _ann_node = pair.node_at(&ann_at, &later);
    until("the receipt", || thread(&ann, "Ben")[0].2 == "delivered");
    Some(true)
}

#[test]
fn mesh_82_slow_a_locked_courier_carries_a_first_note_for_minutes_and_for_hours() {
    for (test, life, minutes) in [("ha", "half-hour", 40), ("hb", "half-day", 9 * 60)] {
        let Some(arrived) = carry_note(test, life, minutes) else { return };
        assert!(arrived, "{life} after {minutes} minutes");
    }
    // A day and an hour later it is in no store, and Ben has no key for it.
    assert_eq!(carry_note("hc", "half-day", 25 * 60), Some(false));
}
