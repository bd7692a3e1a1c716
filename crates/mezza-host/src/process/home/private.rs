//! Private files: made with their mode, and checked before use.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt as _, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use nix::unistd::{AccessFlags, access, geteuid};

use crate::api::{Exit, Fault};
#[cfg(any(test, feature = "failing-writes"))]
use crate::process::home::failing::{self, WriteStep};

/// The mode of every folder.
const FOLDER_MODE: u32 = 0o700;
/// The mode of every file.
const FILE_MODE: u32 = 0o600;
/// The mode of a file that other users may read, before the umask.
const SHARED_MODE: u32 = 0o666;
/// The compared bits; other bits such as set-group-id are inherited from the parent folder.
const MODE_MASK: u32 = 0o777;
/// The suffix of a file that [`replace`] is writing.
const FRESH: &str = ".new";

/// Makes a folder of mode 0700 with its parents, or checks an existing one.
pub fn make_folder(path: &Path) -> Result<(), Fault> {
    if path.symlink_metadata().is_err() {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(path)
            .and_then(|()| sync_parent(path))
            .map_err(|error| cannot_write(path, &error))?;
    }
    check_folder(path)
}

/// Refuses a folder with another owner or mode than 0700 (exit code 77).
pub(crate) fn check_folder(path: &Path) -> Result<(), Fault> {
    check_mode(path, FOLDER_MODE, Metadata::is_dir, "a folder")
}

/// Refuses a file with another owner or mode than 0600 (exit code 77).
pub(crate) fn check_file(path: &Path) -> Result<(), Fault> {
    check_mode(path, FILE_MODE, Metadata::is_file, "a regular file")
}

/// Returns true if `folder` is ours with mode 0700 and writable; false if it is missing and could
/// be made.
///
/// # Errors
/// Exit code 73 if the folder cannot be written or made, 77 for a wrong owner or mode.
pub fn check_writable(folder: &Path) -> Result<bool, Fault> {
    let may = AccessFlags::W_OK | AccessFlags::X_OK;
    let is_there = folder.symlink_metadata().is_ok();
    if is_there {
        check_folder(folder)?;
    }
    let nearest = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
    let nearest = nearest.unwrap_or(Path::new("/"));
    let refused = if nearest.is_dir() {
        access(nearest, may).err().map(io::Error::from)
    } else {
        Some(io::Error::from(ErrorKind::NotADirectory))
    };
    // A kernel file system like `/proc` reports write permission, but refuses writes.
    let of_kernel = statfs(nearest).is_ok_and(|found| found.filesystem_type() == PROC_SUPER_MAGIC);
    let of_kernel = of_kernel.then(|| io::Error::from(ErrorKind::ReadOnlyFilesystem));
    refused.or(of_kernel).map_or(Ok(is_there), |error| Err(cannot_write(folder, &error)))
}

/// Refuses a file that another user except root may write (exit code 77); others may read it.
pub fn check_not_planted(path: &Path) -> Result<(), Fault> {
    let found = fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if found.mode() & 0o022 != 0 {
        return Err(wrong_mode(path, found.mode(), FILE_MODE));
    }
    // Root can change everything that this program reads, so files of root are as trusted as our
    // own.
    if found.uid() == 0 { Ok(()) } else { check_owner(path, &found) }
}

/// Refuses a file that another user may read or write (exit code 77). A file that is not regular,
/// such as a pipe, passes: its mode protects nothing.
pub fn check_unread(path: &Path) -> Result<(), Fault> {
    let found = fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if found.is_file() && found.mode() & 0o077 != 0 {
        return Err(wrong_mode(path, found.mode(), FILE_MODE));
    }
    Ok(())
}

/// Opens a file for reading and writing. A missing file is made with mode 0600, an existing one
/// checked.
pub(crate) fn open(path: &Path) -> Result<File, Fault> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|error| cannot_write(path, &error))?;
    check_file(path)?;
    Ok(file)
}

/// Makes an empty file with mode 0600; the file must not exist.
pub(crate) fn make(path: &Path) -> Result<(), Fault> {
    let made = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    made.map(drop).map_err(|error| cannot_write(path, &error))
}

/// Writes a new file of mode 0600 durably. Returns false and changes nothing if a file exists.
///
/// # Errors
/// Exit code 73 if the disk refuses; no file is left then.
pub fn create(path: &Path, bytes: &[u8]) -> Result<bool, Fault> {
    let made = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    let mut file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(cannot_write(path, &error)),
    };
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.and_then(|()| sync_parent(path)).map_err(|error| {
        let _ = fs::remove_file(path);
        cannot_write(path, &error)
    })?;
    Ok(true)
}

/// Reads the first `bytes_max` bytes of a checked file, or all of it if it is shorter.
pub fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    check_file(path)?;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(bytes_max as u64).read_to_end(&mut bytes))
        .map_err(|error| cannot_read(path, &error))?;
    Ok(bytes)
}

/// Replaces the content of a file atomically: after a crash at any instant the file holds the old
/// or the new bytes, and the new ones once this returns.
///
/// 1. write a second file, 2. sync it, 3. rename it, 4. sync the folder.
///
/// 1. write a second file, 2. sync it, 3. rename it, 4. sync the folder.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    replace_as(path, bytes, FILE_MODE)
}

/// Replaces a file that others may read, in the steps of [`replace`]: an existing file keeps its
/// mode, a new one gets the default mode.
pub fn replace_shared(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let mode = fs::metadata(path).map_or(SHARED_MODE, |found| found.mode() & MODE_MASK);
    replace_as(path, bytes, mode)
}

fn replace_as(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Fault> {
    let fresh = fresh_name(path);
    write_synced(&fresh, bytes, mode)
        .and_then(|()| rename(&fresh, path))
        .and_then(|()| sync_parent(path))
        .map_err(|error| cannot_write(path, &error))
}

/// Overwrites bytes of a file in place, and syncs them.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Write).inspect_err(|_| {
        // A torn write: half of the bytes are on the disk.
        drop(file.write_all_at(&bytes[..bytes.len() / 2], offset));
    })?;
    file.write_all_at(bytes, offset)?;
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Sync)?;
    file.sync_data()
}

/// The first three steps of [`replace`]: durable once [`sync_folder`] of its folder returns.
pub(crate) fn put_file(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let fresh = fresh_name(path);
    let written = write_synced(&fresh, bytes, FILE_MODE).and_then(|()| rename(&fresh, path));
    written.map_err(|error| cannot_write(path, &error))
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<(), Fault> {
    sync_parent(&folder.join(FRESH)).map_err(|error| cannot_write(folder, &error))
}

/// Returns true if a crash has left a file of this name unfinished.
pub(crate) fn is_fresh(name: &str) -> bool {
    name.ends_with(FRESH)
}

/// Overwrites and deletes the second file that a crash in [`replace`] left.
pub fn sweep_leftover(path: &Path) -> Result<(), Fault> {
    wipe(&fresh_name(path))
}

/// Overwrites the bytes of a file in place, durably, and deletes the file. A missing file is no
/// error. A link is deleted; its target is left alone.
///
/// # Errors
/// Exit code 73 if the disk refuses.
pub fn wipe(path: &Path) -> Result<(), Fault> {
    let wiped = match path.symlink_metadata() {
        Ok(found) if found.is_file() => {
            let file = OpenOptions::new().write(true).open(path);
            file.and_then(|file| overwrite(&file)).and_then(|()| fs::remove_file(path))
        }
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match wiped {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot_write(path, &error)),
        _ => Ok(()),
    }
}

/// Writes zeros over all bytes of a file, and syncs them.
pub(crate) fn overwrite(file: &File) -> io::Result<()> {
    const PIECE_BYTES: usize = 16 << 10;
    let length = file.metadata()?.len();
    let zeros = [0; PIECE_BYTES];
    let mut at = 0;
    while at < length {
        let piece = usize::try_from(length - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        file.write_all_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Sync)?;
    file.sync_data()
}

fn fresh_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(FRESH);
    PathBuf::from(name)
}

fn write_synced(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Clear)?;
    // Remove the remainder of a crash first, or its mode would stay.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Create)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    #[cfg(any(test, feature = "failing-writes"))]
    failing::at_write(&mut file, bytes)?;
    file.write_all(bytes)?;
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Sync)?;
    file.sync_all()
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Rename)?;
    fs::rename(from, to)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::Enter)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = File::open(parent.unwrap_or(Path::new(".")))?;
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::SyncFolder)?;
    parent.sync_all()
}

fn check_mode(
    path: &Path,
    mode: u32,
    right: fn(&Metadata) -> bool,
    what: &str,
) -> Result<(), Fault> {
    // Links are not followed: another user who placed one would choose the file that we write.
    let found = path.symlink_metadata().map_err(|error| cannot_read(path, &error))?;
    if !right(&found) {
        return Err(Fault::new(
            Exit::Denied,
            format!("{} is not {what}", path.display()),
            "move it away and run the command again",
        ));
    }
    check_owner(path, &found)?;
    if found.mode() & MODE_MASK == mode {
        Ok(())
    } else {
        Err(wrong_mode(path, found.mode(), mode))
    }
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), Fault> {
    if found.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(Fault::new(
        Exit::Denied,
        format!("{} belongs to another user (number {})", path.display(), found.uid()),
        "run the program as that user, or choose another folder with `--home DIR`",
    ))
}

fn wrong_mode(path: &Path, found: u32, mode: u32) -> Fault {
    Fault::new(
        Exit::Denied,
        format!("{} has mode {:04o} instead of {mode:04o}", path.display(), found & MODE_MASK),
        format!("see who could get at it, then run `chmod {mode:o} {}`", path.display()),
    )
}

/// Returns the fault for a file or folder that cannot be read.
pub fn cannot_read(path: &Path, error: &io::Error) -> Fault {
    let (code, next) = match error.kind() {
        ErrorKind::NotFound => (Exit::NotFound, "check the name"),
        ErrorKind::PermissionDenied => (Exit::Denied, "check its owner and mode"),
        _ => (Exit::NotFound, "check the disk"),
    };
    Fault::new(code, format!("{} cannot be read: {error}", path.display()), next)
}

/// Returns the fault for a file or folder that cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Fault {
    let next = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on the disk",
        ErrorKind::PermissionDenied => "check the owner and mode of its folder",
        _ => "check the disk and its mount options",
    };
    Fault::new(Exit::CannotWrite, format!("{} cannot be written: {error}", path.display()), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::home::failing::Failing;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn failed_replacement_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let mode = || fs::metadata(&path).unwrap().mode() & MODE_MASK;
        fs::write(&path, b"with two signatures").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        for step in [
            WriteStep::Clear,
            WriteStep::Create,
            WriteStep::Write,
            WriteStep::Sync,
            WriteStep::Rename,
        ] {
            let _failing = Failing::after(0, step, step.errors()[0]);
            for replace in [replace, replace_shared] {
                assert_eq!(replace(&path, b"with three").unwrap_err().code, Exit::CannotWrite);
                assert_eq!(fs::read(&path).unwrap(), b"with two signatures", "{step:?}");
            }
        }
        // The new bytes are in the file, but a crash may lose its new name, so the failure is
        // reported.
        for step in [WriteStep::Enter, WriteStep::SyncFolder] {
            let _failing = Failing::after(0, step, step.errors()[0]);
            assert_eq!(replace(&path, b"with two signatures").unwrap_err().code, Exit::CannotWrite);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace_shared(&path, b"with three").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode()), (&b"with three"[..], 0o644));
        replace(&path, b"for nobody else").unwrap();
        assert_eq!(mode(), FILE_MODE);
    }

    #[test]
    fn a_name_that_cannot_be_cleared_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        assert!(sweep_leftover(&path).is_ok(), "nothing is there");
        fs::write(&path, b"old").unwrap();
        fs::create_dir(folder.path().join("config.new")).unwrap();
        assert_eq!(sweep_leftover(&path).unwrap_err().code, Exit::CannotWrite);
        assert_eq!(replace(&path, b"new").unwrap_err().code, Exit::CannotWrite);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn the_folder_of_a_bare_name_is_the_one_we_are_in() {
        assert!(sync_parent(Path::new("Cargo.toml")).is_ok());
        assert!(sync_parent(Path::new("no/such/folder/file")).is_err());
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut path = folder.path().join("file");
        File::create(&path).unwrap();
        assert!(check_owner(&path, &fs::metadata(&path).unwrap()).is_ok());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        } else {
            path = "/".into();
        }
        let fault = check_owner(&path, &fs::metadata(&path).unwrap()).unwrap_err();
        assert_eq!(fault.code, Exit::Denied);
    }

    #[test]
    fn vault_7_a_file_with_a_secret_is_open_to_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        File::create(&path).unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            (check_unread(&path), check_not_planted(&path))
        };
        for mode in [0o600, 0o400, 0o700] {
            let (unread, not_planted) = with_mode(mode);
            assert!(unread.is_ok() && not_planted.is_ok(), "{mode:o}");
        }
        for bit in [0o040, 0o020, 0o010, 0o004, 0o002, 0o001] {
            let (unread, not_planted) = with_mode(0o600 | bit);
            assert_eq!(unread.unwrap_err().code, Exit::Denied, "{bit:o}");
            // A file that others may only read passes the check for planted files.
            assert_eq!(not_planted.is_err(), bit & 0o022 != 0, "{bit:o}");
        }
        assert!(check_unread(folder.path()).is_ok(), "a mode protects no folder and no pipe");
    }

    #[test]
    fn node_21_a_folder_that_cannot_be_written_or_made_is_told() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("state/mezza");
        assert_eq!(check_writable(&folder), Ok(false));
        super::make_folder(&folder).unwrap();
        assert_eq!(check_writable(&folder), Ok(true));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(check_writable(&folder).unwrap_err().code, Exit::Denied);
        File::create(root.path().join("file")).unwrap();
        for nowhere in [root.path().join("file/mezza"), "/proc/nowhere/mezza".into()] {
            let fault = check_writable(&nowhere).unwrap_err();
            assert_eq!(fault.code, Exit::CannotWrite, "{fault}");
        }
    }

    #[test]
    fn vault_16_what_is_wiped_holds_zeros_before_its_name_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, vec![7; 100_000]).unwrap();
        let held = File::open(&path).unwrap();
        wipe(&path).unwrap();
        let mut all = Vec::new();
        (&held).read_to_end(&mut all).unwrap();
        assert!(!path.exists() && all.len() == 100_000 && all.iter().all(|byte| *byte == 0));
        assert!(wipe(&path).is_ok(), "nothing is there");
        // The target of a link belongs to its owner.
        let other = folder.path().join("other");
        fs::write(&other, b"mine").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        wipe(&path).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"mine");
    }

    #[test]
    fn each_cause_has_its_next_step() {
        let text = |fault: Fault| fault.to_string();
        let read = |kind: ErrorKind| cannot_read(Path::new("x"), &kind.into());
        let write = |kind: ErrorKind| text(cannot_write(Path::new("x"), &kind.into()));
        assert_eq!(read(ErrorKind::PermissionDenied).code, Exit::Denied);
        assert!(text(read(ErrorKind::NotFound)).contains("check the name"));
        assert!(text(read(ErrorKind::Other)).contains("check the disk"));
        for full in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            assert!(write(full).contains("make room on the disk"));
        }
        assert!(write(ErrorKind::PermissionDenied).contains("owner and mode of its folder"));
        assert!(write(ErrorKind::Other).contains("mount options"));
    }
}
