//! Eight nodes for minutes: processes that are killed, cables that are pulled, clocks that step, a disk that
//! is full, and a node that writes all the time.
//!
//! `MESH_SOAK_S` names the seconds; without it the test is short. `MESH_SEED` draws other incidents.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::net::Net;
use super::node::{FirstClock, Listener, MeshNode, until};

/// Nodes: the first half hangs on one switch, the second half on another one.
const NODES: usize = 8;
/// The listeners, one on each switch. Their nodes are not killed: the listeners would end.
const READERS: [usize; 2] = [0, NODES - 1];
/// The node that writes all the time.
const FLOODER: usize = 4;
/// Seconds of a run without `MESH_SOAK_S`.
const SHORT_S: u64 = 40;
/// Time between two messages that count.
const PACE: Duration = Duration::from_secs(2);
/// A message is judged where nothing happened to its ends and its path for so long before and after it.
const BEFORE: Duration = Duration::from_secs(20);
const AFTER: Duration = Duration::from_secs(30);
/// A reader has so long to print a message.
const PATIENCE: Duration = Duration::from_secs(120);
/// Memory that a node may hold more at the end than after its start, KiB.
const MORE_KIB: u64 = 8 << 10;
/// CPU time of an idle node, in thousandths of a core.
const IDLE_PERMILLE: u64 = 50;

/// A thing that happens, to a node or to the cable between the switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incident {
    /// The process is killed and starts again.
    Kill(usize),
    /// The same, and its clock is off by a minute and a half from then on.
    Step(usize),
    /// The cable of a node is pulled for some seconds.
    Flap(usize),
    /// The cable between the switches is.
    Split,
    /// The disk of a reader is full for some seconds.
    Full(usize),
}

impl Incident {
    fn draw(dice: &mut impl Rng) -> Self {
        let killed = 1 + dice.next_u32() as usize % (NODES - 2);
        match dice.next_u32() % 6 {
            0 | 1 => Self::Kill(killed),
            2 => Self::Step(killed),
            3 => Self::Flap(dice.next_u32() as usize % NODES),
            4 => Self::Split,
            _ => Self::Full(READERS[dice.next_u32() as usize % 2]),
        }
    }

    /// Returns true if it can cost a message from one node to another.
    fn touches(self, from: usize, to: usize) -> bool {
        let apart = (from < NODES / 2) != (to < NODES / 2);
        match self {
            Self::Kill(node) | Self::Step(node) | Self::Flap(node) => node == from || node == to,
            Self::Split => apart,
            Self::Full(node) => node == to,
        }
    }
}

/// A message that was accepted.
struct Sent {
    from: usize,
    to: usize,
    at: Instant,
    text: String,
}

/// When an incident began and ended.
struct Spell {
    incident: Incident,
    from: Instant,
    to: Instant,
}

struct Field {
    /// The namespaces are removed with it.
    _net: Net,
    switches: [String; 2],
    nodes: Vec<MeshNode>,
    listeners: BTreeMap<usize, Listener>,
    cards: BTreeMap<usize, std::path::PathBuf>,
}

impl Field {
    /// Everybody is there and hears all others.
    fn lay(mut net: Net, folder: &Path) -> Self {
        let names: Vec<String> = (1..=NODES).map(|n| format!("n{n}")).collect();
        let clock = FirstClock::GOOD;
        let mut nodes: Vec<MeshNode> =
            names.iter().map(|name| MeshNode::new(&mut net, folder, name, clock)).collect();
        for reader in READERS {
            small_disk(&nodes[reader].home);
        }
        let spaces: Vec<String> = nodes.iter().map(|node| node.space().to_owned()).collect();
        let halves = [&spaces[..NODES / 2], &spaces[NODES / 2..]];
        let switches = [("sa", halves[0]), ("sb", halves[1])].map(|(name, members)| {
            net.switch(name, &members.iter().map(String::as_str).collect::<Vec<_>>())
        });
        net.join(&switches[0], &switches[1]);
        nodes.iter_mut().for_each(MeshNode::start);
        until("all eight", || nodes.iter().all(|node| node.around() == NODES - 1));
        let cards = READERS.map(|reader| (reader, nodes[reader].keygen().1)).into();
        let listeners = READERS.map(|reader| (reader, nodes[reader].listen())).into();
        Self { _net: net, switches, nodes, listeners, cards }
    }

    /// Cables have the numbers of their nodes; the last one joins the switches.
    fn cable(&mut self, number: usize, up: bool) {
        let switch = self.switches[usize::from(number > NODES / 2 && number <= NODES)].clone();
        assert!(Net::set_cable(&switch, number, up));
    }

    /// An incident from its beginning to its end.
    fn suffer(&mut self, incident: Incident, dice: &mut impl Rng) -> Spell {
        let from = Instant::now();
        let pause = Duration::from_secs(2 + u64::from(dice.next_u32() % 6));
        match incident {
            Incident::Kill(node) => {
                self.nodes[node].kill();
                self.nodes[node].start();
            }
            Incident::Step(node) => {
                self.nodes[node].kill();
                let off_ms = if dice.next_u32().is_multiple_of(2) { 90_000 } else { -90_000 };
                self.nodes[node].set_clock("poor", off_ms);
                self.nodes[node].start();
                std::thread::sleep(pause);
            }
            Incident::Flap(node) => {
                self.cable(node + 1, false);
                std::thread::sleep(pause);
                self.cable(node + 1, true);
            }
            Incident::Split => {
                self.cable(NODES + 1, false);
                std::thread::sleep(pause);
                self.cable(NODES + 1, true);
            }
            Incident::Full(node) => {
                let filler = self.nodes[node].home.join("filler");
                // It fails when nothing is left, which is what it is for.
                let _ = std::fs::write(&filler, vec![7; DISK_KIB << 10]);
                std::thread::sleep(pause * 3);
                std::fs::remove_file(&filler).unwrap();
            }
        }
        Spell { incident, from, to: Instant::now() }
    }

    /// A message to a reader; `None` if the node does not accept it now.
    fn write(&self, from: usize, to: usize, text: &str) -> Option<Sent> {
        let at = Instant::now();
        let accepted = self.nodes[from].offer(&self.cards[&to], text);
        accepted.then(|| Sent { from, to, at, text: text.to_owned() })
    }
}

/// KiB of a reader's disk.
const DISK_KIB: usize = 4 << 10;

/// A file system of its own for the home of a node.
fn small_disk(home: &Path) {
    std::fs::create_dir_all(home).unwrap();
    let size = format!("size={DISK_KIB}k,mode=700");
    let mut mount = Command::new("mount");
    assert!(mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(home).status().unwrap().success());
}

/// Unmounts the disks, however the test ends.
struct Disks(Vec<std::path::PathBuf>);

impl Drop for Disks {
    fn drop(&mut self) {
        for disk in &self.0 {
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}

/// A number of the environment.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// ```text
/// n1 n2 n3 n4 ── switch ══ switch ── n5 n6 n7 n8      n1 and n8 read, n5 writes all the time
/// ```
///
/// A message between nodes to which nothing happened for a moment is printed, whatever happens to others.
#[test]
fn slow_eight_nodes_pass_messages_through_kills_flaps_steps_and_full_disks() {
    let Some(net) = Net::new("s") else { return };
    let folder = tempfile::tempdir().unwrap();
    let disks = READERS.map(|reader| folder.path().join(format!("n{}", reader + 1)));
    let _disks = Disks(disks.to_vec());
    let mut field = Field::lay(net, folder.path());
    let mut dice = ChaCha20Rng::seed_from_u64(number("MESH_SEED", 7));
    let soak = Duration::from_secs(number("MESH_SOAK_S", SHORT_S));
    let flood = Flood::start(&field.nodes[FLOODER], &field.cards[&READERS[0]]);
    let held: Vec<u64> = field.nodes.iter().map(MeshNode::resident_kib).collect();
    let mut sent = Vec::new();
    let mut spells = Vec::new();
    let begun = Instant::now();
    let mut quiet = 0;
    while begun.elapsed() < soak {
        // Incidents come in every fourth turn, so that messages between them have their peace.
        quiet += 1;
        if quiet > 10 {
            quiet = 0;
            spells.push(field.suffer(Incident::draw(&mut dice), &mut dice));
        }
        let from = dice.next_u32() as usize % NODES;
        let to = READERS[dice.next_u32() as usize % 2];
        if from != to {
            sent.extend(field.write(from, to, &format!("number {}.", sent.len())));
        }
        std::thread::sleep(PACE);
    }
    drop(flood);
    let untouched = |message: &&Sent| {
        let ends = [message.at.checked_sub(BEFORE), message.at.checked_add(AFTER)];
        let [Some(early), Some(late)] = ends else { return true };
        spells.iter().all(|spell| {
            spell.to < early
                || spell.from > late
                || !spell.incident.touches(message.from, message.to)
        })
    };
    let judged: Vec<&Sent> = sent.iter().filter(untouched).collect();
    let lost: Vec<&str> = judged
        .iter()
        .filter(|message| !field.listeners[&message.to].has_heard(&message.text, PATIENCE))
        .map(|message| &*message.text)
        .collect();
    let incidents: Vec<Incident> = spells.iter().map(|spell| spell.incident).collect();
    println!("{} messages, {} judged, {incidents:?}", sent.len(), judged.len());
    assert!(judged.len() >= sent.len() / 4 && !judged.is_empty(), "too few are judged");
    assert!(lost.is_empty(), "lost: {lost:?} of {}; {incidents:?}", judged.len());
    for (node, before) in field.nodes.iter().zip(held) {
        let now = node.resident_kib();
        assert!(now < before + MORE_KIB, "{}: {before} KiB, then {now}", node.home.display());
    }
    idle(&field.nodes);
}

/// No node is busy once nobody writes. The time is the node's own CPU time, and the span is long.
fn idle(nodes: &[MeshNode]) {
    let span = Duration::from_secs(10);
    let before: Vec<u64> = nodes.iter().map(MeshNode::cpu_ms).collect();
    std::thread::sleep(span);
    for (node, before) in nodes.iter().zip(before) {
        let ms = node.cpu_ms() - before;
        let most = span.as_millis() as u64 * IDLE_PERMILLE / 1_000;
        assert!(ms <= most, "{}: {ms} ms of CPU in {span:?}", node.home.display());
    }
}

/// A writer that sends as fast as its node accepts.
struct Flood {
    ended: std::sync::Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(node: &MeshNode, card: &Path) -> Self {
        let ended = std::sync::Arc::new(AtomicBool::new(false));
        let stop = std::sync::Arc::clone(&ended);
        let offer = node.offering(card);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Its node may be down, or say that this is too much.
                let _ = offer("flood");
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
