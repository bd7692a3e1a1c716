//! The payload of age v1 (STREAM): chunks of 64 KiB, each sealed under its number.
//!
//! ```text
//! nonce[16] | chunk .. | last chunk        chunk = up to 64 KiB and a tag of 16 bytes
//! nonce of a chunk: number u88 | 1 for the last one, 0 else
//! ```

use std::io::{BufRead, Read, Write};

use mezza_core::{AeadKey, CryptoRng, Wiping};

use super::age::{BackupKey, payload_key};
use super::{FILE_BYTES_MAX, damaged};
use crate::api::{Exit, Fault};
use crate::backend::AwsLcChacha;

/// Bytes of a chunk before it is sealed.
const CHUNK_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 16;

/// The nonce of a chunk.
fn chunk_nonce(number: u64, is_last: bool) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&number.to_be_bytes());
    nonce[11] = u8::from(is_last);
    nonce
}

/// Seals what is written to it.
pub(super) struct ChunkWriter<W: Write> {
    out: W,
    key: AwsLcChacha,
    number: u64,
    chunk: Wiping<Vec<u8>>,
}

impl<W: Write> ChunkWriter<W> {
    /// Writes the header and the nonce of the payload.
    pub(super) fn begin(
        mut out: W,
        key: &BackupKey,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        out.write_all(&key.header).and_then(|()| out.write_all(&nonce)).map_err(cannot_write)?;
        let key = AwsLcChacha::new(payload_key(&key.key, &nonce).expose());
        let chunk = Wiping::new(Vec::with_capacity(CHUNK_BYTES + TAG_BYTES));
        Ok(Self { out, key, number: 0, chunk })
    }

    /// Appends bytes to the payload.
    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            // A full chunk is sealed when the next byte comes, because the last chunk is sealed
            // differently.
            if self.chunk.len() == CHUNK_BYTES {
                self.seal_chunk(false)?;
            }
            let room = (CHUNK_BYTES - self.chunk.len()).min(bytes.len());
            self.chunk.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
        }
        Ok(())
    }

    /// Seals the last chunk. Returns the writer.
    pub(super) fn finish(mut self) -> Result<W, Fault> {
        self.seal_chunk(true)?;
        Ok(self.out)
    }

    fn seal_chunk(&mut self, is_last: bool) -> Result<(), Fault> {
        let nonce = chunk_nonce(self.number, is_last);
        let tag = self.key.seal(&nonce, &[], &mut self.chunk);
        self.chunk.extend_from_slice(&tag);
        self.out.write_all(&self.chunk).map_err(cannot_write)?;
        self.chunk.clear();
        self.number += 1;
        Ok(())
    }
}

/// Opens a payload chunk by chunk. No byte is returned before the tag of its chunk was checked.
pub(super) struct ChunkReader<R: BufRead> {
    input: R,
    key: AwsLcChacha,
    number: u64,
    chunk: Wiping<Vec<u8>>,
    /// Number of bytes of the chunk that were returned.
    taken: usize,
    /// True if the chunk is the last one.
    is_last: bool,
    /// Bytes of the payload so far.
    bytes: u64,
}

impl<R: BufRead> ChunkReader<R> {
    /// Begins to read after the header.
    pub(super) fn begin(mut input: R, key: &BackupKey) -> Result<Self, Fault> {
        let mut nonce = [0; NONCE_BYTES];
        input.read_exact(&mut nonce).map_err(cannot_read)?;
        let key = AwsLcChacha::new(payload_key(&key.key, &nonce).expose());
        let chunk = Wiping::new(Vec::with_capacity(CHUNK_BYTES + TAG_BYTES));
        let mut reader = Self { input, key, number: 0, chunk, taken: 0, is_last: false, bytes: 0 };
        reader.open_chunk()?;
        Ok(reader)
    }

    /// Fills a buffer with the next bytes.
    ///
    /// # Errors
    /// Exit code 65 if the payload ends too early, or a chunk does not open.
    pub(super) fn take(&mut self, mut bytes: &mut [u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            if self.taken == self.chunk.len() {
                if self.is_last {
                    return Err(damaged("it ends too early"));
                }
                self.open_chunk()?;
            }
            let count = (self.chunk.len() - self.taken).min(bytes.len());
            let (now, later) = bytes.split_at_mut(count);
            now.copy_from_slice(&self.chunk[self.taken..self.taken + count]);
            self.taken += count;
            bytes = later;
        }
        Ok(())
    }

    /// Returns true if nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_last && self.taken == self.chunk.len()
    }

    fn open_chunk(&mut self) -> Result<(), Fault> {
        self.chunk.clear();
        let most = (CHUNK_BYTES + TAG_BYTES) as u64;
        let read = Read::take(&mut self.input, most).read_to_end(&mut self.chunk);
        read.map_err(cannot_read)?;
        self.bytes += self.chunk.len() as u64;
        if self.bytes > FILE_BYTES_MAX {
            return Err(damaged("it is longer than 4 GiB"));
        }
        self.is_last = self.input.fill_buf().map_err(cannot_read)?.is_empty();
        let Some(length) = self.chunk.len().checked_sub(TAG_BYTES) else {
            return Err(damaged("a part is missing at its end"));
        };
        // A last chunk without content would be a second form of the same payload.
        if length == 0 && self.number > 0 {
            return Err(damaged("a part is empty"));
        }
        let nonce = chunk_nonce(self.number, self.is_last);
        let (text, tag) = self.chunk.split_at_mut(length);
        let opened = <&[u8; TAG_BYTES]>::try_from(&*tag)
            .is_ok_and(|tag| self.key.open(&nonce, &[], text, tag));
        if !opened {
            return Err(damaged("a part of it was changed, or is missing"));
        }
        self.chunk.truncate(length);
        self.number += 1;
        self.taken = 0;
        Ok(())
    }
}

/// Returns the fault for a disk that refuses a write.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn cannot_write(error: std::io::Error) -> Fault {
    let text = format!("the backup cannot be written: {error}");
    Fault::new(Exit::CannotWrite, text, "make room, or choose another disk")
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn cannot_read(error: std::io::Error) -> Fault {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return damaged("it ends too early");
    }
    let text = format!("the backup cannot be read: {error}");
    Fault::new(Exit::NotFound, text, "check the disk, or try another copy of the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// age v1, section "Payload": a counter of 11 bytes, big-endian, and a byte that marks the last chunk.
    #[test]
    fn backup_8_each_chunk_has_a_nonce_of_its_own() {
        assert_eq!(chunk_nonce(0, false), [0; 12]);
        assert_eq!(chunk_nonce(0x0102, false), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0]);
        assert_eq!(chunk_nonce(1, true), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
    }
}
