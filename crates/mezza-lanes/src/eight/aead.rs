//! ChaCha20-Poly1305, sixteen messages in step.

use super::chacha20::{Blocks, Keys, blocks, keys, xor};
use super::poly1305::{absorb, block, key, split};
use crate::Strided;
use crate::lanes::{LANES, Lanes, WORDS, Words};
use crate::poly1305::{BLOCK_BYTES, OneTimeKey, padded};
use crate::portable::keep_if;
use crate::wipe::wipe;
use subtle::ConstantTimeEq;

/// Encrypts every body and writes its tag. Lengths were compared before.
#[inline(always)]
pub fn seal<L: Lanes + Words>(l: L, all: &[[u8; 32]], mut m: Strided<'_>) {
    for (group, all) in all.chunks(WORDS).enumerate() {
        let first = group * WORDS;
        let (keys, once) = begin(l, all);
        stream(l, &keys, &mut m, first);
        let tags = tags(l, &once, &m, first);
        for ((_, out), tag) in m.messages_from(first).zip(tags) {
            *out = tag;
        }
    }
}

/// Decrypts every body with a right tag, leaves zeros in place of the others.
#[inline(always)]
pub fn open<L: Lanes + Words>(l: L, all: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
    for (group, (all, ok)) in all.chunks(WORDS).zip(ok.chunks_mut(WORDS)).enumerate() {
        let first = group * WORDS;
        let (keys, once) = begin(l, all);
        let tags = tags(l, &once, &m, first);
        for (((_, tag), right), ok) in m.messages_from(first).zip(tags).zip(&mut *ok) {
            *ok = tag.ct_eq(&right).unwrap_u8();
        }
        stream(l, &keys, &mut m, first);
        for ((body, _), ok) in m.messages_from(first).zip(ok) {
            keep_if(*ok, body);
        }
    }
}

/// Up to sixteen keys side by side, and what block 0 of each is for.
#[inline(always)]
fn begin<L: Words>(l: L, all: &[[u8; 32]]) -> (Keys<L>, [OneTimeKey; WORDS]) {
    let mut padded = [[0; 32]; WORDS];
    padded[..all.len()].copy_from_slice(all);
    let keys = keys(l, &padded);
    wipe(padded.as_flattened_mut());
    let mut rows = [[0; WORDS]; WORDS];
    blocks(l, &keys, 0, &mut rows);
    let once = rows.each_ref().map(one_time_key);
    wipe_blocks(&mut rows);
    (keys, once)
}

/// Xors the key stream from block 1 on into up to sixteen bodies.
#[inline(always)]
fn stream<L: Words>(l: L, keys: &Keys<L>, m: &mut Strided<'_>, first: usize) {
    let mut rows = [[0; WORDS]; WORDS];
    for (at, counter) in (0..m.body_bytes()).step_by(64).zip(1..) {
        blocks(l, keys, counter, &mut rows);
        for ((body, _), row) in m.messages_from(first).zip(&rows) {
            let end = body.len().min(at + 64);
            xor(&mut body[at..end], row);
        }
    }
    wipe_blocks(&mut rows);
}

/// The right tags of up to sixteen bodies as they are now, encrypted.
#[inline(always)]
fn tags<L: Lanes>(
    l: L,
    once: &[OneTimeKey; WORDS],
    m: &Strided<'_>,
    first: usize,
) -> [[u8; BLOCK_BYTES]; WORDS] {
    let mut starts = [[0; LANES]; 2];
    for (i, start) in starts.as_flattened_mut().iter_mut().enumerate() {
        *start = m.start(first + i);
    }
    let (whole, rest) = (m.body_bytes() / BLOCK_BYTES, m.body_bytes() % BLOCK_BYTES);
    let keys = [key(l, &once[..LANES]), key(l, &once[LANES..])];
    let mut h = [[l.splat(0); 3]; 2];
    for bytes in (0..whole).map(|i| &m.bytes()[BLOCK_BYTES * i..]) {
        for half in 0..2 {
            h[half] = absorb(l, h[half], block(l, bytes, &starts[half]), &keys[half]);
        }
    }
    if rest > 0 {
        for half in 0..2 {
            let last = last_blocks(m, &starts[half], rest);
            h[half] = absorb(l, h[half], block(l, last.as_flattened(), &SIDE_BY_SIDE), &keys[half]);
        }
    }
    let lengths = split(l, l.splat(0), l.splat(m.body_bytes() as u64));
    let mut tags = [[0; BLOCK_BYTES]; WORDS];
    for half in 0..2 {
        let [h0, h1, h2] = absorb(l, h[half], lengths, &keys[half]);
        let limbs = [l.store(h0), l.store(h1), l.store(h2)];
        let places = half * LANES..(half + 1) * LANES;
        for (lane, (tag, once)) in tags[places.clone()].iter_mut().zip(&once[places]).enumerate() {
            *tag = once.finish([limbs[0][lane], limbs[1][lane], limbs[2][lane]]);
        }
    }
    tags
}

/// Places of eight blocks in a row.
const SIDE_BY_SIDE: [usize; LANES] = [0, 16, 32, 48, 64, 80, 96, 112];

/// The last `rest` bytes of eight bodies, filled up with zeros.
fn last_blocks(
    m: &Strided<'_>,
    starts: &[usize; LANES],
    rest: usize,
) -> [[u8; BLOCK_BYTES]; LANES] {
    let mut last = [[0; BLOCK_BYTES]; LANES];
    for (last, start) in last.iter_mut().zip(starts) {
        let end = start + m.body_bytes();
        *last = padded(&m.bytes()[end - rest..end]);
    }
    last
}

/// From the first half of a row of key block 0.
fn one_time_key(row: &[u32; WORDS]) -> OneTimeKey {
    let quarter = |words: &[u32]| words.iter().rev().fold(0, |x, w| x << 32 | u128::from(*w));
    OneTimeKey::new(quarter(&row[..4]), quarter(&row[4..8]))
}

fn wipe_blocks(rows: &mut Blocks) {
    *rows = [[0; WORDS]; WORDS];
    zeroize::optimization_barrier(rows);
}
