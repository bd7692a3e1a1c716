//! SQLite's write-ahead log, made as long as it will become before anything is written to it.
//!
//! A sync after bytes that make a file longer waits for the file system's journal too; one after
//! bytes that replace others does not (measured by `mezza-lab goals node --only M1`, which prints
//! both). The log is used from its begin again after each checkpoint, so this is paid once.
//!
//! Zeros are no log: where SQLite looks for the next part it finds neither the salt nor the
//! checksum that it expects, and stops, as it does at what an older round left there.

use std::fs::OpenOptions;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What is written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Fills the log of the database at `database` (the file beside it, mode 0600) with zeros up to
/// `bytes`; a longer one stays as it is. What the log holds already is not touched.
///
/// # Errors
/// If the file cannot be made or the disk is full.
pub fn lengthen(database: &Path, bytes: u64) -> io::Result<()> {
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
    file.sync_all()
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
        let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
        let db = open(&live);
        lengthen(&live, 1 << 20).unwrap();
        for _ in 0..20 {
            db.execute("INSERT INTO t VALUES (randomblob(3000))", []).unwrap();
        }
        // What a machine that loses power leaves: both files as they are, nothing closed.
        for suffix in ["", "-wal"] {
            let name = |path: &Path| format!("{}{suffix}", path.display());
            std::fs::copy(name(&live), name(&copy)).unwrap();
        }
        assert_eq!(std::fs::metadata(folder.path().join("copy-wal")).unwrap().len(), 1 << 20);
        assert_eq!(rows(&open(&copy)), 20);
        assert_eq!(rows(&db), 20);
    }

    #[test]
    fn what_the_log_holds_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = open(&path);
        db.execute("INSERT INTO t VALUES (1)", []).unwrap();
        let log = folder.path().join("db-wal");
        let before = std::fs::read(&log).unwrap();
        lengthen(&path, 1 << 20).unwrap();
        lengthen(&path, 0).unwrap();
        let after = std::fs::read(&log).unwrap();
        assert_eq!(after.len(), 1 << 20);
        assert_eq!(after[..before.len()], before);
        db.execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert_eq!(rows(&db), 2);
    }
}
