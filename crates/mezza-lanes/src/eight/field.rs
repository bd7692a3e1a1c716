//! GF(p), p = 2^255 - 19, in radix 2^51: five limbs per element, eight elements at a time.
//!
//! Limbs may exceed 2^51; the class of an element says by how much:
//!
//! | class | every limb in | what is in it |
//! |---|---|---|
//! | canonical | [0, 2^51), value below p | results |
//! | R | [0, 2^51 + 2^15] | operands of products |
//! | raw | [0, 124.5 2^52 + 2^23] | products before their carries |
//! | wide | [0, 2^61 + 2^60) | sums and differences of raw elements |
//!
//! `tests/bounds.rs` proves the classes in the comment of each function.

use crate::lanes::{LANES, Lanes};

/// An element of the field in each lane.
pub type Fe<L> = [<L as Lanes>::V; 5];
/// [`Fe`] in memory: by limb, then by lane.
pub type ElementBlock = [[u64; LANES]; 5];

/// A mask of bits 0..51.
pub const MASK_51: u64 = (1 << 51) - 1;
/// The limbs of p.
pub const P: [u64; 5] = [MASK_51 - 18, MASK_51, MASK_51, MASK_51, MASK_51];

/// Puts a constant into every lane. Classes: the class of the constant.
#[inline(always)]
pub fn load_constant<L: Lanes>(l: L, limbs: [u64; 5]) -> Fe<L> {
    let mut out = [l.splat(limbs[0]); 5];
    for i in 1..5 {
        out[i] = l.splat(limbs[i]);
    }
    out
}

/// Puts a small number into every lane. Classes: canonical for a number below 2^51.
#[inline(always)]
pub fn small_element<L: Lanes>(l: L, x: u64) -> Fe<L> {
    load_constant(l, [x, 0, 0, 0, 0])
}

/// Loads eight elements from memory. Classes: the class of the stored elements.
#[inline(always)]
pub fn load_block<L: Lanes>(l: L, group: &ElementBlock) -> Fe<L> {
    [l.load(&group[0]), l.load(&group[1]), l.load(&group[2]), l.load(&group[3]), l.load(&group[4])]
}

/// Stores eight elements in memory.
#[inline(always)]
pub fn store_block<L: Lanes>(l: L, a: Fe<L>) -> ElementBlock {
    [l.store(a[0]), l.store(a[1]), l.store(a[2]), l.store(a[3]), l.store(a[4])]
}

/// Selects `b` in the lanes of `mask`, else `a`. Classes: the larger of both.
#[inline(always)]
pub fn blend_elements<L: Lanes>(l: L, mask: u8, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    let mut out = a;
    for i in 0..5 {
        out[i] = l.blend(mask, a[i], b[i]);
    }
    out
}

/// Computes a + b. Classes: raw, raw -> wide; R, R -> wide.
#[inline(always)]
pub fn add_raw<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    let mut out = a;
    for i in 0..5 {
        out[i] = l.add(a[i], b[i]);
    }
    out
}

/// Computes a - b + 2^9 p. Classes: wide below 2^60, raw -> wide.
#[inline(always)]
pub fn sub_raw<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    sub_biased(l, a, b, 512)
}

/// Computes a - b + 4 p, carried. Classes: R, R -> R.
#[inline(always)]
pub fn sub_red<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    carry_limbs(l, sub_biased(l, a, b, 4))
}

/// Computes a - b + times p. Classes: as in [`sub_raw`] and [`sub_red`].
#[inline(always)]
pub fn sub_biased<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>, times: u64) -> Fe<L> {
    let mut out = a;
    for i in 0..5 {
        out[i] = l.sub(l.add(a[i], l.splat(times * P[i])), b[i]);
    }
    out
}

/// Computes a + b, carried. Classes: R, R -> R.
#[inline(always)]
pub fn add_red<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    carry_limbs(l, add_raw(l, a, b))
}

/// Carries once, in all limbs in parallel. Classes: wide -> R.
#[inline(always)]
pub fn carry_limbs<L: Lanes>(l: L, a: Fe<L>) -> Fe<L> {
    let mut over = a;
    let mut out = a;
    for i in 0..5 {
        over[i] = l.shr::<51>(a[i]);
        out[i] = l.and(a[i], l.splat(MASK_51));
    }
    // 2^255 = 19 modulo p.
    out[0] = l.lo(out[0], over[4], l.splat(19));
    for i in 1..5 {
        out[i] = l.add(out[i], over[i - 1]);
    }
    out
}

/// Computes a b. Classes: R, R -> raw.
///
/// A product of limbs i and j has its bits 0..52 at limb i + j, and its bits 52..104 at twice limb
/// i + j + 1, since 2^52 = 2 2^51.
#[inline(always)]
pub fn mul_raw<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    let mut r = [l.splat(0); 10];
    for i in 0..5 {
        for j in 0..5 {
            r[i + j + 1] = l.hi(r[i + j + 1], a[i], b[j]);
        }
    }
    for limb in &mut r[1..9] {
        *limb = l.add(*limb, *limb);
    }
    for i in 0..5 {
        for j in 0..5 {
            r[i + j] = l.lo(r[i + j], a[i], b[j]);
        }
    }
    fold_product(l, r, [19, 19, 19, 19, 38])
}

/// Computes a a. Classes: R -> raw.
///
/// Products of different limbs are computed once and doubled; then those of equal limbs are added.
#[inline(always)]
pub fn sqr_raw<L: Lanes>(l: L, a: Fe<L>) -> Fe<L> {
    let mut r = [l.splat(0); 10];
    for i in 0..5 {
        for j in i + 1..5 {
            r[i + j + 1] = l.hi(r[i + j + 1], a[i], a[j]);
        }
    }
    for limb in &mut r[2..9] {
        *limb = l.add(*limb, *limb);
    }
    for i in 0..5 {
        r[2 * i + 1] = l.hi(r[2 * i + 1], a[i], a[i]);
        for j in i + 1..5 {
            r[i + j] = l.lo(r[i + j], a[i], a[j]);
        }
    }
    for i in [1, 2, 3, 4, 6, 8] {
        r[i] = l.add(r[i], r[i]);
    }
    for i in 0..5 {
        r[2 * i] = l.lo(r[2 * i], a[i], a[i]);
    }
    fold_product(l, r, [38, 19, 38, 19, 38])
}

/// Folds ten limbs of a product into five by 2^255 = 19 modulo p. `times` is 19, or 38 for a limb
/// that is not doubled yet. Classes: ten limbs of a product -> raw.
#[inline(always)]
fn fold_product<L: Lanes>(l: L, r: [L::V; 10], times: [u64; 5]) -> Fe<L> {
    let mut out = [r[0], r[1], r[2], r[3], r[4]];
    for i in 0..5 {
        out[i] = l.add(out[i], l.mul(r[i + 5], l.splat(times[i])));
    }
    out
}

/// Computes c + 121665 e, where 121665 = (486662 - 2) / 4. Classes: R, R -> wide.
#[inline(always)]
pub fn add_121665<L: Lanes>(l: L, c: Fe<L>, e: Fe<L>) -> Fe<L> {
    let factor = l.splat(121_665);
    let zero = l.splat(0);
    let mut out = c;
    for i in 0..5 {
        out[i] = l.lo(out[i], e[i], factor);
    }
    for i in 1..5 {
        let high = l.hi(zero, e[i - 1], factor);
        out[i] = l.add(out[i], l.add(high, high));
    }
    // High parts count twice, and 19 times that at the wrap.
    out[0] = l.lo(out[0], l.hi(zero, e[4], factor), l.splat(38));
    out
}

/// Computes a b, carried. Classes: R, R -> R.
#[inline(always)]
pub fn mul<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    carry_limbs(l, mul_raw(l, a, b))
}

/// Computes a a, carried. Classes: R -> R.
#[inline(always)]
pub fn sqr<L: Lanes>(l: L, a: Fe<L>) -> Fe<L> {
    carry_limbs(l, sqr_raw(l, a))
}

/// [`mul`] compiled out of line, where code size matters more than speed. Classes: R, R -> R.
pub fn mul_outlined<L: Lanes>(l: L, a: Fe<L>, b: Fe<L>) -> Fe<L> {
    l.outline(
        #[inline(always)]
        || mul(l, a, b),
    )
}

/// Computes a to the power 2^n, out of line. Classes: R -> R.
pub fn sqr_n_outlined<L: Lanes>(l: L, a: Fe<L>, n: u32) -> Fe<L> {
    l.outline(
        #[inline(always)]
        || {
            let mut out = a;
            for _ in 0..n {
                out = sqr(l, out);
            }
            out
        },
    )
}

/// Reduces an element to its value below p. Classes: R -> canonical.
#[inline(always)]
pub fn reduce_canonical<L: Lanes>(l: L, a: Fe<L>) -> Fe<L> {
    // Two passes leave a value below 2p; it is p or more if adding 19 reaches 2^255.
    let a = carry_limbs(l, carry_limbs(l, a));
    let mut over = l.splat(19);
    for limb in a {
        over = l.shr::<51>(l.add(limb, over));
    }
    let mut out = a;
    over = l.lo(l.splat(0), over, l.splat(19));
    for i in 0..5 {
        let sum = l.add(a[i], over);
        out[i] = l.and(sum, l.splat(MASK_51));
        over = l.shr::<51>(sum);
    }
    // Bit 255, now in `over`, is dropped: this subtracts p.
    out
}

/// Returns a mask of the lanes whose element is zero. Classes: canonical -> a bit per lane.
#[inline(always)]
pub fn is_zero<L: Lanes>(l: L, a: Fe<L>) -> u8 {
    l.is_zero(l.add(l.add(l.add(a[0], a[1]), l.add(a[2], a[3])), a[4]))
}

/// Computes z^(2^250 - 1) and z^11, from which exponents close to p are made. Classes: R -> R, R.
fn near_p<L: Lanes>(l: L, z: Fe<L>) -> (Fe<L>, Fe<L>) {
    let z2 = sqr_n_outlined(l, z, 1);
    let z9 = mul_outlined(l, sqr_n_outlined(l, z2, 2), z);
    let z11 = mul_outlined(l, z9, z2);
    // `more(a, n, b)` with a = z^(2^i - 1) and b = z^(2^n - 1) is z^(2^(i + n) - 1).
    let more = |a, n, b| mul_outlined(l, sqr_n_outlined(l, a, n), b);
    let z_5 = more(z11, 1, z9);
    let z_10 = more(z_5, 5, z_5);
    let z_20 = more(z_10, 10, z_10);
    let z_40 = more(z_20, 20, z_20);
    let z_50 = more(z_40, 10, z_10);
    let z_100 = more(z_50, 50, z_50);
    let z_200 = more(z_100, 100, z_100);
    (more(z_200, 50, z_50), z11)
}

/// Computes 1 / z as z^(p - 2), by 254 squarings and 11 products. The result is 0 for z = 0.
/// Classes: R -> R.
pub fn invert<L: Lanes>(l: L, z: Fe<L>) -> Fe<L> {
    let (z_250, z11) = near_p(l, z);
    mul_outlined(l, sqr_n_outlined(l, z_250, 5), z11)
}

/// Computes z^((p - 5) / 8), the core of a square root. Classes: R -> R.
pub fn pow_p58<L: Lanes>(l: L, z: Fe<L>) -> Fe<L> {
    let (z_250, _) = near_p(l, z);
    mul_outlined(l, sqr_n_outlined(l, z_250, 2), z)
}
