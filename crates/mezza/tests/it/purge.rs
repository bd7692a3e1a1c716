//! Where everything is, and that it goes when told.

use std::path::Path;
use std::process::Output;

use crate::program::{Program, command, passphrase, typed, until};

fn ends(user: &Path, args: &[&str], code: i32) -> Output {
    let output = typed(user, args).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn node_7_purge_removes_both_folders_that_doctor_names_after_asking() {
    let user = tempfile::tempdir().unwrap();
    let user = user.path();
    let home = user.join(".local/share/mezza");
    let state = user.join(".local/state/mezza");
    let pass = passphrase(user, "long enough for all");
    let pass = pass.to_str().unwrap();
    ends(user, &["init", "--name", "Nora", "--passphrase-file", pass], 0);
    let user_folder = user.to_str().unwrap();
    let env = [("HOME", user_folder), ("MEZZA_PASSPHRASE_FILE", pass)];
    let mut node = Program::node(&home, &[], &env);
    crate::program::ok(&home, &["add", &crate::cli::card_of("Eve")]);
    crate::program::ok(&home, &["send", "Eve", "hello"]);
    let doctor = text(&typed(user, &["doctor"]).output().unwrap().stdout);
    for folder in [&home, &state] {
        assert!(doctor.contains(folder.to_str().unwrap()), "{doctor}");
    }
    until("the witness", || state.read_dir().is_ok_and(|mut files| files.next().is_some()));
    assert!(text(&ends(user, &["purge", "--yes"], 75).stderr).contains("node stop"));
    node.stop(nix::sys::signal::Signal::SIGTERM);
    // Nobody is here to be asked.
    let refused = ends(user, &["purge"], 2);
    assert!(text(&refused.stderr).contains("say it again with `--yes`"), "{refused:?}");
    assert!(text(&refused.stdout).contains("holds an identity with its notes"), "{refused:?}");
    assert!(home.join("vault/head").exists());
    for name in ["not-ours", "mesh-cells.db", "mesh-cells.db-wal"] {
        std::fs::write(home.join(name), "").unwrap();
    }
    ends(user, &["purge", "--yes"], 0);
    let left: Vec<_> = home.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["not-ours"]);
    assert!(!state.exists());
    assert!(text(&ends(user, &["purge", "--yes"], 66).stderr).contains("nothing of Mezzavoce"));
}

#[test]
fn node_7_purge_leaves_the_witnesses_of_other_homes() {
    let user = tempfile::tempdir().unwrap();
    let user = user.path();
    let state = user.join(".local/state/mezza");
    let pass = passphrase(user, "long enough for all");
    let pass = pass.to_str().unwrap();
    let work = user.join("work");
    for home in [&user.join(".local/share/mezza"), &work] {
        crate::program::ok(home, &["init", "--name", "Nora", "--passphrase-file", pass]);
    }
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("one"), "").unwrap();
    let mut purge = command(&work, &["purge", "--yes"]);
    let purged = purge.env("HOME", user).output().unwrap();
    assert!(purged.status.success(), "{purged:?}");
    assert!(text(&purged.stdout).contains("1 files in"), "{purged:?}");
    assert!(state.join("one").exists() && !work.exists());
}
