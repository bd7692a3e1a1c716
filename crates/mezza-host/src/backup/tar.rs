//! A POSIX tar (ustar, IEEE Std 1003.1) of regular files with fixed names.
//!
//! The reader accepts only headers that the writer makes. Links, paths, other kinds of entries and
//! extensions therefore need no rule of their own.

use super::damaged;
use crate::api::Fault;

/// Bytes of a block. A header is one block, and contents are filled up to whole blocks.
pub(super) const BLOCK_BYTES: usize = 512;
/// Two empty blocks end an archive.
pub(super) const END_BYTES: usize = 2 * BLOCK_BYTES;
/// The largest size that eleven octal digits hold.
const SIZE_MAX: u64 = (1 << 33) - 1;

/// The header of a file, with mode 0600 and no owner.
///
/// # Errors
/// A bug if the name is too long.
pub(super) fn write_header(name: &str, size: u64, made_s: u64) -> Result<[u8; BLOCK_BYTES], Fault> {
    let mut block = [0; BLOCK_BYTES];
    if name.len() > 99 || size > SIZE_MAX {
        return Err(Fault::bug("an entry of a backup has no header"));
    }
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{:011o}\0", made_s.min(SIZE_MAX)).as_bytes());
    // The checksum is computed over spaces in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// Reads the header of the file that must come next. Returns its size and its time in seconds.
///
/// # Errors
/// Exit code 65 if the block is not that header.
pub(super) fn read_header(block: &[u8; BLOCK_BYTES], name: &str) -> Result<EntryHeader, Fault> {
    let octal = |at: usize| {
        let digits = std::str::from_utf8(&block[at..at + 11]).ok()?;
        u64::from_str_radix(digits, 8).ok()
    };
    let header = octal(124).zip(octal(136)).map(|(size, made_s)| EntryHeader { size, made_s });
    let header = header.filter(|header| {
        write_header(name, header.size, header.made_s).is_ok_and(|own| own == *block)
    });
    header.ok_or_else(|| damaged(&format!("the entry {name} is missing, or is another one")))
}

/// Size and time of an entry.
#[derive(Clone, Copy)]
pub(super) struct EntryHeader {
    pub size: u64,
    pub made_s: u64,
}

/// Returns the number of zeros that follow a content of this size.
pub(super) fn fill_bytes(size: u64) -> usize {
    (BLOCK_BYTES - (size % BLOCK_BYTES as u64) as usize) % BLOCK_BYTES
}
