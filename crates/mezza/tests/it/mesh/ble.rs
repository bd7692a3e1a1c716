//! Nodes on Bluetooth LE alone: each has a virtual controller of Bumble (`bumble.txt`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::node::{FirstClock, MeshNode, until};
use super::notes::{mesh_line, thread};
use super::soak::number;
use crate::program::{Program, json, ok, passphrase};

/// How long its controllers may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Times that the controllers go away.
const TURNS: u32 = 10;
/// Time between two messages each way while a turn lasts.
const PACE: Duration = Duration::from_secs(10);

/// A Python that has Bumble: the one that `cargo xtask test` names, or that of the system.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("MEZZA_TEST_PYTHON").map_or("python3".into(), PathBuf::from);
    let run = Command::new(&named).args(["-c", "import bumble.controller"]).output();
    run.is_ok_and(|output| output.status.success()).then_some(named)
}

/// Virtual controllers, each behind a port.
struct Controllers {
    child: Child,
    ports: Vec<u16>,
    lines: Receiver<Value>,
}

impl Controllers {
    /// `None`, with the reason, where there is no Bumble.
    fn start(mode: &str, count: usize) -> Option<Self> {
        let free = (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let free: Vec<_> = free.collect();
        let ports = free.iter().map(|held| held.local_addr().unwrap().port()).collect();
        drop(free);
        Self::start_on(mode, ports)
    }

    /// The same, behind these ports.
    fn start_on(mode: &str, ports: Vec<u16>) -> Option<Self> {
        let Some(python) = python() else {
            println!(
                "SKIPPED mesh over Bluetooth: no Python with Bumble; cargo xtask test installs it"
            );
            return None;
        };
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mesh/virtual_controllers.py");
        let mut command = Command::new(python);
        command.arg(script).arg(mode).args(ports.iter().map(u16::to_string));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let values = output.lines().map_while(Result::ok);
            let mut values = values.filter_map(|line| serde_json::from_str(&line).ok());
            values.all(|value| sender.send(value).is_ok())
        });
        let started: Value = lines.recv_timeout(PATIENCE).unwrap();
        assert_eq!(started["ready"], true);
        Some(Self { child, ports, lines })
    }

    /// A node on one of them, and on nothing else.
    fn node(&self, folder: &Path, at: usize) -> MeshNode {
        let hci = format!("tcp:127.0.0.1:{}", self.ports[at]);
        let node = MeshNode::alone(folder, &format!("n{at}"), FirstClock::GOOD);
        node.with(&["--no-cast", "--ble", &hci])
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one neighbour of a node: its name and the number of its link.
fn neighbour(node: &MeshNode) -> Option<(String, u64)> {
    let status = node.status()?;
    let neighbours = status["neighbours"].as_array()?;
    let [one] = &neighbours[..] else { return None };
    Some((one["name"].as_str()?.to_owned(), one["link"].as_u64()?))
}

/// ```text
/// n0 ~~~ virtual controller ~~~ virtual controller ~~~ n1        no interface, no network
///        a text of 512 bytes and one of 4,096, each way, in one contact
/// ```
#[test]
fn two_processes_exchange_cells_over_ble_both_ways_in_one_contact() {
    let Some(air) = Controllers::start("watch", 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = [air.node(folder.path(), 0), air.node(folder.path(), 1)];
    nodes.iter_mut().for_each(MeshNode::start);
    until("a contact", || nodes.iter().all(|node| neighbour(node).is_some()));
    let contacts = nodes.each_ref().map(neighbour);
    let cards = nodes.each_ref().map(|node| node.keygen().1);
    let listeners = nodes.each_ref().map(MeshNode::listen);
    for bucket in ["0", "3"] {
        for (from, to) in [(0, 1), (1, 0)] {
            let text = format!("{bucket} from {from}");
            nodes[from].reaches(&listeners[to], &cards[to], &text, &["--bucket", bucket]);
        }
    }
    assert_eq!(nodes.each_ref().map(neighbour), contacts, "all of it was one contact");
    // A controller that is gone ends the contact, and one that comes back begins another.
    nodes[1].kill();
    until("the contact ends", || neighbour(&nodes[0]).is_none());
    nodes[1].start();
    until("another contact", || nodes.iter().all(|node| neighbour(node).is_some()));
    assert_ne!(neighbour(&nodes[0]), contacts[0]);
}

/// ```text
/// Ann ~~~ virtual controller ~~~ virtual controller ~~~ Ben        no interface, no relay
/// ```
#[test]
fn node_24_slow_two_homes_talk_over_bluetooth_alone() {
    let Some(air) = Controllers::start("watch", 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let pass = passphrase(folder.path(), "correct horse battery staple");
    let unlock = ["--passphrase-file", pass.to_str().unwrap()];
    let homes = ["Ann", "Ben"].map(|name| {
        let home = folder.path().join(name);
        ok(&home, &[&["init", "--name", name][..], &unlock].concat());
        home
    });
    let _nodes = [0, 1].map(|at: usize| {
        let hci = format!("tcp:127.0.0.1:{}", air.ports[at]);
        let env = [
            ("MEZZA_MESH", "true"),
            ("MEZZA_MESH_IF", "none"),
            ("MEZZA_MESH_BLE", hci.as_str()),
            ("MEZZA_TEST_CLOCK_GRADE", "good"),
        ];
        Program::node(&homes[at], &unlock, &env)
    });
    let [ann, ben] = &homes;
    until("the nodes know their time", || {
        homes.iter().all(|home| mesh_line(home).contains("no keys"))
    });
    let card = ok(ben, &["card", "--mesh"]);
    ok(ann, &["card", "--mesh"]);
    until("a contact", || {
        homes.iter().all(|home| mesh_line(home).contains("neighbours are heard"))
    });
    ok(ann, &["add", card.trim()]);
    ok(ann, &["send", "Ben", "through the air"]);
    until("Ann's request", || ok(ben, &["requests"]).contains("through the air"));
    let requests = json(ben, &["requests"]);
    let id = requests[0]["requests"][0]["contact"]["id"].as_str().unwrap().to_owned();
    ok(ben, &["requests", "accept", &id]);
    until("the receipt", || thread(ann, "Ben")[0].2 == "delivered");
}

/// Advertisements under one name come from one address, and neither ever appears with another one.
#[test]
fn mesh_31_name_and_address_change_together() {
    let Some(air) = Controllers::start("watch", 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut node = air.node(folder.path(), 0).set("MEZZA_TEST_MESH_NAME_S", "6");
    node.start();
    let mut names = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    let mut rest = BTreeSet::new();
    let end = Instant::now() + 2 * PATIENCE;
    while names.len() < 3 {
        assert!(Instant::now() < end, "{names:?}");
        let shown = air.next();
        let address = shown["address"].as_str().unwrap();
        let data = shown["data"].as_str().unwrap();
        let name = data[8..20].to_owned();
        let address = address.to_owned();
        rest.insert((data[..8].to_owned(), data[20..].to_owned()));
        let before = names.insert(name.clone(), address.clone());
        assert!(before.is_none_or(|before| before == address), "{names:?}");
        let before = addresses.insert(address, name.clone());
        assert!(before.is_none_or(|before| before == name), "{addresses:?}");
    }
    assert_eq!(rest.len(), 1, "network and channel are the same for all devices");
}

/// A host of another make, Bumble's own, takes our channel: what comes first is a beacon, and a beacon that it
/// sends back makes it a neighbour.
#[test]
fn a_host_of_another_make_is_a_neighbour() {
    let Some(air) = Controllers::start("peer", 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut node = air.node(folder.path(), 0);
    node.start();
    assert_eq!(air.next()["connected"], true);
    let first = air.next()["sdu"].as_str().unwrap().to_owned();
    assert!(first.starts_with("01") && first.len() == 2 * 24, "a beacon is first: {first}");
    until("it is a neighbour", || neighbour(&node).is_some_and(|(name, _)| name == "ffffffffffff"));
}

/// ```text
/// n0 ~~~ controller ~~~ controller ~~~ n1        both controllers go and come back, ten times; the nodes stay
/// ```
///
/// `MESH_SOAK_S` names the seconds of all ten turns; without it each ends when messages flow again.
#[test]
fn mesh_68_slow_messages_flow_after_each_return_of_the_controllers() {
    let Some(mut air) = Controllers::start("watch", 2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = [air.node(folder.path(), 0), air.node(folder.path(), 1)];
    nodes.iter_mut().for_each(MeshNode::start);
    until("both nodes run", || nodes.iter().all(|node| node.status().is_some()));
    let cards = nodes.each_ref().map(|node| node.keygen().1);
    let listeners = nodes.each_ref().map(MeshNode::listen);
    let turn_length = Duration::from_secs(number("MESH_SOAK_S", 0)) / TURNS;
    for turn in 0..TURNS {
        let ports = air.ports.clone();
        drop(air);
        let is_told = |node: &MeshNode| {
            let status = node.status().unwrap_or_default();
            status["links"].to_string().contains("does not answer")
        };
        until("status says that the controllers are gone", || nodes.iter().all(is_told));
        until("the contact ends", || nodes.iter().all(|node| neighbour(node).is_none()));
        let begin = Instant::now();
        air = Controllers::start_on("watch", ports).unwrap();
        until("another contact", || nodes.iter().all(|node| neighbour(node).is_some()));
        let mut messages = 0;
        loop {
            for (from, to) in [(0, 1), (1, 0)] {
                let text = format!("turn {turn} from {from}, number {messages}.");
                nodes[from].reaches(&listeners[to], &cards[to], &text, &[]);
            }
            if messages == 0 {
                println!("turn {turn}: messages flow {:.1} s later", begin.elapsed().as_secs_f64());
            }
            messages += 1;
            if begin.elapsed() >= turn_length {
                break;
            }
            std::thread::sleep(PACE.min(turn_length));
        }
        println!("turn {turn}: {messages} messages each way");
    }
}
