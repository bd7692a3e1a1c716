//! The copies of long-lived cells on disk: one SQLite file, written before a frame names a cell
//! (MESH-82).
//!
//! ```text
//! cell    id[16] | bringer, a number drawn at random for this run | body, the whole cell
//! ```
//!
//! Every neighbour holds the same cells, so the file needs no key. It does not show which cells
//! were made here, or which address brought a cell (MESH-83). A file that cannot be read is renamed
//! and replaced by an empty one: a node without old cells is better than no node (MESH-84).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mezza_core::CryptoRng;
use mezza_mesh::cell::CellId;
use mezza_mesh::node::Bringer;
use rusqlite::{Connection, params};

use mezza_host::api::{Exit, Fault};

/// The name of the file in error texts.
const FILE: &str = "mesh-cells.db";

/// One statement list per version. `PRAGMA user_version` counts those applied.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS cell(
        id BLOB PRIMARY KEY, bringer INTEGER NOT NULL, body BLOB NOT NULL
    );";

/// A change of the copies.
#[derive(Debug)]
pub(super) enum CopyChange {
    /// A cell is carried from now on.
    Keep { id: CellId, bringer: Bringer, bytes: Vec<u8> },
    /// The cell expired or was removed, so its copy must be deleted.
    Forget { id: CellId },
}

/// The copy of one cell.
#[derive(Debug)]
pub(super) struct StoredCell {
    pub id: CellId,
    pub bringer: u32,
    pub bytes: Vec<u8>,
}

/// The file.
#[derive(Debug)]
pub(super) struct CellStore {
    db: Connection,
    /// The random numbers that stand for the addresses that brought cells, valid for this run of
    /// the node.
    numbers: BTreeMap<Bringer, u32>,
    /// The ids of the copies on the disk.
    stored: BTreeSet<CellId>,
    /// Changes that the disk has refused so far: at most one for each cell that is held or stored.
    pending: BTreeMap<CellId, PendingChange>,
}

/// A change that is not on the disk yet.
#[derive(Debug)]
enum PendingChange {
    Keep { number: u32, bytes: Vec<u8> },
    Forget,
}

impl CellStore {
    /// Opens or makes the file, with mode 0600. A file that cannot be read is renamed to
    /// `FILE.damaged`.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let opened = Self::open_as_it_is(path).and_then(|store| store.check().map(|()| store));
        let Err(error) = opened else { return opened.map_err(|error| refused(path, &error)) };
        tracing::warn!(target: "mezza", "cells of an earlier run cannot be read: {error}");
        for end in ["", "-wal", "-shm"] {
            let from = beside(path, end);
            // A file that does not exist or cannot be renamed is reported by the attempt to open it
            // below.
            let _ = fs::rename(&from, beside(&from, ".damaged"));
        }
        Self::open_as_it_is(path).map_err(|error| refused(path, &error))
    }

    fn open_as_it_is(path: &Path) -> rusqlite::Result<Self> {
        // SQLite would create a file that other users can read, so it is created here with its
        // mode.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        if let Err(error) = made
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
        }
        let db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // A killed process loses nothing. After a power failure the last changes may be missing,
        // and neighbours deliver those cells again.
        db.pragma_update(None, "synchronous", "NORMAL")?;
        // The bytes of a deleted cell are overwritten in the file (MESH-83).
        db.pragma_update(None, "secure_delete", "ON")?;
        db.execute_batch(TABLES)?;
        let mut store = Self {
            db,
            numbers: BTreeMap::new(),
            stored: BTreeSet::new(),
            pending: BTreeMap::new(),
        };
        store.stored = store.read_cells()?.into_iter().map(|cell| cell.id).collect();
        Ok(store)
    }

    fn check(&self) -> rusqlite::Result<()> {
        let sum =
            "SELECT count(*) + coalesce(sum(length(id) + bringer + length(body)), 0) FROM cell";
        self.db.query_row(sum, [], |row| row.get::<_, i64>(0)).map(drop)
    }

    /// Returns all copies. A row in another form is left out.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be read.
    pub(super) fn load_cells(&self) -> Result<Vec<StoredCell>, Fault> {
        self.read_cells().map_err(|error| refused(Path::new(FILE), &error))
    }

    fn read_cells(&self) -> rusqlite::Result<Vec<StoredCell>> {
        let mut rows = self.db.prepare("SELECT id, bringer, body FROM cell")?;
        let cells = rows.query_map([], |row| {
            let id: Vec<u8> = row.get(0)?;
            Ok((id, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })?;
        let cells = cells.collect::<rusqlite::Result<Vec<_>>>()?;
        let stored = cells.into_iter().filter_map(|(id, bringer, bytes)| {
            let id = CellId::try_from(id).ok()?;
            Some(StoredCell { id, bringer: u32::try_from(bringer).ok()?, bytes })
        });
        Ok(stored.collect())
    }

    /// Carries out changes, and those that the disk refused before, in one transaction.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses. Nothing on the disk is changed then; the changes wait for
    /// the next call.
    pub(super) fn apply_changes(
        &mut self,
        changes: Vec<CopyChange>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Fault> {
        for change in changes {
            match change {
                CopyChange::Keep { id, bringer, bytes } => {
                    let number = self.number_of(bringer, rng);
                    self.pending.insert(id, PendingChange::Keep { number, bytes });
                }
                CopyChange::Forget { id } if self.stored.contains(&id) => {
                    self.pending.insert(id, PendingChange::Forget);
                }
                // The copy was never written: the cell was added and removed while the disk refused
                // changes.
                CopyChange::Forget { id } => drop(self.pending.remove(&id)),
            }
        }
        self.write_pending().map_err(|error| refused(Path::new(FILE), &error))
    }

    /// Returns true if the disk has refused a change.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn write_pending(&mut self) -> rusqlite::Result<()> {
        let step = self.db.unchecked_transaction()?;
        for (id, change) in &self.pending {
            match change {
                PendingChange::Keep { number, bytes } => {
                    let sql = "INSERT OR REPLACE INTO cell VALUES(?1, ?2, ?3)";
                    step.prepare_cached(sql)?.execute(params![id, number, bytes])?;
                }
                PendingChange::Forget => {
                    step.prepare_cached("DELETE FROM cell WHERE id = ?1")?.execute([id])?;
                }
            }
        }
        step.commit()?;
        for (id, change) in std::mem::take(&mut self.pending) {
            match change {
                PendingChange::Keep { .. } => drop(self.stored.insert(id)),
                PendingChange::Forget => drop(self.stored.remove(&id)),
            }
        }
        Ok(())
    }

    /// Returns the random number that stands for the address that brought a cell. A cell that was
    /// made here or imported gets the number of a random neighbour, so that the file does not
    /// distinguish it (MESH-83).
    fn number_of(&mut self, bringer: Bringer, rng: &mut dyn CryptoRng) -> u32 {
        match bringer {
            Bringer::Kept(number) => number,
            Bringer::Neighbour(_) => *self.numbers.entry(bringer).or_insert_with(|| rng.next_u32()),
            Bringer::Unnamed => {
                let count = self.numbers.len();
                let drawn = rng.next_u32();
                let at = if count == 0 { 0 } else { drawn as usize % count };
                self.numbers.values().nth(at).copied().unwrap_or(drawn)
            }
        }
    }
}

/// Returns the path with a suffix.
fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn refused(path: &Path, error: &rusqlite::Error) -> Fault {
    let text = format!("carried cells cannot be stored in {}: {error}", path.display());
    Fault::new(Exit::CannotWrite, text, "make room on the disk, or start with `--carry 0`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_host::process::rng::OsRng;

    fn keep(n: u8, bringer: Bringer) -> CopyChange {
        CopyChange::Keep { id: [n; 16], bringer, bytes: vec![n; 512] }
    }

    fn ids(store: &CellStore) -> Vec<u8> {
        let mut ids: Vec<u8> = store.load_cells().unwrap().iter().map(|cell| cell.id[0]).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn mesh_82_copies_outlive_the_process_with_the_shares_of_their_bringers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut store = CellStore::open(&path).unwrap();
        let one = Bringer::Neighbour(1);
        let changes =
            vec![keep(1, one), keep(2, one), keep(3, Bringer::Neighbour(2)), keep(4, one)];
        store.apply_changes(changes, &mut OsRng).unwrap();
        store.apply_changes(vec![CopyChange::Forget { id: [4; 16] }], &mut OsRng).unwrap();
        // `forget` simulates a process that is killed: nothing is closed.
        std::mem::forget(store);
        let store = CellStore::open(&path).unwrap();
        assert_eq!(ids(&store), [1, 2, 3]);
        let cells = store.load_cells().unwrap();
        let of = |n: u8| cells.iter().find(|cell| cell.id[0] == n).unwrap().bringer;
        assert!(of(1) == of(2) && of(1) != of(3));
        assert!(cells.iter().all(|cell| cell.bytes == vec![cell.id[0]; 512]));
    }

    #[test]
    fn mesh_82_changes_that_the_disk_refused_are_made_up_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut store = CellStore::open(&path).unwrap();
        let one = Bringer::Neighbour(1);
        store.apply_changes(vec![keep(1, one), keep(2, one)], &mut OsRng).unwrap();
        store.db.pragma_update(None, "query_only", "ON").unwrap();
        let refused = [
            vec![keep(3, one), CopyChange::Forget { id: [1; 16] }],
            vec![keep(4, one), CopyChange::Forget { id: [4; 16] }],
        ];
        for changes in refused {
            assert!(store.apply_changes(changes, &mut OsRng).is_err());
        }
        assert_eq!((ids(&store), store.pending.len()), (vec![1, 2], 2));
        store.db.pragma_update(None, "query_only", "OFF").unwrap();
        store.apply_changes(vec![keep(5, one)], &mut OsRng).unwrap();
        assert_eq!(ids(&store), [2, 3, 5]);
        assert!(!store.has_pending());
    }

    #[test]
    fn mesh_83_the_file_does_not_tell_what_was_made_here_and_forgets_what_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut store = CellStore::open(&path).unwrap();
        let neighbours = [1, 2, 3].map(|n| keep(n, Bringer::Neighbour(u64::from(n))));
        store.apply_changes(neighbours.into(), &mut OsRng).unwrap();
        store
            .apply_changes((10..40).map(|n| keep(n, Bringer::Unnamed)).collect(), &mut OsRng)
            .unwrap();
        let cells = store.load_cells().unwrap();
        let known: Vec<u32> = cells.iter().filter(|c| c.id[0] < 10).map(|c| c.bringer).collect();
        assert!(cells.iter().all(|cell| known.contains(&cell.bringer)));
        let forgets = (1..40).map(|n| CopyChange::Forget { id: [n; 16] }).collect();
        store.apply_changes(forgets, &mut OsRng).unwrap();
        store.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(64).any(|part| part == [20; 64]), "the bytes are gone, too");
    }

    #[test]
    fn mesh_84_a_damaged_file_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut store = CellStore::open(&path).unwrap();
        store.apply_changes(vec![keep(1, Bringer::Unnamed)], &mut OsRng).unwrap();
        drop(store);
        for damage in [&b"no database at all, whatever it is"[..], &[]] {
            fs::write(&path, damage).unwrap();
            let mut store = CellStore::open(&path).unwrap();
            assert!(ids(&store).is_empty());
            store.apply_changes(vec![keep(2, Bringer::Unnamed)], &mut OsRng).unwrap();
            assert_eq!(ids(&store), [2]);
        }
        assert!(beside(&path, ".damaged").exists());
        // A row in another form is not a cell; the other rows still load.
        let store = CellStore::open(&path).unwrap();
        store.db.execute("INSERT INTO cell VALUES(x'0102', 7, x'03')", []).unwrap();
        assert_eq!(ids(&store), [2]);
    }
}
