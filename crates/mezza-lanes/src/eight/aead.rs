//! ChaCha20-Poly1305, sixteen messages in step.

use super::chacha20::{Blocks, Keys, key_stream, keys, xor};
use super::poly1305::{Key, absorb, blocks, finish, key, split};
use crate::Strided;
use crate::lanes::{BLOCK, LANES, Lanes, WORDS, Words};
use crate::poly1305::BLOCK_BYTES;
use crate::portable::keep_if;
use crate::wipe::wipe;
use subtle::ConstantTimeEq;

/// Encrypts every body and writes its tag. Lengths were compared before.
#[inline(always)]
pub fn seal<L: Lanes + Words>(l: L, all: &[[u8; 32]], mut m: Strided<'_>) {
    let mut rows = Rows([[0; BLOCK]; WORDS]);
    for (group, all) in all.chunks(WORDS).enumerate() {
        let first = group * WORDS;
        let (keys, once) = begin(l, all, &mut rows);
        stream(l, &keys, &mut rows, &mut m, first);
        let tags = tags(l, &once, &m, first);
        for ((_, out), tag) in m.messages_from(first).zip(tags) {
            *out = tag.to_le_bytes();
        }
    }
}

/// Decrypts every body with a right tag, leaves zeros in place of the others.
#[inline(always)]
pub fn open<L: Lanes + Words>(l: L, all: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
    let mut rows = Rows([[0; BLOCK]; WORDS]);
    for (group, (all, ok)) in all.chunks(WORDS).zip(ok.chunks_mut(WORDS)).enumerate() {
        let first = group * WORDS;
        let (keys, once) = begin(l, all, &mut rows);
        let tags = tags(l, &once, &m, first);
        for (((_, tag), right), ok) in m.messages_from(first).zip(tags).zip(&mut *ok) {
            let differ = u128::from_le_bytes(*tag) ^ right;
            *ok = ((differ >> 64) as u64 | differ as u64).ct_eq(&0).unwrap_u8();
        }
        stream(l, &keys, &mut rows, &mut m, first);
        for ((body, _), ok) in m.messages_from(first).zip(ok) {
            keep_if(*ok, body);
        }
    }
}

/// Key stream, wiped when all messages are done.
struct Rows(Blocks);

impl Drop for Rows {
    fn drop(&mut self) {
        wipe(self.0.as_flattened_mut());
    }
}

/// Up to sixteen keys side by side, and what block 0 of each is for.
#[inline(always)]
fn begin<L: Lanes + Words>(
    l: L,
    all: &[[u8; 32]],
    rows: &mut Rows,
) -> (Keys<L>, [Key<L::V>; 2]) {
    let keys = keys(l, all);
    key_stream(l, &keys, 0, &mut rows.0);
    let [r0, r1, s0, s1, ..] = l.columns(rows.0.as_flattened(), &SIDE_BY_SIDE[0]);
    let low = key(l, [r0, r1, s0, s1]);
    let [r0, r1, s0, s1, ..] = l.columns(rows.0.as_flattened(), &SIDE_BY_SIDE[1]);
    (keys, [low, key(l, [r0, r1, s0, s1])])
}

/// Xors the key stream from block 1 on into up to sixteen bodies.
#[inline(always)]
fn stream<L: Words>(l: L, keys: &Keys<L>, rows: &mut Rows, m: &mut Strided<'_>, first: usize) {
    for (at, counter) in (0..m.body_bytes()).step_by(BLOCK).zip(1..) {
        key_stream(l, keys, counter, &mut rows.0);
        for ((body, _), row) in m.messages_from(first).zip(&rows.0) {
            let end = body.len().min(at + BLOCK);
            xor(l, &mut body[at..end], row);
        }
    }
}

/// The right tags of up to sixteen bodies as they are now, encrypted.
#[inline(always)]
fn tags<L: Lanes>(l: L, keys: &[Key<L::V>; 2], m: &Strided<'_>, first: usize) -> [u128; WORDS] {
    let mut starts = [[0; LANES]; 2];
    for (i, start) in starts.as_flattened_mut().iter_mut().enumerate() {
        *start = m.start(first + i);
    }
    let (whole, rest) = (m.body_bytes() / STEP, m.body_bytes() % STEP);
    let mut h = [[l.splat(0); 3]; 2];
    for bytes in (0..whole).map(|i| &m.bytes()[STEP * i..]) {
        h = four(l, h, bytes, &starts, 4, keys);
    }
    if rest > 0 {
        let last = last_bytes(m, first, rest);
        h = four(l, h, last.as_flattened(), &SIDE_BY_SIDE, rest.div_ceil(BLOCK_BYTES), keys);
    }
    let lengths = split(l, l.splat(0), l.splat(m.body_bytes() as u64));
    let mut tags = [0; WORDS];
    for half in 0..2 {
        let h = absorb(l, h[half], lengths, &keys[half]);
        let [low, high] = finish(l, h, &keys[half]);
        let words = l.store(low).into_iter().zip(l.store(high));
        for (tag, (low, high)) in tags[half * LANES..].iter_mut().zip(words) {
            *tag = u128::from(low) | u128::from(high) << 64;
        }
    }
    tags
}

/// Bytes of four blocks.
const STEP: usize = 4 * BLOCK_BYTES;
/// Where sixteen such steps in a row begin.
const SIDE_BY_SIDE: [[usize; LANES]; 2] = {
    let mut starts = [[0; LANES]; 2];
    let mut i = 0;
    while i < WORDS {
        starts[i / LANES][i % LANES] = STEP * i;
        i += 1;
    }
    starts
};

/// The first `count` of four blocks into each half: two sums that do not wait for each other.
#[inline(always)]
fn four<L: Lanes>(
    l: L,
    mut h: [[L::V; 3]; 2],
    bytes: &[u8],
    starts: &[[usize; LANES]; 2],
    count: usize,
    keys: &[Key<L::V>; 2],
) -> [[L::V; 3]; 2] {
    let halves = [blocks(l, bytes, &starts[0]), blocks(l, bytes, &starts[1])];
    for (low, high) in halves[0].into_iter().zip(halves[1]).take(count) {
        h = [absorb(l, h[0], low, &keys[0]), absorb(l, h[1], high, &keys[1])];
    }
    h
}

/// The last `rest` bytes of up to sixteen bodies, filled up with zeros.
fn last_bytes(m: &Strided<'_>, first: usize, rest: usize) -> [[u8; STEP]; WORDS] {
    let mut last = [[0; STEP]; WORDS];
    for (i, last) in last.iter_mut().enumerate() {
        let end = m.start(first + i) + m.body_bytes();
        last[..rest].copy_from_slice(&m.bytes()[end - rest..end]);
    }
    last
}
