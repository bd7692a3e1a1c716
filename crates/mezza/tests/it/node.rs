//! The node as a process: one per vault, stops fast, starts again, proves before it says OK.

use std::net::TcpListener;
use std::time::Duration;

use mezza::testing::store::{Argon2Params, Vault};
use mezza_messenger::card::RelayKey;
use mezza_messenger::{CarrierSet, Device};
use nix::sys::signal::Signal;

use crate::program::{CHECKED, Program, free_port, health, json, mezza, ok, passphrase, until};

/// A home with an identity and a relay that nobody runs; notes to itself cannot leave.
pub fn lonely() -> (tempfile::TempDir, std::path::PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let pass = passphrase(folder.path(), "six words that nobody would guess");
    let pass = pass.to_str().unwrap().to_owned();
    ok(&home, &["init", "--name", "Nora", "--passphrase-file", &pass]);
    (folder, home, pass)
}

#[test]
fn node_1_a_second_node_on_a_vault_exits_75() {
    let (_folder, home, pass) = lonely();
    let first = Program::node(&home, &[], &[]);
    for args in [
        vec!["node", "run", "--port", "0"],
        vec!["node", "run", "--port", "0", "--passphrase-file", &pass],
        vec!["up", "--port", "0"],
    ] {
        let second = mezza(&home, &args);
        assert_eq!(second.status.code(), Some(75), "{args:?}");
        let text = String::from_utf8(second.stderr).unwrap();
        let home = format!("--home {} ", home.display());
        let expected = format!(
            "mezza: vault is in use by process {}; stop it with `mezza {home}node stop`\n",
            first.id()
        );
        assert_eq!(text, expected);
    }
    // The first one was not disturbed.
    assert!(ok(&home, &["node", "status"]).contains("locked"));
}

#[test]
fn node_2_slow_signals_stop_within_two_seconds_and_the_outbox_stays() {
    let (folder, home, pass) = lonely();
    let other = folder.path().join("other");
    let uri = relay_uri();
    ok(&other, &["init", "--name", "Olga", "--relay", &uri, "--passphrase-file", &pass]);
    let node = Program::node(&other, &["--passphrase-file", &pass], &[]);
    let card = ok(&other, &["card"]);
    drop(node);
    let mut stops = Vec::new();
    for (waiting, signal) in [Signal::SIGINT, Signal::SIGTERM].into_iter().enumerate() {
        let mut node = Program::node(&home, &["--passphrase-file", &pass], &[]);
        if waiting == 0 {
            ok(&home, &["add", card.trim()]);
        }
        assert_eq!(json(&home, &["outbox"])[0]["notes"].as_array().unwrap().len(), waiting);
        ok(&home, &["send", "Olga", "does it stay?"]);
        let mut follower = Program::start(&home, &["log", "Olga", "-f"], &[]);
        until("the follower", || follower.out().contains("does it stay?"));
        let (code, took) = node.stop(signal);
        assert_eq!(code, Some(0), "{}", node.log());
        stops.push(took);
        assert_eq!(follower.wait(), Some(69));
        for gone in ["api.json", "api.sock", "url"] {
            assert!(!home.join("run").join(gone).exists(), "{gone}");
        }
    }
    assert_one_is_quick(&stops);
}

/// Asserts that one of several stops took less than two seconds. A busy machine delays some of them; a
/// node that waits for its connections is late each time.
fn assert_one_is_quick(stops: &[Duration]) {
    assert!(stops.iter().any(|took| *took < Duration::from_secs(2)), "{stops:?}");
}

/// The address of a relay that does not run.
fn relay_uri() -> String {
    mezza_messenger::uri::encode_relay(&RelayKey([7; 32]), free_port(), "127.0.0.1", false).unwrap()
}

#[test]
fn node_2_stop_over_the_interface() {
    let (_folder, home, _) = lonely();
    let mut node = Program::node(&home, &[], &[]);
    assert!(ok(&home, &["node", "stop"]).contains("stopping"));
    assert_eq!(node.wait(), Some(0));
    assert_eq!(mezza(&home, &["node", "status"]).status.code(), Some(69));
}

#[test]
fn node_3_slow_up_is_repeatable_and_a_taken_port_gives_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("world");
    let web = taken();
    let relay = taken();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let web_port = port(&web);
    let relay_port = port(&relay);
    let listen = format!("127.0.0.1:{relay_port}");
    let env = [("MEZZA_RELAY_LISTEN", listen.as_str())];
    let mut keys = Vec::new();
    let mut stops = Vec::new();
    for _ in 0..2 {
        let mut up =
            Program::start(&home, &["up", "--json", "--port", &web_port.to_string()], &env);
        until("the world", || up.out().contains("\"open\""));
        let events = values(&up.out());
        let open = events.iter().find(|event| event["event"] == "open").unwrap();
        assert!(open["port"].as_u64().unwrap() > u64::from(web_port));
        let relay = events.iter().find(|event| event["event"] == "relay").unwrap();
        let address: std::net::SocketAddr = relay["address"].as_str().unwrap().parse().unwrap();
        assert!(address.port() > relay_port);
        keys.push(relay["key"].clone());
        let (code, took) = up.stop(Signal::SIGTERM);
        assert_eq!(code, Some(0), "{}", up.log());
        stops.push(took);
    }
    assert_one_is_quick(&stops);
    assert_eq!(keys[0], keys[1], "the same relay both times");
}

/// A listener with a free port after it.
fn taken() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn values(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const ANY_PORTS: [&str; 5] = ["up", "--check", "--json", "--port", "0"];

#[test]
fn node_4_slow_up_says_ok_after_echo_has_answered() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("world");
    // The usual port of links is taken, by us or by another program.
    let _usual = TcpListener::bind("127.0.0.1:4796");
    let mut up = Program::start(&home, &ANY_PORTS, &[("MEZZA_RELAY_LISTEN", "127.0.0.1:0")]);
    assert_eq!(up.wait(), Some(0), "{}{}", up.out(), up.log());
    until("the output", || up.out().contains("\"check\""));
    let events = values(&up.out());
    let checks = events.iter().filter(|event| event["event"] == "check");
    let said: Vec<_> =
        checks.map(|check| (check["ok"] == true, check["carrier"].as_str().unwrap())).collect();
    assert_eq!(said, CHECKED.map(|name| (true, name)));
    // Its notes are on the other disk: a question and its answer for each carrier. Of the person's own
    // thread they are no part.
    for (vault, name, notes) in [("vault", "echo", 0), ("echo/vault", "alice", 2 * CHECKED.len())] {
        let now = mezza::testing::clock::now();
        let (vault, records) = Vault::open(&home.join(vault), b"demo", now).unwrap();
        let mut rng = mezza::testing::process::rng::OsRng;
        let over = CarrierSet::<mezza::testing::backend::AwsLc>::default();
        let device = Device::load(over, records, &[], now, &mut rng).unwrap();
        let contact = device.contacts().into_iter().find(|c| c.name == name).unwrap();
        let thread = device.thread(contact.id, None, 10, now);
        assert_eq!(thread.len(), notes, "{name}");
        for (notes, carrier) in thread.chunks(2).zip(CHECKED) {
            assert_ne!(notes[0].incoming, notes[1].incoming);
            assert!(notes.iter().all(|note| note.carrier.is_some_and(|c| c.name() == carrier)));
        }
        vault.close().unwrap();
    }
}

/// The address comes first, so that nobody waits for the check.
#[test]
fn node_4_slow_up_gives_the_address_and_then_checks() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("world");
    let up = Program::demonstration(&home);
    let events = values(&up.out());
    let at = |name| events.iter().position(|event| event["event"] == name).unwrap();
    assert!(at("open") < at("check"), "{events:?}");
    assert_eq!(events.iter().filter(|event| event["event"] == "open").count(), 1);
    let contact = json(&home, &["contacts", "echo"]).remove(0);
    assert_eq!(
        (&contact["unread"], &contact["policy"]["carriers"]),
        (&0.into(), &["relay"][..].into())
    );
    // What the person chose stays the same after the next check.
    ok(&home, &["set", "echo", "--carriers", "mixnet,relay"]);
    drop(up);
    let _up = Program::demonstration(&home);
    let contact = json(&home, &["contacts", "echo"]).remove(0);
    assert_eq!(contact["policy"]["carriers"], serde_json::json!(["mixnet", "relay"]));
}

/// Two demonstrations at once, each with a link of its own, and one of them again.
#[test]
fn node_25_slow_the_devices_of_a_demonstration_pair_once_and_disturb_no_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let homes = ["one", "two"].map(|name| folder.path().join(name));
    let link = |up: &Program| {
        let mut events = values(&up.out()).into_iter();
        let link = events.find(|event| event["event"] == "link").unwrap();
        assert_eq!(link["ok"], true, "{link}");
        link
    };
    let [one, two] = homes.each_ref().map(|home| Program::demonstration(home));
    for up in [&one, &two] {
        let digits = link(up)["digits"].as_str().unwrap().to_owned();
        assert_eq!(digits.replace(' ', "").parse::<u32>().map(|_| digits.len()), Ok(7));
    }
    assert_ne!(link(&one)["address"], link(&two)["address"]);
    // Carriers and health show the link, and a new contact of the user goes over the relay.
    assert!(ok(&homes[0], &["carriers"]).contains("link"));
    assert!(health(&homes[0]).contains("a paired device is connected"));
    drop(one);
    let again = Program::demonstration(&homes[0]);
    assert!(link(&again)["digits"].is_null(), "{}", again.out());
}

#[test]
fn node_4_slow_up_fails_when_nothing_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("world");
    // A relay that takes no mail: mailboxes open, but every PUT is put off.
    let env = [("MEZZA_RELAY_LISTEN", "127.0.0.1:0"), ("MEZZA_RELAY_PUT_BYTES_DAY_MAX", "1")];
    let mut up = Program::start(&home, &ANY_PORTS, &env);
    assert_eq!(up.wait(), Some(1), "{}{}", up.out(), up.log());
    until("the output", || up.out().contains("\"check\""));
    let events = values(&up.out());
    let check = events.iter().find(|event| event["event"] == "check").unwrap();
    assert_eq!(check["ok"], false);
    assert!(!check["next"].as_str().unwrap().is_empty());
}

#[test]
fn an_identity_of_its_own_is_no_demonstration() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let made = mezza::testing::process::home::Home::find(Some(&home)).unwrap();
    made.make_folders().unwrap();
    let mut rng = mezza::testing::process::rng::OsRng;
    let now = mezza::testing::clock::now();
    Vault::create(&made.vault(), b"passphrase", Argon2Params::DEMO, now, &mut rng)
        .unwrap()
        .close()
        .unwrap();
    let up = mezza(&home, &["up", "--demo"]);
    assert_eq!(up.status.code(), Some(73));
    assert!(String::from_utf8_lossy(&up.stderr).contains("`--home DIR`"));
}

/// ```text
///   relay with key A, port P        goes away; relay with key B takes port P
///   node, whose card names A at P   gets no further than TLS
/// ```
#[test]
fn slow_a_relay_with_another_key_is_told_to_the_person() {
    let (folder, _, pass) = lonely();
    let port = free_port();
    let home = folder.path().join("home2");
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let listen = format!("127.0.0.1:{port}");
    ok(&old, &["relay", "init", "--listen", &listen]);
    let uri = ok(&old, &["relay", "uri"]);
    ok(&home, &["init", "--name", "Olga", "--relay", uri.trim(), "--passphrase-file", &pass]);
    let _relay = Program::relay(&new, port, &[]);
    let _node = Program::node(&home, &["--passphrase-file", &pass], &[]);
    let key = |home| json(home, &["relay", "status"])[0]["key"].as_str().unwrap().to_owned();
    let line = format!(
        "BAD  relay      relay 127.0.0.1:{port} shows key {}, your card says {}; do not continue, \
         ask its operator",
        key(&new),
        key(&old)
    );
    let doctor = || String::from_utf8(mezza(&home, &["doctor"]).stdout).unwrap();
    until("the warning", || doctor().contains(&line));
    assert_eq!(json(&home, &["carriers"])[0]["carriers"][0]["up"], false);
}
