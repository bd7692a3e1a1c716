//! A backend for any CPU: one lane after another, with every contract asserted.

use crate::lanes::{BLOCK, LANES, Lanes, Lanes32, WORDS};

/// The emulated backend.
#[derive(Clone, Copy)]
pub struct Emulated;

/// The bound of the operands of `lo` and `hi`.
const OPERAND: u64 = 1 << 52;

fn product(a: u64, b: u64) -> u128 {
    assert!(a < OPERAND && b < OPERAND, "an operand of 2^52 or more");
    u128::from(a) * u128::from(b)
}

fn zip(a: [u64; LANES], b: [u64; LANES], f: impl Fn(u64, u64) -> u64) -> [u64; LANES] {
    core::array::from_fn(|j| f(a[j], b[j]))
}

fn sum(a: u64, b: u64) -> u64 {
    a.checked_add(b).expect("a carry out of a lane")
}

impl Lanes for Emulated {
    type V = [u64; LANES];

    fn splat(self, x: u64) -> Self::V {
        [x; LANES]
    }

    fn load(self, x: &[u64; LANES]) -> Self::V {
        *x
    }

    fn store(self, v: Self::V) -> [u64; LANES] {
        v
    }

    #[inline(never)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, sum)
    }

    #[inline(never)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a.checked_sub(b).expect("a lane below zero"))
    }

    #[inline(never)]
    fn and(self, a: Self::V, mask: Self::V) -> Self::V {
        zip(a, mask, |a, mask| a & mask)
    }

    #[inline(never)]
    fn shl<const N: u32>(self, a: Self::V) -> Self::V {
        a.map(|a| {
            assert!(a.leading_zeros() >= N, "a bit lost");
            a << N
        })
    }

    #[inline(never)]
    fn shr<const N: u32>(self, a: Self::V) -> Self::V {
        a.map(|a| a >> N)
    }

    #[inline(never)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a.checked_mul(b).expect("a product of more than a lane"))
    }

    #[inline(never)]
    fn lo(self, acc: Self::V, a: Self::V, b: Self::V) -> Self::V {
        zip(acc, zip(a, b, |a, b| product(a, b) as u64 & (OPERAND - 1)), sum)
    }

    #[inline(never)]
    fn hi(self, acc: Self::V, a: Self::V, b: Self::V) -> Self::V {
        zip(acc, zip(a, b, |a, b| (product(a, b) >> 52) as u64), sum)
    }

    #[inline(never)]
    fn blend(self, mask: u8, a: Self::V, b: Self::V) -> Self::V {
        core::array::from_fn(|j| if mask >> j & 1 == 1 { b[j] } else { a[j] })
    }

    #[inline(never)]
    fn permute(self, index: Self::V, a: Self::V) -> Self::V {
        index.map(|i| a[usize::try_from(i).expect("an index")])
    }

    #[inline(never)]
    fn is_zero(self, a: Self::V) -> u8 {
        (0..LANES).fold(0, |mask, j| mask | u8::from(a[j] == 0) << j)
    }

    #[inline(never)]
    fn load_columns(self, bytes: &[u8], at: &[usize; LANES]) -> [Self::V; LANES] {
        let rows = at.map(|at| &bytes[at..][..64]);
        let word = |row: &[u8], w| u64::from_le_bytes(row.as_chunks().0[w]);
        core::array::from_fn(|w| rows.map(|row| word(row, w)))
    }

    fn outline<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

impl Lanes32 for Emulated {
    type W = [u32; WORDS];

    fn splat_words(self, x: u32) -> Self::W {
        [x; WORDS]
    }

    fn load_words(self, bytes: &[u8; BLOCK]) -> Self::W {
        core::array::from_fn(|j| u32::from_le_bytes(bytes.as_chunks().0[j]))
    }

    fn store_words(self, w: Self::W) -> [u8; BLOCK] {
        core::array::from_fn(|i| w[i / 4].to_le_bytes()[i % 4])
    }

    #[inline(never)]
    fn add_words(self, a: Self::W, b: Self::W) -> Self::W {
        core::array::from_fn(|j| a[j].wrapping_add(b[j]))
    }

    #[inline(never)]
    fn xor_words(self, a: Self::W, b: Self::W) -> Self::W {
        core::array::from_fn(|j| a[j] ^ b[j])
    }

    #[inline(never)]
    fn rotl<const N: i32>(self, a: Self::W) -> Self::W {
        a.map(|a| a.rotate_left(N.unsigned_abs()))
    }

    #[inline(never)]
    fn transpose(self, rows: [Self::W; WORDS]) -> [Self::W; WORDS] {
        core::array::from_fn(|j| core::array::from_fn(|i| rows[i][j]))
    }
}
