//! The view of an observer on the wire to the entry of three people: one who idles, and two of whom one
//! writes as fast as she can and one goes and comes back.
//!
//! ```text
//! ann ben cas ==TLS==> here, byte for byte ==> entry
//! ```

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::town::Town;
use crate::program::{free_port, mixnet_status, ok, until};
use crate::two_homes::World;

/// Bytes of the head of a TLS record: type, version, length.
const HEAD: usize = 5;
/// The type of records with data.
const DATA: u8 = 23;
/// How long is captured: 40 rounds of conversations, 10 of calls, 4 of invitations.
const WINDOW: Duration = Duration::from_secs(20);

/// One record, or some bytes the other way.
#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    connection: usize,
    up: bool,
    bytes: usize,
}

/// How many records there were of each size in bytes.
type Sizes = BTreeMap<usize, usize>;

/// A wire with somebody on it.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<(usize, Vec<Seen>)>>);

impl Wire {
    /// Takes connections at one address and passes them on to another.
    fn listen(&self, address: &str, to: String) {
        let listener = TcpListener::bind(address).unwrap();
        let wire = self.clone();
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let number = wire.open();
                for (from, to, up) in [(&near, &far, true), (&far, &near, false)] {
                    let from = from.try_clone().unwrap();
                    let to = to.try_clone().unwrap();
                    let wire = wire.clone();
                    thread::spawn(move || wire.pass(from, to, number, up));
                }
            }
        });
    }

    fn open(&self) -> usize {
        let mut wire = self.0.lock().unwrap();
        wire.0 += 1;
        wire.0
    }

    /// The number of the newest connection.
    fn newest(&self) -> usize {
        self.0.lock().unwrap().0
    }

    /// Until one side ends it: record by record.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, connection: usize, up: bool) {
        let mut record = vec![0; HEAD];
        while from.read_exact(&mut record[..HEAD]).is_ok() {
            let bytes = usize::from(u16::from_be_bytes([record[3], record[4]]));
            record.resize(HEAD + bytes, 0);
            if from.read_exact(&mut record[HEAD..]).is_err() {
                break;
            }
            if record[0] == DATA {
                let seen = Seen { at: Instant::now(), connection, up, bytes };
                self.0.lock().unwrap().1.push(seen);
            }
            if to.write_all(&record).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    /// How many records went up over a connection since then.
    fn records_up(&self, connection: usize, since: Instant) -> usize {
        let wire = self.0.lock().unwrap();
        let seen = wire.1.iter().filter(|seen| seen.connection == connection && seen.up);
        seen.filter(|seen| seen.at >= since).count()
    }

    /// Returns the traffic of a connection in the window from `begin` on: the records of one way, by size.
    fn of(&self, connection: usize, begin: Instant, up: bool) -> Sizes {
        let mut sizes = Sizes::new();
        let wire = self.0.lock().unwrap();
        let window = begin..begin + WINDOW;
        let seen = wire.1.iter().filter(|seen| (seen.connection, seen.up) == (connection, up));
        for seen in seen.filter(|seen| window.contains(&seen.at)) {
            *sizes.entry(seen.bytes).or_default() += 1;
        }
        sizes
    }
}

/// Returns true if two people sent or were sent the same but for what falls on the ends of the window: times
/// are drawn anew for each round, and a slow machine is late for one.
fn alike(one: &Sizes, other: &Sizes) -> bool {
    let count = |sizes: &Sizes, bytes| sizes.get(bytes).copied().unwrap_or(0);
    let near = |bytes| {
        let one = count(one, bytes);
        let other = count(other, bytes);
        one.abs_diff(other) <= 3 + one.max(other) / 10
    };
    one.keys().chain(other.keys()).all(near)
}

/// Joins, waits until rounds are taken part in; the connection.
fn join(home: &Path, link: &str, wire: &Wire) -> usize {
    ok(home, &["mixnet", "join", link]);
    until("the mixnet", || mixnet_status(home)["up"] == true);
    wire.newest()
}

/// A network whose entry is reached over this wire.
fn tapped(world: &World, wire: &Wire) -> Town {
    Town::with(world.folder(), |address| {
        let entry = format!("127.0.0.1:{}", free_port());
        wire.listen(address, entry.clone());
        entry
    })
}

#[test]
fn mix_78_slow_a_locked_member_stays_in_each_round_by_the_same_line() {
    let world = World::start();
    let wire = Wire::default();
    let town = tapped(&world, &wire);
    let link = town.files.make_uri().unwrap().to_string();
    let homes = ["Ann", "Ben"].map(|name| world.init(name));
    let _nodes = homes.each_ref().map(|home| world.node(home));
    let lines = homes.each_ref().map(|home| join(home, &link, &wire));
    let [ann, ben] = &homes;
    ok(ann, &["add", ok(ben, &["card"]).trim()]);
    ok(ben, &["add", ok(ann, &["card"]).trim()]);
    ok(ann, &["send", "Ben", "over the relay", "--wait", "delivered"]);
    ok(ben, &["send", "Ann", "and back", "--wait", "delivered"]);
    for (home, name) in [(ann, "Ben"), (ben, "Ann")] {
        ok(home, &["set", name, "--carriers", "mixnet"]);
        ok(home, &["send", name, "in cells", "--wait", "delivered"]);
    }
    let dialled = wire.newest();
    ok(ann, &["lock"]);
    let locked = Instant::now();
    ok(ben, &["send", "Ann", "while you were locked"]);
    until("rounds of a locked member", || wire.records_up(lines[0], locked) > 30);
    world.unlock(ann);
    until("the note", || ok(ann, &["log", "Ben"]).contains("while you were locked"));
    until("the mixnet", || mixnet_status(ann)["up"] == true);
    assert_eq!(wire.newest(), dialled, "no line was dialled again");
    let unlocked = Instant::now();
    until("rounds of an unlocked member", || wire.records_up(lines[0], unlocked) > 10);
}

#[test]
fn mix_21_slow_the_wire_of_an_idle_a_busy_and_a_returning_person_is_the_same() {
    let world = World::start();
    let wire = Wire::default();
    let town = tapped(&world, &wire);
    let link = town.files.make_uri().unwrap().to_string();
    let homes = ["Ann", "Ben", "Cas"].map(|name| world.init(name));
    let mut nodes = homes.each_ref().map(|home| world.node(home));
    let mut lines = homes.each_ref().map(|home| join(home, &link, &wire));
    let [ann, ben, _] = &homes;
    ok(ann, &["add", ok(ben, &["card"]).trim()]);
    ok(ben, &["add", ok(ann, &["card"]).trim()]);
    ok(ann, &["send", "Ben", "over the relay", "--wait", "delivered"]);
    ok(ben, &["send", "Ann", "and back", "--wait", "delivered"]);
    ok(ann, &["set", "Ben", "--carriers", "mixnet"]);
    ok(ann, &["send", "Ben", "in cells", "--wait", "delivered"]);

    // Ben goes, and comes back in the middle; Ann writes more than fits into the window.
    nodes[1].stop(Signal::SIGKILL);
    for _ in 0..20 {
        ok(ann, &["send", "Ben", &"many words ".repeat(100)]);
    }
    nodes[1] = world.node(ben);
    until("the mixnet", || mixnet_status(ben)["up"] == true);
    lines[1] = wire.newest();
    let begin = Instant::now();
    thread::sleep(WINDOW);
    let up = lines.map(|line| wire.of(line, begin, true));
    let down = lines.map(|line| wire.of(line, begin, false));
    assert_eq!(up[2].len(), 4, "onions of three services, and what is asked of buckets: {up:?}");
    assert!(mixnet_status(ann)["rounds_used"].as_u64().unwrap() > 10);
    for who in 0..2 {
        assert!(up[who].keys().eq(up[2].keys()), "sizes up: {up:?}");
        assert!(alike(&up[who], &up[2]), "records up: {up:?}");
        assert!(alike(&down[who], &down[2]), "records down: {down:?}");
        // What is noised has a size of its own in each round, and the same one for everybody.
        let own = down[who].keys().filter(|bytes| !down[2].contains_key(bytes)).count();
        assert!(own <= 3, "sizes down: {down:?}");
    }
}
