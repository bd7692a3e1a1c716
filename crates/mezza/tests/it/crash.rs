//! The real program, killed at random points under load: whatever `send` accepted arrives, once.
//!
//! ```text
//!   ann --killed--> starts again --killed--> ..      ben stays and counts
//!      \--- relay, killed now and then too ---/
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mezza::backend::AwsLc;
use mezza::cli::client::Client;
use mezza::home::Home;
use mezza::rng::OsRng;
use mezza::store::{Cost, Vault};
use mezza::web::dto::{Contacts, Note, SendRequest};
use mezza_messenger::Device;
use mezza_messenger::card::RelayEntry;
use nix::sys::signal::Signal;
use rand_core::Rng as _;

use crate::program::{Program, free_port, json, ok, passphrase, until};

/// Kills in one run.
const KILLS: usize = 200;
/// Every so many kills of the node, the relay is killed too.
const RELAY_EVERY: usize = 10;
/// The passphrase; short is as good as long here.
const PASSPHRASE: &str = "crash";

/// A home with the cheapest vault that opens: hundreds of starts.
fn home(path: &Path, name: &str, relay: &RelayEntry) -> PathBuf {
    let home = Home::find(Some(path)).unwrap();
    home.make().unwrap();
    let now = mezza::node::now();
    let relays = std::slice::from_ref(relay);
    let mut device = Device::<AwsLc>::create(name, relays, now, &mut OsRng).unwrap();
    let mut vault =
        Vault::create(&home.vault(), PASSPHRASE.as_bytes(), Cost::DEMO, now, &mut OsRng).unwrap();
    vault.commit(&mezza::drive::drain(&mut device).batches).unwrap();
    vault.close().unwrap();
    path.into()
}

/// Writes notes until the node is gone; those that were accepted.
fn write(client: &Client, contact: &str, next: &mut u32) -> Vec<String> {
    let mut accepted = Vec::new();
    loop {
        let mut client_id = [0; 16];
        OsRng.fill_bytes(&mut client_id);
        let text = format!("note {next}");
        *next += 1;
        let client_id = data_encoding::HEXLOWER.encode(&client_id);
        let body = SendRequest { text: text.clone(), client_id };
        match client.post::<Note>(&format!("/v1/contacts/{contact}/notes"), &body) {
            Ok(_) => accepted.push(text),
            Err(_) => return accepted,
        }
        std::thread::sleep(Duration::from_millis(15));
    }
}

fn contact(client: &Client) -> String {
    client.get::<Contacts>("/v1/contacts").unwrap().contacts[0].id.clone()
}

/// How often each text stands in Ben's thread.
fn counts(home: &Path) -> BTreeMap<String, usize> {
    let client = Client::of(&Home::find(Some(home)).unwrap()).unwrap();
    let (mut counts, mut before) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/v1/contacts/{}/notes?limit=500{before}", contact(&client));
        let page: mezza::web::dto::Notes = client.get(&path).unwrap();
        for note in page.notes.iter().filter(|note| note.incoming) {
            *counts.entry(note.text.clone().unwrap()).or_default() += 1;
        }
        if !page.more {
            return counts;
        }
        before = format!("&before={}", page.notes[0].id);
    }
}

#[test]
fn msg_15_what_was_accepted_arrives_once_whatever_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pass = passphrase(folder.path(), PASSPHRASE);
    let unlock = ["--passphrase-file", pass.to_str().unwrap()];
    let port = free_port();
    let relay_home = folder.path().join("r");
    let mut relay = Program::relay(&relay_home, port, &[]);
    let listen = format!("127.0.0.1:{port}");
    let uri = ok(&relay_home, &["relay", "uri", "--listen", &listen]);
    let entry = mezza::cli::relay_of(uri.trim()).unwrap();
    let [ann, ben] = ["Ann", "Ben"].map(|name| home(&folder.path().join(name), name, &entry));
    let ben_node = Program::node(&ben, &unlock, &[]);
    let mut ann_node = Program::node(&ann, &unlock, &[]);
    for node in [&ann_node, &ben_node] {
        until("the mailbox", || node.is_reachable());
    }
    let card = |home: &Path| ok(home, &["card"]);
    ok(&ben, &["add", card(&ann).trim()]);
    ok(&ann, &["add", card(&ben).trim()]);
    ok(&ann, &["send", "Ben", "begin", "--wait", "delivered", "--timeout", "60"]);

    let (mut accepted, mut next) = (Vec::new(), 0);
    for kill in 1..=KILLS {
        let client = ann_node.client().unwrap();
        let id = contact(&client);
        // From before the first note to well into the exchange of receipts.
        let life = Duration::from_millis(OsRng.next_u64() % 120);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&client, &id, &mut next));
            std::thread::sleep(life);
            ann_node.stop(Signal::SIGKILL);
            accepted.extend(writer.join().unwrap());
        });
        if kill % RELAY_EVERY == 0 {
            relay.stop(Signal::SIGKILL);
            relay = Program::relay(&relay_home, port, &[]);
        }
        ann_node = Program::node(&ann, &unlock, &[]);
    }
    assert!(accepted.len() > KILLS / 2, "{} notes are no load", accepted.len());
    ok(&ann, &["send", "Ben", "end", "--wait", "delivered", "--timeout", "120"]);
    until("every note", || {
        let counts = counts(&ben);
        accepted.iter().all(|text| counts.contains_key(text))
    });
    let counts = counts(&ben);
    assert!(counts.values().all(|n| *n == 1), "twice: {counts:?}");
    until("every receipt", || json(&ann, &["outbox"])[0]["notes"].as_array().unwrap().is_empty());
    drop((relay, ben_node));
}
