//! The store of a relay's mailboxes: SQLite or PostgreSQL, under one trait.
//!
//! Quotas, group commit and watchers live in the writer. A store executes statements inside the
//! transaction that its caller began. The writer is compiled once for each store.

mod postgres;
mod sqlite;

pub(crate) use postgres::PostgresStore;
pub use sqlite::{Durability, SqliteStore};

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind, RawOneTimePrekey};

use mezza_host::api::Exit;

/// A box's number in its store.
pub(crate) type MailboxRowId = i64;
/// A mail's number in its store: never used twice by mail that was committed.
pub(crate) type Seq = i64;

/// Why a store operation failed. The open transaction leaves no trace.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite returned an error.
    #[error("SQLite: {0}; check the disk and the file, then start the relay again")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL returned an error.
    #[error("PostgreSQL: {0}; check that the server runs, then start the relay again")]
    Postgres(#[from] tokio_postgres::Error),
    /// No connection to PostgreSQL.
    #[error("PostgreSQL: {0}; check that the server runs, then start the relay again")]
    Pool(String),
    /// Another relay serves the database.
    #[error("another relay serves this database; stop that one, or choose another database")]
    Busy,
    /// The store belongs to a newer version of this program.
    #[error("the store has version {found}, this program knows {known}; install the newer program")]
    Version {
        /// The version in the store.
        found: i64,
        /// The newest version that this program supports.
        known: i64,
    },
    /// A setting that this program does not accept.
    #[error("{0}")]
    Setting(&'static str),
    /// A row holds a value that no version writes.
    #[error("the store holds a damaged row; restore it from a copy")]
    Damaged,
    /// A file of the store cannot be used.
    #[error("cannot use {path}: {source}; check its folder and modes")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl StoreError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> Exit {
        match self {
            Self::Setting(_) => Exit::Config,
            Self::Busy => Exit::Busy,
            Self::Version { .. } | Self::Damaged => Exit::Malformed,
            Self::Sqlite(_) | Self::File { .. } => Exit::CannotWrite,
            Self::Postgres(_) | Self::Pool(_) => Exit::Unreachable,
        }
    }
}

/// The row of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxRow {
    /// The number of the box in the store.
    pub id: MailboxRowId,
    /// The kind of the box.
    pub kind: MailboxKind,
    /// The number of mails in the box.
    pub mails: u32,
    /// Bytes of its mails.
    pub bytes: u64,
}

/// A mail to be stored.
#[derive(Clone, Copy)]
pub struct NewMail<'a> {
    /// The row of its mailbox.
    pub box_id: MailboxRowId,
    /// The last hour since 1970 in which the mail is delivered.
    pub due_h: u32,
    /// The envelope.
    pub body: &'a [u8],
}

/// A mail as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    /// The number of the mail in the store.
    pub seq: Seq,
    /// The envelope.
    pub body: Vec<u8>,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mail({}, {} bytes)", self.seq, self.body.len())
    }
}

/// The mails that an operation removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of mails removed.
    pub mails: u32,
    /// The bytes of mail removed.
    pub bytes: u64,
}

/// Counts over a whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of boxes.
    pub boxes: u64,
    /// The number of mails.
    pub mails: u64,
    /// Bytes of mail and bundles, and 64 for each one-time key.
    pub bytes: u64,
    /// One-time keys not issued yet.
    pub one_time_keys: u64,
}

/// A store. The operations between [`begin`](Self::begin) and [`commit`](Self::commit) are atomic;
/// after an error the caller rolls back.
#[expect(async_fn_in_trait, reason = "driven by the writer's own thread; no future is sent")]
pub trait MailStore {
    /// Begins a transaction.
    async fn begin(&mut self) -> Result<(), StoreError>;
    /// Makes all operations since `begin` durable.
    async fn commit(&mut self) -> Result<(), StoreError>;
    /// Reads ahead for the next transaction. Call this while no request waits.
    fn prefetch(&mut self) {}
    /// Undoes all operations since `begin`.
    async fn rollback(&mut self);
    /// Returns the box of an address, if any.
    async fn find_box(
        &mut self,
        address: &MailboxAddress,
    ) -> Result<Option<MailboxRow>, StoreError>;
    /// Makes a box whose last WATCH was on `day` (days since 1970).
    async fn open_box(
        &mut self,
        address: &MailboxAddress,
        kind: MailboxKind,
        day: u32,
    ) -> Result<MailboxRowId, StoreError>;
    /// Removes a box with its contents.
    async fn close_box(&mut self, id: MailboxRowId) -> Result<(), StoreError>;
    /// Stores the day of the last WATCH (days since 1970).
    async fn set_seen_day(&mut self, id: MailboxRowId, day: u32) -> Result<(), StoreError>;
    /// Stores mail. Returns a number for each mail, ascending in the given order.
    async fn put_batch(&mut self, mails: &[NewMail<'_>]) -> Result<Vec<Seq>, StoreError>;
    /// Returns the oldest mails of a box, at most `max`, with numbers above `after` and not expired
    /// in hour `now_h`.
    async fn fetch_mails(
        &mut self,
        id: MailboxRowId,
        after: Seq,
        now_h: u32,
        max: u32,
    ) -> Result<Vec<Mail>, StoreError>;
    /// Removes the mails `seqs` of a box.
    async fn take_mails(&mut self, id: MailboxRowId, seqs: &[Seq]) -> Result<Removed, StoreError>;
    /// Removes at most `max` mails that were due before hour `now_h`.
    async fn expire_mails(&mut self, now_h: u32, max: u32) -> Result<Removed, StoreError>;
    /// Removes at most `max` empty boxes without WATCH since `day`. Returns their number.
    async fn drop_idle(&mut self, day: u32, max: u32) -> Result<u32, StoreError>;
    /// Replaces the bundle; with `fresh` deletes all earlier one-time keys.
    async fn bundle_set(
        &mut self,
        id: MailboxRowId,
        fresh: bool,
        bundle: &[u8],
    ) -> Result<(), StoreError>;
    /// Adds one-time keys whose ids are new to the box. Returns their number.
    async fn keys_add(
        &mut self,
        id: MailboxRowId,
        keys: &[RawOneTimePrekey],
    ) -> Result<u32, StoreError>;
    /// Returns the number of rows of one-time keys, issued ones included, and the number not
    /// issued.
    async fn keys_count(&mut self, id: MailboxRowId) -> Result<(u32, u32), StoreError>;
    /// Returns the bundle, if any.
    async fn read_bundle(&mut self, id: MailboxRowId) -> Result<Option<Vec<u8>>, StoreError>;
    /// Issues one key; the key is never issued again.
    async fn key_take(&mut self, id: MailboxRowId) -> Result<Option<RawOneTimePrekey>, StoreError>;
    /// Counts the contents of the store.
    async fn count_totals(&mut self) -> Result<Totals, StoreError>;
    /// Closes the store with all data in its files.
    async fn close(self) -> Result<(), StoreError>;
}

/// The choice of the store, as in `--store`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreSpec {
    /// `sqlite` or `sqlite:PATH`; without a path `mail.db` in the relay's folder.
    Sqlite(Option<PathBuf>),
    /// `postgres:URL`: `postgres://user@localhost:5432/name`, loopback or Unix socket, no password.
    Postgres(String),
}

impl Default for StoreSpec {
    fn default() -> Self {
        Self::Sqlite(None)
    }
}

impl FromStr for StoreSpec {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        match text.split_once(':') {
            None if text == "sqlite" => Ok(Self::Sqlite(None)),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(Some(path.into()))),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            Some(("postgres", url)) if !url.is_empty() => Ok(Self::Postgres(url.to_owned())),
            _ => Err(StoreError::Setting(
                "a store is sqlite:PATH or postgres:URL; write one of these, or leave it out",
            )),
        }
    }
}

/// A store. Code that works with one is generic over [`MailStore`].
#[derive(Debug)]
pub enum RelayStore {
    /// A SQLite file.
    Sqlite(SqliteStore),
    /// A PostgreSQL server.
    Postgres(PostgresStore),
}

/// Opens the store of the relay in `dir`, making or migrating its tables.
///
/// # Errors
/// [`StoreError`]; [`StoreError::Setting`] for a URL with a password or of another machine.
pub async fn open(spec: &StoreSpec, dir: &Path) -> Result<RelayStore, StoreError> {
    Ok(match spec {
        StoreSpec::Sqlite(path) => RelayStore::Sqlite(SqliteStore::open(
            &sqlite_path(path.as_deref(), dir),
            Durability::Full,
        )?),
        StoreSpec::Postgres(url) => RelayStore::Postgres(PostgresStore::open(url).await?),
    })
}

impl RelayStore {
    /// Closes the store with all data in its files.
    ///
    /// # Errors
    /// As [`MailStore::close`].
    pub async fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}

/// Counts the contents of a store, also while its relay runs.
pub(crate) async fn count_store(spec: &StoreSpec, dir: &Path) -> Result<Totals, StoreError> {
    match spec {
        StoreSpec::Sqlite(path) => {
            SqliteStore::open_to_read(&sqlite_path(path.as_deref(), dir))?.count_totals().await
        }
        StoreSpec::Postgres(url) => PostgresStore::open_to_read(url).await?.count_totals().await,
    }
}

fn sqlite_path(path: Option<&Path>, dir: &Path) -> PathBuf {
    path.map_or_else(|| dir.join("mail.db"), Path::to_owned)
}

/// Converts a length or count to the signed integer of the databases.
fn to_signed(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

/// Returns the number of a kind of box in the databases.
const fn kind_number(kind: MailboxKind) -> i16 {
    match kind {
        MailboxKind::Conversation => 0,
        MailboxKind::Intro => 1,
    }
}

const fn kind_of(number: i16) -> Result<MailboxKind, StoreError> {
    match number {
        0 => Ok(MailboxKind::Conversation),
        1 => Ok(MailboxKind::Intro),
        _ => Err(StoreError::Damaged),
    }
}
