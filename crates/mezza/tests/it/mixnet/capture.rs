//! What somebody on the wire to the entry sees of three people: one who idles, and two of whom one
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
use crate::program::{free_port, json, ok, until};
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

/// A wire with somebody on it.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<(usize, Vec<Seen>)>>);

impl Wire {
    /// Takes connections at one address and passes them on to another.
    fn listen(&self, address: &str, to: String) {
        let (listener, wire) = (TcpListener::bind(address).unwrap(), self.clone());
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let number = wire.open();
                for (from, to, up) in [(&near, &far, true), (&far, &near, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
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

    /// What went over a connection in the window from `begin` on: the records up, by size, and all
    /// bytes down.
    fn of(&self, connection: usize, begin: Instant) -> (BTreeMap<usize, usize>, usize) {
        let (mut up, mut down) = (BTreeMap::new(), 0);
        let wire = self.0.lock().unwrap();
        let window = begin..begin + WINDOW;
        let seen = wire.1.iter().filter(|seen| seen.connection == connection);
        for seen in seen.filter(|seen| window.contains(&seen.at)) {
            if seen.up {
                *up.entry(seen.bytes).or_default() += 1;
            } else {
                down += seen.bytes;
            }
        }
        (up, down)
    }
}

/// Joins, waits until rounds are taken part in; the connection.
fn join(home: &Path, link: &str, wire: &Wire) -> usize {
    ok(home, &["mixnet", "join", link]);
    until("the mixnet", || json(home, &["mixnet", "status"])[0]["up"] == true);
    wire.newest()
}

#[test]
fn mix_21_the_wire_of_an_idle_a_busy_and_a_returning_person_is_the_same() {
    let (world, wire) = (World::start(), Wire::default());
    let town = Town::with(world.folder(), |address| {
        let entry = format!("127.0.0.1:{}", free_port());
        wire.listen(address, entry.clone());
        entry
    });
    let link = town.files.uri().unwrap().to_string();
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
    until("the mixnet", || json(ben, &["mixnet", "status"])[0]["up"] == true);
    lines[1] = wire.newest();
    let begin = Instant::now();
    thread::sleep(WINDOW);
    let seen = lines.map(|line| wire.of(line, begin));
    let (idle, down) = &seen[2];
    assert_eq!(idle.len(), 4, "onions of three services, and what is asked of buckets: {seen:?}");
    assert!(json(ann, &["mixnet", "status"])[0]["rounds_used"].as_u64().unwrap() > 10);
    for (up, its_down) in &seen {
        assert!(up.keys().eq(idle.keys()), "sizes: {seen:?}");
        for (count, of_idle) in up.values().zip(idle.values()) {
            // Times are drawn anew for each round: one more or less at both ends.
            assert!(count.abs_diff(*of_idle) <= 3, "counts: {seen:?}");
        }
        assert!(its_down.abs_diff(*down) <= down / 10, "bytes down: {seen:?}");
    }
}
