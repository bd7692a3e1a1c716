//! A folder of sealed records that are written once, and one small file, the index, that says which
//! of them count and holds their keys.
//!
//! ```text
//! DIR/         0700
//!   index      0600   replaced as a whole; its name is the caller's
//!   rec/       0700   a file a record
//!   lock       0600   held by the one process that has the folder
//! ```
//!
//! A step is carried out in this order: new records, durable; the index, durable; then old records
//! are deleted. A crash between any two file operations leaves the old or the new state, and records
//! that no index names, which the next step deletes. A record is never replaced by other bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::home::private;
use super::lock::Lock;
use crate::api::{Exit, Fault};

const RECORDS: &str = "rec";
const LOCK: &str = "lock";

/// The sizes that a folder may have at most; what is larger is not read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FolderLimits {
    /// Records that lie there, those that a crash left included.
    pub records: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Bytes of the index.
    pub index_bytes: usize,
}

/// What one step writes and deletes.
#[derive(Debug)]
pub(crate) struct FolderStep<'a> {
    /// New records by name, sealed. One of the same name holds the same bytes.
    pub put: &'a [(String, Vec<u8>)],
    /// The index after this step.
    pub index: &'a [u8],
    /// Names of records that no index names any more.
    pub drop: &'a [String],
}

/// A folder that this process has alone.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    index: PathBuf,
    limits: FolderLimits,
    _lock: Lock,
}

impl Folder {
    /// Makes the folders that are missing, checks those that are there, and takes the lock.
    ///
    /// # Errors
    /// 75 if another process has it, 77 for wrong owners or modes, 73 if the disk refuses.
    pub(crate) fn make(root: &Path, index: &str, limits: FolderLimits) -> Result<Self, Fault> {
        private::folder(root)?;
        private::folder(&root.join(RECORDS))?;
        Self::open(root, index, limits)
    }

    /// Takes a folder that is there, and deletes what a crash left half written.
    ///
    /// # Errors
    /// As [`Folder::make`]; 66 if there is none.
    pub(crate) fn open(root: &Path, index: &str, limits: FolderLimits) -> Result<Self, Fault> {
        private::check_folder(root)?;
        private::check_folder(&root.join(RECORDS))?;
        let what = root.display().to_string();
        let lock = Lock::take_of(&root.join(LOCK), &what, "wait until that ends, or stop it")?;
        let index = root.join(index);
        private::sweep(&index)?;
        Ok(Self { root: root.to_owned(), index, limits, _lock: lock })
    }

    /// The path of a file beside the index.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The bytes of the index.
    ///
    /// # Errors
    /// 66 if there is none, 65 if it is longer than the limit.
    pub(crate) fn index(&self) -> Result<Vec<u8>, Fault> {
        bounded(&self.index, self.limits.index_bytes)
    }

    /// All records by name. Files whose writing a crash interrupted are deleted.
    ///
    /// # Errors
    /// 65 for more or longer ones than the limits, 66 or 77 if one cannot be read.
    pub(crate) fn records(&self) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
        let folder = self.root.join(RECORDS);
        let cannot_read = |error| private::cannot_read(&folder, &error);
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(cannot_read)? {
            let path = entry.map_err(cannot_read)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if private::is_fresh(name) {
                remove(&path)?;
                continue;
            }
            if records.len() == self.limits.records {
                return Err(too_large(&folder));
            }
            records.insert(name.to_owned(), bounded(&path, self.limits.record_bytes)?);
        }
        Ok(records)
    }

    /// Carries a step out. After a failure the disk has the old or the new index; the same step, or
    /// a later one that includes it, may be tried again.
    ///
    /// # Errors
    /// 73 if the disk refuses.
    pub(crate) fn step(&self, step: &FolderStep<'_>) -> Result<(), Fault> {
        let folder = self.root.join(RECORDS);
        for (name, bytes) in step.put {
            private::put(&folder.join(name), bytes)?;
        }
        if !step.put.is_empty() {
            private::sync_folder(&folder)?;
        }
        private::replace(&self.index, step.index)?;
        step.drop.iter().try_for_each(|name| remove(&folder.join(name)))
    }

    /// Deletes the index and every record: what an attempt left that made no tree.
    ///
    /// # Errors
    /// 73 if the disk refuses.
    pub(crate) fn clear(&self) -> Result<(), Fault> {
        remove(&self.index)?;
        let folder = self.root.join(RECORDS);
        let entries =
            fs::read_dir(&folder).map_err(|error| private::cannot_read(&folder, &error))?;
        entries.flatten().try_for_each(|entry| remove(&entry.path()))
    }

    /// Overwrites the index, durably, and then deletes everything that this folder was made of, with
    /// the files `others` beside it.
    ///
    /// # Errors
    /// 73 if the disk refuses.
    pub(crate) fn wipe(self, others: &[&str]) -> Result<(), Fault> {
        if let Ok(found) = self.index.metadata() {
            let bytes = usize::try_from(found.len()).unwrap_or(0).min(self.limits.index_bytes);
            overwrite(&self.index, bytes)?;
        }
        self.clear()?;
        others.iter().try_for_each(|name| remove(&self.root.join(name)))?;
        remove(&self.root.join(LOCK))?;
        let gone =
            fs::remove_dir(self.root.join(RECORDS)).and_then(|()| fs::remove_dir(&self.root));
        gone.map_err(|error| private::cannot_write(&self.root, &error))
    }
}

/// Writes zeros over a file where it lies.
fn overwrite(path: &Path, bytes: usize) -> Result<(), Fault> {
    use std::io::Write as _;
    let mut file = private::open(path)?;
    let done = file.write_all(&vec![0; bytes]).and_then(|()| file.sync_all());
    done.map_err(|error| private::cannot_write(path, &error))
}

/// Deletes a file that may be gone already.
fn remove(path: &Path) -> Result<(), Fault> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(private::cannot_write(path, &error))
        }
        _ => Ok(()),
    }
}

/// A file of ours of at most `bytes_max` bytes.
fn bounded(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let bytes = private::read(path, bytes_max + 1)?;
    if bytes.len() > bytes_max { Err(too_large(path)) } else { Ok(bytes) }
}

fn too_large(path: &Path) -> Fault {
    let text = format!("{} holds more than this program ever writes", path.display());
    Fault::new(Exit::Malformed, text, "see who else writes there")
}

#[cfg(test)]
mod tests;
