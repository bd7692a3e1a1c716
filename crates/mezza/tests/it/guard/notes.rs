//! Notes of two homes through a guard.
//!
//! ```text
//! Ann's node ----> mezza guard run ----> Ben's node, which listens
//!            \--- a counter of direct connections ---/
//! ```

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mezza::testing::process::home::private;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::link::contacts::{ANN, BEN, World};
use crate::program::{Program, free_port, health, json, mezza, ok, passphrase, until};

/// Two homes on loopback, a guard between them, and a count of the connections around it.
struct GuardedWorld {
    world: World,
    direct: Arc<AtomicUsize>,
    guard: Option<Program>,
    address: SocketAddr,
}

/// Counts connections and passes their bytes to `target`.
fn count_connections(target: String) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for inside in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let (Ok(inside), Ok(outside)) = (inside, TcpStream::connect(&target)) else { continue };
            for (from, to) in [(&inside, &outside), (&outside, &inside)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.flush();
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (address, count)
}

impl GuardedWorld {
    /// Both are paired over the link. The guard is made and knows Ben, and does not run yet.
    fn paired() -> (Self, [Program; 2]) {
        let mut world = World::on_loopback();
        let (counter, direct) = count_connections(world.address.clone());
        world.dialled = Some(counter.to_string());
        let nodes = world.paired();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let guarded = Self { world, direct, guard: None, address };
        let home = guarded.home();
        ok(&home, &["guard", "init"]);
        // Connections of a test follow each other at once.
        let settings = "tick_ms = 1\ndial_burst = 1000\ndial_pause_s = 1\n";
        private::replace(&home.join("guard/guard.toml"), settings.as_bytes()).unwrap();
        ok(&home, &["guard", "pair", "--code-file", guarded.code().to_str().unwrap()]);
        let added = json(&home, &["guard", "dest", "add", "ben", &guarded.world.address]);
        assert_eq!(added[0]["number"], 1);
        (guarded, nodes)
    }

    fn home(&self) -> PathBuf {
        self.world.folder.path().join("guard")
    }

    fn code(&self) -> PathBuf {
        self.world.folder.path().join("code")
    }

    fn start_guard(&mut self) {
        let listen = self.address.to_string();
        let program = Program::start(&self.home(), &["guard", "run", "--listen", &listen], &[]);
        until("the guard", || program.out().contains("guard "));
        self.guard = Some(program);
    }

    fn stop_guard(&mut self, signal: Signal) {
        self.guard.take().unwrap().stop(signal);
    }

    /// Ann joins the guard and reaches Ben through its destination.
    fn join(&self) {
        let address = self.address.to_string();
        let code = self.code();
        let args = ["guard", "join", &address, "--code-file", code.to_str().unwrap()];
        let said = ok(self.world.home(ANN), &args);
        assert!(said.contains("--guard-dest"), "{said}");
        ok(self.world.home(ANN), &["set", "Ben", "--guard-dest", "1"]);
    }

    fn status(&self) -> Value {
        json(&self.home(), &["guard", "status"]).remove(0)
    }

    /// The last note of Ann's thread.
    fn last_note(&self) -> Value {
        json(self.world.home(ANN), &["log", "Ben", "-n", "1"]).pop().unwrap()
    }

    fn wait_for_reason(&self) {
        until("the reason", || self.last_note()["why"] == "guard");
    }

    /// The line of the link in the health report of Ann's node.
    fn health(&self) -> String {
        health(self.world.home(ANN))
    }
}

#[test]
fn guard_55_slow_notes_go_through_a_guard_and_never_around_it() {
    let (mut bench, _nodes) = GuardedWorld::paired();
    // Without a guard the link is a direct connection.
    bench.world.send(ANN, "without a guard");
    bench.world.wait_for_receipts();
    let refused = mezza(bench.world.home(ANN), &["set", "Ben", "--guard-dest", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("guard join"));
    bench.start_guard();
    bench.join();
    let direct = bench.direct.load(Ordering::SeqCst);
    bench.world.send(ANN, "through the guard");
    bench.world.wait_for_text(BEN, "through the guard");
    bench.world.send(BEN, "and back");
    bench.world.wait_for_text(ANN, "and back");
    bench.world.wait_for_receipts();
    let status = bench.status();
    assert!(status["handshakes"].as_u64() >= Some(1), "{status}");
    assert_eq!(status["refused"], 0, "{status}");
    // The device that is dialled takes no guard, and a pairing would go around it.
    let refused = mezza(bench.world.home(BEN), &["set", "Ann", "--guard-dest", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let refused = mezza(
        bench.world.home(ANN),
        &["link", "pair-contact", "Ben", "--address", &bench.world.address],
    );
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("guard"), "{refused:?}");
    // The guard dies: the note waits and says why.
    bench.stop_guard(Signal::SIGKILL);
    bench.world.send(ANN, "it waits");
    bench.wait_for_reason();
    assert_eq!(bench.last_note()["state"], "queued");
    assert!(bench.health().contains("the guard is not reached"), "{}", bench.health());
    assert!(!bench.world.thread(BEN).iter().any(|note| note.1 == "it waits"));
    bench.start_guard();
    bench.world.wait_for_text(BEN, "it waits");
    bench.world.wait_for_receipts();
    assert_eq!(bench.direct.load(Ordering::SeqCst), direct, "a connection around the guard");
}

#[test]
fn guard_61_slow_a_blocked_destination_and_a_guard_that_was_left_are_the_reason() {
    let (mut bench, _nodes) = GuardedWorld::paired();
    let nothing = mezza(bench.world.home(ANN), &["guard", "leave"]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("guard join"), "{nothing:?}");
    bench.start_guard();
    bench.join();
    bench.world.send(ANN, "through the guard");
    bench.world.wait_for_receipts();
    let direct = bench.direct.load(Ordering::SeqCst);
    // The owner of the guard blocks Ben, which ends the link.
    ok(&bench.home(), &["guard", "dest", "block", "ben"]);
    bench.world.send(ANN, "it is blocked");
    bench.wait_for_reason();
    until("the words", || bench.health().contains("the destination is blocked"));
    ok(&bench.home(), &["guard", "dest", "unblock", "ben"]);
    bench.world.wait_for_text(BEN, "it is blocked");
    // Ann leaves the guard: nothing goes around it by itself.
    let said = ok(bench.world.home(ANN), &["guard", "leave"]);
    assert!(said.contains("--guard-dest none"), "{said}");
    bench.world.send(ANN, "without a guard");
    bench.wait_for_reason();
    assert_eq!(bench.direct.load(Ordering::SeqCst), direct, "a connection around the guard");
    ok(bench.world.home(ANN), &["set", "Ben", "--guard-dest", "none"]);
    bench.world.wait_for_text(BEN, "without a guard");
    bench.world.wait_for_receipts();
    assert!(bench.direct.load(Ordering::SeqCst) > direct);
}

#[test]
fn cli_28_a_code_is_checked_before_it_is_stored_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("Ann");
    let pass = passphrase(folder.path(), "correct horse battery staple");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    ok(&home, &[&["init", "--name", "Ann"], &pass[..]].concat());
    let node = Program::node(&home, &pass, &[]);
    let guard = folder.path().join("guard");
    ok(&guard, &["guard", "init"]);
    let path = folder.path().join("code");
    let file = path.to_str().unwrap();
    ok(&guard, &["guard", "pair", "--code-file", file]);
    let code = std::fs::read_to_string(&path).unwrap();
    let join = |address: &str| mezza(&home, &["guard", "join", address, "--code-file", file]);
    // A letter that was typed wrong.
    let wrong = if code.starts_with('A') { 'B' } else { 'A' };
    private::replace(&path, format!("{wrong}{}", &code[1..]).as_bytes()).unwrap();
    let refused = join("127.0.0.1");
    assert_eq!(refused.status.code(), Some(65), "{refused:?}");
    // A file that others may read.
    private::replace(&path, code.as_bytes()).unwrap();
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o644);
    let refused = join("127.0.0.1");
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    set_mode(0o600);
    assert_eq!(join("").status.code(), Some(2));
    let joined = join("127.0.0.1");
    assert_eq!(joined.status.code(), Some(0), "{joined:?}");
    let said = String::from_utf8_lossy(&joined.stdout).into_owned();
    assert!(said.contains("127.0.0.1:4797"), "{said}");
    for text in [said, node.log()] {
        assert!(!text.contains(&code[..12]), "the code is printed: {text}");
    }
    // Without a terminal and a file nothing is read.
    let refused = mezza(&home, &["guard", "join", "127.0.0.1"]);
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
}

#[test]
fn cli_29_a_destination_is_of_a_paired_device_that_this_one_dials() {
    let world = World::on_loopback();
    let _nodes = [ANN, BEN].map(|who| world.node(who));
    world.exchange_cards();
    let set = |number: &str| mezza(world.home(ANN), &["set", "Ben", "--guard-dest", number]);
    let refused = set("1");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("pair-contact"), "{refused:?}");
    for wrong in ["0", "65520", "ben"] {
        assert_eq!(set(wrong).status.code(), Some(2), "{wrong}");
    }
}
