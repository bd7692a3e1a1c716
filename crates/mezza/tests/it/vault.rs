//! The vault, from outside: what the device gets back, and what lies on the disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod aside;
mod day;
mod files;
mod model;
mod splice;
mod vectors;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mezza::testing::api::Fault;
use mezza::testing::process::rng::OsRng;
use mezza::testing::store::bucket::RetentionCode;
use mezza::testing::store::keyring::Keyring;
use mezza::testing::store::record::RecordHeader;
use mezza::testing::store::{Argon2Params, MasterKey, Record, Vault, head};
use mezza_core::{Time, Wiping};
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};
use rusqlite::Connection;
use tempfile::TempDir;

const PASS: &[u8] = b"correct passphrase";
/// The day on which the vaults of these tests were made.
const DAY: u32 = 20_000;

/// An instant of the day `DAY + day`.
fn at(day: u32, hour: u64, minute: u64) -> Time {
    let start = Time::from_ms(u64::from(DAY + day) * Time::DAY_MS);
    start.plus_ms(hour * Time::HOUR_MS + minute * Time::MINUTE_MS)
}

fn noon() -> Time {
    at(0, 12, 0)
}

/// The files of a vault at one moment, as a crash or a thief would have them.
#[derive(Clone)]
struct Copy(Vec<(String, Vec<u8>)>);

impl Copy {
    fn of(dir: &Path) -> Self {
        let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> =
            files.map(|path| (file_name(&path), fs::read(&path).unwrap())).collect();
        files.sort();
        Self(files)
    }

    fn lay(&self) -> Folder {
        let folder = Folder::new();
        self.0.iter().for_each(|(name, bytes)| write(&folder.path().join(name), bytes));
        folder
    }
}

/// A folder for a vault, removed in the end.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let outer = TempDir::new().unwrap();
        DirBuilder::new().mode(0o700).create(outer.path().join("vault")).unwrap();
        Self(outer)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("vault")
    }

    fn enter(&self, now: Time) -> Result<(Vault, Vec<Record>), Fault> {
        Vault::open_with_key(&self.path(), &template().1, now)
    }

    fn records(&self, now: Time) -> Vec<(RecordKind, Vec<u8>, Vec<u8>)> {
        plain(self.enter(now).unwrap().1)
    }

    /// The keyring as it lies on the disk.
    fn ring(&self) -> Keyring {
        Keyring::read(self.path().join("keyring"), &template().1).unwrap()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn write(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new();
    file.write(true).create(true).truncate(true).mode(0o600);
    file.open(path).unwrap().write_all(bytes).unwrap();
}

/// An empty vault made at noon, and its master key: Argon2id runs once for all tests.
fn template() -> &'static (Copy, MasterKey) {
    static TEMPLATE: OnceLock<(Copy, MasterKey)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = Folder::new();
        let vault =
            Vault::create(&folder.path(), PASS, Argon2Params::DEMO, noon(), &mut OsRng).unwrap();
        vault.close().unwrap();
        let master = head::unlock_master(&folder.path().join("head"), PASS).unwrap();
        (Copy::of(&folder.path()), master)
    })
}

fn fresh() -> Folder {
    template().0.lay()
}

/// A vault with some records of every bucket, closed.
fn filled() -> Folder {
    let folder = fresh();
    let (mut vault, records) = folder.enter(noon()).unwrap();
    assert!(records.is_empty());
    vault.commit(&[WriteBatch(everything())]).unwrap();
    vault.close().unwrap();
    folder
}

fn everything() -> Vec<RecordChange> {
    let hour = noon().as_hours();
    let buckets = [
        Retention::Permanent,
        Retention::Rolling,
        Retention::Hour(hour + 2),
        Retention::Day(DAY + 3),
    ];
    let of = |(i, bucket): (usize, &Retention)| {
        [RecordKind::Note, RecordKind::Session, RecordKind::Contact].map(|kind| {
            put(kind, &[i as u8, kind as u8], *bucket, format!("{kind:?} in {bucket:?}").as_bytes())
        })
    };
    buckets.iter().enumerate().flat_map(of).collect()
}

fn put(kind: RecordKind, key: &[u8], bucket: Retention, value: &[u8]) -> RecordChange {
    RecordChange::Put { kind, key: key.to_vec(), bucket, value: Wiping::new(value.to_vec()) }
}

fn drop_of(kind: RecordKind, key: &[u8]) -> RecordChange {
    RecordChange::Drop { kind, key: key.to_vec() }
}

/// Records in the order of kind and key.
fn plain(records: Vec<Record>) -> Vec<(RecordKind, Vec<u8>, Vec<u8>)> {
    let mut plain: Vec<_> = records.into_iter().map(|(k, key, v)| (k, key, v.to_vec())).collect();
    plain.sort();
    plain
}

/// All rows of a copy, the vault's own included.
fn rows(copy: &Copy) -> Vec<(RecordHeader, Vec<u8>)> {
    let folder = copy.lay();
    let db = Connection::open(folder.path().join("records.db")).unwrap();
    let mut statement = db.prepare("SELECT id, kind, bucket, body FROM rec ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| {
        let (id, kind) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?);
        Ok((RecordHeader { id, kind, bucket: RetentionCode(row.get(2)?) }, row.get(3)?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
