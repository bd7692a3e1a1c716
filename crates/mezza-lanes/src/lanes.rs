//! Vectors: eight lanes of 64 bits, sixteen words of 32 bits. Arithmetic is written once over these
//! traits. A CPU computes with it, an emulation checks every contract on the way, and intervals in
//! place of numbers prove the bounds for all inputs.

/// Lanes in a vector.
pub const LANES: usize = 8;

/// Eight independent 64-bit lanes; holding the value proves that the CPU can do it.
///
/// Each method is safe for all values. Its contract (no carry out of a lane, operands below 2^52)
/// is what makes a result mean the same as integers do, and the tests hold all callers to it.
pub trait Lanes: Copy {
    /// A vector.
    type V: Copy;

    /// `x` in every lane.
    fn splat(self, x: u64) -> Self::V;
    /// Lane j from `x[j]`.
    fn load(self, x: &[u64; LANES]) -> Self::V;
    /// Lane j into place j.
    fn store(self, v: Self::V) -> [u64; LANES];
    /// a + b; below 2^64.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// a - b; not below zero.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// The bits of `a` that are set in `mask`.
    fn and(self, a: Self::V, mask: Self::V) -> Self::V;
    /// a 2^N; below 2^64.
    fn shl<const N: u32>(self, a: Self::V) -> Self::V;
    /// a / 2^N, rounded down.
    fn shr<const N: u32>(self, a: Self::V) -> Self::V;
    /// a b; below 2^64. Slower than the next two on some CPUs, and for larger operands.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// acc + bits 0..52 of a b; operands below 2^52.
    fn lo(self, acc: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// acc + bits 52..104 of a b; operands below 2^52.
    fn hi(self, acc: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Lane j of `b` where bit j of `mask` is set, else of `a`.
    fn blend(self, mask: u8, a: Self::V, b: Self::V) -> Self::V;
    /// Lane j is lane `index[j]` of `a`; indices below 8.
    fn permute(self, index: Self::V, a: Self::V) -> Self::V;
    /// Bit j is set where lane j is zero.
    fn is_zero(self, a: Self::V) -> u8;
    /// The 64 bytes at `at[j]`, little-endian: word w of them in lane j of vector w. Loads and a
    /// transposition cost less than to gather each vector, and far less where gathering is slow.
    ///
    /// # Panics
    /// If a lane would reach beyond `bytes`.
    fn load_columns(self, bytes: &[u8], at: &[usize; LANES]) -> [Self::V; LANES];
    /// Calls `f` from a function of its own, compiled for this backend. What is called from there is
    /// inlined into it, and it is inlined nowhere.
    fn outline<R>(self, f: impl FnOnce() -> R) -> R;
}

/// Words in a vector.
pub const WORDS: usize = 16;
/// Bytes of a vector.
pub const BLOCK: usize = 64;

/// Sixteen independent 32-bit words, for ChaCha20; sums wrap.
pub trait Lanes32: Copy {
    /// A vector.
    type W: Copy;

    /// `x` in every place.
    fn splat_words(self, x: u32) -> Self::W;
    /// Word j of 64 bytes, little-endian, in place j.
    fn load_words(self, bytes: &[u8; BLOCK]) -> Self::W;
    /// Place j into word j.
    fn store_words(self, w: Self::W) -> [u8; BLOCK];
    /// a + b modulo 2^32.
    fn add_words(self, a: Self::W, b: Self::W) -> Self::W;
    /// a xor b.
    fn xor_words(self, a: Self::W, b: Self::W) -> Self::W;
    /// Every word turned left by N bits.
    fn rotl<const N: i32>(self, a: Self::W) -> Self::W;
    /// Place j of row i becomes place i of row j.
    fn transpose(self, rows: [Self::W; WORDS]) -> [Self::W; WORDS];
}
