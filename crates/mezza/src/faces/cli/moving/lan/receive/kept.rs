//! Files of moves that came over the network, in the folder of the vault.

use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use mezza_host::api::Fault;
use mezza_host::backup::MoveOffer;
use mezza_host::process::home::private;

/// Begins the names of these files.
const NAME: &str = "move-";
const WHOLE: &str = ".file";
const PART: &str = ".part";

/// Returns the path of the whole file of an offer.
pub(super) fn whole_path(folder: &Path, offer: &MoveOffer) -> PathBuf {
    // Two files with one name have one hash, so that a repeated file replaces itself.
    folder.join(format!("{NAME}{}{WHOLE}", HEXLOWER.encode(&offer.file_hash()[..16])))
}

/// Returns the path of the file that a connection is writing.
pub(super) fn part_path(folder: &Path, connection: u64) -> PathBuf {
    folder.join(format!("{NAME}{connection}{PART}"))
}

/// Returns the whole files of moves in a folder. One of them may be the only copy of an identity.
pub(super) fn whole_files(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let files = files_named(folder)?;
    Ok(files.into_iter().filter(|path| has_end(path, WHOLE)).collect())
}

/// Deletes parts of files that an earlier wait left. Returns the whole files, which stay.
pub(super) fn clear_parts(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    for part in files_named(folder)?.into_iter().filter(|path| has_end(path, PART)) {
        std::fs::remove_file(&part).map_err(|error| private::cannot_write(&part, &error))?;
    }
    whole_files(folder)
}

/// Deletes all files of moves, once the vault is made.
pub(in super::super::super) fn delete_files(folder: &Path) -> Result<(), Fault> {
    whole_files(folder)?.iter().try_for_each(|file| private::wipe(file))
}

fn files_named(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let cannot_read = |error: io::Error| private::cannot_read(folder, &error);
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(cannot_read)? {
        let entry = entry.map_err(cannot_read)?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(NAME)) {
            files.push(entry.path());
        }
    }
    Ok(files)
}

fn has_end(path: &Path, end: &str) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(end))
}
