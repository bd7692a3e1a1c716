//! Notes over a link: two homes, no relay, no server.
//!
//! ```text
//!  namespace A                                     namespace B
//!  Ann's node, dials    a0 ------- veth ------- b0    Ben's node, listens on b0
//!                 10.9.0.1                     10.9.0.2
//! ```

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddrV6, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::net::Net;
use crate::mesh::notes::thread;
use crate::program::{Program, command, free_port, mezza, ok, passphrase, until};

/// Rounds with a kill -9, unless `MEZZA_TEST_KILLS` says how many.
const KILLS: usize = 8;
/// How long a machine sleeps: longer than a handshake may take, and than a connection waits for a frame.
const SLEEP: Duration = Duration::from_secs(15);
/// The side that dials, and the side that listens.
pub const ANN: usize = 0;
pub const BEN: usize = 1;
pub const NAMES: [&str; 2] = ["Ann", "Ben"];
const ADDRESSES: [&str; 2] = ["10.9.0.1/24", "10.9.0.2/24"];

/// Two people, each with a home, and with a machine of its own if there is a cable.
pub struct World {
    /// Removed at the end.
    pub folder: tempfile::TempDir,
    pass: String,
    net: Option<Net>,
    /// Ben's address, as Ann types it; a cable has the usual port.
    pub address: String,
    /// The address that Ann dials, if it leads to Ben's by another way.
    pub dialled: Option<String>,
    homes: [PathBuf; 2],
}

impl World {
    /// Both nodes on this machine. Ben's listens on loopback.
    pub fn on_loopback() -> Self {
        Self::with_homes(None, format!("127.0.0.1:{}", free_port()))
    }

    /// Each node in a namespace; `None`, with the reason, where namespaces cannot be made.
    fn on_cable(test: &str) -> Option<Self> {
        let net = Net::joined(test)?;
        for (side, address) in ADDRESSES.iter().enumerate() {
            net.ip(side, &["addr", "add", address, "dev", ["a0", "b0"][side]]);
        }
        Some(Self::with_homes(Some(net), "10.9.0.2".into()))
    }

    /// The same without any address but those that the system makes by itself.
    fn on_bare_cable(test: &str) -> Option<Self> {
        let net = Net::joined(test)?;
        let mut address = None;
        until("an address", || {
            let shown =
                net.ip_text(BEN, &["-o", "-6", "addr", "show", "dev", "b0", "scope", "link"]);
            let ip = shown.split_whitespace().find_map(|word| word.strip_suffix("/64"));
            address = ip.map(|ip| format!("{ip}%a0"));
            address.is_some()
        });
        Some(Self::with_homes(Some(net), address.expect("found")))
    }

    fn with_homes(net: Option<Net>, address: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pass = passphrase(folder.path(), "correct horse battery staple");
        let pass = pass.to_str().unwrap().to_owned();
        let homes = NAMES.map(|name| folder.path().join(name));
        for (home, name) in homes.iter().zip(NAMES) {
            ok(home, &["init", "--name", name, "--passphrase-file", &pass]);
        }
        Self { folder, pass, net, address, dialled: None, homes }
    }

    pub fn home(&self, who: usize) -> &Path {
        &self.homes[who]
    }

    /// Ben's setting `link_listen`.
    fn listens_on(&self) -> String {
        if self.net.is_some() { "b0".into() } else { self.address.clone() }
    }

    pub fn node(&self, who: usize) -> Program {
        let listen = if who == BEN { self.listens_on() } else { String::new() };
        let env = [("MEZZA_LINK_LISTEN", listen.as_str())];
        let args = ["--passphrase-file", &self.pass];
        match &self.net {
            Some(net) => Program::node_within(net.namespace(who), self.home(who), &args, &env),
            None => Program::node(self.home(who), &args, &env),
        }
    }

    /// Each adds the card of the other one.
    pub fn exchange_cards(&self) {
        let cards = [ANN, BEN].map(|who| ok(self.home(who), &["card"]));
        for who in [ANN, BEN] {
            ok(self.home(who), &["add", cards[1 - who].trim()]);
        }
    }

    /// Waits until Ben's device accepts connections.
    fn wait_for_listener(&self) {
        until("the listener", || {
            let address = self.address.clone();
            match &self.net {
                Some(net) => net.within(ANN, move || connect(&address).is_ok()),
                None => TcpStream::connect(&address).is_ok(),
            }
        });
    }

    /// Both run the command, and answer the question about the digits. Returns both exit codes.
    fn pair(&self, nodes: &[Program; 2], answers: [&str; 2]) -> [Option<i32>; 2] {
        self.wait_for_listener();
        let env = [("MEZZA_LINK_LISTEN", self.listens_on())];
        let mut ben = Pairing::start(self.home(BEN), &["Ann"], &env);
        until("Ben's pairing", || pairing_state(&nodes[BEN]) == "waiting");
        let address = self.dialled.as_deref().unwrap_or(&self.address);
        let asked = ["Ben", "--address", address];
        let mut ann = Pairing::start(self.home(ANN), &asked, &[]);
        assert_eq!(ann.read_digits(), ben.read_digits());
        ann.answer(answers[ANN]);
        ben.answer(answers[BEN]);
        [ann.wait(), ben.wait()]
    }

    /// Two nodes that know each other, are paired, and use the link alone.
    pub fn paired(&self) -> [Program; 2] {
        let nodes = [ANN, BEN].map(|who| self.node(who));
        self.exchange_cards();
        assert_eq!(self.pair(&nodes, ["y\n", "y\n"]), [Some(0), Some(0)]);
        for who in [ANN, BEN] {
            ok(self.home(who), &["set", NAMES[1 - who], "--carriers", "link"]);
        }
        nodes
    }

    pub fn send(&self, who: usize, text: &str) {
        ok(self.home(who), &["send", NAMES[1 - who], text]);
    }

    /// The thread of one side, as (incoming, text, state).
    pub fn thread(&self, who: usize) -> Vec<(bool, String, String)> {
        thread(self.home(who), NAMES[1 - who])
    }

    pub fn wait_for_text(&self, who: usize, text: &str) {
        until(text, || self.thread(who).iter().any(|note| note.0 && note.1 == text));
    }

    pub fn wait_for_receipts(&self) {
        until("all receipts", || {
            let notes = [ANN, BEN].map(|who| self.thread(who)).concat();
            notes.iter().all(|note| note.0 || note.2 == "delivered")
        });
    }
}

/// Connects from Ann's machine to the port of links.
fn connect(address: &str) -> std::io::Result<TcpStream> {
    let Some((ip, interface)) = address.split_once('%') else {
        return TcpStream::connect((address, 4_796));
    };
    let number = nix::net::if_::if_nametoindex(interface)?;
    TcpStream::connect(SocketAddrV6::new(ip.parse().expect("an address"), 4_796, 0, number))
}

/// How far the pairing of a node is.
fn pairing_state(node: &Program) -> String {
    let shown: Option<Value> = node.client().and_then(|it| it.get("/v1/links/pairing").ok());
    shown.map_or_else(String::new, |it| it["state"].as_str().unwrap_or_default().into())
}

/// A running `mezza link pair-contact`.
struct Pairing {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Pairing {
    fn start(home: &Path, args: &[&str], env: &[(&str, String)]) -> Self {
        let args = [&["link", "pair-contact", "--json"], args].concat();
        let mut command = command(home, &args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let env = env.iter().map(|(name, value)| (*name, value.as_str()));
        let mut child = command.envs(env).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The digits that the user sees.
    fn read_digits(&mut self) -> String {
        let line = self.lines.next().expect("digits").unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "digits", "{line}");
        value["digits"].as_str().unwrap().to_owned()
    }

    fn answer(&mut self, text: &str) {
        self.child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// Without rights for namespaces, so that it runs everywhere.
#[test]
fn cli_27_slow_two_homes_pair_and_talk_over_a_link_without_any_server() {
    let world = World::on_loopback();
    let nodes = [ANN, BEN].map(|who| world.node(who));
    world.exchange_cards();
    // A device that listens nowhere says what to do.
    let refused = mezza(world.home(ANN), &["link", "pair-contact", "Ben"]);
    assert_eq!(refused.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("link_listen"));
    // An address for a device that is not paired.
    let refused = mezza(world.home(ANN), &["set", "Ben", "--link", "10.9.0.2"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("pair-contact Ben"));
    // Other digits leave nothing.
    assert_eq!(world.pair(&nodes, ["n\n", "y\n"]), [Some(1), Some(1)]);
    assert!(!ok(world.home(ANN), &["carriers"]).contains("link"));
    assert_eq!(world.pair(&nodes, ["y\n", "y\n"]), [Some(0), Some(0)]);
    for who in [ANN, BEN] {
        ok(world.home(who), &["set", NAMES[1 - who], "--carriers", "link"]);
    }
    world.send(ANN, "hello over the link");
    world.wait_for_text(BEN, "hello over the link");
    world.send(BEN, "and back");
    world.wait_for_text(ANN, "and back");
    world.wait_for_receipts();
    assert!(ok(world.home(ANN), &["carriers"]).contains("link"));
}

#[test]
fn msg_144_slow_two_homes_talk_over_one_cable_and_move_to_other_addresses() {
    let Some(world) = World::on_cable("notes") else { return };
    let _nodes = world.paired();
    let net = world.net.as_ref().expect("on a cable");
    world.send(ANN, "hello over the cable");
    world.wait_for_text(BEN, "hello over the cable");
    world.send(BEN, "and back");
    world.wait_for_text(ANN, "and back");
    world.wait_for_receipts();
    // The cable is pulled, and plugged in again.
    net.ip(ANN, &["link", "set", "dev", "a0", "down"]);
    for who in [ANN, BEN] {
        world.send(who, "while it was pulled");
    }
    net.ip(ANN, &["link", "set", "dev", "a0", "up"]);
    world.wait_for_receipts();
    // Ben's address changes, and Ann is told.
    net.ip(BEN, &["addr", "del", "10.9.0.2/24", "dev", "b0"]);
    net.ip(BEN, &["addr", "add", "10.9.0.7/24", "dev", "b0"]);
    world.send(ANN, "to another address");
    let said = ok(world.home(ANN), &["set", "Ben", "--link", "10.9.0.7"]);
    assert!(said.contains("10.9.0.7:4796"), "{said}");
    world.wait_for_text(BEN, "to another address");
    // Ann's address changes, and nobody is told.
    net.ip(ANN, &["addr", "del", "10.9.0.1/24", "dev", "a0"]);
    net.ip(ANN, &["addr", "add", "10.9.0.9/24", "dev", "a0"]);
    world.send(BEN, "from another address");
    world.wait_for_text(ANN, "from another address");
    world.wait_for_receipts();
    // A device that is dialled takes no address.
    let refused = mezza(world.home(BEN), &["set", "Ann", "--link", "10.9.0.9"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!([world.thread(ANN).len(), world.thread(BEN).len()], [6; 2], "no note twice");
}

#[test]
fn msg_144_slow_a_machine_that_is_suspended_gets_what_was_written_meanwhile() {
    let Some(world) = World::on_cable("sleep") else { return };
    let nodes = world.paired();
    // The side that listens, the side that dials, and both.
    for (round, asleep) in [&[BEN][..], &[ANN], &[ANN, BEN]].into_iter().enumerate() {
        let awake = [ANN, BEN].into_iter().filter(|who| !asleep.contains(who));
        let before = [ANN, BEN].map(|who| format!("{round}: last words of {}", NAMES[who]));
        for who in [ANN, BEN] {
            world.send(who, &before[who]);
        }
        for who in asleep {
            signal(&nodes[*who], Signal::SIGSTOP);
        }
        let meanwhile: Vec<_> =
            awake.map(|who| (who, format!("{round}: are you there?"))).collect();
        for (who, text) in &meanwhile {
            world.send(*who, text);
        }
        std::thread::sleep(SLEEP);
        for who in asleep {
            signal(&nodes[*who], Signal::SIGCONT);
        }
        for who in [ANN, BEN] {
            world.wait_for_text(1 - who, &before[who]);
        }
        for (who, text) in &meanwhile {
            world.wait_for_text(1 - who, text);
        }
    }
    world.wait_for_receipts();
    assert_eq!([world.thread(ANN).len(), world.thread(BEN).len()], [8; 2], "no note twice");
}

fn signal(node: &Program, signal: Signal) {
    kill(Pid::from_raw(node.id().try_into().unwrap()), signal).unwrap();
}

#[test]
fn msg_144_slow_a_node_that_is_killed_in_turn_loses_and_doubles_nothing_over_a_cable() {
    let Some(world) = World::on_bare_cable("kills") else { return };
    let mut nodes = world.paired();
    let asked = std::env::var("MEZZA_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: usize = asked.unwrap_or(KILLS);
    for round in 0..kills {
        let who = round % 2;
        let texts = [ANN, BEN].map(|side| format!("{round} of {}", NAMES[side]));
        for side in [ANN, BEN] {
            world.send(side, &texts[side]);
        }
        // At once; while the receipt of the last note is on its way; and twice.
        if round % 3 == 1 {
            world.wait_for_text(who, &texts[1 - who]);
        }
        for _ in 0..=usize::from(round % 3 == 2) {
            nodes[who].stop(Signal::SIGKILL);
            nodes[who] = world.node(who);
        }
        for side in [ANN, BEN] {
            world.wait_for_text(side, &texts[1 - side]);
        }
    }
    world.wait_for_receipts();
    for who in [ANN, BEN] {
        assert_eq!(world.thread(who).len(), 2 * kills, "no note twice");
    }
}
