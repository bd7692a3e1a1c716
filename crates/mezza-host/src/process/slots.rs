//! A small secret file that is overwritten in place: two slots of fixed size.
//!
//! ```text
//! slot    number u64 | length u32 | check[16] | bytes | zeros      a whole number of blocks
//! file    slot 0 | slot 1
//! ```
//!
//! Replacing a file leaves its old bytes in free blocks of the disk. Here the older slot is
//! overwritten and synced, then the other slot with the same bytes: afterwards no block of this
//! file holds its previous content. A crash at any point leaves one whole slot, and
//! [`SlotFile::open`] then finishes the step. Both slots get their blocks when the file is made, so
//! that overwriting needs no room on a full disk.
//!
//! A file system that never writes in place, and flash below it, may keep old copies anyway:
//! [`Overwriting::from_path`] reports what is known.
//!
//! A file of another size, or of an older form, is superseded: it gets a second name, `NAME.old`,
//! until its bytes are overwritten. After a crash [`finish_superseding`] continues.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use mezza_core::{Wiping, labelled_hash};
use nix::sys::statfs::{EXT4_SUPER_MAGIC, FsType, MSDOS_SUPER_MAGIC, TMPFS_MAGIC, statfs};

use super::home::private;
use crate::api::{Exit, Fault};

/// Slots begin at multiples of this size, so that no disk block belongs to two slots.
const BLOCK_BYTES: usize = 4_096;
/// Bytes before the content of a slot.
const HEAD_BYTES: usize = 8 + 4 + CHECK_BYTES;
const CHECK_BYTES: usize = 16;
const LABEL: &str = "mezza/slot";
/// The number of XFS (`linux/magic.h`), which the libraries do not name for musl.
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);

/// How a file system handles overwritten bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwriting {
    /// The file system is in memory.
    Memory,
    /// New bytes replace the old ones; the medium below may still keep copies.
    InPlace,
    /// The file system writes elsewhere, or is unknown: old bytes stay until their blocks are
    /// reused.
    Elsewhere,
}

impl Overwriting {
    /// Returns the kind of the file system of a path.
    pub fn from_path(path: &Path) -> Self {
        statfs(path).map_or(Self::Elsewhere, |found| Self::of_type(found.filesystem_type()))
    }

    /// Returns the name of the level in the documents: E0-, E0 or E2.
    pub fn level(self) -> &'static str {
        match self {
            Self::Memory => "E2",
            Self::InPlace => "E0",
            Self::Elsewhere => "E0-",
        }
    }

    /// Returns the meaning of the level for the user, about keys in this file system.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Memory => "the folder lies in memory: everything in it ends with the machine",
            Self::InPlace => {
                "erased keys are overwritten where they lie; a laboratory with the passphrase may find \
                 old copies of them in flash or in a journal"
            }
            Self::Elsewhere => {
                "this file system never writes in place, or nobody knows: whoever has the passphrase and \
                 the raw disk may read erased keys. A folder on ext4, XFS or in memory is better, and an \
                 encrypted disk"
            }
        }
    }

    /// Classifies the type number of `linux/magic.h`. An unlisted type counts as one that writes
    /// elsewhere, the weaker promise.
    fn of_type(kind: FsType) -> Self {
        match kind {
            TMPFS_MAGIC => Self::Memory,
            // One number for ext2, ext3 and ext4; the last one is FAT.
            EXT4_SUPER_MAGIC | XFS_SUPER_MAGIC | MSDOS_SUPER_MAGIC => Self::InPlace,
            _ => Self::Elsewhere,
        }
    }
}

/// The content of an intact slot.
struct Slot {
    number: u64,
    bytes: Wiping<Vec<u8>>,
}

/// A file of two slots.
#[derive(Debug)]
pub struct SlotFile {
    path: PathBuf,
    file: File,
    bytes_max: usize,
}

impl SlotFile {
    /// Makes a file that holds `bytes`, or replaces an existing one. Contents have at most
    /// `bytes_max` bytes.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub fn create(path: &Path, bytes_max: usize, bytes: &[u8]) -> Result<Self, Fault> {
        let slot = encode(1, bytes, slot_bytes(bytes_max))?;
        let both = Wiping::new([slot.as_slice(), slot.as_slice()].concat());
        private::replace(path, &both)?;
        Self::open(path, bytes_max)
    }

    /// Opens a file, and finishes an interrupted step.
    ///
    /// # Errors
    /// Exit code 66 if there is no file, 65 if no slot is intact, 73 if the disk refuses, 77 for a
    /// wrong owner or mode.
    pub fn open(path: &Path, bytes_max: usize) -> Result<Self, Fault> {
        private::check_file(path)?;
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|error| private::cannot_write(path, &error))?;
        Ok(Self { path: path.to_owned(), file, bytes_max })
    }

    /// Opens a file of two slots of any size. Returns `None` if the file has another form.
    ///
    /// # Errors
    /// Exit code 66 if there is no file, 73 if the disk refuses, 77 for a wrong owner or mode.
    pub fn open_any(path: &Path) -> Result<Option<Self>, Fault> {
        private::check_file(path)?;
        let found = path.symlink_metadata().map_err(|error| private::cannot_read(path, &error))?;
        content_bytes(found.len()).map(|bytes_max| Self::open(path, bytes_max)).transpose()
    }

    /// Replaces a file of another size or form by a file of two slots, and overwrites the old
    /// bytes; without an old file, makes it. A crash at any point leaves the old or the new content
    /// at `path`.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses: then `path` has the old or the new content.
    pub fn supersede(path: &Path, bytes_max: usize, bytes: &[u8]) -> Result<Self, Fault> {
        finish_superseding(path)?;
        private::sweep_leftover(path)?;
        if path.symlink_metadata().is_err() {
            return Self::create(path, bytes_max, bytes);
        }
        let refused = |error| private::cannot_write(path, &error);
        let old = private::open(path)?;
        let kept = kept_name(path);
        // Without hard links, a crash before the overwriting leaves the old bytes on the disk.
        let is_kept = fs::hard_link(path, &kept).is_ok();
        let made = Self::create(path, bytes_max, bytes)?;
        private::overwrite(&old).map_err(refused)?;
        if is_kept {
            fs::remove_file(&kept).map_err(refused)?;
        }
        Ok(made)
    }

    /// Returns true if a content of this size fits into a slot.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max
    }

    /// Returns true if a file of two slots has this length.
    pub fn is_slot_length(length: u64, bytes_max: usize) -> bool {
        length == 2 * slot_bytes(bytes_max) as u64
    }

    /// Returns the content.
    ///
    /// # Errors
    /// Exit code 65 if no slot is intact.
    pub fn read(&self) -> Result<Wiping<Vec<u8>>, Fault> {
        let [one, other] = self.read_slots()?;
        let newest = match (one, other) {
            (Some(one), Some(other)) if other.number > one.number => Some(other),
            (one, other) => one.or(other),
        };
        newest.map(|slot| slot.bytes).ok_or_else(|| {
            let text =
                format!("{} is damaged: none of its two copies is whole", self.path.display());
            Fault::new(Exit::Malformed, text, "restore nothing from backups; make it anew")
        })
    }

    /// Overwrites both slots with `bytes`, the older one first, each durably.
    ///
    /// After a failure the file holds the old or the new content; repeating the call completes it.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let slots = self.read_slots()?;
        let numbers = slots.each_ref().map(|slot| slot.as_ref().map_or(0, |slot| slot.number));
        let number = numbers[0].max(numbers[1]).saturating_add(1);
        let size = slot_bytes(self.bytes_max);
        let slot = encode(number, bytes, size)?;
        let refused = |error| private::cannot_write(&self.path, &error);
        let newest = usize::from(numbers[1] > numbers[0]);
        if let (true, Some(last)) = (numbers[0] != numbers[1], &slots[newest]) {
            // An earlier step failed. After a failed sync the system may show bytes that the disk
            // lacks, so make the newest slot durable before overwriting the other one.
            let same = encode(last.number, &last.bytes, size)?;
            self.overwrite_slot(newest, &same).map_err(refused)?;
        }
        // The newest intact slot stays until the other one is durable.
        let older = usize::from(numbers[0] > numbers[1]);
        for at in [older, 1 - older] {
            self.overwrite_slot(at, &slot).map_err(refused)?;
        }
        Ok(())
    }

    /// Finishes an interrupted step: both slots get the newest content.
    ///
    /// # Errors
    /// Exit code 65 if no slot is intact, 73 if the disk refuses.
    pub fn finish_step(&self) -> Result<(), Fault> {
        let [one, other] = self.read_slots()?.map(|slot| slot.map(|slot| slot.number));
        // Two equal intact slots need no work; with one damaged slot the content has no second
        // copy.
        if one.is_some() && one == other { Ok(()) } else { self.write(&self.read()?) }
    }

    /// Overwrites everything with zeros, durably.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub fn wipe(&self) -> Result<(), Fault> {
        let zeros = vec![0; slot_bytes(self.bytes_max)];
        let done = (0..2).try_for_each(|at| self.overwrite_slot(at, &zeros));
        done.map_err(|error| private::cannot_write(&self.path, &error))
    }

    fn overwrite_slot(&self, at: usize, slot: &[u8]) -> io::Result<()> {
        let offset = (at * slot_bytes(self.bytes_max)) as u64;
        private::write_at(&self.file, slot, offset)
    }

    /// Reads both slots; `None` for a damaged one.
    fn read_slots(&self) -> Result<[Option<Slot>; 2], Fault> {
        let size = slot_bytes(self.bytes_max);
        let read = |at: usize| {
            let mut bytes = Wiping::new(vec![0; size]);
            match self.file.read_exact_at(&mut bytes, (at * size) as u64) {
                Ok(()) => Ok(decode(&bytes)),
                // A truncated file lacks this slot.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(private::cannot_read(&self.path, &error)),
            }
        };
        Ok([read(0)?, read(1)?])
    }
}

/// Overwrites the bytes of an old file if the machine stopped while it was superseded; else does
/// nothing.
///
/// # Errors
/// Exit code 73 if the disk refuses.
pub fn finish_superseding(path: &Path) -> Result<(), Fault> {
    let kept = kept_name(path);
    let Ok(old) = kept.symlink_metadata() else { return Ok(()) };
    let Ok(now) = path.symlink_metadata() else {
        // The file is not a remainder of this program: without the main file it may be the only
        // copy.
        return Ok(());
    };
    let is_same = (old.dev(), old.ino()) == (now.dev(), now.ino());
    if is_same {
        // The new file never got the name.
        return fs::remove_file(&kept).map_err(|error| private::cannot_write(&kept, &error));
    }
    private::wipe(&kept)
}

/// Returns the second name of a file that is being superseded.
fn kept_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    PathBuf::from(name)
}

/// Returns the content size of a slot in the smallest file with room for `bytes`.
pub fn room_for(bytes: usize) -> usize {
    (HEAD_BYTES + bytes).next_power_of_two().max(BLOCK_BYTES) - HEAD_BYTES
}

/// Returns the longest content of a slot in a file of this length, or `None` if no file of slots
/// has this length.
pub fn content_bytes(length: u64) -> Option<usize> {
    let slot = usize::try_from(length).ok()? / 2;
    let is_whole = slot > 0 && slot.is_multiple_of(BLOCK_BYTES) && length == 2 * slot as u64;
    is_whole.then(|| slot - HEAD_BYTES)
}

/// Returns the content of the newest intact slot in the bytes of a file, or `None` if both are
/// damaged.
pub fn content_of(file: &[u8]) -> Option<Wiping<Vec<u8>>> {
    content_bytes(file.len() as u64)?;
    let (one, other) = file.split_at(file.len() / 2);
    let whole = [decode(one), decode(other)].into_iter().flatten();
    whole.max_by_key(|slot| slot.number).map(|slot| slot.bytes)
}

/// Returns the size of a slot whose content has at most `bytes_max` bytes.
fn slot_bytes(bytes_max: usize) -> usize {
    (HEAD_BYTES + bytes_max).next_multiple_of(BLOCK_BYTES)
}

fn encode(number: u64, bytes: &[u8], size: usize) -> Result<Wiping<Vec<u8>>, Fault> {
    let too_long = || Fault::bug("a slot is too small for its content");
    let length = u32::try_from(bytes.len()).map_err(|_| too_long())?;
    let mut slot = Wiping::new(Vec::with_capacity(size));
    slot.extend_from_slice(&number.to_be_bytes());
    slot.extend_from_slice(&length.to_be_bytes());
    slot.extend_from_slice(&compute_check(number, bytes));
    slot.extend_from_slice(bytes);
    if slot.len() > size {
        return Err(too_long());
    }
    slot.resize(size, 0);
    Ok(slot)
}

fn decode(slot: &[u8]) -> Option<Slot> {
    let (number, rest) = slot.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (stored, rest) = rest.split_first_chunk::<CHECK_BYTES>()?;
    let number = u64::from_be_bytes(*number);
    let length = u32::from_be_bytes(*length);
    let bytes = rest.get(..usize::try_from(length).ok()?)?;
    (number > 0 && compute_check(number, bytes) == *stored)
        .then(|| Slot { number, bytes: Wiping::new(bytes.to_vec()) })
}

/// Computes the check that detects torn writes, and only those: callers seal their contents.
fn compute_check(number: u64, bytes: &[u8]) -> [u8; CHECK_BYTES] {
    labelled_hash(LABEL, &[&number.to_be_bytes(), bytes])
}

#[cfg(test)]
mod tests;
