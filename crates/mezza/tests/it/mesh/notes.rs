//! Notes over the mesh alone: two homes, no relay, no server. Each node runs in a namespace of its own, and
//! one cable joins them.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::net::Net;
use crate::program::{Program, json, mezza, ok, passphrase, until};

/// Two people, each with a home and a namespace.
struct Pair {
    net: Net,
    folder: tempfile::TempDir,
    pass: String,
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
}

/// The line of the mesh in the health of a node.
fn mesh_line(home: &Path) -> String {
    let output = mezza(home, &["doctor", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = lines.flat_map(|value| value["lines"].as_array().cloned().unwrap_or_default());
    let mut mesh = own.filter(|line| line["name"] == "mesh");
    mesh.next().map_or_else(String::new, |line| line["text"].as_str().unwrap_or_default().into())
}

/// The texts of a thread with who wrote them and how far they are.
fn thread(home: &Path, name: &str) -> Vec<(bool, String, String)> {
    let output = mezza(home, &["log", name, "--json"]);
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
