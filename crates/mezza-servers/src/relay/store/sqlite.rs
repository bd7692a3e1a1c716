//! The store in one SQLite file: WAL, `synchronous = FULL`, one writer.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind, RawOneTimePrekey};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};

use super::{
    Mail, MailStore, MailboxRow, MailboxRowId, NewMail, Removed, Seq, StoreError, Totals,
    kind_number, kind_of, to_signed,
};
#[cfg(test)]
use mezza_host::process::home::failing::{self, WriteStep};
use mezza_host::store::log_file::{PAGES_MAX, WalFile};

/// One list of statements per version; `PRAGMA user_version` counts the applied ones.
///
/// AUTOINCREMENT, because a plain rowid is reused once the highest row is gone. A rowid table with
/// an index, because WITHOUT ROWID is several times slower with bodies of a kilobyte.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE box(id INTEGER PRIMARY KEY, addr BLOB NOT NULL UNIQUE, kind INTEGER NOT NULL,
                     bytes INTEGER NOT NULL, seen_day INTEGER NOT NULL);
    CREATE TABLE mail(seq INTEGER PRIMARY KEY AUTOINCREMENT, box INTEGER NOT NULL,
                      due_h INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE INDEX mail_box ON mail(box, seq);
    CREATE INDEX mail_due ON mail(due_h);
    CREATE TABLE bundle(box INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE one_time(box INTEGER NOT NULL, id INTEGER NOT NULL, key BLOB,
                          PRIMARY KEY (box, id));
    CREATE TABLE card(id BLOB PRIMARY KEY, serial INTEGER NOT NULL, body BLOB NOT NULL);
"];

/// When SQLite syncs its data to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// At each commit.
    Full,
    /// Never, for comparison in benchmarks.
    Off,
}

/// A relay's SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    db: Connection,
    /// The write-ahead log of a file that is open for writing.
    log: Option<WalFile>,
}

impl SqliteStore {
    /// Opens or makes the file (0600), migrating it to the newest version.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        make_file(path).map_err(|source| StoreError::File { path: path.to_owned(), source })?;
        let mut db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if durability == Durability::Full { "FULL" } else { "OFF" };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.pragma_update(None, "wal_autocheckpoint", PAGES_MAX)?;
        db.set_prepared_statement_cache_capacity(32);
        migrate_schema(&mut db)?;
        Ok(Self { db, log: Some(WalFile::new(path)) })
    }

    /// Opens an existing file read-only, to count its contents.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self { db, log: None })
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, StoreError> {
        #[cfg(test)]
        fail_at(sql)?;
        Ok(self.db.prepare_cached(sql)?.execute(values)?)
    }

    fn query_row<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        #[cfg(test)]
        fail_at(sql)?;
        Ok(self.db.prepare_cached(sql)?.query_row(values, read).optional()?)
    }

    fn shrink_boxes(&self, by_box: &BTreeMap<MailboxRowId, i64>) -> Result<(), StoreError> {
        for (id, bytes) in by_box {
            self.execute("UPDATE box SET bytes = bytes - ?2 WHERE id = ?1", params![id, bytes])?;
        }
        Ok(())
    }
}

/// Makes the file with its mode. An existing file is not opened: closing it would release the locks
/// that another connection of this process holds on it (MSG-61).
fn make_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Returns the error that a test planned for this statement, if any.
#[cfg(test)]
fn fail_at(sql: &str) -> Result<(), StoreError> {
    let step = match sql {
        "BEGIN IMMEDIATE" => WriteStep::Begin,
        "COMMIT" => WriteStep::Commit,
        "ROLLBACK" => return Ok(()),
        _ => WriteStep::Statement,
    };
    failing::planned_result(step)
        .map_err(|source| StoreError::File { path: "mail.db".into(), source })
}

fn migrate_schema(db: &mut Connection) -> Result<(), StoreError> {
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = MIGRATIONS.len();
    let done = usize::try_from(found).ok().filter(|done| *done <= known);
    let Some(done) = done else {
        return Err(StoreError::Version { found, known: to_signed(known) });
    };
    for (version, sql) in MIGRATIONS.iter().enumerate().skip(done) {
        let transaction = db.transaction()?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", to_signed(version + 1))?;
        transaction.commit()?;
    }
    Ok(())
}

impl MailStore for SqliteStore {
    async fn begin(&mut self) -> Result<(), StoreError> {
        // IMMEDIATE takes the write lock at once. A transaction that turned from reading to writing
        // while another process writes would be refused instead of waiting.
        self.execute("BEGIN IMMEDIATE", []).map(drop)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.execute("COMMIT", []).map(drop)
    }

    fn prefetch(&mut self) {
        if let Some(log) = &mut self.log {
            log.prefetch(&self.db);
        }
    }

    async fn rollback(&mut self) {
        // SQLite may have rolled back by itself (disk full); then there is nothing left to undo.
        if !self.db.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK", [])
        {
            tracing::warn!(%error, "the relay's store could not roll back");
        }
    }

    async fn find_box(
        &mut self,
        address: &MailboxAddress,
    ) -> Result<Option<MailboxRow>, StoreError> {
        let sql = "SELECT id, kind, bytes, (SELECT count(*) FROM mail WHERE box = box.id)
                   FROM box WHERE addr = ?1";
        let row = self.query_row(sql, [address.0.as_slice()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?, row.get(3)?))
        })?;
        row.map(|(id, kind, bytes, mails)| {
            Ok(MailboxRow { id, kind: kind_of(kind)?, mails, bytes: bytes.try_into().unwrap_or(0) })
        })
        .transpose()
    }

    async fn open_box(
        &mut self,
        address: &MailboxAddress,
        kind: MailboxKind,
        day: u32,
    ) -> Result<MailboxRowId, StoreError> {
        let sql = "INSERT INTO box(addr, kind, bytes, seen_day) VALUES (?1, ?2, 0, ?3)";
        self.execute(sql, params![address.0.as_slice(), kind_number(kind), day])?;
        Ok(self.db.last_insert_rowid())
    }

    async fn close_box(&mut self, id: MailboxRowId) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM mail WHERE box = ?1",
            "DELETE FROM bundle WHERE box = ?1",
            "DELETE FROM one_time WHERE box = ?1",
            "DELETE FROM box WHERE id = ?1",
        ] {
            self.execute(sql, [id])?;
        }
        Ok(())
    }

    async fn set_seen_day(&mut self, id: MailboxRowId, day: u32) -> Result<(), StoreError> {
        let sql = "UPDATE box SET seen_day = ?2 WHERE id = ?1 AND seen_day <> ?2";
        self.execute(sql, params![id, day]).map(drop)
    }

    async fn put_batch(&mut self, mails: &[NewMail<'_>]) -> Result<Vec<Seq>, StoreError> {
        let mut seqs = Vec::with_capacity(mails.len());
        let mut by_box = BTreeMap::<MailboxRowId, i64>::new();
        let sql = "INSERT INTO mail(box, due_h, body) VALUES (?1, ?2, ?3)";
        let mut insert = self.db.prepare_cached(sql)?;
        for mail in mails {
            insert.execute(params![mail.box_id, mail.due_h, mail.body])?;
            seqs.push(self.db.last_insert_rowid());
            *by_box.entry(mail.box_id).or_default() -= to_signed(mail.body.len());
        }
        self.shrink_boxes(&by_box)?;
        Ok(seqs)
    }

    async fn fetch_mails(
        &mut self,
        id: MailboxRowId,
        after: Seq,
        now_h: u32,
        max: u32,
    ) -> Result<Vec<Mail>, StoreError> {
        let sql = "SELECT seq, body FROM mail WHERE box = ?1 AND seq > ?2 AND due_h >= ?3
                   ORDER BY seq LIMIT ?4";
        let mut select = self.db.prepare_cached(sql)?;
        let rows = select.query_map(params![id, after, now_h, max], |row| {
            Ok(Mail { seq: row.get(0)?, body: row.get(1)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    async fn take_mails(&mut self, id: MailboxRowId, seqs: &[Seq]) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        let sql = "DELETE FROM mail WHERE seq = ?1 AND box = ?2 RETURNING length(body)";
        for seq in seqs {
            if let Some(bytes) =
                self.query_row(sql, params![seq, id], |row| row.get::<_, u32>(0))?
            {
                removed.mails += 1;
                removed.bytes += u64::from(bytes);
            }
        }
        if removed.mails > 0 {
            self.shrink_boxes(&BTreeMap::from([(id, to_signed(removed.bytes))]))?;
        }
        Ok(removed)
    }

    async fn expire_mails(&mut self, now_h: u32, max: u32) -> Result<Removed, StoreError> {
        let sql = "DELETE FROM mail WHERE seq IN (SELECT seq FROM mail WHERE due_h < ?1 LIMIT ?2)
                   RETURNING box, length(body)";
        let (mut removed, mut by_box) = (Removed::default(), BTreeMap::<MailboxRowId, i64>::new());
        {
            let mut delete = self.db.prepare_cached(sql)?;
            let rows = delete.query_map(params![now_h, max], |row| {
                Ok((row.get::<_, MailboxRowId>(0)?, row.get::<_, u32>(1)?))
            })?;
            for row in rows {
                let (id, bytes) = row?;
                removed.mails += 1;
                removed.bytes += u64::from(bytes);
                *by_box.entry(id).or_default() += i64::from(bytes);
            }
        }
        self.shrink_boxes(&by_box)?;
        Ok(removed)
    }

    async fn drop_idle(&mut self, day: u32, max: u32) -> Result<u32, StoreError> {
        let sql = "SELECT id FROM box WHERE seen_day < ?1
                   AND NOT EXISTS (SELECT 1 FROM mail WHERE mail.box = box.id) LIMIT ?2";
        let ids = {
            let mut select = self.db.prepare_cached(sql)?;
            let rows = select.query_map(params![day, max], |row| row.get::<_, MailboxRowId>(0))?;
            rows.collect::<Result<Vec<_>, _>>()?
        };
        for id in &ids {
            self.close_box(*id).await?;
        }
        Ok(ids.len() as u32)
    }

    async fn bundle_set(
        &mut self,
        id: MailboxRowId,
        fresh: bool,
        bundle: &[u8],
    ) -> Result<(), StoreError> {
        if fresh {
            self.execute("DELETE FROM one_time WHERE box = ?1", [id])?;
        }
        let sql = "INSERT OR REPLACE INTO bundle(box, body) VALUES (?1, ?2)";
        self.execute(sql, params![id, bundle]).map(drop)
    }

    async fn keys_add(
        &mut self,
        id: MailboxRowId,
        keys: &[RawOneTimePrekey],
    ) -> Result<u32, StoreError> {
        let mut added = 0;
        let sql = "INSERT OR IGNORE INTO one_time(box, id, key) VALUES (?1, ?2, ?3)";
        for key in keys {
            added += self.execute(sql, params![id, key.id, key.key.as_slice()])?;
        }
        Ok(added as u32)
    }

    async fn keys_count(&mut self, id: MailboxRowId) -> Result<(u32, u32), StoreError> {
        let sql = "SELECT count(*), count(key) FROM one_time WHERE box = ?1";
        let counts = self.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(counts.unwrap_or_default())
    }

    async fn read_bundle(&mut self, id: MailboxRowId) -> Result<Option<Vec<u8>>, StoreError> {
        self.query_row("SELECT body FROM bundle WHERE box = ?1", [id], |row| row.get(0))
    }

    async fn key_take(&mut self, id: MailboxRowId) -> Result<Option<RawOneTimePrekey>, StoreError> {
        let sql = "SELECT id, key FROM one_time WHERE box = ?1 AND key IS NOT NULL
                   ORDER BY id LIMIT 1";
        let found = self.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((key_id, key)) = found else { return Ok(None) };
        let sql = "UPDATE one_time SET key = NULL WHERE box = ?1 AND id = ?2";
        self.execute(sql, params![id, key_id])?;
        Ok(Some(RawOneTimePrekey { id: key_id, key }))
    }

    async fn count_totals(&mut self) -> Result<Totals, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM box), (SELECT count(*) FROM mail),
                   (SELECT coalesce(sum(bytes), 0) FROM box)
                   + (SELECT coalesce(sum(length(body)), 0) FROM bundle)
                   + 64 * (SELECT count(*) FROM one_time),
                   (SELECT count(key) FROM one_time)";
        let counts: Option<[i64; 4]> = self
            .query_row(sql, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        let [boxes, mails, bytes, keys] = counts.ok_or(StoreError::Damaged)?.map(count);
        Ok(Totals { boxes, mails, bytes, one_time_keys: keys })
    }

    async fn close(mut self) -> Result<(), StoreError> {
        self.rollback().await;
        // A concurrent reader (`relay status`) prevents truncation of the log. No data is lost by
        // that, so the result row is ignored.
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.db.close().map_err(|(_, error)| error.into())
    }
}
