//! Where the demonstration of `mezza up` lives, and how it goes.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::program::{Program, mezza, ok, passphrase, typed};

/// A relay on any port: the usual one may be taken by another test.
const ANY_RELAY: (&str, &str) = ("MEZZA_RELAY_LISTEN", "127.0.0.1:0");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a stranger's command, and wants this exit code.
fn ends(user: &Path, args: &[&str], code: i32) -> Output {
    let output = typed(user, args).env(ANY_RELAY.0, ANY_RELAY.1).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    output
}

/// The folder `name` among the user's data.
fn data(user: &Path, name: &str) -> PathBuf {
    user.join(".local/share").join(name)
}

#[test]
fn node_6_slow_the_demonstration_takes_nobodys_place_and_goes_when_told() {
    let user = tempfile::tempdir().unwrap();
    let user = user.path();
    let pass = passphrase(user, "long enough for all");
    let init = ["init", "--name", "Nora", "--passphrase-file", pass.to_str().unwrap()];
    ends(user, &["up", "--check", "--port", "0"], 0);
    assert!(data(user, "mezza-demo").join("vault/head").exists());
    assert!(!data(user, "mezza").exists());
    ends(user, &init, 0);
    // An identity is what `up` starts from now on; `--demo` still names the demonstration.
    let again = ends(user, &["up", "--check", "--demo", "--json", "--port", "0"], 0);
    assert!(text(&again.stdout).contains("mezza-demo"), "{again:?}");
    let removed = ends(user, &["up", "--remove"], 0);
    assert!(text(&removed.stdout).contains("mezza-demo is removed"), "{removed:?}");
    assert!(!data(user, "mezza-demo").exists());
    assert!(data(user, "mezza").join("vault/head").exists());
    let nothing = ends(user, &["up", "--remove"], 66);
    assert!(text(&nothing.stderr).contains("there is no demonstration in"), "{nothing:?}");
}

#[test]
fn node_6_slow_a_home_with_a_demonstration_says_so_to_whoever_takes_it_for_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("a world");
    // A relay that is there before the demonstration is somebody's own.
    ok(&home, &["relay", "init"]);
    let pass = passphrase(folder.path(), "long enough for all");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    let mut up = Program::demonstration(&home);
    ok(&home, &["lock"]);
    let refused = mezza(&home, &[&["unlock"], &pass[..]].concat());
    assert_eq!(refused.status.code(), Some(77));
    let removal = format!("`mezza --home '{}' up --remove`", home.display());
    let said = text(&refused.stderr);
    assert!(said.contains("its passphrase is `demo`") && said.contains(&removal), "{said}");
    let busy = mezza(&home, &["up", "--remove"]);
    assert_eq!(busy.status.code(), Some(75));
    assert!(text(&busy.stderr).contains("' node stop`"), "{busy:?}");
    up.stop(nix::sys::signal::Signal::SIGTERM);
    for args in [&["init", "--name", "Nora"][..], &["node", "run", "--port", "0"]] {
        let refused = mezza(&home, &[args, &pass[..]].concat());
        assert_eq!(refused.status.code(), Some(73), "{args:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("holds the demonstration") && said.contains(&removal), "{said}");
    }
    // The command that was shown is taken as it stands.
    let program = env!("CARGO_BIN_EXE_mezza");
    let shown = format!("mezza() {{ '{program}' \"$@\"; }}; {}", removal.trim_matches('`'));
    let removed = std::process::Command::new("sh").args(["-c", &shown]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    assert!(text(&removed.stdout).contains("was there before it and stays"), "{removed:?}");
    assert!(home.join("relay/key").exists() && !home.join("vault").exists());
    ok(&home, &[&["init", "--name", "Nora"], &pass[..]].concat());
}
