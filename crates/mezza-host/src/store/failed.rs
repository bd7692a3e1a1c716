//! Writes that fail at every step, each followed by successful ones: acknowledged data is present
//! and the vault opens, even after a crash in between.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use mezza_core::{Time, Wiping};
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};
use nix::errno::Errno;
use proptest::prelude::*;
use tempfile::TempDir;

use super::keyring::Keyring;
use super::{Argon2Params, HEAD, KEYRING, MasterKey, Record, Vault, head};
use crate::api::Exit;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;

/// The day on which the vaults of these tests were made.
const DAY: u32 = 20_000;

/// Keys and values in the order of keys.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn noon() -> Time {
    Time::from_ms(u64::from(DAY) * Time::DAY_MS + 12 * Time::HOUR_MS)
}

fn tomorrow() -> Time {
    noon().plus_ms(Time::DAY_MS)
}

/// A folder with a vault, removed in the end.
pub(super) struct Folder(TempDir);

impl Folder {
    fn empty() -> Self {
        let outer = TempDir::new().unwrap();
        DirBuilder::new().mode(0o700).create(outer.path().join("vault")).unwrap();
        Self(outer)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("vault")
    }

    /// Copies the folder as a crash at this moment leaves it.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::empty();
        for file in fs::read_dir(self.path()).unwrap().map(Result::unwrap) {
            // The modes are copied too.
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        copy
    }

    pub(super) fn open(&self, now: Time) -> (Vault, Vec<Record>) {
        Vault::open_with_key(&self.path(), &template().1, now).unwrap()
    }

    fn enter(&self, now: Time) -> (Vault, Content) {
        let (vault, records) = self.open(now);
        (vault, records.into_iter().map(|(_, key, value)| (key, value.to_vec())).collect())
    }

    /// Reads the keyring from the disk.
    fn ring(&self) -> Keyring {
        Keyring::read(self.path().join(KEYRING), &template().1).unwrap()
    }
}

/// Returns an empty vault and its master key: Argon2id runs once for all tests.
fn template() -> &'static (Folder, MasterKey) {
    static TEMPLATE: OnceLock<(Folder, MasterKey)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = Folder::empty();
        let made =
            Vault::create(&folder.path(), b"pass", Argon2Params::OF_TESTS, noon(), &mut OsRng);
        made.unwrap().close().unwrap();
        let master = head::unlock_master(&folder.path().join(HEAD), b"pass").unwrap();
        (folder, master)
    })
}

pub(super) fn fresh() -> (Folder, Vault) {
    let folder = template().0.copy();
    let vault = folder.enter(noon()).0;
    (folder, vault)
}

pub(super) fn put(key: u8, bucket: Retention, value: &[u8]) -> WriteBatch {
    let key = vec![key];
    let value = Wiping::new(value.to_vec());
    WriteBatch(vec![RecordChange::Put { kind: RecordKind::Note, key, bucket, value }])
}

fn content(vault: &mut Vault) -> Content {
    let records = vault.reload_records().unwrap().into_iter();
    records.map(|(_, key, value)| (key, value.to_vec())).collect()
}

fn holds(content: &Content, expected: &[u8]) -> bool {
    content.keys().map(|key| key[0]).eq(expected.iter().copied())
}

/// Returns every step of overwriting a file, for each of its two slots, with all possible system
/// errors.
fn ring_faults() -> impl Iterator<Item = (WriteStep, Errno, u32)> {
    let steps = [WriteStep::Write, WriteStep::Sync].into_iter();
    steps.flat_map(|step| {
        let errors = step.errors().iter();
        errors.flat_map(move |error| (0..2).map(move |slot| (step, *error, slot)))
    })
}

/// Returns every step of replacing a file, with all possible system errors.
pub(super) fn faults() -> impl Iterator<Item = (WriteStep, Errno)> {
    WriteStep::REPLACE
        .into_iter()
        .flat_map(|step| step.errors().iter().map(move |error| (step, *error)))
}

#[test]
fn msg_60_the_database_remembers_no_keyring_that_is_not_on_the_disk() {
    for (step, error, slot) in ring_faults() {
        let (folder, mut vault) = fresh();
        let with_new_bucket = put(1, Retention::Day(DAY + 40), b"with a new timer");
        let failing = Failing::after(slot, step, error);
        let fault = vault.commit(std::slice::from_ref(&with_new_bucket)).unwrap_err();
        assert_eq!(fault.code, Exit::CannotWrite, "{step:?}");
        // A commit that needs no new key succeeds meanwhile.
        vault.commit(&[put(2, Retention::Permanent, b"plain")]).unwrap();
        assert!(holds(&folder.copy().enter(noon()).1, &[2]), "{step:?} {error}");
        drop(failing);
        vault.commit(&[put(3, Retention::Rolling, b"live")]).unwrap();
        assert!(holds(&folder.copy().enter(noon()).1, &[2, 3]), "{step:?} {error}");
        vault.commit(&[with_new_bucket]).unwrap();
        vault.close().unwrap();
        assert!(holds(&folder.enter(noon()).1, &[1, 2, 3]), "{step:?} {error}");
    }
}

/// A record that is put into its bucket between the sweep and the end of the key.
#[test]
fn vault_3_what_comes_late_into_an_ended_bucket_goes_with_it() {
    let (folder, mut vault) = fresh();
    let ended = Retention::Hour(noon().as_hours());
    vault.commit(&[put(1, ended, b"ends"), put(2, Retention::Permanent, b"stays")]).unwrap();
    let later = noon().plus_ms(2 * Time::HOUR_MS);
    let failing = Failing::after(0, WriteStep::Checkpoint, Errno::EIO);
    vault.tick(later).unwrap_err();
    drop(failing);
    vault.commit(&[put(3, ended, b"late")]).unwrap();
    vault.tick(later).unwrap();
    assert!(holds(&content(&mut vault), &[2]));
    assert_eq!(vault.unread().len(), 0);
    vault.close().unwrap();
    let (vault, content) = folder.enter(later);
    assert!(holds(&content, &[2]) && vault.unread().is_empty());
}

#[test]
fn failed_ring_at_a_change_of_day_is_written_again() {
    let each = ring_faults()
        .flat_map(|(step, error, slot)| [0, 1].map(|rings| (step, error, 2 * rings + slot)));
    for (step, error, writes) in each {
        let (folder, mut vault) = fresh();
        let ended = Retention::Hour(noon().as_hours());
        vault.commit(&[put(1, Retention::Rolling, b"live"), put(2, ended, b"ends")]).unwrap();
        let failing = Failing::after(writes, step, error);
        assert_eq!(vault.tick(tomorrow()).unwrap_err().code, Exit::CannotWrite, "{step:?}");
        assert!(vault.deadline() <= tomorrow(), "it is due still");
        let at_once = folder.copy();
        vault.commit(&[put(3, Retention::Rolling, b"live")]).unwrap();
        let later = folder.copy();
        drop(failing);
        assert!(holds(&at_once.enter(tomorrow()).1, &[1]), "{step:?} {error} {writes}");
        assert!(holds(&later.enter(tomorrow()).1, &[1, 3]), "{step:?} {error} {writes}");
        // All remainders of ended keys are erased from the disk now.
        vault.tick(tomorrow()).unwrap();
        let ring = folder.ring();
        assert!(ring.stale_buckets(tomorrow()).is_empty(), "{step:?} {error} {writes}");
        assert_eq!(ring.newest_day(), Some(DAY + 1));
        assert!(holds(&content(&mut vault), &[1, 3]));
        vault.close().unwrap();
        assert!(holds(&folder.enter(tomorrow()).1, &[1, 3]), "{step:?} {error} {writes}");
    }
}

/// One operation of a vault, and the fault during it.
#[derive(Clone, Debug)]
struct Op {
    what: What,
    fault: Option<(u32, usize, usize)>,
}

#[derive(Clone, Debug)]
enum What {
    Put { key: u8, class: u8, ahead: u8 },
    Tick { hours: u64 },
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let what = prop_oneof![
        5 => (0u8..4, 0u8..4, 0u8..30).prop_map(|(key, class, ahead)| What::Put { key, class, ahead }),
        2 => (1u64..40).prop_map(|hours| What::Tick { hours }),
        1 => Just(What::Reopen),
    ];
    let fault = prop_oneof![
        1 => Just(None),
        2 => (0u32..3, 0..WriteStep::ALL.len(), 0usize..2).prop_map(Some),
    ];
    (what, fault).prop_map(|(what, fault)| Op { what, fault })
}

/// The acknowledged records, with their buckets.
type Model = BTreeMap<u8, (Retention, Vec<u8>)>;

fn bucket(class: u8, ahead: u8, now: Time) -> Retention {
    match class {
        0 => Retention::Permanent,
        1 => Retention::Rolling,
        2 => Retention::Hour(now.as_hours() + u32::from(ahead)),
        _ => Retention::Day(now.as_days() + u32::from(ahead)),
    }
}

fn alive(model: &Model, now: Time) -> Content {
    let is_over = |bucket: &Retention| match bucket {
        Retention::Hour(hour) => now.as_hours() > *hour,
        Retention::Day(day) => now.as_days() > *day,
        _ => false,
    };
    let alive = model.iter().filter(|(_, (bucket, _))| !is_over(bucket));
    alive.map(|(key, (_, value))| (vec![*key], value.clone())).collect()
}

fn run(ops: &[Op]) -> Result<(), TestCaseError> {
    let (folder, mut vault) = fresh();
    let mut now = noon();
    let mut model = Model::new();
    for (n, Op { what, fault }) in ops.iter().enumerate() {
        let failing = fault.map(|(after, step, error)| {
            let step = WriteStep::ALL[step];
            Failing::after(after, step, step.errors()[error % step.errors().len()])
        });
        match *what {
            What::Put { key, class, ahead } => {
                let bucket = bucket(class, ahead, now);
                let value = vec![n as u8; 40];
                if vault.commit(&[put(key, bucket, &value)]).is_ok() {
                    model.insert(key, (bucket, value));
                }
            }
            What::Tick { hours } => {
                now = now.plus_ms(hours * Time::HOUR_MS);
                let done = vault.tick(now);
                prop_assert!(done.is_ok() == (vault.deadline() > now));
            }
            What::Reopen => {
                // A failed close acts like a crash.
                let _ = vault.close();
                drop(failing);
                vault = folder.enter(now).0;
                prop_assert_eq!(content(&mut vault), alive(&model, now));
                continue;
            }
        }
        drop(failing);
        prop_assert_eq!(folder.copy().enter(now).1, alive(&model, now));
        if matches!(what, What::Tick { .. }) {
            vault.tick(now).unwrap();
            prop_assert_eq!(content(&mut vault), alive(&model, now));
            prop_assert!(folder.ring().stale_buckets(now).is_empty());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn slow_failed_ring_and_failed_commits_lose_nothing_acknowledged(
        ops in proptest::collection::vec(op(), 1..10),
    ) {
        run(&ops)?;
    }
}

#[test]
fn msg_65_slow_a_vault_is_made_whole_or_not_at_all() {
    let folder = Folder::empty();
    let first = [put(1, Retention::Permanent, b"an identity")];
    let make = || {
        Vault::create_with(
            &folder.path(),
            b"pass",
            Argon2Params::OF_TESTS,
            &first,
            noon(),
            &mut OsRng,
        )
    };
    // The second replaced file is the head; one commit stores the keyring's generation, the other
    // the batch.
    let heads = faults().map(|fault| (fault, 1));
    let commits = [0, 1].map(|after| ((WriteStep::Commit, Errno::ENOSPC), after));
    for ((step, error), after) in heads.chain(commits) {
        let _failing = Failing::after(after, step, error);
        assert_eq!(make().map(drop).unwrap_err().code, Exit::CannotWrite, "{step:?} {after}");
        assert!(!Vault::exists(&folder.path()), "{step:?} {error} {after}");
    }
    // The failed attempt left nothing that blocks the next one.
    drop(make().unwrap());
    let (_, records) = Vault::open(&folder.path(), b"pass", noon()).unwrap();
    assert_eq!(records.len(), 1);
}
