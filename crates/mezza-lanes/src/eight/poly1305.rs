//! Poly1305 for eight messages in step, limbs of 44, 44 and 42 bits as in the portable one.
//!
//! | class | limbs in |
//! |---|---|
//! | block | [0, 2^44), the top one below 2^41 |
//! | key | [0, 2^44); the multiples s = 20 r in [0, 20 2^44) |
//! | sum | [0, 2^44 + 2^8] |

use crate::lanes::{LANES, Lanes};
use crate::poly1305::{MASK_42, MASK_44, OneTimeKey, WHOLE};

/// r of eight keys, and 20 r of the two upper limbs.
#[derive(Clone, Copy)]
pub struct Key<V> {
    /// r.
    pub r: [V; 3],
    /// 20 times its upper two limbs: 2^132 = 20 modulo 2^130 - 5.
    pub s: [V; 2],
}

/// Classes: key.
#[inline(always)]
pub fn key<L: Lanes>(l: L, keys: &[OneTimeKey]) -> Key<L::V> {
    let mut limbs = [[0; LANES]; 5];
    for (lane, key) in keys.iter().enumerate().take(LANES) {
        let [r0, r1, r2] = key.r;
        for (limb, r) in limbs.iter_mut().zip([r0, r1, r2, 20 * r1, 20 * r2]) {
            limb[lane] = r;
        }
    }
    let [r0, r1, r2, s1, s2] = &limbs;
    let key = Key { r: [l.load(r0), l.load(r1), l.load(r2)], s: [l.load(s1), l.load(s2)] };
    limbs = [[0; LANES]; 5];
    zeroize::optimization_barrier(&limbs);
    key
}

/// Sixteen bytes at eight places, with bit 128 set. Classes: any bytes -> block.
///
/// # Panics
/// If a place is less than 16 bytes from the end.
#[inline(always)]
pub fn block<L: Lanes>(l: L, bytes: &[u8], at: &[usize; LANES]) -> [L::V; 3] {
    split(l, l.gather(bytes, at), l.gather(&bytes[8..], at))
}

/// Two words of 64 bits into limbs. Classes: any, any -> block.
#[inline(always)]
pub fn split<L: Lanes>(l: L, low: L::V, high: L::V) -> [L::V; 3] {
    let middle = l.shl::<20>(l.and(high, l.splat((1 << 24) - 1)));
    [
        l.and(low, l.splat(MASK_44)),
        l.add(l.shr::<44>(low), middle),
        l.add(l.shr::<24>(high), l.splat(WHOLE)),
    ]
}

/// (h + m) r. Classes: sum, block, key -> sum.
#[inline(always)]
pub fn absorb<L: Lanes>(l: L, h: [L::V; 3], m: [L::V; 3], key: &Key<L::V>) -> [L::V; 3] {
    let h = [l.add(h[0], m[0]), l.add(h[1], m[1]), l.add(h[2], m[2])];
    let ([r0, r1, r2], [s1, s2]) = (key.r, key.s);
    let mask = l.splat(MASK_44);
    // Bits 52.. of a limb weigh 2^8 in the one above, 2^10 above the top one of 42 bits.
    let (d0, high) = dot(l, h, [r0, s2, s1]);
    let over = l.add(l.shr::<44>(d0), l.shl::<8>(high));
    let (d1, high) = dot(l, h, [r1, r0, s2]);
    let d1 = l.add(d1, over);
    let over = l.add(l.shr::<44>(d1), l.shl::<8>(high));
    let (d2, high) = dot(l, h, [r2, r1, r0]);
    let d2 = l.add(d2, over);
    let over = l.add(l.shr::<42>(d2), l.shl::<10>(high));
    let h0 = l.add(l.and(d0, mask), l.add(l.shl::<2>(over), over));
    let h1 = l.add(l.and(d1, mask), l.shr::<44>(h0));
    [l.and(h0, mask), h1, l.and(d2, l.splat(MASK_42))]
}

/// The sum of three products: bits 0..52 of each, bits 52..104 of each. Classes: below 2^52 ->
/// below 3 2^52.
#[inline(always)]
fn dot<L: Lanes>(l: L, a: [L::V; 3], b: [L::V; 3]) -> (L::V, L::V) {
    let (mut low, mut high) = (l.splat(0), l.splat(0));
    for i in 0..3 {
        low = l.lo(low, a[i], b[i]);
        high = l.hi(high, a[i], b[i]);
    }
    (low, high)
}
