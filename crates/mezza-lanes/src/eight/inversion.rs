//! Division by Montgomery's trick: one inversion per lane for many denominators.

use super::field::{
    ElementBlock, Fe, MASK_51, blend_elements, carry_limbs, invert, is_zero, load_block,
    mul_outlined, reduce_canonical, small_element, store_block,
};
use crate::lanes::{LANES, Lanes};
use alloc::vec::Vec;

/// Fractions X / Z to be divided together.
pub struct Fractions(Vec<[ElementBlock; 2]>);

impl Fractions {
    /// Makes an empty list with room for `groups` groups of eight fractions.
    pub fn new(groups: usize) -> Self {
        Self(Vec::with_capacity(groups))
    }

    /// Adds eight fractions with wide X and Z. A fraction with Z = 0 has the quotient 0.
    #[inline(always)]
    pub fn push_fraction<L: Lanes>(&mut self, l: L, x: Fe<L>, z: Fe<L>) {
        let x = carry_limbs(l, x);
        let z = reduce_canonical(l, carry_limbs(l, z));
        let none = is_zero(l, z);
        let x = blend_elements(l, none, x, small_element(l, 0));
        let z = blend_elements(l, none, z, small_element(l, 1));
        self.0.push([store_block(l, x), store_block(l, z)]);
    }

    /// Computes all quotients X / Z, canonical.
    #[inline(always)]
    pub fn divide_all<L: Lanes>(self, l: L) -> Vec<ElementBlock> {
        let mut product = small_element(l, 1);
        let mut before = Vec::with_capacity(self.0.len());
        for [_, z] in &self.0 {
            before.push(store_block(l, product));
            product = mul_outlined(l, product, load_block(l, z));
        }
        let mut inverse = invert(l, product);
        for (before, [x, z]) in before.iter_mut().zip(&self.0).rev() {
            let quotient =
                mul_outlined(l, load_block(l, x), mul_outlined(l, inverse, load_block(l, before)));
            inverse = mul_outlined(l, inverse, load_block(l, z));
            *before = store_block(l, reduce_canonical(l, quotient));
        }
        before
    }
}

impl Drop for Fractions {
    fn drop(&mut self) {
        self.0.iter_mut().flatten().for_each(wipe_group);
    }
}

/// Overwrites field elements with zeros.
pub fn wipe_group(group: &mut ElementBlock) {
    *group = [[0; LANES]; 5];
    zeroize::optimization_barrier(group);
}

/// Unpacks up to eight u-coordinates into limbs, and ignores bit 255. Missing ones are filled with
/// the last.
#[inline(always)]
pub fn unpack_points(u: &[[u8; 32]]) -> ElementBlock {
    let mut group = [[0; LANES]; 5];
    for lane in 0..LANES {
        let bytes = &u[lane.min(u.len() - 1)];
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        // Limb i begins at bit 51 i.
        group[0][lane] = word(0) & MASK_51;
        group[1][lane] = word(6) >> 3 & MASK_51;
        group[2][lane] = word(12) >> 6 & MASK_51;
        group[3][lane] = word(19) >> 1 & MASK_51;
        group[4][lane] = word(24) >> 12 & MASK_51;
    }
    group
}

/// Packs canonical elements into bytes, as many as `out` holds.
pub fn pack_points(group: &ElementBlock, out: &mut [[u8; 32]]) {
    for (lane, out) in out.iter_mut().enumerate() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|limb| group[limb][lane]);
        let words = [a | b << 51, b >> 13 | c << 38, c >> 26 | d << 25, d >> 39 | e << 12];
        for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}
