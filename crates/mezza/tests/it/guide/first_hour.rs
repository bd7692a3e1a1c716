//! The guide to the first hour, typed by one reader with three homes.

use super::{Reader, commands, file};
use crate::program::{free_port, until};

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
    assert_eq!(said.matches("   OK\n").count(), 2, "{said}");
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
}
