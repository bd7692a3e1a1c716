//! ChaCha20-Poly1305 for sixteen messages at a time.

use super::chacha20::{Blocks, ChaCha20Keys, ChaCha20State, load_keys, xor_block};
use super::poly1305::{
    Poly1305Keys, absorb_block, finish_tags, load_blocks, load_key, split_block,
};
use crate::Strided;
use crate::lanes::{BLOCK, LANES, Lanes, Lanes32, WORDS};
use crate::poly1305::BLOCK_BYTES;
use crate::portable::zero_unless;
use crate::wipe::wipe_bytes;
use subtle::ConstantTimeEq;

/// Encrypts every body and writes its tag. The caller has checked the lengths.
#[inline(always)]
pub fn seal_all<L: Lanes + Lanes32>(l: L, all: &[[u8; 32]], mut m: Strided<'_>) {
    let mut rows = Rows([[0; BLOCK]; WORDS]);
    for (group, all) in all.chunks(WORDS).enumerate() {
        let (keys, mut sums) = derive_keys(l, all, &mut rows);
        let places = Places::new(&m, group * WORDS);
        // Ciphertext goes into the tag one step after it was made, while the next blocks are
        // computed.
        let mut ready = None;
        for (i, counter) in (0..step_count(&m)).zip(1..) {
            fill_rows(l, ChaCha20State::new(l, &keys, counter), &mut rows, &mut sums, ready);
            places.xor_step(l, &mut m, i, &rows);
            ready = Some(places.read_step(l, &m, i));
        }
        if let Some(text) = ready {
            (0..text.count).for_each(|i| sums.absorb_text(l, &text, i));
        }
        let tags = sums.compute_tags(l, m.body_bytes());
        for ((_, out), tag) in m.messages_from(places.first).zip(tags) {
            *out = tag.to_le_bytes();
        }
    }
}

/// Decrypts every body with a correct tag, and zeroes the others.
#[inline(always)]
pub fn open_all<L: Lanes + Lanes32>(l: L, all: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
    let mut rows = Rows([[0; BLOCK]; WORDS]);
    for (group, (all, ok)) in all.chunks(WORDS).zip(ok.chunks_mut(WORDS)).enumerate() {
        let (keys, mut sums) = derive_keys(l, all, &mut rows);
        let places = Places::new(&m, group * WORDS);
        for (i, counter) in (0..step_count(&m)).zip(1..) {
            let text = places.read_step(l, &m, i);
            fill_rows(l, ChaCha20State::new(l, &keys, counter), &mut rows, &mut sums, Some(text));
            places.xor_step(l, &mut m, i, &rows);
        }
        let tags = sums.compute_tags(l, m.body_bytes());
        for (((body, tag), right), ok) in m.messages_from(places.first).zip(tags).zip(ok) {
            let differ = u128::from_le_bytes(*tag) ^ right;
            *ok = ((differ >> 64) as u64 | differ as u64).ct_eq(&0).unwrap_u8();
            zero_unless(*ok, body);
        }
    }
}

/// The key stream, wiped when all messages are done.
struct Rows(Blocks);

impl Drop for Rows {
    fn drop(&mut self) {
        wipe_bytes(self.0.as_flattened_mut());
    }
}

/// Loads up to sixteen keys, and derives the Poly1305 keys from block 0 of each.
#[inline(always)]
fn derive_keys<L: Lanes + Lanes32>(
    l: L,
    all: &[[u8; 32]],
    rows: &mut Rows,
) -> (ChaCha20Keys<L>, Sums<L>) {
    let keys = load_keys(l, all);
    let mut state = ChaCha20State::new(l, &keys, 0);
    for _ in 0..ChaCha20State::<L>::ROUNDS {
        state.double_round(l);
    }
    state.write_blocks(l, &mut rows.0);
    let [r0, r1, s0, s1, ..] = l.load_columns(rows.0.as_flattened(), &SIDE_BY_SIDE[0]);
    let low = load_key(l, [r0, r1, s0, s1]);
    let [r0, r1, s0, s1, ..] = l.load_columns(rows.0.as_flattened(), &SIDE_BY_SIDE[1]);
    (keys, Sums { h: [[l.splat(0); 3]; 2], keys: [low, load_key(l, [r0, r1, s0, s1])] })
}

/// Computes blocks of key stream and absorbs text into the tags. The rounds depend on each other;
/// the work on tags fills their gaps, so that both together take little longer than the rounds
/// alone.
#[inline(always)]
fn fill_rows<L: Lanes + Lanes32>(
    l: L,
    mut state: ChaCha20State<L>,
    rows: &mut Rows,
    sums: &mut Sums<L>,
    text: Option<Text<L::V>>,
) {
    if let Some(text) = text {
        for i in 0..text.count {
            state.double_round(l);
            sums.absorb_text(l, &text, i);
        }
        for _ in text.count..ChaCha20State::<L>::ROUNDS {
            state.double_round(l);
        }
    } else {
        for _ in 0..ChaCha20State::<L>::ROUNDS {
            state.double_round(l);
        }
    }
    state.write_blocks(l, &mut rows.0);
}

/// Up to four blocks of each of sixteen bodies, as limbs.
struct Text<V> {
    halves: [[[V; 3]; 4]; 2],
    count: usize,
}

/// The Poly1305 states of sixteen bodies, in two halves.
struct Sums<L: Lanes> {
    h: [[L::V; 3]; 2],
    keys: [Poly1305Keys<L::V>; 2],
}

impl<L: Lanes> Sums<L> {
    /// Absorbs block `i` of a text; the two halves are independent of each other.
    #[inline(always)]
    fn absorb_text(&mut self, l: L, text: &Text<L::V>, i: usize) {
        for half in 0..2 {
            self.h[half] = absorb_block(l, self.h[half], text.halves[half][i], &self.keys[half]);
        }
    }

    /// Returns the correct tags of bodies of `body_bytes` bytes.
    #[inline(always)]
    fn compute_tags(&self, l: L, body_bytes: usize) -> [u128; WORDS] {
        let lengths = split_block(l, l.splat(0), l.splat(body_bytes as u64));
        let mut tags = [0; WORDS];
        for half in 0..2 {
            let h = absorb_block(l, self.h[half], lengths, &self.keys[half]);
            let [low, high] = finish_tags(l, h, &self.keys[half]);
            let words = l.store(low).into_iter().zip(l.store(high));
            for (tag, (low, high)) in tags[half * LANES..].iter_mut().zip(words) {
                *tag = u128::from(low) | u128::from(high) << 64;
            }
        }
        tags
    }
}

/// Bytes of four blocks.
const STEP: usize = 4 * BLOCK_BYTES;
/// Offsets of sixteen consecutive steps.
const SIDE_BY_SIDE: [[usize; LANES]; 2] = {
    let mut starts = [[0; LANES]; 2];
    let mut i = 0;
    while i < WORDS {
        starts[i / LANES][i % LANES] = STEP * i;
        i += 1;
    }
    starts
};

/// Returns the number of steps of 64 bytes; the last may be shorter.
fn step_count(m: &Strided<'_>) -> usize {
    m.body_bytes().div_ceil(STEP)
}

/// Offsets of up to sixteen bodies, from body number `first` on.
struct Places {
    first: usize,
    starts: [[usize; LANES]; 2],
}

impl Places {
    fn new(m: &Strided<'_>, first: usize) -> Self {
        let mut starts = [[0; LANES]; 2];
        for (i, start) in starts.as_flattened_mut().iter_mut().enumerate() {
            *start = m.body_start(first + i);
        }
        Self { first, starts }
    }

    /// Reads step `i` of the bodies, padded with zeros at the end.
    #[inline(always)]
    fn read_step<L: Lanes>(&self, l: L, m: &Strided<'_>, i: usize) -> Text<L::V> {
        let from = STEP * i;
        let left = m.body_bytes() - STEP * i;
        let halves = if left >= STEP {
            let bytes = &m.all_bytes()[from..];
            [load_blocks(l, bytes, &self.starts[0]), load_blocks(l, bytes, &self.starts[1])]
        } else {
            let last = self.last_bytes(m, from);
            let bytes = last.as_flattened();
            [load_blocks(l, bytes, &SIDE_BY_SIDE[0]), load_blocks(l, bytes, &SIDE_BY_SIDE[1])]
        };
        Text { halves, count: left.min(STEP).div_ceil(BLOCK_BYTES) }
    }

    /// Returns the last bytes of the bodies, padded with zeros.
    fn last_bytes(&self, m: &Strided<'_>, from: usize) -> [[u8; STEP]; WORDS] {
        let mut last = [[0; STEP]; WORDS];
        for (last, start) in last.iter_mut().zip(self.starts.as_flattened()) {
            let bytes = &m.all_bytes()[start + from..start + m.body_bytes()];
            last[..bytes.len()].copy_from_slice(bytes);
        }
        last
    }

    /// Xors key stream into step `i` of the bodies.
    #[inline(always)]
    fn xor_step<L: Lanes32>(&self, l: L, m: &mut Strided<'_>, i: usize, rows: &Rows) {
        for ((body, _), row) in m.messages_from(self.first).zip(&rows.0) {
            let end = body.len().min(STEP * (i + 1));
            xor_block(l, &mut body[STEP * i..end], row);
        }
    }
}
