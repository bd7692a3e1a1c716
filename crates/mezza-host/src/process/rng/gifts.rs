//! Bytes of a guard in the generator of this program (guard.md, P5).
//!
//! ```text
//! gift:   key = H(old key | gift | 32 bytes of the system);  H(key) replaces the file
//! draw:   bytes of the system XOR stream(key);  key = H(key)
//! start:  key = H(file | 32 bytes of the system);  H(key) replaces the file before the first draw
//! ```
//!
//! The stream is added to the system's bytes and replaces none of them. A guard that sends chosen
//! bytes therefore changes nothing, and a system whose generator is broken draws bytes that
//! everyone but the guard cannot predict.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mezza_core::{Secret, labelled_hash};
use zeroize::Zeroizing;

use crate::process::home::private;

/// Bytes of the file, and at most those that are read of a damaged one.
const FILE_BYTES_MAX: usize = 4_096;
/// Bytes of one block of the stream.
const BLOCK_BYTES: usize = 32;

/// The state of this process.
static POOL: Mutex<Pool> = Mutex::new(Pool { key: None, file: None });
/// True once there is a key. Without one a draw takes no lock.
static HAS_KEY: AtomicBool = AtomicBool::new(false);

struct Pool {
    key: Option<Secret<32>>,
    file: Option<PathBuf>,
}

/// Hashes secret parts to 32 bytes.
fn hash_parts(label: &str, parts: &[&[u8]]) -> Secret<32> {
    Secret::init_with(|key| *key = labelled_hash(label, parts))
}

fn lock_pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Mixes a part and 32 bytes of the system into the key, and replaces the file.
    fn mix(&mut self, part: &[u8]) {
        let system = Secret::<32>::init_with(|bytes| {
            // A system without random numbers ends the program at its next draw.
            let _ = getrandom::fill(bytes);
        });
        let old = self.key.take();
        let old = old.as_ref().map_or(&[][..], |key| key.expose());
        let key = hash_parts("mezza/gift key", &[old, part, system.expose()]);
        if let Some(file) = &self.file {
            // The file never holds a key that a draw uses, so a thief of it learns no draw.
            let stored = hash_parts("mezza/gift file", &[key.expose()]);
            if let Err(fault) = private::replace(file, stored.expose()) {
                tracing::warn!(target: "mezza", "the generator keeps the guard's bytes in memory only: {fault}");
            }
        }
        self.key = Some(hash_parts("mezza/gift run", &[key.expose()]));
        HAS_KEY.store(true, Ordering::Release);
    }

    fn add_stream(&mut self, bytes: &mut [u8]) {
        let Some(key) = self.key.take() else { return };
        for (at, chunk) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
            let number = (at as u64).to_be_bytes();
            let block = hash_parts("mezza/gift block", &[key.expose(), &number]);
            for (byte, added) in chunk.iter_mut().zip(block.expose()) {
                *byte ^= added;
            }
        }
        // A later thief of the memory cannot compute this stream.
        self.key = Some(hash_parts("mezza/gift next", &[key.expose()]));
    }
}

/// Adds the stream to bytes of the system, if a guard has sent bytes.
pub(super) fn add_stream(bytes: &mut [u8]) {
    if HAS_KEY.load(Ordering::Acquire) {
        lock_pool().add_stream(bytes);
    }
}

/// Mixes 32 bytes of a guard into all later draws of this process.
pub fn mix_gift(gift: &Secret<32>) {
    lock_pool().mix(gift.expose());
}

/// Keeps the bytes of guards in this file. If it exists, its bytes take part from now on, and the
/// file is replaced first. A file that cannot be read or written leaves the system's generator as it
/// is.
pub fn keep_gifts(file: &Path) {
    let mut pool = lock_pool();
    pool.file = Some(file.to_path_buf());
    if !file.exists() {
        return;
    }
    match private::read(file, FILE_BYTES_MAX) {
        Ok(bytes) => {
            let bytes = Zeroizing::new(bytes);
            pool.mix(&bytes);
        }
        Err(fault) => {
            tracing::warn!(target: "mezza", "the generator starts without the guard's bytes: {fault}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(file: Option<PathBuf>) -> Pool {
        Pool { key: Some(Secret::init_with(|key| key.fill(7))), file }
    }

    #[test]
    fn guard_58_the_stream_is_added_and_never_repeats() {
        let mut pool = pool(None);
        let mut draws = Vec::new();
        for bytes in [1, 31, 32, 33, 100] {
            let mut drawn = vec![0; bytes];
            pool.add_stream(&mut drawn);
            draws.push(drawn);
        }
        assert!(draws[3][..32] != draws[4][..32] && draws[4][..32] != draws[4][32..64]);
        // Bytes of the system stay in the sum: another system draws other bytes.
        let [mut zeros, mut ones] = [[0_u8; 40], [0xff_u8; 40]];
        Pool { key: Some(Secret::init_with(|key| key.fill(9))), file: None }.add_stream(&mut zeros);
        Pool { key: Some(Secret::init_with(|key| key.fill(9))), file: None }.add_stream(&mut ones);
        assert!(zeros.iter().zip(ones).all(|(zero, one)| *zero == !one));
    }

    #[test]
    fn guard_58_the_file_is_replaced_before_the_first_draw_and_with_each_gift() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("generator");
        let mut first = pool(Some(file.clone()));
        first.mix(&[1; 32]);
        let stored = std::fs::read(&file).unwrap();
        assert_eq!(stored.len(), 32);
        assert_ne!(first.key.as_ref().unwrap().expose()[..], stored[..]);
        first.mix(&[1; 32]);
        let again = std::fs::read(&file).unwrap();
        assert_ne!(stored, again, "the system's bytes differ");
        // A start mixes the file and replaces it.
        let mut next = Pool { key: None, file: Some(file.clone()) };
        next.mix(&again);
        assert_ne!(std::fs::read(&file).unwrap(), again);
        // Without a folder the bytes stay in memory.
        let mut lost = pool(Some(folder.path().join("none/generator")));
        lost.mix(&[2; 32]);
        let mut drawn = [0; 8];
        lost.add_stream(&mut drawn);
        assert_ne!(drawn, [0; 8]);
    }
}
