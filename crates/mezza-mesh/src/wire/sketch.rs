//! Sketches of a set of cells: two sketches, subtracted, show the difference of the sets at a cost
//! that depends on the difference only (rateless IBLT: Yang, Gilad, Alizadeh, SIGCOMM 2024).
//!
//! A sketch is a sequence of symbols without end. Each cell is in symbol 0 and in further symbols
//! with falling density: symbol i holds it with probability 2 / (i + 2). A symbol is the XOR of
//! its veiled ids, the XOR of their checks, and their number. A symbol of the difference that holds one id
//! shows that id, which then leaves all its other symbols.
//!
//! Both the check and the symbols of a cell depend on a nonce that is drawn after the set is known,
//! so no neighbour can prepare ids that make a sketch useless (MESH-87).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use mezza_core::{DecodeError, Reader, Writer};

use crate::cell::CellId;

/// Bytes of a symbol.
pub const SYMBOL_BYTES: usize = 22;
/// Maximum number of symbols of a frame: they fit into 1,200 bytes with the MAC of a closed network.
pub const SYMBOLS_PER_FRAME: usize = 53;
/// Maximum number of symbols of a sketch. They show a difference of about 1,200 cells.
pub const SYMBOLS_MAX: usize = 32 * SYMBOLS_PER_FRAME;
/// Maximum number of slices of a set.
pub const SLICES_MAX: u8 = 128;

/// The part of a set that a sketch describes, and the nonce that orders it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchKey {
    /// Random number, drawn after the set is known.
    pub nonce: u64,
    /// The number of the slice.
    pub slice: u8,
    /// The number of slices, a power of two.
    pub slices: u8,
}

impl SketchKey {
    /// Returns the keyed hash of a veiled id: it selects slice, check and symbols of the cell.
    fn hash_id(&self, veiled: u128) -> u64 {
        hash_words(self.nonce, [(veiled >> 64) as u64, veiled as u64])
    }

    /// Returns another number for an id under each nonce, so that sums of the same cells do not
    /// link two names of a device (MESH-30). This hides nothing from a device that knows the ids.
    fn veil(&self, id: &CellId) -> u128 {
        let id = u128::from_be_bytes(*id);
        let upper = (id >> 64) as u64;
        let lower = id as u64;
        let upper = upper ^ mix_word(lower ^ self.nonce);
        let lower = lower ^ mix_word(upper ^ self.nonce.rotate_left(32));
        u128::from(upper) << 64 | u128::from(lower)
    }

    fn unveil(&self, veiled: u128) -> CellId {
        let upper = (veiled >> 64) as u64;
        let lower = veiled as u64;
        let lower = lower ^ mix_word(upper ^ self.nonce.rotate_left(32));
        let upper = upper ^ mix_word(lower ^ self.nonce);
        (u128::from(upper) << 64 | u128::from(lower)).to_be_bytes()
    }

    fn has_hash(&self, hash: u64) -> bool {
        (hash >> 56) as u8 & (self.slices - 1) == self.slice
    }

    /// Returns true if a cell belongs to the slice.
    pub fn covers(&self, id: &CellId) -> bool {
        self.slices == 1 || self.has_hash(self.hash_id(self.veil(id)))
    }

    pub(super) fn encode(self, w: &mut Writer) {
        w.put_u64(self.nonce).put_u8(self.slice).put_u8(self.slices);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let key = Self { nonce: r.read_u64()?, slice: r.read_u8()?, slices: r.read_u8()? };
        let fits =
            key.slices.is_power_of_two() && key.slices <= SLICES_MAX && key.slice < key.slices;
        if fits { Ok(key) } else { Err(DecodeError::Value) }
    }
}

/// SipHash-2-4 of two words (Aumasson, Bernstein, 2012). The key is the nonce and a constant. A PRF
/// is enough: ids are fixed before the nonce is drawn.
fn hash_words(nonce: u64, words: [u64; 2]) -> u64 {
    /// The second half of the key: "mezzsync".
    const DOMAIN: u64 = 0x6d65_7a7a_7379_6e63;
    let mut v = [
        nonce ^ 0x736f_6d65_7073_6575,
        DOMAIN ^ 0x646f_7261_6e64_6f6d,
        nonce ^ 0x6c79_6765_6e65_7261,
        DOMAIN ^ 0x7465_6462_7974_6573,
    ];
    // SipHash reads little-endian words and ends with the length in the upper byte.
    for word in [words[0], words[1], 16 << 56] {
        v[3] ^= word;
        mix_rounds(&mut v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    mix_rounds(&mut v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// Mixes the bits of a word (the finalizer of `SplitMix64`).
fn mix_word(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn mix_rounds(v: &mut [u64; 4], rounds: u32) {
    for _ in 0..rounds {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
}

/// Returns the symbols below `end` that hold a cell, in order, the first being 0.
fn symbols_of(hash: u64, end: usize) -> impl Iterator<Item = usize> {
    let mut state = hash;
    let mut next = Some(0_u64);
    core::iter::from_fn(move || {
        let this = next.filter(|at| *at < end as u64)?;
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // With u uniform in (0, 1), the step (i + 3/2) * (1 / sqrt(u) - 1) gives the density
        // 2 / (i + 2). Integers alone: every device must compute the same symbols.
        let root = state.isqrt().max(1);
        let step = ((2 * this + 3) * ((1 << 32) - root)).div_ceil(2 * root);
        next = Some(this + step.max(1));
        Some(this as usize)
    })
}

/// One symbol of a sketch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SketchSymbol {
    /// XOR of the veiled ids.
    pub sum: u128,
    /// XOR of the lower 32 bits of the hashes of the ids.
    pub check: u32,
    /// The number of ids modulo 2^16.
    pub count: u16,
}

impl SketchSymbol {
    fn add(&mut self, id: u128, hash: u64, count: u16) {
        self.sum ^= id;
        self.check ^= hash as u32;
        self.count = self.count.wrapping_add(count);
    }

    /// Returns this symbol without the cells of another set.
    fn subtract(self, other: Self) -> Self {
        Self {
            sum: self.sum ^ other.sum,
            check: self.check ^ other.check,
            count: self.count.wrapping_sub(other.count),
        }
    }

    pub(super) fn encode(self, w: &mut Writer) {
        w.put_bytes(&self.sum.to_be_bytes()).put_u32(self.check).put_u16(self.count);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let sum = u128::from_be_bytes(r.read_array()?);
        Ok(Self { sum, check: r.read_u32()?, count: r.read_u16()? })
    }
}

/// Returns the symbols `from..end` of a set. Cells of other slices are left out.
///
/// The work is about `2 ln(end / 2)` steps for each cell.
pub fn make_symbols<'a>(
    key: SketchKey,
    ids: impl IntoIterator<Item = &'a CellId>,
    from: usize,
    end: usize,
) -> Vec<SketchSymbol> {
    let mut symbols = alloc::vec![SketchSymbol::default(); end.saturating_sub(from)];
    for id in ids {
        let id = key.veil(id);
        let hash = key.hash_id(id);
        if !key.has_hash(hash) {
            continue;
        }
        for at in symbols_of(hash, end) {
            if let Some(symbol) = at.checked_sub(from).and_then(|at| symbols.get_mut(at)) {
                symbol.add(id, hash, 1);
            }
        }
    }
    symbols
}

/// The difference of two sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Cells that only the other device holds.
    pub theirs: Vec<CellId>,
    /// Cells that only this device holds.
    pub ours: Vec<CellId>,
}

/// Returns the difference of two sets from the first symbols of both, or `None` if these are too
/// few, or are not those of a set. Symbols of `theirs` that did not arrive are `None`.
///
/// At most one id is taken from each symbol, so that the work of hostile symbols is bounded by
/// their number (MESH-88).
pub fn find_difference(
    key: SketchKey,
    theirs: &[Option<SketchSymbol>],
    ours: &[SketchSymbol],
) -> Option<Difference> {
    let pairs = theirs.iter().zip(ours);
    let mut rest: Vec<Option<SketchSymbol>> =
        pairs.map(|(theirs, ours)| theirs.map(|theirs| theirs.subtract(*ours))).collect();
    let mut found = Difference::default();
    let mut queue: VecDeque<usize> = (0..rest.len()).collect();
    while let Some(at) = queue.pop_front() {
        let Some(Some(symbol)) = rest.get(at).copied() else { continue };
        if symbol.count != 1 && symbol.count != u16::MAX {
            continue;
        }
        let hash = key.hash_id(symbol.sum);
        // A sum of several ids has the check of no id, except with probability 2^-32.
        if symbol.check != hash as u32 || !key.has_hash(hash) {
            continue;
        }
        if found.theirs.len() + found.ours.len() >= rest.len() {
            return None;
        }
        let side = if symbol.count == 1 { &mut found.theirs } else { &mut found.ours };
        side.push(key.unveil(symbol.sum));
        for at in symbols_of(hash, rest.len()) {
            if let Some(Some(other)) = rest.get_mut(at) {
                other.add(symbol.sum, hash, symbol.count.wrapping_neg());
                queue.push_back(at);
            }
        }
    }
    let empty = |symbol: &Option<SketchSymbol>| {
        symbol.is_none_or(|symbol| symbol == SketchSymbol::default())
    };
    // Symbol 0 holds every cell: without it nobody can tell that all were found.
    (rest.first().is_some_and(Option::is_some) && rest.iter().all(empty)).then_some(found)
}

/// Returns how many symbols are likely to be enough after these first ones were not.
///
/// A symbol of density p counts each of d cells with probability p, as +1 or -1. Its count has
/// therefore the variance `d p (1 - p)`, and the mean of all symbols estimates d.
pub fn estimate_symbols(theirs: &[Option<SketchSymbol>], ours: &[SketchSymbol]) -> usize {
    let count = |(theirs, ours): (&Option<SketchSymbol>, &SketchSymbol)| {
        theirs.map(|theirs| f64::from(theirs.subtract(*ours).count.cast_signed()))
    };
    let mut counts = theirs.iter().zip(ours).map(count);
    // The first symbol holds every cell: it counts how many more one side has.
    let excess = counts.next().flatten().unwrap_or(0.0);
    let mut sum = 0.0;
    let mut number = 0.0;
    for (at, count) in (1_u32..).zip(counts) {
        let Some(count) = count else { continue };
        let density = 2.0 / f64::from(at + 2);
        let beyond = count - excess * density;
        sum += beyond * beyond / (density * (1.0 - density));
        number += 1.0;
    }
    let differ = f64::max(sum / f64::max(number, 1.0), excess.abs());
    let end = theirs.len();
    // Steps of a half cost at most a third too many, and 16 is the least: a frame has its price.
    let least = end + (end / 2).max(16);
    #[allow(clippy::cast_sign_loss, reason = "a sum of squares or an absolute value")]
    let likely = (differ * 1.25) as usize;
    least.max(likely).min(SYMBOLS_MAX)
}

#[cfg(test)]
mod tests;
