//! Nothing personal in any log line (MSG-37): two nodes and a relay talk at trace level, and
//! everything they print is searched for what was planted.

use std::io::{Read as _, Write as _};

use nix::sys::signal::Signal;

use crate::program::{Program, free_port, json, ok, passphrase, until};

const PASSPHRASE: &str = "zephyr-quilt-marmalade-obelisk";
const TEXT: &str = "the heron lands at dusk behind the mill";
const NAMES: [&str; 2] = ["Xanthippe", "Quasimodo"];

#[test]
fn msg_37_slow_logs_hold_no_name_text_key_or_address() {
    let folder = tempfile::tempdir().unwrap();
    let pass = passphrase(folder.path(), PASSPHRASE);
    let pass = pass.to_str().unwrap();
    let trace = [("MEZZA_LOG", "trace")];
    let port = free_port();
    let relay_home = folder.path().join("r");
    let mut relay = Program::relay(&relay_home, port, &trace);
    let uri = ok(&relay_home, &["relay", "uri"]);
    let homes = NAMES.map(|name| {
        let home = folder.path().join(name);
        let args = ["init", "--name", name, "--relay", uri.trim(), "--passphrase-file", pass];
        ok(&home, &args);
        home
    });
    let [mut one, mut two] =
        homes.each_ref().map(|home| Program::node(home, &["--passphrase-file", pass], &trace));
    for node in [&one, &two] {
        until("the mailbox", || node.is_reachable());
    }
    let cards =
        homes.each_ref().map(|home| json(home, &["card"])[0]["uri"].as_str().unwrap().to_owned());
    ok(&homes[0], &["add", &cards[1]]);
    ok(&homes[1], &["add", &cards[0]]);
    until("the note", || {
        ok(&homes[0], &["send", NAMES[1], TEXT, "--wait", "delivered"]).contains("on their device")
    });
    ok(&homes[0], &["lock"]);
    ok(&homes[0], &["unlock", "--passphrase-file", pass]);
    let wrong = folder.path().join("wrong");
    std::fs::create_dir(&wrong).unwrap();
    let wrong = passphrase(&wrong, "not-the-passphrase-at-all");
    ok(&homes[0], &["lock"]);
    let refused =
        crate::program::mezza(&homes[0], &["unlock", "--passphrase-file", wrong.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(77));
    let tokens: Vec<String> = homes.each_ref().map(|home| bearer(home)).into();
    let ids: Vec<String> = cards.iter().map(|card| key_of(card)).collect();
    let logs = [&mut one, &mut two, &mut relay].map(|program| {
        program.stop(Signal::SIGTERM);
        program.log()
    });
    assert!(logs[0].contains("unlocked"), "the log listens: {}", logs[0]);
    let planted: Vec<&str> = [PASSPHRASE, TEXT, "not-the-passphrase"]
        .into_iter()
        .chain(NAMES)
        .chain(cards.iter().map(|card| &card[15..60]))
        .chain(tokens.iter().map(String::as_str))
        .chain(ids.iter().map(String::as_str))
        .collect();
    for log in &logs {
        for secret in &planted {
            assert!(!log.contains(secret), "{secret} in\n{log}");
            assert!(!log.to_lowercase().contains(&secret.to_lowercase()), "{secret}");
        }
        assert!(!log.contains(&format!(":{port}")), "an address in\n{log}");
    }
}

/// A bearer of a node, as a tab gets it.
fn bearer(home: &std::path::Path) -> String {
    let url = ok(home, &["url"]);
    let (origin, ticket) = url.trim().split_once("/#t=").unwrap();
    let host = origin.strip_prefix("http://").unwrap();
    let body = format!("{{\"ticket\":\"{ticket}\"}}");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let head = "POST /v1/session HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{head}\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let session: serde_json::Value =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    session["bearer"].as_str().unwrap().to_owned()
}

/// The first half of the identity key of a card, hexadecimal.
fn key_of(card: &str) -> String {
    let mezza_messenger::uri::Uri::Card(card) = mezza_messenger::uri::decode(card).unwrap() else {
        panic!("no card")
    };
    data_encoding::HEXLOWER.encode(&card.ik().as_bytes()[..16])
}
