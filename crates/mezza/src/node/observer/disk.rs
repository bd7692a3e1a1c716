//! The small files of the vault as a thief would read them, without any key.
//!
//! Databases are not among them. On POSIX systems a process that closes any descriptor of a file
//! releases all its locks on that file. The next program to open the database would then take it
//! for abandoned and delete the log that another connection writes (MSG-61). Rows of a database are
//! reported by its open connection:
//! [`Observer::record_disk_row`](super::Observer::record_disk_row).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::BYTES_MAX;
use super::fields::{FieldCursor, make_field};
use mezza_host::api::json::ObserverField;
use mezza_host::process::slots;

/// A file and its state at the last check.
struct WatchedFile {
    path: PathBuf,
    state: Option<(u64, SystemTime)>,
}

/// The watched files.
pub(super) struct Disk(Vec<WatchedFile>);

/// The length of a file, the shown part, and the names of its bytes.
pub(super) type DiskView = (usize, Vec<u8>, Vec<ObserverField>);

impl Disk {
    /// Makes the list of watched files; they need not exist yet. None may be a database.
    pub(super) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().map(|path| WatchedFile { path, state: None }).collect())
    }

    /// Returns the files that have changed.
    pub(super) fn take_changed(&mut self) -> Vec<DiskView> {
        self.0.iter_mut().filter_map(WatchedFile::take_changed).collect()
    }
}

impl WatchedFile {
    fn take_changed(&mut self) -> Option<DiskView> {
        let file = File::open(&self.path).ok()?;
        let metadata = file.metadata().ok()?;
        let state = (metadata.len(), metadata.modified().ok()?);
        if state.0 == 0 || self.state.replace(state) == Some(state) {
            return None;
        }
        let mut head = Vec::new();
        file.take(BYTES_MAX as u64).read_to_end(&mut head).ok()?;
        let mut fields = vec![make_field("file", short_path(&self.path))];
        fields.extend(name_parts(&self.path, state.0, &head));
        Some((state.0 as usize, head, fields))
    }
}

/// Returns file and folder name, which distinguish vault and relay.
fn short_path(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// Names the bytes of files in our own layout (vault 1.3), `length` bytes in all.
fn name_parts(path: &Path, length: u64, head: &[u8]) -> Vec<ObserverField> {
    let mut cut = FieldCursor { bytes: head, at: 0, fields: Vec::new() };
    if slots::content_bytes(length).is_some() {
        cut.push_number("slot: number", 8);
        cut.push_number("slot: length", 4);
        cut.push_bytes("slot: checksum", 16);
    }
    match path.file_name().and_then(|name| name.to_str()) {
        Some("head") => {
            cut.push_named("magic", 8, "MZVAULT1");
            cut.push_number("Argon2id memory, KiB", 4);
            cut.push_number("Argon2id passes", 4);
            cut.push_number("Argon2id lanes", 4);
            cut.push_bytes("salt", 16);
            cut.push_bytes("slot A: nonce", 24);
            cut.push_named("slot A: sealed", 49, "encrypted under the passphrase");
            cut.push_bytes("slot B: nonce", 24);
            cut.push_named("slot B: sealed or random", 49, "nobody can tell");
        }
        Some("keyring") => {
            cut.push_number("generation", 8);
            cut.push_bytes("nonce", 24);
            let rest = head.len().saturating_sub(cut.at);
            cut.push_named("sealed bucket keys", rest, "encrypted");
        }
        _ => cut.push_rest("bytes"),
    }
    cut.fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shows_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring");
        let mut disk = Disk::new([path.clone(), folder.path().join("none")]);
        assert!(disk.take_changed().is_empty());
        std::fs::write(&path, [7; 100]).unwrap();
        let seen = disk.take_changed();
        assert_eq!((seen.len(), seen[0].0), (1, 100));
        assert!(seen[0].2.iter().any(|field| field.name == "generation"));
        assert!(disk.take_changed().is_empty());
        std::fs::write(&path, [7; 101]).unwrap();
        assert_eq!(disk.take_changed().len(), 1);
        // Two slots: the sealed part begins after the header of the first slot.
        std::fs::write(&path, vec![7; 8_192]).unwrap();
        let seen = disk.take_changed().remove(0);
        let generation = seen.2.iter().find(|field| field.name == "generation").unwrap();
        assert_eq!((seen.0, generation.offset), (8_192, 28));
    }
}
