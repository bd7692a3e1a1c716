//! A folder of sealed records that are written once, and an index: one small file with the valid
//! records and their keys.
//!
//! ```text
//! DIR/         0700
//!   index      0600   overwritten in place (module `slots`); its name is the caller's
//!   rec/       0700   a file a record
//!   lock       0600   held by the one process that has the folder
//! ```
//!
//! A step writes new records durably, then the index durably, and then deletes old records. A crash
//! between any two file operations leaves the old or the new state, and records that the index does
//! not name. Opening the folder deletes all of those (HIBE-76).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mezza_core::Wiping;
use nix::sys::statvfs::statvfs;

use super::home::private;
use super::lock::Lock;
use super::slots::SlotFile;
use crate::api::{Exit, Fault};
#[cfg(any(test, feature = "failing-writes"))]
use crate::process::home::failing;

const RECORDS: &str = "rec";
const LOCK: &str = "lock";

/// The maximum sizes in a folder; larger files are not read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FolderLimits {
    /// Maximum bytes of a record.
    pub record_bytes: usize,
    /// Maximum bytes of the index.
    pub index_bytes: usize,
}

/// Files that one step writes and deletes.
#[derive(Debug)]
pub(crate) struct FolderStep<'a> {
    /// New sealed records by name. An existing one of the same name has the same bytes.
    pub put: &'a [(String, Vec<u8>)],
    /// The index after this step.
    pub index: &'a [u8],
    /// Names of records that the new index no longer names.
    pub drop: &'a [String],
}

/// A folder that this process has locked.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    index: PathBuf,
    /// The index, once made or opened.
    slots: Option<SlotFile>,
    limits: FolderLimits,
    _lock: Lock,
}

impl Folder {
    /// Makes missing folders, checks existing ones, and takes the lock.
    ///
    /// # Errors
    /// Exit code 75 if another process has the lock, 77 for wrong owners or modes, 73 if the disk
    /// refuses.
    pub(crate) fn make(root: &Path, index: &str, limits: FolderLimits) -> Result<Self, Fault> {
        private::make_folder(root)?;
        private::make_folder(&root.join(RECORDS))?;
        Self::open(root, index, limits)
    }

    /// Opens an existing folder, and deletes partial files of a crash.
    ///
    /// # Errors
    /// As [`Folder::make`]; 66 if there is no folder.
    pub(crate) fn open(root: &Path, index: &str, limits: FolderLimits) -> Result<Self, Fault> {
        private::check_folder(root)?;
        private::check_folder(&root.join(RECORDS))?;
        let what = root.display().to_string();
        let lock = Lock::take_of(&root.join(LOCK), &what, "wait until that ends, or stop it")?;
        let index = root.join(index);
        private::sweep_leftover(&index)?;
        let slots = open_slots(&index, limits.index_bytes)?;
        Ok(Self { root: root.to_owned(), index, slots, limits, _lock: lock })
    }

    /// Returns the path of a file next to the index.
    pub(crate) fn path_beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the bytes of the index.
    ///
    /// # Errors
    /// Exit code 66 if there is no index, 65 if the index is damaged or longer than the limit.
    pub(crate) fn read_index(&self) -> Result<Wiping<Vec<u8>>, Fault> {
        match &self.slots {
            Some(slots) => slots.read(),
            None => read_bounded(&self.index, self.limits.index_bytes).map(Wiping::new),
        }
    }

    /// Returns the names of all records, including those left by a crash. Partially written files
    /// are deleted.
    ///
    /// # Errors
    /// Exit codes 66 or 77 if the folder cannot be read.
    pub(crate) fn record_names(&self) -> Result<Vec<String>, Fault> {
        let folder = self.root.join(RECORDS);
        let cannot_read = |error| private::cannot_read(&folder, &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(cannot_read)? {
            let path = entry.map_err(cannot_read)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if private::is_fresh(name) {
                delete_file(&path)?;
            } else {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the bytes of one record.
    ///
    /// # Errors
    /// Exit code 65 if the record is longer than the limit, 66 or 77 if the file cannot be read.
    pub(crate) fn read_record(&self, name: &str) -> Result<Vec<u8>, Fault> {
        read_bounded(&self.root.join(RECORDS).join(name), self.limits.record_bytes)
    }

    /// Returns true if the disk has this many free bytes for this user.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        #[cfg(any(test, feature = "failing-writes"))]
        if failing::is_full() {
            return false;
        }
        statvfs(&self.root)
            .is_ok_and(|disk| disk.blocks_available().saturating_mul(disk.fragment_size()) >= bytes)
    }

    /// Deletes records that the index does not name. A failed deletion is left for later: without
    /// the keys of an index the bytes are noise.
    pub(crate) fn delete_records(&self, names: &[String]) {
        for name in names {
            let _ = delete_file(&self.root.join(RECORDS).join(name));
        }
    }

    /// Carries out a step. After a failure the disk has the old or the new index; the same step, or
    /// a later one that includes it, may be repeated.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(crate) fn apply_step(&mut self, step: &FolderStep<'_>) -> Result<(), Fault> {
        let folder = self.root.join(RECORDS);
        for (name, bytes) in step.put {
            private::put_file(&folder.join(name), bytes)?;
        }
        if !step.put.is_empty() {
            private::sync_folder(&folder)?;
        }
        if let Some(slots) = &self.slots {
            slots.write(step.index)?;
        } else {
            // The first step of a folder; from now on its slots have their disk blocks.
            let made = SlotFile::create(&self.index, self.limits.index_bytes, step.index)?;
            self.slots = Some(made);
        }
        step.drop.iter().try_for_each(|name| delete_file(&folder.join(name)))
    }

    /// Deletes the index and all records of an unfinished attempt to make a tree.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(crate) fn delete_all(&mut self) -> Result<(), Fault> {
        self.slots = None;
        delete_file(&self.index)?;
        let folder = self.root.join(RECORDS);
        let entries =
            fs::read_dir(&folder).map_err(|error| private::cannot_read(&folder, &error))?;
        entries.flatten().try_for_each(|entry| delete_file(&entry.path()))
    }

    /// Overwrites the index durably, then deletes everything in this folder, and the files
    /// `others`.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(crate) fn wipe_all(mut self, others: &[&str]) -> Result<(), Fault> {
        if let Some(slots) = &self.slots {
            slots.wipe()?;
        }
        self.delete_all()?;
        others.iter().try_for_each(|name| delete_file(&self.root.join(name)))?;
        delete_file(&self.root.join(LOCK))?;
        let gone =
            fs::remove_dir(self.root.join(RECORDS)).and_then(|()| fs::remove_dir(&self.root));
        gone.map_err(|error| private::cannot_write(&self.root, &error))
    }
}

/// Opens the index, if there is one, and finishes an interrupted step. An index of the first
/// version, one block of bytes, is converted to two slots and its old blocks are overwritten.
fn open_slots(index: &Path, bytes_max: usize) -> Result<Option<SlotFile>, Fault> {
    let Ok(found) = index.symlink_metadata() else { return Ok(None) };
    if SlotFile::is_slot_length(found.len(), bytes_max) {
        let slots = SlotFile::open(index, bytes_max)?;
        // A damaged index is reported by its reader; `wipe` must still work.
        return match slots.finish_step() {
            Err(fault) if fault.code != Exit::Malformed => Err(fault),
            _ => Ok(Some(slots)),
        };
    }
    let old = private::open(index)?;
    let bytes = read_bounded(index, bytes_max)?;
    let slots = SlotFile::create(index, bytes_max, &bytes)?;
    let zeros = vec![0; bytes.len()];
    private::write_at(&old, &zeros, 0).map_err(|error| private::cannot_write(index, &error))?;
    Ok(Some(slots))
}

/// Deletes a file, which may be missing.
fn delete_file(path: &Path) -> Result<(), Fault> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(private::cannot_write(path, &error))
        }
        _ => Ok(()),
    }
}

/// Reads a private file of at most `bytes_max` bytes.
fn read_bounded(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let bytes = private::read(path, bytes_max + 1)?;
    if bytes.len() > bytes_max { Err(too_large(path)) } else { Ok(bytes) }
}

fn too_large(path: &Path) -> Fault {
    let text = format!("{} holds more than this program ever writes", path.display());
    Fault::new(Exit::Malformed, text, "see who else writes there")
}

#[cfg(test)]
mod tests;
