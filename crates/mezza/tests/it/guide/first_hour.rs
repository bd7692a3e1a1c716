//! The guide to the first hour, typed by readers with a few homes each: a relay, the mixnet of the
//! demonstration, and the mesh on the loopback interface.

use super::{Reader, commands, file};
use crate::program::{CHECKED, free_port, until};

const GUIDE: &str = "docs/guide/first-hour.md";

fn typed(heading: &str) -> Vec<String> {
    commands(&file(GUIDE), heading).into_iter().map(|(line, _)| line).collect()
}

#[test]
fn cli_9_slow_the_first_hour_works() {
    let mut reader = Reader::new();
    let mut said = String::new();
    for line in typed("## See it work") {
        said += &reader.succeeds(&line);
    }
    assert_eq!(said.matches("   OK\n").count(), CHECKED.len(), "{said}");
    let address = meet_at_a_relay(&mut reader);
    meet_in_the_mixnet(&mut reader, &address);
}

/// Types the part with a relay. Returns the address of the relay, which goes on to run.
fn meet_at_a_relay(reader: &mut Reader) -> String {
    // Other relays of this machine may have the port of the guide.
    let place = format!("127.0.0.1:{}", free_port());
    let mut address = String::new();
    let mut said = String::new();
    for line in typed("## Two people and a relay") {
        let line = line.replace("127.0.0.1:7101", &place).replace("mezzavoce:r1/...", &address);
        let line = line.replace("node run", "node run --listen 127.0.0.1:0");
        if line.contains("requests accept") {
            until("the request", || reader.types(&line).status.success());
            continue;
        }
        let printed = reader.succeeds(&line);
        if printed.starts_with("mezzavoce:r1/") {
            printed.trim().clone_into(&mut address);
        }
        said += &printed;
    }
    for expected in ["on their device", "you: hello", "bob: hello yourself", "relay    up"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    address
}

/// Types the part with the mixnet of the demonstration.
fn meet_in_the_mixnet(reader: &mut Reader, address: &str) {
    let mut link = String::new();
    let mut read = 0;
    for line in typed("## Two people over a mixnet") {
        let line = line.replace("mezza-net:1:...", &link).replace("mezzavoce:r1/...", address);
        let line = line.replace("node run", "node run --listen 127.0.0.1:0");
        if line.contains("config show") {
            // A person waits for the OK on the screen.
            until("the network", || reader.types(&line).status.success());
            let shown = reader.succeeds(&line);
            let last = shown.lines().last().and_then(|line| line.strip_prefix("link"));
            last.expect("the link").trim().clone_into(&mut link);
        } else if line.contains("mixnet status") {
            until("the mixnet", || reader.types(&line).status.success());
        } else if line.contains(" log ") {
            until("the note in cells", || {
                let thread = reader.succeeds(&line);
                let mut notes = thread.lines().filter(|line| line.contains("you: in cells"));
                notes.any(|note| note.contains("on their device, mixnet"))
            });
            read += 1;
        } else {
            reader.succeeds(&line);
        }
    }
    assert_eq!(read, 1);
}

#[test]
fn cli_9_slow_two_people_of_the_guide_need_no_server() {
    let mut reader = Reader::new();
    let mut accepted = 0;
    for line in typed("## Two people and no server") {
        let line = line.replace("node run", "node run --listen 127.0.0.1:0");
        if line.contains("card --mesh") {
            // The node takes a moment to know its neighbourhood and its time.
            until("the clock of the mesh", || reader.types(&line).status.success());
        } else if line.contains("requests accept") {
            until("the request", || reader.types(&line).status.success());
            accepted += 1;
        } else if line.contains(" log ") {
            until("the answer", || {
                let thread = reader.succeeds(&line);
                thread.contains("on their device, mesh") && thread.contains("ben: and back")
            });
        } else {
            reader.succeeds(&line);
        }
    }
    assert_eq!(accepted, 1);
}
