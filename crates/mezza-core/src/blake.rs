//! BLAKE2b (RFC 7693) with any digest length up to 64 bytes, a key and a personalisation.
//!
//! Key schedules hash blocks that are almost empty, and the compression dominates their cost. The
//! compression therefore has a second copy that skips the zero words after a short text.
#![expect(clippy::inline_always, reason = "rounds are unrolled over constant places in a block")]

use core::array;

/// Bytes of one compression block.
const BLOCK_BYTES: usize = 128;
/// Words of one compression block.
const WORDS: usize = BLOCK_BYTES / 8;
/// Words of a block that holds a key of 32 bytes, or a text no longer than that.
const SHORT_WORDS: usize = 4;

/// The initialization vector (RFC 7693, section 2.6).
const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// The message schedule (RFC 7693, section 2.7).
const SIGMA: [[usize; WORDS]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// Hashes the concatenation of `parts` into `out`, which has 1 to 64 bytes.
///
/// `key` has 0 to 64 bytes, `person` (the personalisation) 0 to 16, padded with zeros. There is no
/// salt.
///
/// # Panics
/// If a length is outside these limits. Callers pass constant lengths.
#[inline]
pub fn blake2b(out: &mut [u8], key: &[u8], person: &str, parts: &[&[u8]]) {
    let mut padded = [0; 16];
    padded[..person.len()].copy_from_slice(person.as_bytes());
    hash_parts(out, key, u128::from_le_bytes(padded), parts);
}

fn hash_parts(out: &mut [u8], key: &[u8], person: u128, parts: &[&[u8]]) {
    let mut state = State::new(out.len(), key.len(), person);
    let mut last_bytes = BLOCK_BYTES;
    state.fill_block(key);
    if key.is_empty() || parts.iter().any(|part| !part.is_empty()) {
        if !key.is_empty() {
            state.compress_block(BLOCK_BYTES, false);
        }
        for part in parts {
            state.absorb_part(part);
        }
        last_bytes = state.filled;
    }
    state.compress_block(last_bytes, true);
    state.write_digest(out);
}

struct State {
    h: [u64; 8],
    /// Bytes compressed so far.
    count: u64,
    /// Bytes not compressed yet, padded with zeros.
    block: [u8; BLOCK_BYTES],
    filled: usize,
}

impl State {
    /// Returns the first state: `IV` combined with the parameter block (RFC 7693, section 2.5).
    fn new(out_bytes: usize, key_bytes: usize, person: u128) -> Self {
        assert!(matches!(out_bytes, 1..=64) && key_bytes <= 64, "lengths of BLAKE2b");
        let mut h = IV;
        h[0] ^= 0x0101_0000 | (key_bytes as u64) << 8 | out_bytes as u64;
        h[6] ^= person as u64;
        h[7] ^= (person >> 64) as u64;
        Self { h, count: 0, block: [0; BLOCK_BYTES], filled: 0 }
    }

    /// Appends bytes that fit into the free part of the block.
    fn fill_block(&mut self, bytes: &[u8]) {
        self.block[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// Hashes any number of bytes. A full block waits for the next byte, because the last block is
    /// compressed with a different flag.
    fn absorb_part(&mut self, mut part: &[u8]) {
        while part.len() > BLOCK_BYTES - self.filled {
            let (now, rest) = part.split_at(BLOCK_BYTES - self.filled);
            if let Ok(block) = now.try_into() {
                self.count += BLOCK_BYTES as u64;
                compress_words::<WORDS>(&mut self.h, block, self.count, false);
            } else {
                self.fill_block(now);
                self.compress_block(BLOCK_BYTES, false);
            }
            part = rest;
        }
        self.fill_block(part);
    }

    /// Compresses the block, adds `bytes` to the byte count, and empties the block.
    fn compress_block(&mut self, bytes: usize, last: bool) {
        self.count += bytes as u64;
        if self.filled <= 8 * SHORT_WORDS {
            compress_words::<SHORT_WORDS>(&mut self.h, &self.block, self.count, last);
        } else {
            compress_words::<WORDS>(&mut self.h, &self.block, self.count, last);
        }
        self.block = [0; BLOCK_BYTES];
        self.filled = 0;
    }

    /// Writes the first `out.len()` bytes of the state to `out`.
    fn write_digest(&self, out: &mut [u8]) {
        let (words, rest) = out.as_chunks_mut();
        for (out, word) in words.iter_mut().zip(self.h) {
            *out = word.to_le_bytes();
        }
        if let Some(word) = self.h.get(words.len()) {
            rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.h = [0; 8];
        self.block = [0; BLOCK_BYTES];
        zeroize::optimization_barrier(self);
    }
}

/// Compresses a block whose words from `USED` on are zero (RFC 7693, section 3.2).
#[inline(never)]
fn compress_words<const USED: usize>(
    h: &mut [u64; 8],
    block: &[u8; BLOCK_BYTES],
    count: u64,
    last: bool,
) {
    let mut m = [0; WORDS];
    for (word, bytes) in m[..USED].iter_mut().zip(block.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let flag = if last { u64::MAX } else { 0 };
    let mut v = [
        [h[0], h[1], h[2], h[3]],
        [h[4], h[5], h[6], h[7]],
        [IV[0], IV[1], IV[2], IV[3]],
        [IV[4] ^ count, IV[5], IV[6] ^ flag, IV[7]],
    ];
    macro_rules! rounds {
        ($($r:literal)*) => { $(round(&mut v, &m, &SIGMA[$r]);)* };
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 0 1);
    for i in 0..4 {
        h[i] ^= v[0][i] ^ v[2][i];
        h[4 + i] ^= v[1][i] ^ v[3][i];
    }
}

/// Four state words that are mixed in parallel.
type Row = [u64; 4];

/// Mixes the columns of the state, then its diagonals (one round of RFC 7693, section 3.2).
#[inline(always)]
fn round(v: &mut [Row; 4], m: &[u64; WORDS], s: &[usize; WORDS]) {
    mix_half(v, [m[s[0]], m[s[2]], m[s[4]], m[s[6]]], 32, 24);
    mix_half(v, [m[s[1]], m[s[3]], m[s[5]], m[s[7]]], 16, 63);
    *v = [v[0], rotate_row(v[1], 1), rotate_row(v[2], 2), rotate_row(v[3], 3)];
    mix_half(v, [m[s[8]], m[s[10]], m[s[12]], m[s[14]]], 32, 24);
    mix_half(v, [m[s[9]], m[s[11]], m[s[13]], m[s[15]]], 16, 63);
    *v = [v[0], rotate_row(v[1], 3), rotate_row(v[2], 2), rotate_row(v[3], 1)];
}

/// Runs one half of the mixing function G (RFC 7693, section 3.1) on four columns or diagonals at
/// once.
#[inline(always)]
fn mix_half(v: &mut [Row; 4], m: Row, d_right: u32, b_right: u32) {
    v[0] = add_rows(add_rows(v[0], v[1]), m);
    v[3] = xor_rows(v[3], v[0]).map(|d| d.rotate_right(d_right));
    v[2] = add_rows(v[2], v[3]);
    v[1] = xor_rows(v[1], v[2]).map(|b| b.rotate_right(b_right));
}

#[inline(always)]
fn add_rows(a: Row, b: Row) -> Row {
    array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[inline(always)]
fn xor_rows(a: Row, b: Row) -> Row {
    array::from_fn(|i| a[i] ^ b[i])
}

#[inline(always)]
fn rotate_row(row: Row, places: usize) -> Row {
    array::from_fn(|i| row[(i + places) % 4])
}
