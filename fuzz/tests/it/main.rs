//! The program as people and `cargo xtask test` call it.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in a folder of its own: a finding is kept in the current one.
fn fuzz(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezza-fuzz"));
    command.current_dir(folder).args(args).output().expect("the program runs")
}

#[test]
fn a_target_runs_for_the_seconds_that_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = fuzz(folder.path(), &["card", "0.2"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("nothing found"), "{text}");
}

#[test]
fn a_file_is_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("input"), b"no card").expect("a file");
    assert!(fuzz(folder.path(), &["card", "input"]).status.success());
    let missing = fuzz(folder.path(), &["card", "absent"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn an_unknown_target_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = fuzz(folder.path(), &["crad"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no target `crad`"));
}
