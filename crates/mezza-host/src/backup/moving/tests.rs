//! A move during which each write of both devices fails once: there are never two owners, and at
//! the end there is one.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::*;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;

const NOW: Time = Time::from_ms(1_795_000_000_000);
const PASS: &[u8] = b"abacus above absorb";

#[expect(clippy::unnecessary_wraps, reason = "a passphrase that is asked for may be missing")]
fn pass() -> Result<Wiping<Vec<u8>>, Fault> {
    Ok(Wiping::new(PASS.to_vec()))
}

fn put(kind: RecordKind, key: &[u8], bucket: Retention, value: &[u8]) -> RecordChange {
    RecordChange::Put { kind, key: key.to_vec(), bucket, value: Wiping::new(value.to_vec()) }
}

/// Returns the first rows of a vault: permanent ones, live state, those of the program and of the
/// witness.
fn first() -> WriteBatch {
    WriteBatch(vec![
        put(RecordKind::Profile, b"", Retention::Permanent, b"who we are"),
        put(RecordKind::Session, &[0, 0, 0, 1, 7], Retention::Rolling, b"a session"),
        put(RecordKind::Mailbox, &[0, 0, 0, 1], Retention::Rolling, &[9; 200]),
        put(RecordKind::Setting, b"some setting", Retention::Permanent, b"x"),
        put(RecordKind::Setting, WITNESS, Retention::Permanent, &7_u64.to_be_bytes()),
    ])
}

struct World {
    folder: tempfile::TempDir,
    recipient: PublicKey,
    /// The text with the key, once the old device has shown it.
    text: Option<String>,
}

impl World {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    fn start_in(folder: tempfile::TempDir) -> Self {
        let old = folder.path().join("old");
        let cost = Argon2Params::OF_TESTS;
        let vault = Vault::create_with(&old, PASS, cost, &[first()], NOW, &mut OsRng).unwrap();
        vault.close().unwrap();
        let recipient = prepare_move(&folder.path().join("new"), &mut OsRng).unwrap();
        Self { folder, recipient, text: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self) -> Result<(), Fault> {
        let old = self.path("old");
        write_move(&old, PASS, &self.recipient, &self.path("file"), NOW, &mut OsRng)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let digits = move_digits(&self.path("file"))?;
        let text = finish_move(&self.path("old"), pass, &digits, NOW, &mut OsRng)?;
        if let Some(before) = self.text.replace(text.clone()) {
            assert_eq!(before, text, "the key is shown again as it was");
        }
        Ok(())
    }

    fn receive(&self) -> Result<(), Fault> {
        let tombstone = self.text.as_deref().unwrap();
        let dir = &self.path("new");
        let file = &self.path("file");
        let cost = Argon2Params::OF_TESTS;
        let received = ReceivedMove { dir, file, tombstone, cost, now: NOW };
        receive_move(&received, pass, &mut OsRng)
    }

    /// Returns true if a vault of this name opens, so that its device could run.
    fn opens(&self, name: &str) -> bool {
        Vault::open(&self.path(name), PASS, NOW).is_ok()
    }

    /// Checks that either the old device can run or its key was shown, and that never two devices
    /// can run.
    fn assert_one_owner(&self, what: &str) {
        let old = self.opens("old");
        assert!(!(old && self.text.is_some()), "{what}: the old device runs after its key is out");
        assert!(!(old && self.opens("new")), "{what}: two devices run");
    }

    fn end(&mut self, what: &str) {
        self.write().or_else(|fault| if self.text.is_some() { Ok(()) } else { Err(fault) }).ok();
        self.finish().unwrap();
        self.assert_one_owner(what);
        if self.path("new/move-in").exists() {
            self.receive().unwrap();
        }
        self.assert_one_owner(what);
        let (_, records) = Vault::open(&self.path("new"), PASS, NOW).unwrap();
        let expected = first();
        assert_eq!(records.len(), expected.0.len() - 1, "{what}: all but the witness");
        for change in &expected.0[..4] {
            let RecordChange::Put { kind, key, value, .. } = change else { unreachable!() };
            assert!(records.contains(&(*kind, key.clone(), value.clone())), "{what}: {kind:?}");
        }
        assert!(!self.path("old/head").exists() && !self.path("old/records.db").exists(), "{what}");
        assert!(!self.path("new/move-in").exists(), "{what}");
    }
}

#[test]
fn backup_30_a_move_takes_everything_along_and_leaves_nothing() {
    let mut world = World::start();
    assert_eq!(prepare_move(&world.path("new"), &mut OsRng).unwrap(), world.recipient);
    world.write().unwrap();
    assert!(world.opens("old"), "nothing is destroyed yet");
    let old = world.path("old");
    let refused = finish_move(&old, pass, "00000000x", NOW, &mut OsRng).unwrap_err();
    assert_eq!(refused.code, Exit::No);
    world.end("a whole move");
    let refused = Vault::open(&old, PASS, NOW).unwrap_err();
    assert!(refused.text.contains("moved"), "{refused}");
    let made = Vault::create(&old, PASS, Argon2Params::OF_TESTS, NOW, &mut OsRng);
    assert!(made.is_err(), "the key of the move is not written over");
}

#[test]
fn backup_30_a_move_can_be_given_up_before_anything_is_destroyed() {
    let world = World::start();
    world.write().unwrap();
    let old = world.path("old");
    let moves = || is_moving(&Vault::open(&old, PASS, NOW).unwrap().1);
    assert!(moves());
    cancel_move(&old, PASS, NOW).unwrap();
    assert!(!moves());
    let digits = move_digits(&world.path("file")).unwrap();
    let refused = finish_move(&old, pass, &digits, NOW, &mut OsRng).unwrap_err();
    assert_eq!(refused.code, Exit::NotFound);
}

#[test]
fn backup_31_slow_a_failure_of_any_write_leaves_one_owner() {
    for step in WriteStep::ALL {
        for after in 0..4 {
            let what = format!("{step:?} after {after}");
            let mut world = World::start();
            for stage in 0..3 {
                let failing = Failing::after(after, step, step.errors()[0]);
                let done = match stage {
                    0 => world.write(),
                    1 => world.finish(),
                    _ => world.receive(),
                };
                drop(failing);
                world.assert_one_owner(&what);
                if done.is_err() {
                    // Each step is repeated after a crash.
                    match stage {
                        0 => world.write().unwrap(),
                        1 => world.finish().unwrap(),
                        _ => {}
                    }
                }
                world.assert_one_owner(&what);
            }
            world.end(&what);
        }
    }
}

#[test]
fn backup_32_a_key_opens_one_file_on_one_device() {
    let mut world = World::start();
    world.write().unwrap();
    // The file got lost and was written again, under the same key.
    let earlier = fs::read(world.path("file")).unwrap();
    fs::remove_file(world.path("file")).unwrap();
    world.write().unwrap();
    world.finish().unwrap();
    // Another device, and another file.
    let other = world.path("other");
    prepare_move(&other, &mut OsRng).unwrap();
    let file = world.path("file");
    let tombstone = world.text.clone().unwrap();
    let cost = Argon2Params::OF_TESTS;
    let receive = |dir: &Path, tombstone: &str| {
        let received = ReceivedMove { dir, file: &file, tombstone, cost, now: NOW };
        receive_move(&received, pass, &mut OsRng).map_err(|fault| fault.code)
    };
    assert_eq!(receive(&other, &tombstone), Err(Exit::Denied));
    assert_eq!(receive(&world.path("new"), "mezza-move:AAAA"), Err(Exit::Denied));
    assert_eq!(receive(&world.path("new"), "something"), Err(Exit::Malformed));
    let mut bytes = fs::read(&file).unwrap();
    assert_ne!(earlier, bytes);
    fs::write(&file, &earlier).unwrap();
    assert_eq!(receive(&world.path("new"), &tombstone), Err(Exit::Malformed));
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(receive(&world.path("new"), &tombstone), Err(Exit::Malformed));
    assert!(!Vault::exists(&world.path("new")), "nothing is made");
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(receive(&world.path("new"), &tombstone), Ok(()));
}

/// A copy of the vault from before the move, or a crash between two files of it, brings the old keys back.
#[test]
fn backup_31_a_moved_vault_stays_closed_whatever_files_come_back() {
    let mut world = World::start();
    world.write().unwrap();
    let old = world.path("old");
    let files = fs::read_dir(&old).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let kept: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    world.finish().unwrap();
    for (path, bytes) in &kept {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let refused = Vault::open(&old, PASS, NOW).unwrap_err();
    assert!(refused.text.contains("moved"), "{refused}");
}

/// Names the folder of a move to the process that carries it out, and the steps after which it dies.
const FOLDER: &str = "MEZZA_TEST_MOVE";
const STEPS: &str = "MEZZA_TEST_STEPS";
/// Seeds of processes that are killed.
const SEEDS: u64 = 200;
/// Maximum number of times that a process is killed before it completes its step.
const KILLS: usize = 3;

/// Processes that carry out a move die at random steps and are started again. At every instant at most one
/// device can run, and at the end exactly one does.
#[test]
fn backup_31_slow_a_process_that_is_killed_leaves_one_owner() {
    let mut deaths = 0;
    for seed in 0..SEEDS {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut world = World::start();
        let mut kills = Vec::new();
        let mut is_done = false;
        while !is_done {
            let steps = (kills.len() < KILLS).then(|| rng.next_u32() % 48);
            kills.extend(steps);
            let what = format!("seed {seed}, killed after {kills:?} steps");
            let status = run_child(&world.path(""), steps);
            is_done = status.success();
            if !is_done {
                assert_eq!(status.signal(), Some(9), "{what}");
                deaths += 1;
            }
            world.text = fs::read_to_string(world.path("given")).ok();
            world.assert_one_owner(&what);
        }
        let what = format!("seed {seed}, killed after {kills:?} steps");
        assert!(world.opens("new"), "{what}");
        world.end(&what);
    }
    // Kills at steps after the end of a move have no effect; most kills are before it.
    assert!(deaths > SEEDS, "{deaths} processes died");
}

fn run_child(folder: &Path, steps: Option<u32>) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = "backup::moving::tests::child_that_moves";
    child.args(["--exact", name, "--ignored", "--test-threads", "1"]).env(FOLDER, folder);
    child.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(steps) = steps {
        child.env(STEPS, steps.to_string());
    }
    child.status().unwrap()
}

#[test]
#[ignore = "the process of backup_31"]
fn child_that_moves() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("set by the parent"));
    if let Some(steps) = std::env::var(STEPS).ok().and_then(|steps| steps.parse().ok()) {
        failing::die_after(steps);
    }
    let [old, new, file] = ["old", "new", "file"].map(|name| folder.join(name));
    let is_new = Vault::exists(&new);
    if !is_new || new.join("move-in").exists() {
        let own = if is_new { None } else { Some(prepare_move(&new, &mut OsRng).unwrap()) };
        if let Some(recipient) = own.filter(|_| !old.join(MOVED).exists()) {
            write_move(&old, PASS, &recipient, &file, NOW, &mut OsRng).unwrap();
        }
        let digits = move_digits(&file).unwrap();
        let text = finish_move(&old, pass, &digits, NOW, &mut OsRng).unwrap();
        // The user reads the key from the screen.
        fs::write(folder.join("given"), &text).unwrap();
        let cost = Argon2Params::OF_TESTS;
        let received = ReceivedMove { dir: &new, file: &file, tombstone: &text, cost, now: NOW };
        receive_move(&received, pass, &mut OsRng).unwrap();
    }
}
