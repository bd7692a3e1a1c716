//! `mezza guard run` as a process, between a client and a responder of a real link:
//!
//! ```text
//! client (this process) --TCP--> mezza guard run --TCP--> responder (a thread of this process)
//! ```

mod cable;
mod ends;
mod notes;
mod tampered;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mezza::testing::process::home::private;
use mezza::testing::process::rng::OsRng;
use mezza_core::{EphemeralKey, PortableBackend};
use mezza_guard::wire::control::RefusalCode;
use nix::sys::signal::Signal;

use crate::program::{Program, free_port, json, mezza, ok, passphrase, until};
use cable::Cable;
use ends::{GuardedClient, LinkEnd, NotDialled, Seen, pair_devices, read_frame, serve_link};
use tampered::{Planted, Reader, TamperedRng};

/// A guard with one client and one destination, and the ends of the link.
struct Bench {
    folder: tempfile::TempDir,
    guard: Option<Program>,
    address: SocketAddr,
    client: GuardedClient,
    end: LinkEnd,
    seen: Receiver<Seen>,
    dest: u16,
}

impl Bench {
    fn new() -> Self {
        Self::with_target(|port| port)
    }

    /// Makes a guard whose destination is at the port that `target` returns for the responder's.
    fn with_target(target: impl FnOnce(u16) -> u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        ok(&home, &["guard", "init"]);
        let code_file = folder.path().join("code");
        // Handshakes of a test follow each other at once.
        let settings = "tick_ms = 1\ndial_burst = 10000\ndial_pause_s = 1\n";
        private::replace(&home.join("guard/guard.toml"), settings.as_bytes()).unwrap();
        ok(&home, &["guard", "pair", "--code-file", code_file.to_str().unwrap()]);
        let code = std::fs::read_to_string(&code_file).unwrap();
        let [end, responder] = pair_devices();
        let (port, seen) = serve_link(responder);
        let target = format!("127.0.0.1:{}", target(port));
        let added = json(&home, &["guard", "dest", "add", "bob", &target]);
        let dest = u16::try_from(added[0]["number"].as_u64().unwrap()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let client = GuardedClient::new(&code);
        let mut bench = Self { folder, guard: None, address, client, end, seen, dest };
        bench.start();
        bench
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn ledger(&self) -> PathBuf {
        self.home().join("guard/ledger")
    }

    fn start(&mut self) {
        let listen = self.address.to_string();
        let program = Program::start(&self.home(), &["guard", "run", "--listen", &listen], &[]);
        until("the guard", || program.out().contains("guard "));
        self.guard = Some(program);
    }

    fn stop(&mut self, signal: Signal) {
        self.guard.take().unwrap().stop(signal);
    }

    fn handshake(&mut self) -> [u8; 32] {
        let own = self.client.handshake(&mut self.end, self.address, self.dest);
        self.check_agreed(own)
    }

    /// Checks that the responder has the same key. Returns the key of KE1 on the wire.
    fn check_agreed(&self, own: [u8; 32]) -> [u8; 32] {
        let wait = Duration::from_secs(20);
        let Ok(Seen::Key(key)) = self.seen.recv_timeout(wait) else { panic!("no KE1") };
        let Ok(Seen::Agreed(theirs)) = self.seen.recv_timeout(wait) else { panic!("no session") };
        assert_eq!(own, theirs, "both ends agree");
        key
    }

    fn status(&self) -> serde_json::Value {
        json(&self.home(), &["guard", "status"]).remove(0)
    }
}

#[test]
fn guard_50_a_client_shakes_hands_through_a_guard_that_is_killed_again_and_again() {
    let mut bench = Bench::new();
    let mut keys = BTreeSet::new();
    for round in 0..4 {
        assert!(keys.insert(bench.handshake()), "a coin was used twice");
        // A key is made, and the guard dies before the frame with it leaves.
        let dialled = bench.client.dial_patiently(bench.address, bench.dest);
        let abandoned = dialled.public();
        bench.stop(Signal::SIGKILL);
        bench.client.close(dialled.conn);
        bench.start();
        if round % 2 == 0 {
            bench.client.restart();
        }
        let dialled = bench.client.dial_patiently(bench.address, bench.dest);
        assert_eq!(dialled.public(), abandoned, "the same coin comes back");
        let own = bench.client.exchange(&mut bench.end, dialled);
        assert!(keys.insert(bench.check_agreed(own)), "a coin was used twice");
    }
    assert!(bench.client.rows.is_empty(), "each secret was erased after its answer");
    let status = bench.status();
    assert_eq!((status["handshakes"].as_u64(), status["running"].as_bool()), (Some(8), Some(true)));
    // The connections whose guard died carried no frame: nothing was refused in the ledger.
    assert_eq!(status["open_slots"].as_array().map(Vec::len), Some(0));
}

#[test]
fn guard_26_a_client_that_chooses_its_key_itself_gets_nothing_through() {
    let mut bench = Bench::new();
    bench.handshake();
    let mut dialled = bench.client.dial_patiently(bench.address, bench.dest);
    let first = bench.end.begin(EphemeralKey::random::<PortableBackend>(&mut OsRng));
    dialled.socket.write_all(&first).unwrap();
    assert_eq!(read_frame(&mut dialled.socket), None, "the guard closes the connection");
    assert!(bench.seen.recv_timeout(Duration::from_millis(300)).is_err(), "nothing left the guard");
    bench.client.close(dialled.conn);
    bench.end.abandon();
    // The guard counts the connection without a frame, and goes on.
    until("the count", || bench.status()["refused"] == 1);
    let events = bench.status()["events"].clone();
    assert!(events[0].as_str().unwrap().contains("128"), "{events}");
    bench.handshake();
    // Records before a handshake, other protocols and strangers are closed as well.
    for bytes in [&[1, 0x21][..], b"GET / HTTP/1.1\r\n\r\n", &[1, 0x15], &[0x81; 40]] {
        let mut socket = TcpStream::connect(bench.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        socket.write_all(bytes).unwrap();
        if bytes.len() > 2 || bytes[1] == 0x21 {
            assert_eq!(read_frame(&mut socket), None, "{bytes:?}");
        }
    }
    assert_eq!(
        bench.client.dial(bench.address, 9).err(),
        Some(NotDialled::Refused(RefusalCode::UnknownDestination))
    );
}

#[test]
fn guard_52_a_ledger_that_does_not_load_keeps_the_guard_closed() {
    let mut bench = Bench::new();
    let first = bench.handshake();
    bench.stop(Signal::SIGTERM);
    // The power failed inside the last record: it is cut off.
    let whole = std::fs::read(bench.ledger()).unwrap();
    private::replace(&bench.ledger(), &[&whole[..], &[33, 3, 7, 7]].concat()).unwrap();
    bench.start();
    assert_ne!(bench.handshake(), first);
    bench.stop(Signal::SIGTERM);
    assert_eq!(bench.status()["handshakes"], 2);
    let mut damaged = std::fs::read(bench.ledger()).unwrap();
    damaged[9] ^= 1;
    private::replace(&bench.ledger(), &damaged).unwrap();
    refuses(&bench, &["guard", "run", "--policy", "report"], 65, "damaged at byte 0");
    refuses(&bench, &["guard", "status"], 65, "damaged at byte 0");
    assert_eq!(std::fs::read(bench.ledger()).unwrap(), damaged, "it is never reset by itself");
    std::fs::remove_file(bench.ledger()).unwrap();
    refuses(&bench, &["guard", "run"], 66, "ledger of the guard is missing");
    private::replace(&bench.ledger(), &whole).unwrap();
    let clients = std::fs::read_dir(bench.home().join("guard/clients")).unwrap();
    let key = clients.map(|entry| entry.unwrap().path()).next().unwrap();
    private::replace(&key, &[7; 32]).unwrap();
    refuses(&bench, &["guard", "run"], 65, "the key of another client");
    assert!(TcpStream::connect(bench.address).is_err(), "nothing listens");
}

/// Checks that a command ends with this code and says why.
fn refuses(bench: &Bench, args: &[&str], code: i32, why: &str) {
    let output = mezza(&bench.home(), args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(text.contains(why), "{args:?}: {text}");
}

#[test]
fn guard_49_the_owner_blocks_a_destination_and_resets_a_slot_of_a_running_guard() {
    let mut bench = Bench::new();
    bench.handshake();
    ok(&bench.home(), &["guard", "dest", "block", "bob"]);
    let refused = |code| Some(NotDialled::Refused(code));
    assert_eq!(bench.client.dial(bench.address, bench.dest).err(), refused(RefusalCode::Blocked));
    ok(&bench.home(), &["guard", "dest", "unblock", "1"]);
    bench.handshake();
    // A client that lost its state offers another point for a slot that has one.
    let dialled = bench.client.dial_patiently(bench.address, bench.dest);
    bench.client.close(dialled.conn);
    drop(dialled);
    bench.client.rows.clear();
    bench.client.restart();
    assert_eq!(bench.client.dial(bench.address, bench.dest).err(), refused(RefusalCode::SlotTaken));
    let status = bench.status();
    assert_eq!(status["open_slots"].as_array().map(Vec::len), Some(1));
    let client = status["clients"][0]["id"].as_str().unwrap()[..6].to_owned();
    refuses(&bench, &["guard", "reset-slot", &client, "1"], 2, "--yes");
    ok(&bench.home(), &["guard", "reset-slot", &client, "1", "--yes"]);
    bench.client.restart();
    bench.handshake();
    assert_eq!(bench.status()["resets"], 1);
    // Without a running guard the ledger is changed directly.
    bench.stop(Signal::SIGTERM);
    ok(&bench.home(), &["guard", "reset-slot", &client, "1", "--yes"]);
    assert_eq!(bench.status()["resets"], 2);
}

#[test]
fn guard_34_files_are_private_and_the_log_has_no_address() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bench = Bench::new();
    bench.handshake();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = bench.home().join("guard");
    for file in ["coin.key", "ledger", "peers.toml", "guard.toml"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    let mut dialled = bench.client.dial_patiently(bench.address, bench.dest);
    dialled.socket.write_all(&[9; 9]).unwrap();
    assert_eq!(read_frame(&mut dialled.socket), None);
    until("the count", || bench.status()["refused"] == 1);
    let log = bench.guard.as_ref().unwrap().log();
    assert!(log.contains("notice") && !log.contains("127.0.0.1"), "{log}");
    let again = mezza(&bench.home(), &["guard", "run"]);
    assert_eq!(again.status.code(), Some(75), "one process at a time");
    let audit = json(&bench.home(), &["guard", "audit"]).remove(0);
    let so_far = |row: &&serde_json::Value| row["what"] == "refused handshakes so far";
    let row = audit["rows"].as_array().unwrap().iter().find(so_far).unwrap();
    assert_eq!((audit["level"].as_u64(), row["refused"].as_f64()), (Some(2), Some(128.0)));
}

/// Handshakes through the guard.
const HANDSHAKES: usize = 200;

#[test]
fn guard_26_slow_a_device_that_draws_its_keys_again_and_again_leaks_nothing_through_the_guard() {
    let planted = Planted(*b"sixteen bytes ok");
    // Without a guard a reader of the wire has the secret after about 54 handshakes.
    let mut reader = Reader::default();
    let needed = (1..1_000).find(|_| {
        reader.read_key(&planted, planted.draw_key().public_key().as_bytes());
        reader.has_read(&planted)
    });
    assert!(needed.is_some_and(|count| (16..400).contains(&count)), "{needed:?}");
    let mut bench = Bench::new();
    bench.client.tamper(TamperedRng(planted));
    let mut reader = Reader::default();
    for _ in 0..HANDSHAKES {
        reader.read_key(&planted, &bench.handshake());
    }
    // By chance one key of 256 fits. Seven or more of 200 happen once in 100,000 runs.
    assert!(reader.hits < 7 && !reader.has_read(&planted), "{} hits", reader.hits);
    assert_eq!(bench.status()["handshakes"], HANDSHAKES);
}

/// A watchdog between the ports of a bench.
fn start_watch(bench: &Bench, inside: u16, wire: u16, responder: u16) -> Program {
    let local = |port: u16| format!("127.0.0.1:{port}");
    let guard = bench.address.to_string();
    let code = bench.folder.path().join("code");
    let [inside, wire, to] = [inside, wire, responder].map(local);
    let code = code.to_str().unwrap();
    let args = ["guard", "watch", "--inside", &inside, "--guard", &guard, "--wire", &wire];
    let args = [&args[..], &["--to", &to, "--code-file", code]].concat();
    let watch = Program::start(&bench.folder.path().join("watch"), &args, &[]);
    until("the watchdog", || watch.out().contains("watching the guard"));
    watch
}

#[test]
fn guard_54_a_watchdog_finds_a_key_that_no_coin_gives() {
    let (inside, wire) = (free_port(), free_port());
    let mut responder = 0;
    let mut bench = Bench::with_target(|port| {
        responder = port;
        wire
    });
    let mut watch = start_watch(&bench, inside, wire, responder);
    let through = SocketAddr::from(([127, 0, 0, 1], inside));
    for _ in 0..2 {
        let own = bench.client.handshake(&mut bench.end, through, bench.dest);
        bench.check_agreed(own);
    }
    assert_eq!(watch.stop(Signal::SIGTERM).0, Some(0), "{}", watch.log());
    assert!(watch.out().contains("compared 2 keys, 0 findings"), "{}", watch.out());
    // A guard that lets its client choose: the frame comes from where the guard is.
    let mut watch = start_watch(&bench, inside, wire, responder);
    let forged = bench.end.begin(EphemeralKey::random::<PortableBackend>(&mut OsRng));
    let mut socket = TcpStream::connect(("127.0.0.1", wire)).unwrap();
    socket.write_all(&forged).unwrap();
    until("the finding", || watch.out().contains("no coin gives"));
    assert_eq!(watch.stop(Signal::SIGTERM).0, Some(1));
}

#[test]
fn guard_53_slow_the_check_finds_a_route_around_the_guard_in_any_table() {
    let Some(cable) = Cable::new() else { return };
    assert_eq!(cable.check(&["--try", "192.0.2.7:7800"]).0, Some(0));
    for table in [&[][..], &["table", "77"]] {
        let around = [&["add", "192.0.2.0/24", "via", "10.9.0.2"], table].concat();
        assert!(cable.route(&around));
        let (code, text) = cable.check(&[]);
        assert!(code == Some(1) && text.contains("192.0.2.0/24 dev d0"), "{text}");
        assert!(cable.route(&[&["del", "192.0.2.0/24"], table].concat()));
    }
    assert_eq!(cable.check(&[]).0, Some(0));
    cable.allow_ipv6();
    let (code, text) = cable.check(&[]);
    // A kernel without IPv6 has no such route.
    assert!(
        code == Some(0) || text.contains("fe80::/64") && text.contains("disable_ipv6"),
        "{text}"
    );
}

#[test]
fn guard_46_the_page_shows_what_a_guard_of_its_home_leaves_open() {
    let mut bench = Bench::new();
    bench.handshake();
    // The node of the same home: it reads the files, and asks the running guard.
    let pass = passphrase(bench.folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    ok(&bench.home(), &[&["init", "--name", "Ann"], &pass[..]].concat());
    let node = Program::node(&bench.home(), &pass, &[]);
    let ask = || node.client().unwrap().get::<serde_json::Value>("/v1/guard").unwrap();
    let guard = ask();
    let facts = &guard["facts"];
    assert_eq!((&guard["on"], &guard["running"]), (&true.into(), &true.into()), "{guard}");
    assert_eq!((facts["handshakes"].as_u64(), facts["clients"].as_u64()), (Some(1), Some(1)));
    assert_eq!((&facts["level"], &facts["destinations"][0]), (&2.into(), &"bob".into()));
    let macs = facts["channels"].as_array().unwrap().iter();
    let macs = macs.filter(|row| row["accepted_bits"] == 0.0 && row["refused_bits"] == 128.0);
    assert_eq!(macs.count(), 3, "t1, t2 and t3: {facts}");
    assert!(guard["unguarded"].as_array().unwrap().iter().any(|of| of["part"] == "X3DH"));
    bench.stop(Signal::SIGTERM);
    assert_eq!(ask()["running"], false);
    // A ledger that does not load is no guard that has done nothing.
    private::replace(&bench.ledger(), &[7; 9]).unwrap();
    let damaged = ask();
    assert!(damaged["facts"].is_null(), "{damaged}");
    assert!(damaged["trouble"].as_str().unwrap().contains("damaged"), "{damaged}");
}
