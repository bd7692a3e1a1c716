//! Poly1305 for eight messages at a time, with limbs of 44, 44 and 42 bits as in the portable
//! version.
//!
//! | class | limbs in |
//! |---|---|
//! | block | [0, 2^44), the top one below 2^41 |
//! | key | [0, 2^44); the multiples s = 20 r in [0, 20 2^44) |
//! | sum | [0, 2^44 + 2^8] |

use crate::lanes::{LANES, Lanes};
use crate::poly1305::{CLAMP, MASK_42, MASK_44, WHOLE};

/// Eight one-time keys.
#[derive(Clone, Copy)]
pub struct Poly1305Keys<V> {
    /// The point r of the polynomial, clamped.
    pub r: [V; 3],
    /// The upper two limbs of r times 20: 2^132 = 20 modulo 2^130 - 5.
    pub r20: [V; 2],
    /// The second half of the key, added after the last block (RFC 8439, section 2.5).
    pub s: [V; 3],
}

/// Makes the keys from the first 32 bytes of eight key blocks, given by words. Classes: any -> key;
/// s as a block without its bit 128.
#[inline(always)]
pub fn load_key<L: Lanes>(l: L, [r0, r1, s0, s1]: [L::V; 4]) -> Poly1305Keys<L::V> {
    let r = split_limbs(l, l.and(r0, l.splat(CLAMP[0])), l.and(r1, l.splat(CLAMP[1])));
    let twenty = l.splat(20);
    Poly1305Keys { r, r20: [l.mul(r[1], twenty), l.mul(r[2], twenty)], s: split_limbs(l, s0, s1) }
}

/// Loads four blocks from 64 bytes at each of eight offsets. Classes: any bytes -> block.
///
/// # Panics
/// If an offset is less than 64 bytes from the end of `bytes`.
#[inline(always)]
pub fn load_blocks<L: Lanes>(l: L, bytes: &[u8], at: &[usize; LANES]) -> [[L::V; 3]; 4] {
    let [a0, a1, b0, b1, c0, c1, d0, d1] = l.load_columns(bytes, at);
    [split_block(l, a0, a1), split_block(l, b0, b1), split_block(l, c0, c1), split_block(l, d0, d1)]
}

/// Splits two words of 64 bits into limbs, and sets bit 128. Classes: any, any -> block.
#[inline(always)]
pub fn split_block<L: Lanes>(l: L, low: L::V, high: L::V) -> [L::V; 3] {
    let [m0, m1, m2] = split_limbs(l, low, high);
    [m0, m1, l.add(m2, l.splat(WHOLE))]
}

/// Splits two words of 64 bits into limbs. Classes: any, any -> as a block without its bit 128.
#[inline(always)]
pub fn split_limbs<L: Lanes>(l: L, low: L::V, high: L::V) -> [L::V; 3] {
    let middle = l.shl::<20>(l.and(high, l.splat((1 << 24) - 1)));
    [l.and(low, l.splat(MASK_44)), l.add(l.shr::<44>(low), middle), l.shr::<24>(high)]
}

/// Computes (h + m) r. Classes: sum, block, key -> sum.
#[inline(always)]
pub fn absorb_block<L: Lanes>(
    l: L,
    h: [L::V; 3],
    m: [L::V; 3],
    key: &Poly1305Keys<L::V>,
) -> [L::V; 3] {
    let h = [l.add(h[0], m[0]), l.add(h[1], m[1]), l.add(h[2], m[2])];
    let [r0, r1, r2] = key.r;
    let [s1, s2] = key.r20;
    let mask = l.splat(MASK_44);
    // Bits from 52 on of a limb count 2^8-fold in the next limb, and 2^10-fold after the top limb
    // of 42 bits.
    let (d0, high) = dot_product(l, h, [r0, s2, s1]);
    let over = l.add(l.shr::<44>(d0), l.shl::<8>(high));
    let (d1, high) = dot_product(l, h, [r1, r0, s2]);
    let d1 = l.add(d1, over);
    let over = l.add(l.shr::<44>(d1), l.shl::<8>(high));
    let (d2, high) = dot_product(l, h, [r2, r1, r0]);
    let d2 = l.add(d2, over);
    let over = l.add(l.shr::<42>(d2), l.shl::<10>(high));
    let h0 = l.add(l.and(d0, mask), l.add(l.shl::<2>(over), over));
    let h1 = l.add(l.and(d1, mask), l.shr::<44>(h0));
    [l.and(h0, mask), h1, l.and(d2, l.splat(MASK_42))]
}

/// Computes the sum of three products, as the sum of bits 0..52 and the sum of bits 52..104.
/// Classes: below 2^52 -> below 3 2^52.
#[inline(always)]
fn dot_product<L: Lanes>(l: L, a: [L::V; 3], b: [L::V; 3]) -> (L::V, L::V) {
    let mut low = l.splat(0);
    let mut high = l.splat(0);
    for i in 0..3 {
        low = l.lo(low, a[i], b[i]);
        high = l.hi(high, a[i], b[i]);
    }
    (low, high)
}

/// Computes the tags, two words each, from the final states `h`. Classes: sum, key -> any.
#[inline(always)]
pub fn finish_tags<L: Lanes>(l: L, h: [L::V; 3], key: &Poly1305Keys<L::V>) -> [L::V; 2] {
    let mask = l.splat(MASK_44);
    let [h0, h1, h2] = carry_limbs(l, carry_limbs(l, h));
    // h is below 2^130 now, so p = 2^130 - 5 fits at most once: it does if h + 5 reaches 2^130.
    let g0 = l.add(h0, l.splat(5));
    let g1 = l.add(h1, l.shr::<44>(g0));
    let g2 = l.add(h2, l.shr::<44>(g1));
    let below = l.is_zero(l.shr::<42>(g2));
    let h0 = l.add(l.blend(below, l.and(g0, mask), h0), key.s[0]);
    let h1 = l.add(l.blend(below, l.and(g1, mask), h1), key.s[1]);
    let h2 = l.add(l.blend(below, l.and(g2, l.splat(MASK_42)), h2), key.s[2]);
    let h1 = l.add(h1, l.shr::<44>(h0));
    let h2 = l.add(h2, l.shr::<44>(h1));
    let bits = |a, count: u32| l.and(a, l.splat((1 << count) - 1));
    [
        l.add(l.and(h0, mask), l.shl::<44>(bits(h1, 20))),
        l.add(l.shr::<20>(l.and(h1, mask)), l.shl::<24>(bits(h2, 40))),
    ]
}

/// Carries once. Classes: sum -> limbs of 44, 45 and 42 bits; a second pass gives 44, 44 and 42.
#[inline(always)]
fn carry_limbs<L: Lanes>(l: L, [h0, h1, h2]: [L::V; 3]) -> [L::V; 3] {
    let mask = l.splat(MASK_44);
    let h1 = l.add(h1, l.shr::<44>(h0));
    let h2 = l.add(h2, l.shr::<44>(h1));
    let over = l.shr::<42>(h2);
    let h0 = l.add(l.and(h0, mask), l.add(l.shl::<2>(over), over));
    let h1 = l.add(l.and(h1, mask), l.shr::<44>(h0));
    [l.and(h0, mask), h1, l.and(h2, l.splat(MASK_42))]
}
