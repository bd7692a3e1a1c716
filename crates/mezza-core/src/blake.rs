//! BLAKE2b (RFC 7693) with any digest length up to 64 bytes, a key and a personalisation.

use blake2::Blake2bVarCore;
use blake2::digest::array::Array;
use blake2::digest::block_api::{UpdateCore, VariableOutputCore};
use blake2::digest::block_buffer::LazyBuffer;
use blake2::digest::consts::{U64, U128};

use crate::wiping::wipe;

/// Bytes of one compression block.
const BLOCK_BYTES: usize = 128;

/// Hashes `parts`, one behind the other, into the 1 to 64 bytes of `out`.
///
/// `key` has 0 to 64 bytes, `person` 0 to 16 (padded with zeros); there is no salt.
///
/// # Panics
/// If a length is outside these limits, which are constants of the caller.
pub fn blake2b(out: &mut [u8], key: &[u8], person: &str, parts: &[&[u8]]) {
    let mut core = Blake2bVarCore::new_with_params(&[], person.as_bytes(), key.len(), out.len());
    let mut buffer = LazyBuffer::<U128>::default();
    if !key.is_empty() {
        let mut block = [0; BLOCK_BYTES];
        block[..key.len()].copy_from_slice(key);
        buffer.digest_blocks(&block, |blocks| core.update_blocks(blocks));
        wipe(&mut block);
    }
    for part in parts {
        buffer.digest_blocks(part, |blocks| core.update_blocks(blocks));
    }
    let mut full = Array::<u8, U64>::default();
    core.finalize_variable_core(&mut buffer, &mut full);
    out.copy_from_slice(&full[..out.len()]);
    wipe(&mut full);
}
