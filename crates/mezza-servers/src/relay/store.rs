//! The store of a relay's mailboxes: SQLite or PostgreSQL, behind one trait.
//!
//! Quotas, group commit and watchers live in the writer. A store executes statements inside the
//! transaction that its caller began. The writer is compiled once for each of the two.

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

/// Why a store did not do what it was told. Nothing of the open transaction remains.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite refused.
    #[error("SQLite: {0}; check the disk and the file, then start the relay again")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL refused.
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
        /// In the store.
        found: i64,
        /// The newest this program knows.
        known: i64,
    },
    /// A setting that this program does not accept.
    #[error("{0}")]
    Setting(&'static str),
    /// A row holds a value that no version writes.
    #[error("the store holds a damaged row; restore it from a copy")]
    Damaged,
    /// A file of the store.
    #[error("cannot use {path}: {source}; check its folder and modes")]
    File {
        /// Which file.
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

/// A box as its store knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxRow {
    /// Its number.
    pub id: MailboxRowId,
    /// Its kind.
    pub kind: MailboxKind,
    /// Mails in it.
    pub mails: u32,
    /// Bytes of its mails.
    pub bytes: u64,
}

/// A mail to be stored.
#[derive(Clone, Copy)]
pub struct NewMail<'a> {
    /// The row of its mailbox.
    pub box_id: MailboxRowId,
    /// The last hour since 1970 in which it is delivered.
    pub due_h: u32,
    /// The envelope.
    pub body: &'a [u8],
}

/// A mail as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    /// Its number.
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
    /// How many mails.
    pub mails: u32,
    /// How many bytes of mail.
    pub bytes: u64,
}

/// Counts over a whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Boxes.
    pub boxes: u64,
    /// Mails.
    pub mails: u64,
    /// Bytes of mail and bundles, and 64 for each one-time key.
    pub bytes: u64,
    /// One-time keys not given out.
    pub one_time_keys: u64,
}

/// A store. Between [`begin`](Self::begin) and [`commit`](Self::commit) all or nothing happens;
/// after an error the caller rolls back.
#[expect(async_fn_in_trait, reason = "driven by the writer's own thread; no future is sent")]
pub trait MailStore {
    /// Begins a transaction.
    async fn begin(&mut self) -> Result<(), StoreError>;
    /// Makes all since `begin` durable.
    async fn commit(&mut self) -> Result<(), StoreError>;
    /// Reads ahead for the next transaction. To be called while no caller waits.
    fn prefetch(&mut self) {}
    /// Undoes all since `begin`.
    async fn rollback(&mut self);
    /// The box of this address.
    async fn find_box(
        &mut self,
        address: &MailboxAddress,
    ) -> Result<Option<MailboxRow>, StoreError>;
    /// Makes a box, watched last on `day` (since 1970).
    async fn open_box(
        &mut self,
        address: &MailboxAddress,
        kind: MailboxKind,
        day: u32,
    ) -> Result<MailboxRowId, StoreError>;
    /// Removes a box with all it holds.
    async fn close_box(&mut self, id: MailboxRowId) -> Result<(), StoreError>;
    /// Notes the day of the last WATCH.
    async fn set_seen_day(&mut self, id: MailboxRowId, day: u32) -> Result<(), StoreError>;
    /// Stores mail; gives a number for each, ascending in the given order.
    async fn put_batch(&mut self, mails: &[NewMail<'_>]) -> Result<Vec<Seq>, StoreError>;
    /// The oldest at most `max` mails behind `after` that are not expired in hour `now_h`.
    async fn fetch_mails(
        &mut self,
        id: MailboxRowId,
        after: Seq,
        now_h: u32,
        max: u32,
    ) -> Result<Vec<Mail>, StoreError>;
    /// Removes these mails of this box.
    async fn take_mails(&mut self, id: MailboxRowId, seqs: &[Seq]) -> Result<Removed, StoreError>;
    /// Removes at most `max` mails that were due before hour `now_h`.
    async fn expire_mails(&mut self, now_h: u32, max: u32) -> Result<Removed, StoreError>;
    /// Removes at most `max` empty boxes not watched since `day`; gives how many.
    async fn drop_idle(&mut self, day: u32, max: u32) -> Result<u32, StoreError>;
    /// Replaces the bundle; with `fresh` forgets all one-time keys before.
    async fn bundle_set(
        &mut self,
        id: MailboxRowId,
        fresh: bool,
        bundle: &[u8],
    ) -> Result<(), StoreError>;
    /// Adds one-time keys whose ids are new to this box; gives how many are.
    async fn keys_add(
        &mut self,
        id: MailboxRowId,
        keys: &[RawOneTimePrekey],
    ) -> Result<u32, StoreError>;
    /// Rows of one-time keys, those given out included; and those not given out.
    async fn keys_count(&mut self, id: MailboxRowId) -> Result<(u32, u32), StoreError>;
    /// The bundle.
    async fn read_bundle(&mut self, id: MailboxRowId) -> Result<Option<Vec<u8>>, StoreError>;
    /// Gives out one key, once and for all.
    async fn key_take(&mut self, id: MailboxRowId) -> Result<Option<RawOneTimePrekey>, StoreError>;
    /// Counts everything.
    async fn count_totals(&mut self) -> Result<Totals, StoreError>;
    /// Ends, with everything in its files.
    async fn close(self) -> Result<(), StoreError>;
}

/// Which store, as `--store` names it.
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

/// One of the two stores. The code that works with a store is generic over [`MailStore`].
#[derive(Debug)]
pub enum RelayStore {
    /// A file.
    Sqlite(SqliteStore),
    /// A server.
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
    /// Ends, with everything in its files.
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

/// Counts what a store holds, beside a running relay.
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

/// A length or a count as databases write it.
fn to_signed(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

/// The kind of a box as stores write it.
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
