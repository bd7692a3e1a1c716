//! A whole network of real processes, with simulated users.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::town::{SERVERS, Town, rounds};
use crate::program::until;

#[test]
fn mix_32_twenty_users_get_what_they_must_and_logs_name_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let mut town = Town::start(folder.path());
    let mut load = town.load(folder.path(), 20, 5);
    let code = load.wait();
    until("the sum", || code != Some(0) || load.out().contains("\"event\":\"load\""));
    let told: Vec<Value> =
        load.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(code, Some(0), "{}{}{}", load.out(), load.log(), town.logs());
    let sum = told.last().unwrap();
    assert_eq!(
        (&sum["event"], &sum["rounds"], &sum["wrong"]),
        (&"load".into(), &5.into(), &0.into())
    );
    // On a loaded machine some requests miss their rounds; nothing wrong comes back.
    let full = rounds(&load).iter().filter(|round| round["right"] == 20).count();
    assert!(full >= 1, "{}{}", load.out(), town.logs());
    // Calls and invitations run beside, up to the bucket store.
    until("a call round", || folder.path().join("mixnet/buckets").read_dir().unwrap().count() > 0);
    assert_silent(&town.logs());
    let counts = metrics(town.metrics);
    let count = |name: &str| {
        let line =
            counts.lines().find_map(|line| line.strip_prefix(&format!("mezza_mixnet_{name} ")));
        line.unwrap_or_else(|| panic!("{counts}")).parse::<u64>().unwrap()
    };
    assert!(count("rounds_returned_total") >= 5 && count("links") == 5, "{counts}");
    for server in town.servers.iter_mut().rev() {
        assert_eq!(server.stop(Signal::SIGTERM).0, Some(0), "{}", server.log());
    }
}

/// The goal T8 of the mixnet measures how many rounds this takes; a loaded machine may lose some.
#[test]
fn slow_traffic_resumes_whoever_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut town = Town::start(folder.path());
    let load = town.load(folder.path(), 20, 100_000);
    let returns_since = |since_ms: u64| {
        let all = rounds(&load);
        let wrong = all.iter().find(|round| round["wrong"] != 0);
        assert!(wrong.is_none(), "{wrong:?}");
        let mut after = all.iter().filter(|round| round["open_ms"].as_u64() >= Some(since_ms));
        after.any(|round| round["returned"].as_u64() > Some(0))
    };
    until("the first round", || returns_since(0));
    for victim in SERVERS {
        let listens_ms = town.kill(victim);
        until(&format!("a round after {victim} was killed"), || returns_since(listens_ms));
    }
}

/// A disk that refuses costs the rounds of that time; the mix neither signs them nor ends.
#[test]
fn mix_79_a_mix_goes_on_after_a_disk_that_refused() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::start(folder.path());
    let load = town.load(folder.path(), 5, 100_000);
    let returned = |since_ms: u64| {
        let all = rounds(&load);
        let mut after = all.iter().filter(|round| round["open_ms"].as_u64() >= Some(since_ms));
        after.any(|round| round["returned"].as_u64() > Some(0))
    };
    until("the first round", || returned(0));
    // A folder in the place of the file is as good as a full disk, for root, too.
    let signed = folder.path().join("mixnet/mix1.key.signed");
    std::fs::remove_file(&signed).unwrap();
    std::fs::create_dir(&signed).unwrap();
    let mix = &town.servers[SERVERS.iter().position(|server| *server == "mix1").unwrap()];
    until("a refusal", || mix.log().contains("a round is not signed"));
    std::fs::remove_dir(&signed).unwrap();
    let room_ms = mezza::testing::clock::now().as_ms();
    until("rounds again", || returned(room_ms));
}

/// MIX-32: nothing in a log is as long as a key or a drop, and no client has an address there.
fn assert_silent(logs: &str) {
    let words = logs.split(|c: char| !c.is_ascii_hexdigit());
    let long: Vec<&str> = words.filter(|word| word.len() >= 16).collect();
    assert!(long.is_empty(), "{long:?}");
    assert!(!logs.contains("127.0.0.1"), "{logs}");
    assert!(logs.contains("a link is up"), "{logs}");
}

/// The counts of the entry server.
fn metrics(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
