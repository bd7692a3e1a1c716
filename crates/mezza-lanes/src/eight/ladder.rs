//! The Montgomery ladder (RFC 7748, section 5), eight at a time.
//!
//! Carries are lazy: a step returns raw products, and the next step carries their sums and
//! differences once. This takes 11 passes per bit instead of 18.

use super::field::{
    Fe, add_121665, add_raw, blend_elements, carry_limbs, mul_raw, small_element, sqr_raw, sub_raw,
};
use crate::lanes::{LANES, Lanes};
use crate::wipe::wipe_bytes;

/// The lanes to swap before step t, for bits 254 down to 0: bit j belongs to scalar j.
///
/// A lane swaps if bits t and t + 1 of its scalar differ. No swap follows the last step, because
/// clamping clears bit 0.
pub struct SwapMasks([u8; 256]);

impl SwapMasks {
    /// Makes the masks of up to eight scalars, and clamps them. A single scalar is used in all
    /// lanes.
    pub fn new(scalars: &[[u8; 32]]) -> Self {
        let mut masks = [0; 256];
        for byte in 0..32 {
            let mut rows = 0;
            for lane in 0..LANES {
                let scalar = &scalars[lane % scalars.len()];
                rows |= u64::from(clamped_byte(byte, scalar[byte])) << (8 * lane);
            }
            masks[8 * byte..8 * byte + 8].copy_from_slice(&transpose_bits(rows).to_le_bytes());
        }
        for t in 0..255 {
            masks[t] ^= masks[t + 1];
        }
        Self(masks)
    }
}

impl Drop for SwapMasks {
    fn drop(&mut self) {
        wipe_bytes(&mut self.0);
    }
}

/// Clamps byte number `at` of a scalar.
pub fn clamped_byte(at: usize, byte: u8) -> u8 {
    match at {
        0 => byte & 0xf8,
        31 => byte & 0x7f | 0x40,
        _ => byte,
    }
}

/// Transposes 8 x 8 bits: bit j of byte i becomes bit i of byte j.
fn transpose_bits(rows: u64) -> u64 {
    let swap = |x: u64, by: u32, mask: u64| {
        let differ = (x ^ (x >> by)) & mask;
        x ^ differ ^ (differ << by)
    };
    let x = swap(rows, 7, 0x00aa_00aa_00aa_00aa);
    let x = swap(x, 14, 0x0000_cccc_0000_cccc);
    swap(x, 28, 0x0000_0000_f0f0_f0f0)
}

/// Two consecutive multiples of the point, as X and Z.
#[derive(Clone, Copy)]
pub struct LadderState<F> {
    /// X of the lower multiple.
    pub x2: F,
    /// Z of the lower multiple.
    pub z2: F,
    /// X of the higher multiple.
    pub x3: F,
    /// Z of the higher multiple.
    pub z3: F,
}

/// Processes one bit: doubles the multiple chosen by `swap`, and adds both multiples. Classes: raw
/// and `u` in R -> raw.
///
/// The sum of both multiples does not depend on their order: a swap would exchange the two products
/// in it and flip the sign of their difference, which is squared. The order of the products keeps
/// neighbours independent, since a CPU looks ahead by only two of them.
#[inline(always)]
pub fn ladder_step<L: Lanes>(
    l: L,
    pair: LadderState<Fe<L>>,
    u: Fe<L>,
    swap: u8,
) -> LadderState<Fe<L>> {
    let LadderState { x2, z2, x3, z3 } = pair;
    let c = carry_limbs(l, add_raw(l, x3, z3));
    let b = carry_limbs(l, sub_raw(l, x2, z2));
    let cb = mul_raw(l, c, b);
    let d = carry_limbs(l, sub_raw(l, x3, z3));
    let bb = sqr_raw(l, blend_elements(l, swap, b, d));
    let bb_red = carry_limbs(l, bb);
    let a = carry_limbs(l, add_raw(l, x2, z2));
    let aa = sqr_raw(l, blend_elements(l, swap, a, c));
    let e = carry_limbs(l, sub_raw(l, aa, bb));
    let aa = carry_limbs(l, aa);
    let z2 = mul_raw(l, e, carry_limbs(l, add_121665(l, aa, e)));
    let da = mul_raw(l, d, a);
    let square = carry_limbs(l, sqr_raw(l, carry_limbs(l, sub_raw(l, da, cb))));
    let x2 = mul_raw(l, aa, bb_red);
    let z3 = mul_raw(l, u, square);
    let x3 = sqr_raw(l, carry_limbs(l, add_raw(l, da, cb)));
    LadderState { x2, z2, x3, z3 }
}

/// Multiplies the point by the scalars of `masks`. Returns X and Z, both raw. Classes: R -> raw.
#[inline(always)]
pub fn run_ladder<L: Lanes>(l: L, masks: &SwapMasks, u: Fe<L>) -> (Fe<L>, Fe<L>) {
    let zero = small_element(l, 0);
    let one = small_element(l, 1);
    let mut pair = LadderState { x2: one, z2: zero, x3: u, z3: one };
    for swap in masks.0[..255].iter().rev() {
        pair = ladder_step(l, pair, u, *swap);
    }
    (pair.x2, pair.z2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_the_changes_between_clamped_bits() {
        let scalars: [[u8; 32]; 8] =
            core::array::from_fn(|i| core::array::from_fn(|j| (i * 91 + j * 57 + i * j) as u8));
        let masks = SwapMasks::new(&scalars);
        for (lane, scalar) in scalars.iter().enumerate() {
            let mut bit = 0;
            for t in (0..255).rev() {
                bit ^= masks.0[t] >> lane & 1;
                assert_eq!(bit, clamped_byte(t / 8, scalar[t / 8]) >> (t % 8) & 1, "{lane} {t}");
            }
        }
        assert!(SwapMasks::new(&scalars[..1]).0.iter().all(|mask| [0, 0xff].contains(mask)));
    }
}
