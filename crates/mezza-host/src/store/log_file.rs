//! SQLite's write-ahead log, filled to its final length before anything is written to it.
//!
//! A sync after appended bytes also waits for the file system's journal; a sync after overwritten
//! bytes does not (measured by `mezza-lab goals node --only M1`, which prints both). The log
//! restarts at its beginning after each checkpoint, so the filling is paid once.
//!
//! Zeros are not mistaken for log frames: SQLite finds neither the expected salt nor the checksum,
//! and stops, as it does at frames of an older round.
//!
//! The next pages of the log are read ahead: a frame begins and ends within pages of the file, and
//! a page that is replaced in part must be read first. Such a page was not used since the last
//! round, so a system short of memory drops it first.
//!
//! Of an open database only the log may be opened and closed outside of its connection: SQLite
//! locks the database and its shared memory but never the log, and closing a file releases this
//! process's locks on that file only (MSG-61).

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use rusqlite::Connection;

/// Number of log pages after which a commit moves the log into the database, so that its syncs are
/// paid once per some thousand notes: 16 MiB.
pub const PAGES_MAX: u32 = 4_096;
/// The initial length of a log, bytes: about 240 notes until it grows.
const BYTES_MIN: u64 = 4 << 20;
/// The zeros of one write while filling the log.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Size of the log's header, and of each frame's header, bytes (SQLite's file format, section 4).
const HEAD_BYTES: u64 = 32;
const PAGE_BYTES: u64 = 24 + 4_096;
/// Bytes that are read ahead: about five notes.
const AHEAD_BYTES: i64 = 128 << 10;

/// The log of one open database. If the system refuses an operation, only speed is lost.
#[derive(Debug)]
pub struct WalFile {
    database: PathBuf,
    file: Option<File>,
    /// Pages in the log at the last check.
    pages: u32,
}

impl WalFile {
    /// Fills the log of the open database at `database`, which is in WAL mode already.
    pub fn new(database: &Path) -> Self {
        let mut log = Self { database: database.to_owned(), file: None, pages: 0 };
        log.preallocate();
        log
    }

    /// Fills a log that was just truncated.
    pub(crate) fn preallocate(&mut self) {
        self.file = preallocate_log(&self.database, BYTES_MIN).ok();
        self.pages = 0;
    }

    /// Reads the pages that the next commits replace into memory, without waiting. Call this
    /// between transactions, while no request waits.
    pub fn prefetch(&mut self, db: &Connection) {
        let pages = db.prepare_cached("PRAGMA wal_checkpoint(NOOP)");
        let pages = pages.and_then(|mut noop| noop.query_row([], |row| row.get(1)));
        if let (Some(file), Ok(pages)) = (&self.file, pages)
            && pages != self.pages
        {
            self.pages = pages;
            let pages = if pages < PAGES_MAX { u64::from(pages) } else { 0 };
            let at = (HEAD_BYTES + pages * PAGE_BYTES).cast_signed();
            let will_need = PosixFadviseAdvice::POSIX_FADV_WILLNEED;
            let _ = posix_fadvise(file, at, AHEAD_BYTES, will_need);
        }
    }
}

/// Fills the log of the database at `database` (a separate file, mode 0600) with zeros up to
/// `bytes`; a longer one stays. The present content of the log is not changed.
fn preallocate_log(database: &Path, bytes: u64) -> io::Result<File> {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mut at = file.seek(SeekFrom::End(0))?;
    while at < bytes {
        let piece = (bytes - at).min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..piece as usize])?;
        at += piece;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn rows(db: &Connection) -> i64 {
        db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    fn open(path: &Path) -> Connection {
        let db = Connection::open(path).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t(x)").unwrap();
        db
    }

    #[test]
    fn a_log_that_lost_its_process_is_read_up_to_the_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let copy = folder.path().join("copy");
        let db = open(&live);
        preallocate_log(&live, 1 << 20).unwrap();
        for _ in 0..20 {
            db.execute("INSERT INTO t VALUES (randomblob(3000))", []).unwrap();
        }
        // As after a loss of power: both files are copied while open.
        for suffix in ["", "-wal"] {
            let name = |path: &Path| format!("{}{suffix}", path.display());
            std::fs::copy(name(&live), name(&copy)).unwrap();
        }
        assert_eq!(std::fs::metadata(folder.path().join("copy-wal")).unwrap().len(), 1 << 20);
        assert_eq!(rows(&open(&copy)), 20);
        assert_eq!(rows(&db), 20);
    }

    #[test]
    fn what_comes_next_is_looked_for_where_the_log_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = open(&path);
        let mut log = WalFile::new(&path);
        let end = || {
            let bytes = std::fs::read(folder.path().join("db-wal")).unwrap();
            assert_eq!(bytes.len() as u64, BYTES_MIN);
            bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64
        };
        for _ in 0..3 {
            db.execute("INSERT INTO t VALUES (randomblob(3000))", []).unwrap();
            log.prefetch(&db);
            let place = HEAD_BYTES + u64::from(log.pages) * PAGE_BYTES;
            assert!(log.pages > 0 && (place - PAGE_BYTES..place).contains(&end()));
        }
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        log.preallocate();
        log.prefetch(&db);
        assert_eq!(log.pages, 0);
    }

    #[test]
    fn what_the_log_holds_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = open(&path);
        db.execute("INSERT INTO t VALUES (1)", []).unwrap();
        let log = folder.path().join("db-wal");
        let before = std::fs::read(&log).unwrap();
        preallocate_log(&path, 1 << 20).unwrap();
        preallocate_log(&path, 0).unwrap();
        let after = std::fs::read(&log).unwrap();
        assert_eq!(after.len(), 1 << 20);
        assert_eq!(after[..before.len()], before);
        db.execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert_eq!(rows(&db), 2);
    }
}
