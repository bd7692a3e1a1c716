//! Crashes: the real program is killed at random moments while two people write to each other.
//!
//! ```text
//! writer -> Ann's node <--TLS--> relay <--TLS--> Ben's node <- writer
//!               ^                  ^                 ^
//!               +------- kill -9, 200 times ---------+
//! ```
//!
//! Held afterwards, and in part meanwhile: what a node took (201) reaches the other device, once;
//! what a screen showed stays so; `delivered` is on the other disk; the session is the same one.
//!
//! `MEZZA_TEST_SEED=n` chooses victims and moments again (the scheduler of the machine it cannot
//! choose), `MEZZA_TEST_KILLS=n` kills more or less often.

mod person;

use std::fmt;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mezza::testing::api::uri::relay_of;
use mezza::testing::process::rng::OsRng;
use nix::sys::signal::Signal;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::program::{Program, ok, passphrase, until};
use person::{Person, Shown};

/// Kills of a run that does not say otherwise.
const KILLS: u64 = 200;
/// The longest moment between a start and the next kill.
const MOMENT_MS_MAX: u64 = 150;
/// Every so many kills, `delivered` is held against the disk of a reader that just died.
const TRIAL_EVERY: u64 = 20;
/// Between two notes of a writer: below what a relay takes from one connection for long.
const BREATH: Duration = Duration::from_millis(100);
/// The victims, in the order of [`World::kill`].
const VICTIMS: [&str; 3] = ["ann", "ben", "relay"];
const RELAY: usize = 2;

/// Both people, what runs for them, and the relay between them.
struct World {
    folder: tempfile::TempDir,
    pass: String,
    port: u16,
    people: [Person; 2],
    nodes: [Program; 2],
    relay: Program,
    killed: [u64; 3],
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pass = passphrase(folder.path(), person::PASSPHRASE).to_str().unwrap().to_owned();
        let port = relay_port();
        let relay = relay(folder.path(), port);
        let uri = ok(&folder.path().join("relay"), &["relay", "uri"]);
        let relay_entry = relay_of(uri.trim()).unwrap();
        let mut people = ["Ann", "Ben"].map(|name| Person::make(folder.path(), name, &relay_entry));
        let nodes = people.each_ref().map(|person| node(person, &pass));
        until("the mailboxes", || nodes.iter().all(Program::is_reachable));
        let cards = people.each_ref().map(Person::card);
        people[0].add(&cards[1]);
        people[1].add(&cards[0]);
        Self { folder, pass, port, people, nodes, relay, killed: [0; 3] }
    }

    /// Kills one of them in the middle of whatever it does, and starts it again.
    fn kill(&mut self, victim: usize) {
        self.killed[victim] += 1;
        if victim == RELAY {
            self.relay.stop(Signal::SIGKILL);
            self.relay = relay(self.folder.path(), self.port);
        } else {
            self.nodes[victim].stop(Signal::SIGKILL);
            self.nodes[victim] = node(&self.people[victim], &self.pass);
        }
    }

    /// Waits until notes can flow.
    fn flow(&self) {
        until("the lines", || self.nodes.iter().all(Program::is_reachable));
    }

    /// Whatever a writer has been told is delivered must be on the disk of a reader that dies now.
    fn trial(&mut self, writer: usize) {
        let reader = 1 - writer;
        self.flow();
        let claimed = self.people[writer].delivered();
        self.kill(reader);
        until("the vault", || self.people[reader].is_open());
        let held = self.people[reader].received();
        for text in &claimed {
            assert!(held.contains(text), "{text} was said to be delivered");
        }
    }

    /// One note each way, one after the other, up to `delivered`: with all that waits before it.
    fn exchange(&self, n: [u64; 2]) {
        for (person, n) in self.people.iter().zip(n) {
            person.write(n);
            person.settle();
        }
    }

    /// Stops both nodes, and lists the sessions that each has on disk.
    fn sessions(&mut self) -> [Vec<Vec<u8>>; 2] {
        for node in &mut self.nodes {
            assert_eq!(node.stop(Signal::SIGTERM).0, Some(0), "{}", node.log());
        }
        self.people.each_ref().map(Person::sessions)
    }

    fn restart(&mut self) {
        self.nodes = self.people.each_ref().map(|person| node(person, &self.pass));
        self.flow();
    }
}

fn node(person: &Person, pass: &str) -> Program {
    Program::node(&person.home, &["--passphrase-file", pass], &[])
}

fn relay(folder: &Path, port: u16) -> Program {
    // Every start of a node opens its mailboxes again; a day's worth of it happens in a minute.
    Program::relay(&folder.join("relay"), port, &[("MEZZA_RELAY_OPENS_DAY_MAX", "1000000")])
}

/// A free port below those that the system gives to outgoing connections: while the relay is dead
/// none of the thousands made here may sit on it.
fn relay_port() -> u16 {
    let tries = || 20_000 + (OsRng.next_u32() % 10_000) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(tries).find(free).unwrap()
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Threads that write and watch while others die.
struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<thread::JoinHandle<u64>>,
    watchers: Vec<thread::JoinHandle<Shown>>,
}

impl Load {
    /// Every person writes from note 1 on, and looks at the screen.
    fn start(people: &[Person]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = |person: &Person| {
            let person = person.clone();
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut next = 1;
                while !stop.load(Ordering::Relaxed) {
                    person.write(next);
                    next += 1;
                    thread::sleep(BREATH);
                }
                next
            })
        };
        let writers = people.iter().map(writer).collect();
        let watcher = |person: &Person| {
            let person = person.clone();
            let stop = Arc::clone(&stop);
            thread::spawn(move || person.watch(&stop))
        };
        let watchers = people.iter().map(watcher).collect();
        Self { stop, writers, watchers }
    }

    /// Lets each writer finish the note it is at; the number of the first one not written.
    fn calm(&mut self) -> [u64; 2] {
        self.stop.store(true, Ordering::Relaxed);
        let written: Vec<u64> = self.writers.drain(..).map(|w| w.join().unwrap()).collect();
        written.try_into().unwrap()
    }

    /// The texts that the screens showed; the nodes have stopped by now.
    fn shown(self) -> Vec<Shown> {
        self.watchers.into_iter().map(|watcher| watcher.join().unwrap()).collect()
    }
}

/// The line that a run prints.
struct Report {
    killed: [u64; 3],
    written: [u64; 2],
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kill: {} kills (", self.killed.iter().sum::<u64>())?;
        for (victim, n) in VICTIMS.iter().zip(self.killed) {
            write!(f, " {victim} {n}")?;
        }
        let [ann, ben] = self.written;
        let took = self.took.as_secs();
        write!(f, " ), {ann} + {ben} notes acknowledged, all delivered once, {took} s")
    }
}

/// P2 and P3: nothing taken is lost, nothing is shown twice, no session breaks.
#[test]
fn slow_nothing_is_lost_or_doubled_when_anybody_is_killed_at_any_moment() {
    let began = Instant::now();
    let seed = setting("MEZZA_TEST_SEED").unwrap_or_else(|| OsRng.next_u64());
    let kills = setting("MEZZA_TEST_KILLS").unwrap_or(KILLS);
    println!("kill: MEZZA_TEST_SEED={seed}");
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut world = World::start();
    world.exchange([0, 0]);
    let sessions = world.sessions();
    let logs = world.nodes.each_ref().map(Program::log);
    assert_eq!(sessions.each_ref().map(Vec::len), [1, 1], "one session was begun: {logs:#?}");
    world.restart();

    let mut load = Load::start(&world.people);
    for n in 1..=kills {
        let chance = rng.next_u64();
        if n % TRIAL_EVERY == 0 {
            world.trial((chance % 2) as usize);
            continue;
        }
        // Half of the moments are in full flow, the others while something still gets up.
        if chance % 2 == 0 {
            world.flow();
        }
        thread::sleep(Duration::from_millis(rng.next_u64() % (MOMENT_MS_MAX + 1)));
        world.kill((rng.next_u64() % 3) as usize);
    }

    let written = load.calm();
    world.flow();
    // The conversation goes on, and with it whatever waited arrives.
    world.exchange(written);
    let written = written.map(|n| n + 1);
    for (writer, reader) in [(0, 1), (1, 0)] {
        world.people[writer].judge(written[writer], &world.people[reader]);
    }
    let threads = world.people.each_ref().map(Person::thread);
    assert_eq!(world.sessions(), sessions, "a session was started anew");
    for (shown, thread) in load.shown().iter().zip(&threads) {
        shown.judge(thread);
    }
    println!("{}", Report { killed: world.killed, written, took: began.elapsed() });
}
