//! The time of one fdatasync, the unit of waiting for the disk.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::clock::to_ns;

/// A database page.
pub const PAGE: [u8; 4_096] = [0x5a; 4_096];

/// Commits that fit into a log before it starts over, as in the logs of vault and relay.
const COMMITS: usize = 256;

/// Samples of a page written and synced directly after another, ms. The disk of a virtual machine
/// takes several times as long after a pause: see [`SyncedLog`].
#[derive(Default)]
pub struct Syncs {
    /// Writes to a growing file, like a log in its first pass.
    pub growing: Vec<f64>,
    /// Writes to a file of constant size, like a log later on.
    pub steady: Vec<f64>,
}

impl Syncs {
    /// Takes `n` more samples of each kind on the disk of `folder`.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn take_samples(&mut self, folder: &Path, n: usize) -> Result<()> {
        let path = folder.join("syncs");
        let mut file = File::create(&path)?;
        for _ in 0..n {
            self.growing.push(write_page(&mut file)?);
        }
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
        for _ in 0..n {
            self.steady.push(write_page(&mut file)?);
        }
        drop(file);
        Ok(std::fs::remove_file(path)?)
    }
}

/// A log preallocated with zeros, so that a sync waits only for its own bytes.
pub struct SyncedLog {
    file: File,
    /// Pages of one commit.
    pages: usize,
    commits: usize,
}

impl SyncedLog {
    /// Preallocates a log for commits of `pages` pages.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn fill_log(path: &Path, pages: usize) -> io::Result<Self> {
        let mut file = File::create(path)?;
        for _ in 0..COMMITS * pages {
            file.write_all(&[0; PAGE.len()])?;
        }
        file.sync_all()?;
        Ok(Self { file, pages, commits: 0 })
    }

    /// Writes the pages of one commit and waits until they are on the disk.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn commit_pages(&mut self) -> io::Result<()> {
        if self.commits.is_multiple_of(COMMITS) {
            self.file.seek(SeekFrom::Start(0))?;
        }
        self.commits += 1;
        for _ in 0..self.pages {
            self.file.write_all(&PAGE)?;
        }
        self.file.sync_data()
    }
}

fn write_page(file: &mut File) -> Result<f64> {
    let began = Instant::now();
    file.write_all(&PAGE)?;
    file.sync_data()?;
    Ok(to_ns(began.elapsed()) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_add_up_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut syncs = Syncs::default();
        syncs.take_samples(folder.path(), 2).unwrap();
        syncs.take_samples(folder.path(), 1).unwrap();
        assert_eq!((syncs.growing.len(), syncs.steady.len()), (3, 3));
        assert!(syncs.growing.iter().all(|ms| *ms > 0.0));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
