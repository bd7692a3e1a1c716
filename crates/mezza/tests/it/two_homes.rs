//! Two people, two homes, one relay: four processes on loopback, as three strangers would run.
//!
//! ```text
//!   ann (home a) <--TLS--> relay (home r) <--TLS--> ben (home b)
//! ```

use std::path::{Path, PathBuf};

use mezza::testing::api::json::Health;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{Program, free_port, json, mezza, ok, passphrase, until};

/// The homes and what runs on them.
pub struct World {
    folder: tempfile::TempDir,
    pass: String,
    port: u16,
    /// Where the relay keeps mail: the setting of that name.
    store: String,
    /// `None` while the test runs it.
    relay: Option<Program>,
}

impl World {
    pub fn start() -> Self {
        Self::on("sqlite".into())
    }

    /// The same on PostgreSQL; `None` where there is no server, which was printed.
    fn on_postgres() -> Option<Self> {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let url = runtime.block_on(crate::postgres::database())?;
        Some(Self::on(url))
    }

    fn on(store: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pass = passphrase(folder.path(), "correct horse battery staple");
        let pass = pass.to_str().unwrap().to_owned();
        let port = free_port();
        let relay = run_relay(&folder.path().join("r"), port, &store);
        Self { folder, pass, port, store, relay: Some(relay) }
    }

    /// A world whose relay the test runs itself.
    pub fn start_stopped() -> Self {
        let mut world = Self::start();
        world.relay = None;
        world
    }

    /// Ends the relay.
    pub fn stop_relay(&mut self) {
        self.relay = None;
    }

    /// Starts the relay again, where it was.
    pub fn start_relay(&mut self) {
        self.relay = Some(run_relay(&self.home("r"), self.port, &self.store));
    }

    /// Where its relay listens at first.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs the relay on this port, with something in its environment.
    pub fn run_relay(&self, port: u16, env: &[(&str, &str)]) -> Program {
        Program::relay(&self.home("r"), port, env)
    }

    /// The folder of all homes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The relay's address as its operator hands it out.
    fn uri(&self) -> String {
        ok(&self.home("r"), &["relay", "uri"]).trim().to_owned()
    }

    /// Makes an identity at this relay.
    pub fn init(&self, name: &str) -> PathBuf {
        let home = self.home(name);
        let uri = self.uri();
        ok(&home, &["init", "--name", name, "--relay", &uri, "--passphrase-file", &self.pass]);
        home
    }

    /// Unlocks the vault of a running node.
    pub fn unlock(&self, home: &Path) {
        ok(home, &["unlock", "--passphrase-file", &self.pass]);
    }

    pub fn node(&self, home: &Path) -> Program {
        self.node_with(home, &[])
    }

    /// A node with something in its environment.
    pub fn node_with(&self, home: &Path, env: &[(&str, &str)]) -> Program {
        let node = Program::node(home, &["--passphrase-file", &self.pass], env);
        until("the mailbox", || node.is_reachable());
        node
    }
}

fn run_relay(home: &Path, port: u16, store: &str) -> Program {
    Program::relay(home, port, &[("MEZZA_RELAY_STORE", store)])
}

/// The texts of a thread with who wrote them and how far they are.
fn thread(home: &Path, name: &str) -> Vec<(bool, String, String)> {
    let notes = json(home, &["log", name]);
    let line = |note: &Value| {
        let text = |key: &str| note[key].as_str().unwrap().to_owned();
        (note["incoming"].as_bool().unwrap(), text("text"), text("state"))
    };
    notes.iter().map(line).collect()
}

fn number(home: &Path, name: &str) -> Value {
    json(home, &["verify", name])[0]["groups"].clone()
}

#[test]
fn slow_two_people_meet_talk_part_and_find_what_waited() {
    meet_talk_part(&World::start());
}

#[test]
fn slow_two_people_meet_talk_part_and_find_what_waited_on_postgresql() {
    if let Some(world) = World::on_postgres() {
        meet_talk_part(&world);
    }
}

fn meet_talk_part(world: &World) {
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let _ann_node = world.node(&ann);
    let mut ben_node = world.node(&ben);

    // Ann takes Ben's card from a picture, Ben takes Ann's as text from a file.
    let picture = world.home("ben.png");
    ok(&ben, &["card", "--out", picture.to_str().unwrap()]);
    ok(&ann, &["add", picture.to_str().unwrap(), "--in-person"]);
    let text = world.home("ann.txt");
    std::fs::write(&text, ok(&ann, &["card"])).unwrap();
    ok(&ben, &["add", text.to_str().unwrap()]);
    assert_eq!(number(&ann, "Ben"), number(&ben, "Ann"));
    assert_eq!(number(&ann, "Ben").as_array().unwrap().len(), 12);
    ok(&ann, &["verify", "Ben", "--matches"]);
    assert!(ok(&ann, &["contacts", "Ben"]).contains("number compared"));

    // Notes both ways; `delivered` is what the other side has in its own log.
    let sent = ok(&ann, &["send", "Ben", "hello Ben", "--wait", "delivered"]);
    assert!(sent.contains("on their device"), "{sent}");
    ok(&ben, &["send", "Ann", "hello Ann", "--wait", "delivered"]);
    let both = [
        (false, "hello Ben".into(), "delivered".into()),
        (true, "hello Ann".into(), "received".into()),
    ];
    assert_eq!(thread(&ann, "Ben"), both);
    let texts: Vec<_> = thread(&ben, "Ann").into_iter().map(|(own, text, _)| (own, text)).collect();
    assert_eq!(texts, [(true, "hello Ben".into()), (false, "hello Ann".into())]);

    // Ben goes; what Ann writes is handed over, not delivered, and says so.
    ben_node.stop(Signal::SIGTERM);
    for n in 0..3 {
        ok(&ann, &["send", "Ben", &format!("while you were away {n}"), "--wait", "handed"]);
    }
    let states: Vec<_> =
        thread(&ann, "Ben").into_iter().skip(2).map(|(_, _, state)| state).collect();
    assert_eq!(states, ["handed"; 3]);
    assert_eq!(json(&ann, &["outbox"])[0]["notes"].as_array().unwrap().len(), 3);

    // Ben comes back and finds all of it, once and in order; then Ann knows.
    let _ben_node = world.node(&ben);
    until("what waited", || thread(&ben, "Ann").len() == 5);
    let texts: Vec<_> = thread(&ben, "Ann").into_iter().skip(2).map(|(_, text, _)| text).collect();
    assert_eq!(texts, ["while you were away 0", "while you were away 1", "while you were away 2"]);
    until("the receipts", || thread(&ann, "Ben").iter().skip(2).all(|(_, _, s)| s == "delivered"));
    assert!(json(&ann, &["outbox"])[0]["notes"].as_array().unwrap().is_empty());
}

#[test]
fn slow_a_home_without_a_relay_gets_one_and_another_name() {
    let world = World::start();
    let ann = world.init("Ann");
    let ben = world.home("ben");
    ok(&ben, &["init", "--name", "Ben", "--passphrase-file", &world.pass]);
    let _ann_node = world.node(&ann);
    let ben_node = Program::node(&ben, &["--passphrase-file", &world.pass], &[]);
    let renewed = ok(&ben, &["card", "renew", "--relay", &world.uri(), "--name", "Benno"]);
    assert!(renewed.contains("Benno has a new card, serial "), "{renewed}");
    until("the mailbox", || ben_node.is_reachable());
    ok(&ann, &["add", ok(&ben, &["card"]).trim()]);
    ok(&ben, &["add", ok(&ann, &["card"]).trim()]);
    ok(&ann, &["send", "Benno", "now you can be reached", "--wait", "delivered"]);
}

/// Both people move to another relay and talk over it; then the one before is switched off for good.
#[test]
fn msg_133_slow_a_replaced_relay_that_is_off_is_no_failure() {
    let mut world = World::start();
    let homes = ["Ann", "Ben"].map(|name| world.init(name));
    let nodes = homes.each_ref().map(|home| world.node(home));
    for node in &nodes {
        until("the mailbox", || node.is_reachable());
    }
    let [ann, ben] = &homes;
    let talk = |text: &str| {
        ok(ann, &["send", "Ben", text, "--wait", "delivered"]);
        ok(ben, &["send", "Ann", text, "--wait", "delivered"]);
    };
    ok(ann, &["add", ok(ben, &["card"]).trim()]);
    ok(ben, &["add", ok(ann, &["card"]).trim()]);
    talk("over the first one");

    let new = run_relay(&world.home("s"), free_port(), &world.store);
    let uri = ok(&new.home, &["relay", "uri"]).trim().to_owned();
    for home in &homes {
        ok(home, &["card", "renew", "--relay", &uri]);
    }
    talk("while both run");
    let health = |node: &Program| node.client().unwrap().get::<Health>("/v1/health").unwrap().lines;
    let find = |node: &Program, name: &str| health(node).into_iter().find(|line| line.name == name);
    for node in &nodes {
        // Before that, contacts may know the old address only, and a relay that is off would be a failure.
        let is_moved = || find(node, "relay").is_some_and(|line| line.text == "1 of 1 up");
        until("a connection in use", is_moved);
    }
    let before = world.port();
    world.relay = None;
    for node in &nodes {
        let line = |name: &str| find(node, name);
        until("a note about the old relay", || line("old relay").is_some());
        let old = line("old relay").unwrap();
        assert!(old.ok && old.text.starts_with(&format!("127.0.0.1:{before}, ")), "{}", old.text);
        let rest = "write there: 2 mailboxes, read for 30 days";
        assert!(old.text.ends_with(rest), "{}", old.text);
        let relay = line("relay").unwrap();
        assert_eq!((relay.ok, relay.text.as_str()), (true, "1 of 1 up"));
        // Other lines may be bad on a busy machine.
        let said = String::from_utf8(mezza(&node.home, &["doctor"]).stdout).unwrap();
        assert!(said.contains("ok   old relay"), "{said}");
    }
    talk("over the second one");
}

#[test]
fn slow_prekeys_are_shown_rotated_and_filled_up() {
    let world = World::start();
    let ben = world.init("Ben");
    let node = world.node(&ben);
    until("the mailbox", || node.is_reachable());
    let keys = |args: &[&str]| json(&ben, &[&["ratchet", "keys"], args].concat())[0].clone();
    let stock = || keys(&[])["one_time_stock"].as_u64();
    until("the first stock", || stock() == Some(100));
    let first = keys(&[]);
    assert_eq!(first["signed"].as_array().unwrap().len(), 2, "one for each suite");
    assert_eq!((&first["sessions_today"], &first["without_one_time"]), (&0.into(), &0.into()));
    assert_eq!(first["one_time_held"], 100);
    let rotated = keys(&["--rotate", "--refill"]);
    assert_eq!(rotated["signed"].as_array().unwrap().len(), 4);
    assert_eq!(rotated["one_time_held"], 200, "those of the old bundle may still be on the way");
    until("the new stock", || stock() == Some(100));
    let text = ok(&ben, &["ratchet", "keys"]);
    assert!(text.contains("b2c20-pq (0x0102)  made "), "{text}");
    assert!(text.contains("200 held here, 100 at the relay"), "{text}");
}

#[test]
fn slow_a_stranger_asks_and_is_let_in_or_not() {
    let world = World::start();
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let eve = world.init("Eve");
    let _nodes = [world.node(&ann), world.node(&ben), world.node(&eve)];
    let card = ok(&ben, &["card"]);
    for home in [&ann, &eve] {
        ok(home, &["add", card.trim(), "--as", "B"]);
        ok(home, &["send", "B", "may I?", "--wait", "handed"]);
    }
    let requests = || json(&ben, &["requests"])[0]["requests"].as_array().unwrap().clone();
    until("both requests", || requests().len() == 2);
    // The stranger learns nothing before the person decides (MSG-26).
    assert!(thread(&ann, "B").iter().all(|(_, _, state)| state == "handed"));
    let of = |name: &str| {
        let all = requests();
        let found = all.iter().find(|request| request["contact"]["claimed_name"] == name).unwrap();
        assert_eq!(found["notes"][0]["text"], "may I?");
        found["contact"]["id"].as_str().unwrap().to_owned()
    };
    ok(&ben, &["requests", "refuse", &of("Eve")]);
    ok(&ben, &["requests", "accept", &of("Ann")]);
    until("the receipt", || thread(&ann, "B")[0].2 == "delivered");
    assert_eq!(thread(&eve, "B")[0].2, "handed");
    assert!(requests().is_empty());
    assert!(ok(&ben, &["contacts"]).contains("Ann"));
}

#[test]
fn slow_notes_survive_a_relay_that_dies_and_a_node_that_is_killed() {
    relay_and_node_die(World::start());
}

#[test]
fn slow_notes_survive_a_relay_that_dies_and_a_node_that_is_killed_on_postgresql() {
    if let Some(world) = World::on_postgres() {
        relay_and_node_die(world);
    }
}

fn relay_and_node_die(mut world: World) {
    let ann = world.init("Ann");
    let ben = world.init("Ben");
    let mut ann_node = world.node(&ann);
    let _ben_node = world.node(&ben);
    let card = ok(&ben, &["card"]);
    ok(&ann, &["add", card.trim()]);
    let mine = ok(&ann, &["card"]);
    ok(&ben, &["add", mine.trim()]);
    ok(&ann, &["send", "Ben", "first", "--wait", "delivered"]);
    world.relay.as_mut().unwrap().stop(Signal::SIGKILL);
    ok(&ann, &["send", "Ben", "second"]);
    ann_node.stop(Signal::SIGKILL);
    world.relay = Some(run_relay(&world.home("r"), world.port, &world.store));
    let _ann_node = world.node(&ann);
    until("the second note", || thread(&ben, "Ann").len() == 2);
    until("its receipt", || thread(&ann, "Ben").iter().all(|(_, _, state)| state == "delivered"));
    let texts: Vec<_> = thread(&ben, "Ann").into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(texts, ["first", "second"]);
}
