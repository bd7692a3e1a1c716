//! `mezza hibe` from a shell: every command, every text of a wrong input, its exit code.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mezza::testing::api::Exit;
use mezza::testing::clock;

/// A folder with a passphrase, and what the commands of one test share.
struct Shell {
    folder: tempfile::TempDir,
}

/// The output and the exit status of a command.
struct Ended {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl Ended {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// It ended so, and its error says that.
    #[track_caller]
    fn is(&self, code: Exit, part: &str) {
        let found = (self.code, self.err.contains(part) || self.text().contains(part));
        assert_eq!(found, (Some(code.number().into()), true), "{} {}", self.err, self.text());
    }
}

impl Shell {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pass = folder.path().join("pass");
        fs::write(&pass, "correct horse battery").unwrap();
        fs::set_permissions(&pass, fs::Permissions::from_mode(0o600)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(crate::program::program_path());
        command.arg("hibe").args(words).current_dir(self.folder.path());
        command.env("MEZZA_PASSPHRASE_FILE", self.path("pass"));
        command.env("XDG_STATE_HOME", self.path("state")).env("MEZZA_HOME", self.path("home"));
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        self.feed(words, b"")
    }

    fn feed(&self, words: &[&str], input: &[u8]) -> Ended {
        use std::io::Write as _;
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that ends before it reads breaks the pipe.
        let _ = child.stdin.take().unwrap().write_all(input);
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        Ended { code: ended.status.code(), out: ended.stdout, err }
    }

    /// A tree in `bob`, made at this tick.
    fn keygen(&self, at: u32) {
        let made = self.run(&["keygen", "--dir", "bob", "--at", &format!("tick:{at}")]);
        made.is(Exit::Done, "erasure  E");
    }

    /// Seals for `bob` into a file.
    fn seal(&self, text: &[u8], at: u32, file: &str) -> Ended {
        let at = format!("tick:{at}");
        self.feed(&["seal", "--card", "bob/card", "--at", &at, "--out", file], text)
    }

    fn open(&self, at: u32, files: &[&str]) -> Ended {
        let at = format!("tick:{at}");
        self.run(&[&["open", "--dir", "bob", "--at", &at], files].concat())
    }
}

/// A tick in the year 2026.
const NOW: u32 = 59_500_803;

#[test]
fn slow_a_message_opens_in_its_minute_and_never_again() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let card = shell.run(&["card", "bob/card", "--out", "bob.png"]);
    card.is(Exit::Done, "630 bytes, 624 of them public key; QR version 18");
    // From a picture too.
    shell.run(&["card", "bob.png"]).is(Exit::Done, "630 bytes");
    let text = b"at the fountain\n";
    let sealed = shell
        .feed(&["seal", "--card", "bob.png", "--at", &format!("tick:{NOW}"), "--out", "e"], text);
    sealed.is(Exit::Done, "506 bytes");
    assert_eq!(fs::read(shell.path("e")).unwrap().len(), 506);
    let opened = shell.open(NOW, &["e"]);
    assert_eq!((opened.code, opened.out.as_slice()), (Some(0), &text[..]));
    // The next minute is another key; the one before is kept for it.
    shell.open(NOW + 1, &["e"]).is(Exit::Done, "opened");
    let to = format!("tick:{}", NOW + 2);
    let dry = shell.run(&["advance", "--dir", "bob", "--to", &to, "--dry-run"]);
    dry.is(Exit::Done, "2 epochs would be erased");
    shell.open(NOW + 1, &["e"]).is(Exit::Done, "opened");
    shell.run(&["advance", "--dir", "bob", "--to", &to]).is(Exit::Done, "2 epochs erased");
    let gone = shell.open(NOW, &["e"]);
    gone.is(
        Exit::No,
        "e: no key: this envelope is for 2026-07-26 00:01Z+30s, the keys for that minute were erased, \
         due at 2026-07-26 00:02Z+30s; ask the sender to send again",
    );
    let status = shell.run(&["status", "--dir", "bob", "--at", &to]);
    status.is(Exit::Done, "next     nothing to derive");
    let wiped = shell.run(&["wipe", "--dir", "bob"]);
    wiped.is(Exit::Usage, "say it again with `--yes`");
    shell.run(&["wipe", "--dir", "bob", "--yes"]).is(Exit::Done, "open for nobody");
    assert!(!shell.path("bob").exists());
}

/// One card, three lives: a note of half a day opens after nine hours, one of half an hour after 40 minutes,
/// and one of a minute does not. Each command names the risk of a life.
#[test]
fn hibe_88_slow_the_sender_chooses_a_life_and_is_told_its_risk() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let card = shell.run(&["card", "bob/card"]);
    let risk =
        "a thief of the receiver's device reads it for up to 24 h, and what its clock is off";
    card.is(Exit::Done, &format!("lives    half-day: {risk}"));
    let at = format!("tick:{NOW}");
    for (life, most) in [("minute", "1 min"), ("half-hour", "1 h"), ("half-day", "24 h")] {
        let words = ["seal", "--card", "bob/card", "--at", &at, "--life", life, "--out", life];
        let sealed = shell.feed(&words, life.as_bytes());
        sealed.is(Exit::Done, &format!("device reads it for up to {most}"));
        // Nothing of a bare envelope tells which life it is.
        assert_eq!(fs::read(shell.path(life)).unwrap()[..2], [0x10, NOW as u8]);
    }
    let files = ["minute", "half-hour", "half-day"];
    let opens = |minutes: u32| {
        let opened = shell.open(NOW + 2 * minutes, &files);
        files.map(|file| opened.err.contains(&format!("{file}: opened")))
    };
    assert_eq!(opens(0), [true; 3]);
    for (minutes, expected) in [
        (40, [false, true, true]),
        (9 * 60, [false, false, true]),
        (37 * 60, [false, false, false]),
    ] {
        let to = format!("tick:{}", NOW + 2 * minutes);
        shell.run(&["advance", "--dir", "bob", "--to", &to, "--yes"]).is(Exit::Done, "floor");
        assert_eq!(opens(minutes), expected, "after {minutes} minutes");
        // A thief with the passphrase who turns the clock back opens no more than that.
        let back = shell.open(NOW, &files);
        let read = files.map(|file| back.err.contains(&format!("{file}: opened")));
        assert_eq!(read, expected, "turned back from {minutes} minutes");
        let status = shell.run(&["status", "--dir", "bob", "--at", &to]);
        status.is(
            Exit::Done,
            "whoever takes this device and its passphrase reads the last 12 h to 24 h",
        );
    }
    // A card of one life refuses another one, and takes none instead.
    let one = ["keygen", "--dir", "eve", "--profile", "1m", "--at", &at];
    shell.run(&one).is(Exit::Done, "erasure  E");
    let words = ["seal", "--card", "eve/card", "--at", &at, "--life", "half-day", "--out", "no"];
    let refused = shell.feed(&words, b"x");
    refused.is(Exit::Usage, "this card has no keys of that life; it has minute");
    assert!(!shell.path("no").exists());
}

#[test]
fn slow_wrong_input_gets_a_text_with_the_next_step() {
    let shell = Shell::new();
    shell.open(NOW, &["e"]).is(Exit::NotFound, "there is no tree in bob; make one");
    shell.keygen(NOW);
    let again = shell.run(&["keygen", "--dir", "bob"]);
    again.is(Exit::CannotWrite, "there is a tree in bob already");
    let card = fs::read(shell.path("bob/card")).unwrap();
    fs::write(shell.path("short"), &card[..612]).unwrap();
    fs::write(shell.path("long"), [&card[..], &[0]].concat()).unwrap();
    let long = shell.run(&["card", "long"]);
    long.is(Exit::Malformed, "card has 631 bytes, suite 1 needs 630; ask for the card again");
    shell.run(&["card", "none"]).is(Exit::NotFound, "none");
    fs::write(shell.path("suite"), [&[0x21], &card[1..]].concat()).unwrap();
    shell.run(&["card", "suite"]).is(Exit::Malformed, "; ");
    let short = shell.run(&["card", "short"]);
    short.is(Exit::Malformed, "card has 612 bytes, suite 1 needs 630; ask for the card again");
    let long = shell.seal(&[7; 5_120], NOW, "e");
    let text = "payload has 5,120 bytes, an envelope holds 3,830; split it into several";
    long.is(Exit::Malformed, text);
    let early = shell.seal(b"x", NOW / 2_880 * 2_880 - 8, "e");
    let text = "card starts 4 min in the future; either the clock here is behind, see `mezza mesh status`, or \
                the one that made the card was ahead: then ask for a new card";
    early.is(Exit::Config, text);
    let late =
        shell.run(&["seal", "--card", "bob/card", "--at", "2099-01-01T00:00:00Z", "--out", "e"]);
    late.is(Exit::No, "the life of this card ended on");
    let far = shell.run(&["advance", "--dir", "bob", "--to", &format!("tick:{}", NOW + 2_880)]);
    far.is(Exit::Usage, "this would erase 2,880 epochs; repeat with --yes if the clock is right");
    let held = shell.run(&["status", "--dir", "bob", "--at", &format!("tick:{NOW}")]);
    held.is(Exit::Done, "floor    epoch 3, ");
    shell.seal(b"", NOW, "empty").is(Exit::Done, "506 bytes");
    fs::write(shell.path("noise"), [7; 506]).unwrap();
    let many = shell.open(NOW, &["noise", "none", "empty"]);
    many.is(Exit::Done, "noise: malformed");
    assert!(
        many.err.contains("none: missing") && many.err.contains("empty: opened"),
        "{}",
        many.err
    );
    shell.open(NOW, &["none"]).is(Exit::NotFound, "missing");
    let at = shell.run(&["status", "--dir", "bob", "--at", "10:41"]);
    at.is(Exit::Usage, "write a time like 2026-11-25T10:41:00Z, +2m or tick:N");
}

/// Two envelopes of one name, a folder that holds the envelope itself, and a card that is named as output.
#[test]
fn hibe_78_what_is_there_is_not_written_over() {
    let shell = Shell::new();
    shell.keygen(NOW);
    for (folder, text) in [("mon", "MONDAY"), ("tue", "TUESDAY")] {
        fs::create_dir(shell.path(folder)).unwrap();
        fs::set_permissions(shell.path(folder), fs::Permissions::from_mode(0o700)).unwrap();
        shell.seal(text.as_bytes(), NOW, &format!("{folder}/msg")).is(Exit::Done, "506 bytes");
    }
    let texts = |folder: &str| {
        let files = fs::read_dir(shell.path(folder)).unwrap().map(|file| file.unwrap().path());
        files.map(|path| fs::read(path).unwrap()).collect::<BTreeSet<_>>()
    };
    let both = BTreeSet::from([b"MONDAY".to_vec(), b"TUESDAY".to_vec()]);
    for _ in 0..2 {
        let opened = shell.open(NOW, &["--out", "out", "mon/msg", "tue/msg"]);
        opened.is(Exit::Done, "mon/msg: opened: 6 bytes of 2026-07-26 00:01Z+30s, in out/msg");
        assert_eq!(texts("out"), both);
    }
    let envelope = fs::read(shell.path("mon/msg")).unwrap();
    shell.open(NOW, &["--out", "mon", "mon/msg"]).is(Exit::Done, "in mon/msg-");
    assert_eq!(texts("mon"), BTreeSet::from([envelope, b"MONDAY".to_vec()]));
    let card = fs::read(shell.path("bob/card")).unwrap();
    shell
        .seal(b"x", NOW, "bob/card")
        .is(Exit::Usage, "bob/card is the card itself; name another file");
    assert_eq!(fs::read(shell.path("bob/card")).unwrap(), card);
    // A disk that refuses leaves what was there.
    let before = fs::read(shell.path("tue/msg")).unwrap();
    let limited = "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" \"$@\"";
    let mut full = Command::new("sh");
    full.args(["-c", limited, env!("CARGO_BIN_EXE_mezza"), "hibe", "seal", "--card", "bob/card"]);
    full.args(["--at", &format!("tick:{NOW}"), "--out", "tue/msg"])
        .env("MEZZA_HOME", shell.path("home"));
    let full = full.current_dir(shell.folder.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(full.status.code(), Some(Exit::CannotWrite.number().into()), "{full:?}");
    assert_eq!(fs::read(shell.path("tue/msg")).unwrap(), before);
}

/// A clock was 20 hours ahead when keys were erased, and then it is right: each command names that cause.
#[test]
fn hibe_79_keys_that_run_ahead_of_the_clock_are_told_of() {
    let shell = Shell::new();
    shell.keygen(NOW);
    shell.seal(b"x", NOW, "e").is(Exit::Done, "506 bytes");
    let to = format!("tick:{}", NOW + 2_400);
    shell.run(&["advance", "--dir", "bob", "--to", &to]).is(Exit::Done, "2400 epochs erased");
    let text = "the keys run 19 h ahead of this clock, since a clock was ahead when they were erased; until \
                2026-07-26 20:01Z nothing opens. If the clock is right now, make a new card with `mezza hibe \
                keygen`";
    let opened = shell.open(NOW, &["e"]);
    opened.is(Exit::No, text);
    assert!(!opened.err.contains("send again"), "{}", opened.err);
    let at = |tick: u32| format!("tick:{tick}");
    shell
        .run(&["status", "--dir", "bob", "--at", &at(NOW)])
        .is(Exit::Done, &format!("ahead    {text}"));
    let later = shell.run(&["status", "--dir", "bob", "--at", &at(NOW + 2_400)]);
    assert!(!later.text().contains("ahead"), "{}", later.text());
    // Without a cause in a clock the old text is the right one.
    let other = shell.open(NOW + 2_400, &["e"]);
    assert!(!other.err.contains("ahead"), "{}", other.err);
}

/// `advance` on the word of a clock for which nobody vouches: an hour at once, and no more without a question.
#[test]
fn hibe_80_a_clock_that_nobody_vouches_for_erases_an_hour_at_once() {
    if fs::metadata("/run/systemd/timesync/synchronized").is_ok() {
        println!("SKIPPED a clock that nobody vouches for: this system's clock is synchronised");
        return;
    }
    let shell = Shell::new();
    let now = u32::try_from(clock::now().as_ms() / 30_000).unwrap();
    let made = |name: &str, before: u32| {
        let at = format!("tick:{}", now - before);
        shell.run(&["keygen", "--dir", name, "--at", &at]).is(Exit::Done, "erasure  E");
    };
    made("near", 100);
    shell.run(&["advance", "--dir", "near"]).is(Exit::Done, "epochs erased");
    made("far", 2_400);
    let far = shell.run(&["advance", "--dir", "far"]);
    far.is(
        Exit::Usage,
        "by a clock that nobody vouches for; repeat with --yes if the clock is right",
    );
    far.is(Exit::Usage, "this would erase 2,4");
    shell.run(&["advance", "--dir", "far", "--yes"]).is(Exit::Done, "epochs erased");
    let note = shell.run(&["keygen", "--dir", "now"]);
    note.is(
        Exit::Done,
        "by a clock that nobody vouches for; if that is wrong, run `mezza hibe wipe --dir now`",
    );
}

#[test]
fn slow_a_folder_that_was_touched_says_what_is_wrong() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let mode = |mode| {
        fs::set_permissions(shell.path("bob/keyring"), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let text = "bob/keyring has mode 0644 instead of 0600; see who could get at it, then run \
                `chmod 600 bob/keyring`";
    shell.open(NOW, &["e"]).is(Exit::Denied, text);
    mode(0o600);
    let old = fs::read(shell.path("bob/keyring")).unwrap();
    let record = first_record(&shell.path("bob/rec"));
    let bytes = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    let missing = shell.open(NOW, &["e"]);
    let start = record.file_name().unwrap().to_str().unwrap().split('-').nth(1).unwrap().to_owned();
    let text = format!(
        "record {start} is missing; restore nothing from backups, make a new card with \
         `mezza hibe keygen`"
    );
    missing.is(Exit::Malformed, &text);
    fs::write(&record, bytes).unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    shell.run(&["status", "--dir", "bob", "--at", &format!("tick:{NOW}")]).is(Exit::Done, "floor");
    // A keyring that was put back is noticed.
    let to = format!("tick:{}", NOW + 3);
    shell.run(&["advance", "--dir", "bob", "--to", &to]).is(Exit::Done, "3 epochs erased");
    let new = fs::read(shell.path("bob/keyring")).unwrap();
    fs::write(shell.path("bob/keyring"), old).unwrap();
    let text =
        "this tree is older than it was; somebody put a copy back; restore nothing from backups";
    shell.open(NOW, &["e"]).is(Exit::Malformed, text);
    fs::write(shell.path("bob/keyring"), &new[..100]).unwrap();
    shell.open(NOW, &["e"]).is(Exit::Malformed, "its keyring is damaged");
    fs::write(shell.path("bob/keyring"), new).unwrap();
    fs::write(shell.path("pass"), "another passphrase").unwrap();
    shell.open(NOW, &["e"]).is(Exit::Denied, "the passphrase is wrong");
}

/// The step is the last thing that happens in an `advance`; wherever it is killed, the tree is as it was
/// or as it will be.
#[test]
fn slow_an_advance_that_is_killed_leaves_the_old_state_or_the_new_one() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let mut floor = 2;
    for wait_ms in [1, 40, 160, 320, 640, 900] {
        let to = format!("tick:{}", NOW + floor - 1);
        let mut child = shell.command(&["advance", "--dir", "bob", "--to", &to]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        let _ = child.kill();
        child.wait().unwrap();
        let at = format!("tick:{}", NOW + 1);
        let status = shell.run(&["--json", "status", "--dir", "bob", "--at", &at]);
        let found: serde_json::Value = serde_json::from_slice(&status.out).unwrap();
        let found = u32::try_from(found["floor"].as_u64().unwrap()).unwrap();
        assert!(found == floor || found == floor + 1, "{found} after {wait_ms} ms");
        floor = found;
    }
}

#[test]
fn slow_a_tree_in_use_is_busy_and_a_folder_that_refuses_says_so() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let lock = fs::File::open(shell.path("bob/lock")).unwrap();
    lock.lock().unwrap();
    let busy = shell.open(NOW, &["e"]);
    busy.is(Exit::Busy, "mezza: bob is in use by process ");
    busy.is(Exit::Busy, "; wait until that ends, or stop it");
    drop(lock);
    shell.seal(b"x", NOW, "none/e").is(Exit::CannotWrite, "choose another folder");
    // Which profiles there are, and that a time is one.
    shell.run(&["keygen", "--dir", "eve", "--profile", "2m"]).is(Exit::Usage, "1m, 5m, 1h");
    let made = shell.run(&["keygen", "--dir", "eve", "--profile", "1h", "--at", "tick:59500803"]);
    made.is(Exit::Done, "life     2026-07-26 to ");
    shell.run(&["card", "eve/card"]).is(Exit::Done, "erased   what is older than 3600 s");
}

#[test]
fn slow_a_lent_key_tells_and_does_not_open() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let at = format!("tick:{NOW}");
    let long =
        shell.run(&["detect-key", "--dir", "bob", "--at", &at, "--for", "23d", "--out", "k"]);
    long.is(Exit::Usage, "say it again with `--yes`");
    let lent = shell.run(&["detect-key", "--dir", "bob", "--at", &at, "--for", "2h", "--out", "k"]);
    lent.is(Exit::Done, "covered");
    let then = NOW + 150;
    shell.seal(b"x", then, "e").is(Exit::Done, "506 bytes");
    let then = format!("tick:{then}");
    shell.run(&["detect", "--key", "k", "--at", &then, "e"]).is(Exit::Done, "e: match");
    fs::write(shell.path("other"), [&[0x10, 0][..], &[7; 504]].concat()).unwrap();
    shell.run(&["detect", "--key", "k", "--at", &then, "other"]).is(Exit::No, "other: ");
    shell
        .run(&["detect", "--key", "bob/card", "--at", &then, "e"])
        .is(Exit::Malformed, "no file of detect keys");
}

/// Anyone who has the card can seal any bytes. Bytes of every kind must leave the stored state loadable.
#[test]
fn slow_hostile_envelopes_do_not_change_what_loads() {
    let shell = Shell::new();
    shell.keygen(NOW);
    let stored = || {
        let files = [shell.path("bob"), shell.path("bob/rec")].map(|folder| {
            let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let files = files.filter(|path| path.is_file() && !path.ends_with("lock"));
            files.map(|path| (fs::read(&path).unwrap(), path)).collect::<BTreeSet<_>>()
        });
        files.into_iter().flatten().collect::<BTreeSet<_>>()
    };
    let before = stored();
    assert!(before.len() > 30, "{} files", before.len());
    shell.seal(b"x", NOW, "good").is(Exit::Done, "506 bytes");
    let good = fs::read(shell.path("good")).unwrap();
    let mut names = vec!["good".to_owned()];
    for (n, at) in [0, 1, 2, 100, 194, 226, 228, 473, 505].into_iter().enumerate() {
        for (m, byte) in [0, 0xc0, 0xff].into_iter().enumerate() {
            let mut bytes = good.clone();
            bytes[at] ^= byte;
            bytes.truncate(if m == 2 { at + 1 } else { 506 });
            let name = format!("bad-{n}-{m}");
            fs::write(shell.path(&name), bytes).unwrap();
            names.push(name);
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    shell.open(NOW, &names).is(Exit::Done, "good: opened");
    assert_eq!(stored(), before);
    shell.open(NOW, &["good"]).is(Exit::Done, "good: opened");
}

fn first_record(folder: &Path) -> PathBuf {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.swap_remove(0)
}
