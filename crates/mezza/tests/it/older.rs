//! Vaults and a relay that an older version left behind open, and their people go on talking.
//!
//! ```text
//!   ann (home) <--TLS--> relay at 127.83.1.7:7101 <--TLS--> ben (home)
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mezza::testing::api::json::Health;

use crate::program::{Program, json, ok, passphrase, until};

/// Where the relay of the fixture listened. Its cards say so, and no other test listens there.
const RELAY: &str = "127.83.1.7:7101";

/// A home with the files of the fixture in one of its folders, for its owner's eyes alone. How they
/// were made stands in `tests/older/README.md`.
fn unpack(home: &Path, folder: &str, part: &str) {
    let folder = home.join(folder);
    fs::create_dir_all(&folder).unwrap();
    for folder in [home, &folder] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older").join(part);
    for entry in fs::read_dir(fixture).unwrap().map(Result::unwrap) {
        let bytes = fs::read(entry.path()).unwrap();
        mezza::testing::process::home::private::replace(&folder.join(entry.file_name()), &bytes)
            .unwrap();
    }
}

/// The home of somebody, with the vault in it.
fn person(folder: &Path, name: &str) -> PathBuf {
    let home = folder.join(name);
    unpack(&home, "vault", name);
    home
}

fn texts(home: &Path, name: &str) -> Vec<String> {
    json(home, &["log", name]).iter().map(|note| note["text"].as_str().unwrap().into()).collect()
}

#[test]
fn slow_vaults_and_a_relay_of_an_older_version_open_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let relay_home = folder.path().join("r");
    unpack(&relay_home, "relay", "relay");
    let relay = Program::start(&relay_home, &["relay", "run", "--listen", RELAY], &[]);
    until("the relay", || relay.out().contains("relay "));
    let pass = passphrase(folder.path(), "correct horse battery staple six");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    let homes = ["ann", "ben"].map(|name| person(folder.path(), name));
    let nodes = homes.each_ref().map(|home| Program::node(home, &pass, &[]));
    for node in &nodes {
        until("the mailbox", || node.is_reachable());
        let health: Health = node.client().unwrap().get("/v1/health").unwrap();
        let aside = health.lines.iter().find(|line| line.text.contains("could not be read"));
        assert!(aside.is_none(), "{}", aside.unwrap().text);
    }
    let [ann, ben] = &homes;
    let old = ["hello Ben", "hello Ann", "note 1", "note 2", "note 3"];
    assert_eq!(texts(ann, "ben")[..5], old, "what was said is there");
    assert_eq!(texts(ben, "ann")[..5], old);
    assert!(ok(ann, &["contacts", "ben"]).contains("number compared"));
    assert!(ok(ann, &["requests"]).contains("may I come in?"));
    // The session goes on where it stopped.
    ok(ann, &["send", "ben", "still here", "--wait", "delivered"]);
    ok(ben, &["send", "ann", "so am I", "--wait", "delivered"]);
    assert_eq!(
        json(ann, &["verify", "ben"])[0]["groups"],
        json(ben, &["verify", "ann"])[0]["groups"]
    );
}
