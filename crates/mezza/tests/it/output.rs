//! Answers that no reader takes, and names that are not text.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::program::{Program, command, passphrase};

/// A command whose standard output is this.
fn into(home: &Path, args: &[&str], out: Stdio) -> Output {
    let mut command = command(home, args);
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap()
}

/// A pipe that nobody reads any more.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A disk without room.
fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn cli_6_slow_a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let pass = passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    crate::program::ok(&home, &[&["init", "--name", "Nora"], &pass[..]].concat());
    let _node = Program::node(&home, &pass, &[]);
    for args in [
        &["completions", "bash"][..],
        &["--help"],
        &["config", "print"],
        &["card"],
        &["card", "--json"],
        &["contacts"],
        &["mixnet", "privacy", "--rounds", "1000"],
    ] {
        let quiet = into(&home, args, closed_pipe());
        assert_eq!(quiet.status.code(), Some(0), "{args:?}: {quiet:?}");
        assert!(quiet.stderr.is_empty(), "{args:?}: {quiet:?}");
        let lost = into(&home, args, full_disk());
        assert_eq!(lost.status.code(), Some(73), "{args:?}: {lost:?}");
        let said = String::from_utf8_lossy(&lost.stderr).into_owned();
        assert!(said.contains("standard output cannot be written"), "{args:?}: {said}");
    }
    // What fails keeps its own exit code.
    assert_eq!(into(&home, &["contacts", "Zoe"], closed_pipe()).status.code(), Some(66));
}

#[test]
fn cli_6_following_ends_with_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let pass = passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    crate::program::ok(&home, &[&["init", "--name", "Nora"], &pass[..]].concat());
    let _node = Program::node(&home, &pass, &[]);
    crate::program::ok(&home, &["add", &crate::cli::card_of("Eve")]);
    crate::program::ok(&home, &["send", "Eve", "one"]);
    let mut follower = command(&home, &["log", "Eve", "-f"]);
    follower.stdin(Stdio::null()).stdout(closed_pipe()).stderr(Stdio::piped());
    let mut follower = follower.spawn().unwrap();
    crate::program::until("the end of the follower", || {
        crate::program::ok(&home, &["send", "Eve", "more"]);
        follower.try_wait().unwrap().is_some()
    });
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}

#[test]
fn cli_7_a_path_that_is_no_text_is_a_path_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let odd = |name: &[u8]| -> PathBuf { folder.path().join(OsStr::from_bytes(name)) };
    let home = odd(b"caf\xe9");
    let pass = passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    let init = [&["init", "--name", "Nora", "--json"], &pass[..]].concat();
    let made = into(&home, &init, Stdio::piped());
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let value: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(value["home"].as_str().unwrap().ends_with("caf\u{fffd}"), "{value}");
    let _node = Program::node(&home, &pass, &[]);
    let picture = odd(b"c\xe4rd.png");
    let mut card = command(&home, &["card", "--out"]);
    let drawn = card.arg(&picture).stdin(Stdio::null()).output().unwrap();
    assert_eq!(drawn.status.code(), Some(0), "{drawn:?}");
    assert!(picture.exists());
    let mut keygen = command(&home, &["mixnet", "keygen", "--out"]);
    let made = keygen.arg(odd(b"k\xe9y")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let mut man = command(&home, &["man"]);
    let made = man.arg(odd(b"m\xe4n")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
}
