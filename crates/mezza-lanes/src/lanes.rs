//! Vectors: eight lanes of 64 bits, or sixteen words of 32 bits. The arithmetic is written once
//! over these traits. A CPU backend computes, an emulation checks every contract, and a backend of
//! intervals proves the bounds for all inputs.

/// Lanes in a vector.
pub const LANES: usize = 8;

/// Operations on eight independent 64-bit lanes; a value of this type proves that the CPU supports
/// them.
///
/// Each method is safe for all values. If its contract holds (no carry out of a lane, operands
/// below 2^52), a result equals that of integer arithmetic. The tests check the contracts at all
/// callers.
pub trait Lanes: Copy {
    /// A vector of eight lanes.
    type V: Copy;

    /// Puts `x` into every lane.
    fn splat(self, x: u64) -> Self::V;
    /// Loads lane j from `x[j]`.
    fn load(self, x: &[u64; LANES]) -> Self::V;
    /// Stores lane j at index j.
    fn store(self, v: Self::V) -> [u64; LANES];
    /// Computes a + b; the sum must be below 2^64.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes a - b; the difference must not be negative.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes a & mask.
    fn and(self, a: Self::V, mask: Self::V) -> Self::V;
    /// Computes a 2^N; the result must be below 2^64.
    fn shl<const N: u32>(self, a: Self::V) -> Self::V;
    /// Computes a / 2^N, rounded down.
    fn shr<const N: u32>(self, a: Self::V) -> Self::V;
    /// Computes a b; the product must be below 2^64. It takes larger operands than `lo` and `hi`,
    /// and is slower on some CPUs.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// Computes acc + bits 0..52 of a b; the operands must be below 2^52.
    fn lo(self, acc: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Computes acc + bits 52..104 of a b; the operands must be below 2^52.
    fn hi(self, acc: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Selects lane j of `b` where bit j of `mask` is set, else of `a`.
    fn blend(self, mask: u8, a: Self::V, b: Self::V) -> Self::V;
    /// Returns lane `index[j]` of `a` in lane j; the indices must be below 8.
    fn permute(self, index: Self::V, a: Self::V) -> Self::V;
    /// Returns a mask whose bit j is set if lane j is zero.
    fn is_zero(self, a: Self::V) -> u8;
    /// Loads the 64 bytes at `at[j]`, little-endian: word w is in lane j of vector w. Loads and a
    /// transposition cost less than a gather of each vector, and far less where gathers are slow.
    ///
    /// # Panics
    /// If an offset is less than 64 bytes from the end of `bytes`.
    fn load_columns(self, bytes: &[u8], at: &[usize; LANES]) -> [Self::V; LANES];
    /// Runs `f` in a separate function compiled for this backend. Calls within `f` are inlined into
    /// it; the function itself is never inlined.
    fn outline<R>(self, f: impl FnOnce() -> R) -> R;
}

/// Words in a vector.
pub const WORDS: usize = 16;
/// Bytes of a vector.
pub const BLOCK: usize = 64;

/// Sixteen independent 32-bit words, for ChaCha20; sums wrap.
pub trait Lanes32: Copy {
    /// A vector of sixteen words.
    type W: Copy;

    /// Puts `x` into every word.
    fn splat_words(self, x: u32) -> Self::W;
    /// Loads word j from bytes 4 j to 4 j + 3, little-endian.
    fn load_words(self, bytes: &[u8; BLOCK]) -> Self::W;
    /// Stores word j at bytes 4 j to 4 j + 3, little-endian.
    fn store_words(self, w: Self::W) -> [u8; BLOCK];
    /// Computes a + b modulo 2^32.
    fn add_words(self, a: Self::W, b: Self::W) -> Self::W;
    /// Computes a xor b.
    fn xor_words(self, a: Self::W, b: Self::W) -> Self::W;
    /// Rotates every word left by N bits.
    fn rotl<const N: i32>(self, a: Self::W) -> Self::W;
    /// Transposes: word j of row i becomes word i of row j.
    fn transpose(self, rows: [Self::W; WORDS]) -> [Self::W; WORDS];
}
