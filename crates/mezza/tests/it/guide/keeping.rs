//! The guide to backups, typed by a reader whose node runs, and at an empty home. Files go from one
//! machine to the other as on a stick. The passphrase of a backup is read from a file where a person
//! types it.

use super::{Bob, Reader, commands, file};
use crate::program::passphrase;

const GUIDE: &str = "docs/guide/backup.md";

/// A reader with an identity, a running node and one contact, Ben.
fn reader_with_node(bob: &Bob) -> Reader {
    let mut reader = Reader::new();
    reader.succeeds(&format!("mezza init --name ann --relay {}", bob.relay_uri));
    start_node(&mut reader);
    reader.succeeds(&format!("mezza add {} --as Ben", bob.card()));
    reader
}

fn start_node(reader: &mut Reader) {
    reader.succeeds("mezza node run --listen 127.0.0.1:0 &");
    reader.succeeds("mezza unlock");
}

/// The commands below a heading, with a file for the passphrase of the backup.
fn typed(heading: &str) -> Vec<String> {
    let shown = commands(&file(GUIDE), heading).into_iter().map(|(line, _)| line);
    let complete = |line: String| {
        let line = line.split(" #").next().unwrap().trim_end().to_owned();
        let asks =
            ["mezza backup make", "mezza backup check", "mezza backup auto /", "mezza restore"];
        let asks = asks.iter().any(|ask| line.starts_with(ask));
        let line = line.replace("/mnt/usb", "usb");
        if asks { line + " --passphrase-file sealed/passphrase" } else { line }
    };
    shown.map(complete).collect()
}

fn add_passphrase(reader: &Reader) {
    let folder = reader.folder.path().join("sealed");
    std::fs::create_dir(&folder).unwrap();
    passphrase(&folder, "six other words for the backup");
}

/// Carries a file from one machine to another.
fn carry(name: &str, from: &Reader, to: &Reader) {
    std::fs::copy(from.folder.path().join(name), to.folder.path().join(name)).unwrap();
}

#[test]
fn cli_9_slow_the_guide_to_backups_works() {
    let others = tempfile::tempdir().unwrap();
    let bob = Bob::new(others.path());
    let mut old = reader_with_node(&bob);
    add_passphrase(&old);
    let mut said = String::new();
    for line in typed("## Making a backup") {
        said += &old.succeeds(&line);
    }
    assert!(said.contains("1 contact and 0 notes"), "{said}");
    for line in typed("## Exporting a conversation") {
        old.succeeds(&(line + " --yes"));
    }
    assert!(old.folder.path().join("ben.jsonl").exists());
    old.succeeds("mezza node stop");
    let mut new = Reader::new();
    add_passphrase(&new);
    carry("ann.age", &old, &new);
    for line in typed("## Restoring") {
        if line == "mezza node run" { start_node(&mut new) } else { drop(new.succeeds(&line)) }
    }
    assert!(new.succeeds("mezza contacts").contains("Ben"));
}

#[test]
fn cli_9_slow_the_guide_to_moving_works() {
    let others = tempfile::tempdir().unwrap();
    let bob = Bob::new(others.path());
    let mut old = reader_with_node(&bob);
    let mut new = Reader::new();
    // What the screens show, which a person types on.
    let [mut recipient, mut digits, mut key] = [(); 3].map(|()| String::new());
    let mut steps = 0;
    // The other way, over one network, needs two more homes and is a test of its own (BACKUP-33).
    let by_file = typed("## Moving to another machine");
    for line in by_file.into_iter().take_while(|line| !line.contains("--listen")) {
        let (machine, line) = line.split_once("$ ").unwrap();
        let line = line.replace("RECIPIENT", &recipient).replace("DIGITS", &format!("'{digits}'"));
        let line = line.replace("KEY", &key);
        steps += 1;
        if line == "mezza node run" {
            start_node(&mut new);
            continue;
        }
        let said = if machine == "old" { old.succeeds(&line) } else { new.succeeds(&line) };
        let begins =
            |word: &str| said.lines().find(|line| line.starts_with(word)).map(str::to_owned);
        recipient = begins("age1").unwrap_or(recipient);
        if let Some(line) = begins("digits ") {
            line["digits ".len()..].trim().clone_into(&mut digits);
        }
        if said.contains("the key for the new device:") {
            said.lines().nth(1).unwrap().trim().clone_into(&mut key);
        }
        if line.starts_with("mezza move out age1") {
            carry("ann.move", &old, &new);
        }
    }
    assert_eq!(steps, 7);
    assert!(new.succeeds("mezza contacts").contains("Ben"));
    assert!(!old.home().join("vault/head").exists(), "nothing is left to run");
}
