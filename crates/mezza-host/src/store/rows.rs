//! The database: one table of sealed bodies in SQLite.
//!
//! Write-ahead log, one sync per commit (`synchronous = FULL`); deleted bytes are overwritten with
//! zeros; no shared-memory file and no temporary file, because only one process may open it.
//! Nothing is sorted or searched by the content of a body, so no index leaks it.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, params};

use super::bucket::RetentionCode;
use super::record::{BODY_BYTES_MAX, RecordHeader};
use crate::api::{Exit, Fault};
#[cfg(any(test, feature = "failing-writes"))]
use crate::process::home::failing::{self, WriteStep};
use crate::process::home::private;
use crate::store::log_file::{PAGES_MAX, WalFile};

/// The schema, exactly as SQLite stores it.
const SCHEMA: &str = "CREATE TABLE rec(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, \
                      bucket INTEGER NOT NULL, body BLOB NOT NULL)";
/// The limit of row numbers: a commit per microsecond for 140,000 years.
const ID_MAX: i64 = i64::MAX / 2;
/// `PRAGMA user_version` of this schema.
const VERSION: u32 = 1;
/// `PRAGMA application_id`: "MZVT".
const APPLICATION: i32 = 0x4d5a_5654;

/// The open database.
pub(crate) struct Rows {
    db: Connection,
    log: WalFile,
    /// True if the log may contain data.
    logged: bool,
}

/// Returns the files that a database at `path` may have.
pub(crate) fn database_files(path: &Path) -> [PathBuf; 4] {
    ["", "-wal", "-shm", "-journal"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

impl Rows {
    /// Makes an empty database; it must not exist.
    pub(crate) fn create(path: &Path) -> Result<Self, Fault> {
        private::make(path)?;
        let rows = Self::connect(path)?;
        rows.db.execute_batch(&format!(
            "BEGIN; {SCHEMA}; PRAGMA user_version = {VERSION}; \
             PRAGMA application_id = {APPLICATION}; COMMIT;"
        ))?;
        Ok(rows)
    }

    /// Opens a database, and checks its application, version and schema.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        for file in database_files(path) {
            if file == path || file.symlink_metadata().is_ok() {
                private::check_file(&file)?;
            }
        }
        let rows = Self::connect(path)?;
        let schema = rows.schema()?;
        match rows.version()? {
            VERSION if schema == [SCHEMA] => Ok(rows),
            newer if newer > VERSION => Err(Fault::new(
                Exit::Config,
                format!("the vault was written by a newer program (layout {newer})"),
                "install the newest version",
            )),
            _ => Err(damage_fault("the vault's database has another layout than ours")),
        }
    }

    /// Calls `each` with every row, newest first. A row with invalid columns has no header, and an
    /// invalid body is empty.
    pub(crate) fn for_each_row(
        &self,
        mut each: impl FnMut(Option<RecordHeader>, &[u8]),
    ) -> Result<(), Fault> {
        let sql = "SELECT id, kind, bucket, body FROM rec ORDER BY id DESC";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(read_place(row), read_body(row, 3));
        }
        Ok(())
    }

    /// Calls `each` with every row of one kind, newest first.
    pub(crate) fn of_kind(
        &self,
        kind: u8,
        mut each: impl FnMut(RecordHeader, &[u8]),
    ) -> Result<(), Fault> {
        let sql = "SELECT id, kind, bucket, body FROM rec WHERE kind = ?1 ORDER BY id DESC";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([kind])?;
        while let Some(row) = rows.next()? {
            if let Some(place) = read_place(row) {
                each(place, read_body(row, 3));
            }
        }
        Ok(())
    }

    /// Returns the headers of the rows in some buckets.
    pub(crate) fn find_in_buckets(
        &self,
        buckets: &[RetentionCode],
    ) -> Result<Vec<RecordHeader>, Fault> {
        let mut found = Vec::new();
        let sql = "SELECT id, kind, bucket FROM rec WHERE bucket <> 0";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            found.extend(read_place(row).filter(|place| buckets.contains(&place.bucket)));
        }
        Ok(found)
    }

    /// Returns the days of live state in all rows but `without`, ascending.
    pub(crate) fn live_days(&self, without: u64) -> Result<Vec<u32>, Fault> {
        let sql = "SELECT DISTINCT bucket FROM rec WHERE id <> ?1 ORDER BY bucket";
        let mut statement = self.db.prepare_cached(sql)?;
        let codes = statement.query_map([without.cast_signed()], |row| Ok(row.get(0).ok()));
        let codes: Vec<Option<u32>> = codes.and_then(Iterator::collect)?;
        Ok(codes
            .into_iter()
            .flatten()
            .filter_map(|code| RetentionCode(code).rolling_day())
            .collect())
    }

    /// Returns one row with its body.
    pub(crate) fn read_row(&self, id: u64) -> Result<(RecordHeader, Vec<u8>), Fault> {
        let sql = "SELECT id, kind, bucket, body FROM rec WHERE id = ?1";
        let found = self
            .db
            .query_row(sql, [id.cast_signed()], |row| Ok((read_place(row), row.get(3)?)))
            .optional();
        match found? {
            Some((Some(place), body)) => Ok((place, body)),
            _ => Err(damage_fault("a row of the vault is missing")),
        }
    }

    /// Returns the highest row number, or 0 without rows. A damaged row may have a number above the
    /// limit, which is ignored.
    pub(crate) fn last_id(&self) -> Result<u64, Fault> {
        let sql = "SELECT coalesce(max(id), 0) FROM rec WHERE id BETWEEN 0 AND ?1";
        let last: i64 = self.db.query_row(sql, [ID_MAX], |row| row.get(0))?;
        Ok(last.cast_unsigned())
    }

    /// Runs `work` in one transaction: all of it is durable when this returns, or none.
    pub(crate) fn transaction(
        &mut self,
        work: impl FnOnce(&Writing<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.logged = true;
        let writing = Writing(self.db.transaction()?);
        work(&writing)?;
        #[cfg(any(test, feature = "failing-writes"))]
        planned_failure(WriteStep::Commit)?;
        Ok(writing.0.commit()?)
    }

    /// Reads ahead for the next transaction. Call this while no request waits.
    pub(crate) fn prefetch(&mut self) {
        self.log.prefetch(&self.db);
    }

    /// Moves the log into the database and fills a new one with zeros. An empty log stays, so that
    /// an idle node writes nothing. Except on very busy days this runs each hour before the log is
    /// long.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Fault> {
        if self.logged {
            self.cut_log()?;
            self.log.preallocate();
            self.logged = false;
        }
        Ok(())
    }

    fn cut_log(&self) -> Result<(), Fault> {
        #[cfg(any(test, feature = "failing-writes"))]
        planned_failure(WriteStep::Checkpoint)?;
        let busy: i64 =
            self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy == 0 { Ok(()) } else { Err(Fault::bug("somebody else reads the vault's database")) }
    }

    /// Closes the database; the log is moved into it and deleted.
    pub(crate) fn close(self) -> Result<(), Fault> {
        self.cut_log()?;
        self.db.close().map_err(|(_, error)| error.into())
    }

    fn connect(path: &Path) -> Result<Self, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        // Set the locking mode before the log: then there is no shared-memory file.
        db.execute_batch(&format!(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; \
             PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; \
             PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
             PRAGMA wal_autocheckpoint = {PAGES_MAX};"
        ))?;
        Ok(Self { db, log: WalFile::new(path), logged: true })
    }

    fn schema(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.db.prepare("SELECT sql FROM sqlite_schema")?;
        statement.query_map([], |row| row.get(0))?.collect()
    }

    fn version(&self) -> rusqlite::Result<u32> {
        self.db.query_row("PRAGMA user_version", [], |row| row.get(0))
    }
}

/// An open transaction.
pub(crate) struct Writing<'a>(Transaction<'a>);

impl Writing<'_> {
    /// Writes a row, replacing one with the same number.
    pub(crate) fn put_row(&self, place: RecordHeader, body: &[u8]) -> Result<(), Fault> {
        let sql = "INSERT INTO rec(id, kind, bucket, body) VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT(id) DO UPDATE SET bucket = excluded.bucket, body = excluded.body";
        let mut statement = self.0.prepare_cached(sql)?;
        statement.execute(params![place.id.cast_signed(), place.kind, place.bucket.0, body])?;
        Ok(())
    }

    /// Deletes a row.
    pub(crate) fn delete(&self, id: u64) -> Result<(), Fault> {
        let mut statement = self.0.prepare_cached("DELETE FROM rec WHERE id = ?1")?;
        statement.execute([id.cast_signed()])?;
        Ok(())
    }

    /// Returns the body of a row, empty if it is invalid.
    pub(crate) fn read_body(&self, id: u64) -> Result<Vec<u8>, Fault> {
        let sql = "SELECT body FROM rec WHERE id = ?1";
        let found = |row: &rusqlite::Row<'_>| Ok(read_body(row, 0).to_vec());
        let body = self.0.prepare_cached(sql)?.query_row([id.cast_signed()], found).optional()?;
        body.ok_or_else(|| damage_fault("a row of the vault is missing"))
    }
}

/// Returns the fault for a vault that was changed from outside.
pub(super) fn damage_fault(what: &str) -> Fault {
    Fault::new(Exit::Malformed, what, "put the whole folder of the vault back from a copy")
}

/// Returns the body in this column, or an empty one if it is missing or too long; an empty body
/// does not open.
fn read_body<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> &'a [u8] {
    let body = row.get_ref(column).ok().and_then(|body| body.as_blob().ok());
    body.filter(|body| body.len() <= BODY_BYTES_MAX).unwrap_or_default()
}

fn read_place(row: &rusqlite::Row<'_>) -> Option<RecordHeader> {
    Some(RecordHeader {
        id: u64::try_from(row.get::<_, i64>(0).ok()?).ok()?,
        kind: row.get(1).ok()?,
        bucket: RetentionCode(row.get(2).ok()?),
    })
}

/// Returns the planned fault of a database step on this thread.
#[cfg(any(test, feature = "failing-writes"))]
fn planned_failure(step: WriteStep) -> Result<(), Fault> {
    failing::planned_result(step)
        .map_err(|error| private::cannot_write(Path::new("records.db"), &error))
}
/// Errors of the vault's database; the relay's store has its own errors.
impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType,
        };
        if let FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) =
            error
        {
            return damage_fault("a row of the vault is not one of ours");
        }
        let text = |what: &str| format!("{what} (SQLite: {error})");
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Fault::new(
                Exit::CannotWrite,
                text("the disk of the vault is full"),
                "make room, then unlock the vault again",
            ),
            Some(ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                Fault::new(
                    Exit::CannotWrite,
                    text("the vault's database cannot be read or written"),
                    "check the disk, its room and the modes in the folder, then unlock the vault again",
                )
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::new(
                Exit::Busy,
                "another program has the vault's database open",
                "close it and try again",
            ),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                damage_fault(&text("the vault's database is damaged"))
            }
            _ => Fault::bug(text("the vault's database refuses a command")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_60_each_commit_waits_for_the_disk_and_leaves_no_old_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.db");
        let asked = |rows: &Rows| {
            ["synchronous", "secure_delete", "trusted_schema"].map(|name| {
                let sql = format!("PRAGMA {name}");
                rows.db.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
            })
        };
        let made = Rows::create(&path).unwrap();
        assert_eq!(asked(&made), [2, 1, 0]);
        made.close().unwrap();
        assert_eq!(asked(&Rows::open(&path).unwrap()), [2, 1, 0], "2: each commit is synced");
    }
}
