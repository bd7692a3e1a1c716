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
    let once = rows.each_ref().map(|row| {
        let quarter =
            |i: usize| row[i..i + 4].iter().rev().fold(0, |x, w| x << 32 | u128::from(*w));
        OneTimeKey::new(quarter(0), quarter(4))
    });
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
    let halves = [0, LANES];
    let starts = halves.map(|half| core::array::from_fn(|lane| m.start(first + half + lane)));
    let keys = halves.map(|half| key(l, &once[half..]));
    let mut h = [[l.splat(0); 3]; 2];
    let (whole, rest) = (m.body_bytes() / BLOCK_BYTES, m.body_bytes() % BLOCK_BYTES);
    for at in (0..whole).map(|i| i * BLOCK_BYTES) {
        for half in 0..2 {
            let m = block(l, m.bytes(), &starts[half].map(|start: usize| start + at));
            h[half] = absorb(l, h[half], m, &keys[half]);
        }
    }
    let lengths = split(l, l.splat(0), l.splat(m.body_bytes() as u64));
    for half in 0..2 {
        if rest > 0 {
            let last = core::array::from_fn::<_, LANES, _>(|lane| {
                let end = starts[half][lane] + m.body_bytes();
                padded(&m.bytes()[end - rest..end])
            });
            let m = block(l, last.as_flattened(), &core::array::from_fn(|i| i * BLOCK_BYTES));
            h[half] = absorb(l, h[half], m, &keys[half]);
        }
        h[half] = absorb(l, h[half], lengths, &keys[half]);
    }
    let limbs = h.map(|h| h.map(|limb| l.store(limb)));
    core::array::from_fn(|i| {
        let [h0, h1, h2] = limbs[i / LANES];
        let lane = i % LANES;
        once[i].finish([h0[lane], h1[lane], h2[lane]])
    })
}

fn wipe_blocks(rows: &mut Blocks) {
    *rows = [[0; WORDS]; WORDS];
    zeroize::optimization_barrier(rows);
}
