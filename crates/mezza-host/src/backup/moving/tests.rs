//! A move with a failure of every write of both devices: never two owners, and one at the end.

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

/// The rows of a vault: kept, live, of the program, and of the witness.
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
    /// The text, once the old device gave it out.
    text: Option<String>,
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        let cost = Argon2Params::DEMO;
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
        let cost = Argon2Params::DEMO;
        let received = ReceivedMove { dir, file, tombstone, cost, now: NOW };
        receive_move(&received, pass, &mut OsRng)
    }

    /// Returns true if a device could run.
    fn opens(&self, name: &str) -> bool {
        Vault::open(&self.path(name), PASS, NOW).is_ok()
    }

    /// The old device runs, or its key was given out; never both, and never two devices.
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
    let made = Vault::create(&old, PASS, Argon2Params::DEMO, NOW, &mut OsRng);
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
    world.finish().unwrap();
    // Another device, and another file.
    let other = world.path("other");
    prepare_move(&other, &mut OsRng).unwrap();
    let file = world.path("file");
    let tombstone = world.text.clone().unwrap();
    let cost = Argon2Params::DEMO;
    let receive = |dir: &Path, tombstone: &str| {
        let received = ReceivedMove { dir, file: &file, tombstone, cost, now: NOW };
        receive_move(&received, pass, &mut OsRng).map_err(|fault| fault.code)
    };
    assert_eq!(receive(&other, &tombstone), Err(Exit::Denied));
    assert_eq!(receive(&world.path("new"), "mezza-move:AAAA"), Err(Exit::Denied));
    assert_eq!(receive(&world.path("new"), "something"), Err(Exit::Malformed));
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(receive(&world.path("new"), &tombstone), Err(Exit::Malformed));
    assert!(!Vault::exists(&world.path("new")), "nothing is made");
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(receive(&world.path("new"), &tombstone), Ok(()));
}
