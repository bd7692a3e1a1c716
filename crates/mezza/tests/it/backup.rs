//! Backups: made by a running node, checked, and restored into another home.
//!
//! ```text
//!   ann (home a) -- backup --> file -- restore --> ann (home c)
//!        |                                             |
//!        +----------- relay (home r) ------------------+------- ben (home b)
//! ```

mod walk;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{Program, health, json, mezza, ok, passphrase, until};
use crate::two_homes::World;

const WORDS: &str = "abacus above absorb accent access acorn";

/// The texts of a thread, of one direction.
fn texts(home: &Path, name: &str, incoming: bool) -> Vec<String> {
    let notes = json(home, &["log", name, "--peek", "-n", "500"]);
    let chosen = notes.iter().filter(|note| note["incoming"] == incoming);
    chosen.map(|note| note["text"].as_str().unwrap().to_owned()).collect()
}

/// Ann, Ben, and the file of a backup of Ann.
struct Saved {
    world: World,
    ann: PathBuf,
    ben: PathBuf,
    file: PathBuf,
    words: PathBuf,
}

impl Saved {
    /// Both talk, and nothing is on its way when this returns.
    fn start() -> (Self, Program, Program) {
        let world = World::start();
        let ann = world.init("Ann");
        let ben = world.init("Ben");
        let nodes = (world.node(&ann), world.node(&ben));
        ok(&ann, &["add", ok(&ben, &["card"]).trim()]);
        ok(&ben, &["add", ok(&ann, &["card"]).trim()]);
        for n in 1..=3 {
            ok(&ann, &["send", "Ben", &format!("to Ben {n}"), "--wait", "delivered"]);
            ok(&ben, &["send", "Ann", &format!("to Ann {n}"), "--wait", "delivered"]);
        }
        let folder = world.folder().join("usb");
        std::fs::create_dir(&folder).unwrap();
        let words = passphrase(&folder, WORDS);
        let file = folder.join("ann.age");
        (Self { world, ann, ben, file, words }, nodes.0, nodes.1)
    }

    fn make(&self) -> Value {
        let words = self.words.to_str().unwrap();
        let file = self.file.to_str().unwrap();
        json(&self.ann, &["backup", "make", file, "--passphrase-file", words])[0].clone()
    }

    /// Restores into a new home of this name, and runs it.
    fn restore(&self, name: &str) -> (PathBuf, Program) {
        let home = self.world.folder().join(name);
        self.restore_into(&home);
        let node = self.world.node(&home);
        (home, node)
    }

    fn restore_into(&self, home: &Path) {
        let pass = self.world.folder().join("passphrase");
        let words = self.words.to_str().unwrap();
        let file = self.file.to_str().unwrap();
        let mut command =
            crate::program::command(home, &["restore", file, "--passphrase-file", words]);
        command.env("MEZZA_PASSPHRASE_FILE", pass).env("XDG_STATE_HOME", home.join("state"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
    }
}

#[test]
fn backup_10_slow_a_restored_home_goes_on_talking() {
    let (saved, mut ann_node, _ben_node) = Saved::start();
    let made = saved.make();
    assert_eq!((made["contacts"].as_u64(), made["notes"].as_u64()), (Some(1), Some(6)));
    // The lost device goes on after its last backup.
    ok(&saved.ann, &["send", "Ben", "after the backup", "--wait", "delivered"]);
    ok(&saved.ben, &["send", "Ann", "Ann has it for a while", "--wait", "delivered"]);
    ann_node.stop(Signal::SIGKILL);
    std::fs::remove_dir_all(&saved.ann).unwrap();

    let (home, _node) = saved.restore("c");
    let expected: Vec<String> = (1..=3).map(|n| format!("to Ann {n}")).collect();
    assert_eq!(texts(&home, "Ben", true), expected);
    // Both go on without a command.
    ok(&home, &["send", "Ben", "it is me again", "--wait", "delivered"]);
    ok(&saved.ben, &["send", "Ann", "welcome back", "--wait", "delivered"]);
    assert_eq!(texts(&home, "Ben", true).last().unwrap(), "welcome back");
    let at_ben = texts(&saved.ben, "Ann", true);
    let once: BTreeSet<&String> = at_ben.iter().collect();
    assert_eq!(once.len(), at_ben.len(), "{at_ben:?}");
    assert_eq!(at_ben.last().unwrap(), "it is me again");

    // Each side sees what was lost.
    let restored = |home: &Path, name: &str| json(home, &["contacts", name])[0]["restored"].clone();
    until("the count of Ann's lost note", || restored(&home, "Ben")["ahead"] == 1);
    until("the mark of Ben's lost note", || restored(&saved.ben, "Ann")["lost"] == 1);
    let notes = json(&saved.ben, &["log", "Ann", "--peek"]);
    let lost: Vec<&Value> = notes.iter().filter(|note| note["mark"]["what"] == "lost").collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["text"], "Ann has it for a while");
    assert_eq!(lost[0]["state"], "delivered", "a fact is never taken back");

    // The texts say so, too.
    let said = ok(&saved.ben, &["contacts", "Ann"]);
    assert!(said.contains("restored      1 note is no longer on their device"), "{said}");
    let said = ok(&home, &["contacts", "Ben"]);
    assert!(said.contains("restored      1 note of yours is on their device"), "{said}");
    let said = ok(&saved.ben, &["log", "Ann", "--peek"]);
    let number = lost[0]["id"].as_str().unwrap();
    assert!(said.contains(&format!("; note {number}: was on their device")), "{said}");

    // The user sends it again; nobody else does.
    assert!(!texts(&home, "Ben", true).contains(&"Ann has it for a while".to_owned()));
    ok(&saved.ben, &["outbox", "send", lost[0]["id"].as_str().unwrap()]);
    until("the note again", || {
        texts(&home, "Ben", true).contains(&"Ann has it for a while".to_owned())
    });
    until("no mark", || restored(&saved.ben, "Ann")["lost"] != 1);
}

#[test]
fn backup_23_slow_a_note_without_a_number_waits_for_the_user() {
    let (saved, mut ann_node, mut ben_node) = Saved::start();
    // Notes that wait without a number: the relay is not there.
    ben_node.stop(Signal::SIGTERM);
    let mut saved = saved;
    saved.world.stop_relay();
    ok(&saved.ann, &["send", "Ben", "shall I?"]);
    ok(&saved.ann, &["send", "Ben", "better not"]);
    saved.make();
    ann_node.stop(Signal::SIGKILL);
    saved.world.start_relay();
    let ben_node = saved.world.node(&saved.ben);

    let (home, _node) = saved.restore("c");
    let waiting = json(&home, &["outbox"])[0]["notes"].as_array().unwrap().clone();
    assert_eq!(waiting.len(), 2);
    assert!(waiting.iter().all(|note| note["mark"]["what"] == "unsure"), "{waiting:?}");
    assert!(waiting.iter().all(|note| note["why"] == "restored"));
    // What is written now goes at once, and takes nothing along.
    ok(&home, &["send", "Ben", "I am back", "--wait", "delivered"]);
    assert_eq!(texts(&saved.ben, "Ann", true).last().unwrap(), "I am back");
    let id = |text: &str| {
        let note = waiting.iter().find(|note| note["text"] == text).unwrap();
        note["id"].as_str().unwrap().to_owned()
    };
    ok(&home, &["outbox", "send", &id("shall I?")]);
    ok(&home, &["outbox", "cancel", &id("better not")]);
    until("the note", || texts(&saved.ben, "Ann", true).contains(&"shall I?".to_owned()));
    assert!(!texts(&saved.ben, "Ann", true).contains(&"better not".to_owned()));
    assert_eq!(ok(&home, &["outbox"]).trim(), "nothing waits");
    drop(ben_node);
}

#[test]
fn backup_9_a_wrong_passphrase_and_a_damaged_header_give_one_answer() {
    let (saved, _ann, _ben) = Saved::start();
    saved.make();
    let check = |file: &Path, words: &Path| {
        let args = ["backup", "check", file.to_str().unwrap(), "--passphrase-file"];
        let output = mezza(&saved.ann, &[&args[..], &[words.to_str().unwrap()]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check(&saved.file, &saved.words).0, Some(0));
    let folder = tempfile::tempdir().unwrap();
    let wrong = check(&saved.file, &passphrase(folder.path(), "abacus above absorb accent"));
    let damaged = folder.path().join("damaged.age");
    let mut bytes = std::fs::read(&saved.file).unwrap();
    // A letter of the sealed file key.
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 60;
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    std::fs::write(&damaged, bytes).unwrap();
    assert_eq!(wrong.0, Some(77));
    assert_eq!(check(&damaged, &saved.words), wrong);
    let home = saved.world.folder().join("none");
    let words = passphrase(folder.path(), "abacus above absorb accent");
    let args = ["restore", saved.file.to_str().unwrap(), "--passphrase-file"];
    let output = mezza(&home, &[&args[..], &[words.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(77));
    assert!(!home.join("vault").exists(), "nothing is made");
}

/// Runs a command with the passphrase of the vaults in its environment; what it printed as JSON.
fn json_with(saved: &Saved, home: &Path, args: &[&str]) -> Result<Value, (Option<i32>, String)> {
    let mut command = crate::program::command(home, &[args, &["--json"]].concat());
    command.env("MEZZA_PASSPHRASE_FILE", saved.world.folder().join("passphrase"));
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(serde_json::from_str(text.lines().next().unwrap()).unwrap());
    }
    Err((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned() + &text))
}

#[test]
fn backup_30_slow_a_moved_home_goes_on_and_the_old_one_is_empty() {
    let (saved, mut ann_node, _ben_node) = Saved::start();
    let new = saved.world.folder().join("new");
    let file = saved.file.with_extension("move");
    let file = file.to_str().unwrap();
    let run = |home: &Path, args: &[&str]| json_with(&saved, home, args);
    let recipient = run(&new, &["move", "in"]).unwrap()["recipient"].as_str().unwrap().to_owned();
    // A node that runs is not moved.
    assert_eq!(run(&saved.ann, &["move", "out", &recipient, file]).unwrap_err().0, Some(75));
    ann_node.stop(Signal::SIGTERM);
    run(&saved.ann, &["move", "out", &recipient, file]).unwrap();
    let node = ["node", "run", "--port", "0"];
    let refused = run(&saved.ann, &node).unwrap_err();
    assert!(refused.1.contains("being moved"), "{refused:?}");
    let digits = run(&new, &["move", "in", file]).unwrap()["digits"].as_str().unwrap().to_owned();
    let wrong = if digits == "00000000" { "11111111" } else { "00000000" };
    let refused = run(&saved.ann, &["move", "out", "--digits", wrong]).unwrap_err();
    assert_eq!(refused.0, Some(1), "{refused:?}");
    let key = run(&saved.ann, &["move", "out", "--digits", &digits]).unwrap()["key"].clone();
    assert_eq!(run(&saved.ann, &["move", "out"]).unwrap()["key"], key, "it is shown again");
    let key = key.as_str().unwrap();
    run(&new, &["move", "in", file, "--key", key]).unwrap();
    let refused = run(&saved.ann, &node).unwrap_err();
    assert!(refused.1.contains("moved"), "{refused:?}");
    assert!(!saved.ann.join("vault/head").exists());

    // Nothing is lost, and nobody notices anything.
    let _node = saved.world.node(&new);
    let expected: Vec<String> = (1..=3).map(|n| format!("to Ann {n}")).collect();
    assert_eq!(texts(&new, "Ben", true), expected);
    ok(&new, &["send", "Ben", "from the new device", "--wait", "delivered"]);
    ok(&saved.ben, &["send", "Ann", "it looks the same", "--wait", "delivered"]);
    let ann = json(&saved.ben, &["contacts", "Ann"])[0].clone();
    assert!(ann["restored"].is_null() && ann["trouble"].is_null(), "{ann}");
}

#[test]
fn backup_14_an_export_is_readable_and_asks_first() {
    let (saved, _ann, _ben) = Saved::start();
    let file = saved.file.with_extension("jsonl");
    let args = ["export", "Ben", file.to_str().unwrap()];
    assert_eq!(mezza(&saved.ann, &args).status.code(), Some(1), "nobody said yes");
    assert!(!file.exists());
    ok(&saved.ann, &[&args[..], &["--yes"]].concat());
    let text = std::fs::read_to_string(&file).unwrap();
    let notes: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(notes.len(), 6);
    assert!(notes.iter().any(|note| note["text"] == "to Ben 3"));
    let again = mezza(&saved.ann, &[&args[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(73), "nothing is written over");
}

#[test]
fn backup_15_slow_a_running_node_makes_backups_by_itself() {
    let (saved, _ann, _ben) = Saved::start();
    let folder = saved.world.folder().join("auto");
    let words = saved.words.to_str().unwrap();
    let line = || {
        let said = health(&saved.ann);
        said.lines().find(|line| line.contains("  backup  ")).unwrap().to_owned()
    };
    assert!(line().contains("none yet"));
    let dir = folder.to_str().unwrap();
    ok(&saved.ann, &["backup", "auto", dir, "--every", "1h", "--passphrase-file", words]);
    let files = || {
        let names = std::fs::read_dir(&folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("mezza-")).collect::<Vec<_>>()
    };
    assert_eq!(files().len(), 1, "the first one is made at once");
    assert!(line().contains("0 days old"));
    let file = folder.join(&files()[0]);
    let file = file.to_str().unwrap();
    let checked = json(&saved.ann, &["backup", "check", file, "--passphrase-file", words]);
    assert_eq!(checked[0]["notes"], 6);
    // The disk with the backups is gone: the health of the node says so.
    std::fs::rename(&folder, folder.with_extension("away")).unwrap();
    assert!(line().contains("missing or was changed"), "{}", line());
    ok(&saved.ann, &["backup", "auto", "off"]);
    assert!(line().starts_with("ok "), "{}", line());
}

/// A limit on the size of files stands for a full disk: the vault of a restore does not fit, and nothing of
/// it is left. With room the same command succeeds.
#[test]
fn backup_8_slow_a_restore_onto_a_full_disk_makes_nothing() {
    let (saved, _ann, _ben) = Saved::start();
    for n in 0..40 {
        ok(&saved.ann, &["send", "Ben", &format!("{n} {}", "a longer note ".repeat(100))]);
    }
    saved.make();
    let home = saved.world.folder().join("c");
    let file = saved.file.to_str().unwrap();
    let words = saved.words.to_str().unwrap();
    // 64 KiB: enough for the head and the keys.
    let mut run = std::process::Command::new("sh");
    run.args(["-c", "trap '' XFSZ; ulimit -S -f 128; exec \"$0\" \"$@\""]);
    run.arg(env!("CARGO_BIN_EXE_mezza")).arg("--home").arg(&home);
    run.args(["restore", file, "--passphrase-file", words]);
    run.env("MEZZA_PASSPHRASE_FILE", saved.world.folder().join("passphrase"));
    let output = run.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(73), "{said}");
    assert!(!home.join("vault/head").exists() && !home.join("config.toml").exists());
    saved.restore_into(&home);
    let _node = saved.world.node(&home);
    assert_eq!(texts(&home, "Ben", false).len(), 43);
}

/// File and key go over the network; the digits are typed on both devices. Wrong digits destroy nothing, and
/// the new device waits on.
#[test]
fn backup_33_slow_an_identity_moves_over_the_network() {
    let (saved, mut ann_node, _ben_node) = Saved::start();
    ann_node.stop(Signal::SIGTERM);
    let new = saved.world.folder().join("new");
    let pass = saved.world.folder().join("passphrase");
    let spawn = |home: &Path, args: &[&str]| {
        let mut command = crate::program::command(home, &[args, &["--json"]].concat());
        command.env("MEZZA_PASSPHRASE_FILE", &pass).stdin(std::process::Stdio::piped());
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()))
    };
    let text = |value: &Value, field: &str| value[field].as_str().unwrap().to_owned();
    let (mut incoming, mut shown) = spawn(&new, &["move", "in", "--listen", "127.0.0.1:0"]);
    let begun = shown.next().unwrap();
    let recipient = text(&begun, "recipient");
    let address = text(&begun, "listens");
    let args = ["move", "out", &recipient, "--to", &address];
    for is_right in [false, true] {
        let (mut outgoing, mut printed) = spawn(&saved.ann, &args);
        let digits = text(&shown.next().unwrap(), "digits");
        assert_eq!(printed.next().unwrap()["sent"], true);
        let wrong = if digits == "00000000" { "11111111" } else { "00000000" };
        let mut typed = outgoing.stdin.take().unwrap();
        writeln!(typed, "{wrong}").unwrap();
        if is_right {
            // Another try on the old device, and the same digits on the new one.
            writeln!(typed, "{digits}").unwrap();
            writeln!(incoming.stdin.take().unwrap(), "{digits}").unwrap();
            assert_eq!(printed.next().unwrap()["moved"], true);
            assert!(outgoing.wait().unwrap().success() && incoming.wait().unwrap().success());
        } else {
            drop(typed);
            assert_eq!(outgoing.wait().unwrap().code(), Some(1));
            assert!(saved.ann.join("vault/head").exists() && !new.join("vault/head").exists());
        }
    }
    assert!(!saved.ann.join("vault/head").exists());
    let left = |home: &Path| {
        let entries = home.join("vault").read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "file")).count()
    };
    assert_eq!((left(&saved.ann), left(&new)), (0, 0), "the files of the move are wiped");
    let _node = saved.world.node(&new);
    ok(&new, &["send", "Ben", "from the new device", "--wait", "delivered"]);
    ok(&saved.ben, &["send", "Ann", "it looks the same", "--wait", "delivered"]);
}
