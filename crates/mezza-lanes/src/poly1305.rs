//! Poly1305 as ChaCha20-Poly1305 uses it (RFC 8439, sections 2.5 and 2.8): radix 2^44, limbs of 44,
//! 44 and 42 bits, so that a product of limbs takes one 64-bit multiplication.

/// A mask of bits 0..44.
pub const MASK_44: u64 = (1 << 44) - 1;
/// A mask of bits 0..42.
pub const MASK_42: u64 = (1 << 42) - 1;
/// Bit 128, as bit 40 of the top limb. It is set in every block, since the AEAD has only whole
/// blocks.
pub const WHOLE: u64 = 1 << 40;
/// A mask of the bits of r that may be set, as words of 64 bits.
pub const CLAMP: [u64; 2] = [0x0fff_fffc_0fff_ffff, 0x0fff_fffc_0fff_fffc];
/// Bytes of a Poly1305 block.
pub const BLOCK_BYTES: usize = 16;

/// A one-time key in two halves: the clamped point r of the polynomial, as limbs, and the number s
/// that is added in the end.
pub struct Poly1305Key {
    /// The limbs of r, each below 2^44.
    pub r: [u64; 3],
    s: u128,
}

impl Drop for Poly1305Key {
    fn drop(&mut self) {
        (self.r, self.s) = ([0; 3], 0);
        zeroize::optimization_barrier(self);
    }
}

impl Poly1305Key {
    /// Makes a key from the first 32 bytes of key block 0, read as two little-endian numbers.
    pub fn new(r: u128, s: u128) -> Self {
        let clamp = u128::from(CLAMP[0]) | u128::from(CLAMP[1]) << 64;
        Self { r: split_limbs(r & clamp), s }
    }

    /// Computes the tag from the final state `h`, whose limbs are below 2^45: reduces, and adds s.
    pub fn finish_tag(&self, h: [u64; 3]) -> [u8; BLOCK_BYTES] {
        let [h0, h1, h2] = carry_limbs(carry_limbs(h));
        // h is below 2^130 now, so p = 2^130 - 5 fits at most once: it does if h + 5 reaches 2^130.
        let g0 = h0 + 5;
        let g1 = h1 + (g0 >> 44);
        let g2 = h2 + (g1 >> 44);
        let subtract = (g2 >> 42).wrapping_neg();
        let pick = |h: u64, g: u64| u128::from(h ^ (subtract & (h ^ g)));
        let h0 = pick(h0, g0 & MASK_44);
        let h1 = pick(h1, g1 & MASK_44);
        let h2 = pick(h2, g2 & MASK_42);
        (h0 | h1 << 44 | h2 << 88).wrapping_add(self.s).to_le_bytes()
    }

    /// Computes the tag of a ciphertext without additional data.
    pub fn compute_tag(&self, text: &[u8]) -> [u8; BLOCK_BYTES] {
        let mut h = [0; 3];
        let (blocks, rest) = text.as_chunks();
        for block in blocks {
            h = self.absorb_block(h, block);
        }
        if !rest.is_empty() {
            h = self.absorb_block(h, &pad_block(rest));
        }
        self.finish_tag(self.absorb_block(h, &length_block(text.len())))
    }

    /// Computes `(h + block) r`; the limbs of the result are below 2^44 + 2^8.
    #[inline]
    pub fn absorb_block(&self, h: [u64; 3], block: &[u8; BLOCK_BYTES]) -> [u64; 3] {
        let m = split_limbs(u128::from_le_bytes(*block));
        let [r0, r1, r2] = self.r;
        // 2^132 = 20 modulo p, so a carry out of the top limb counts 20 times.
        let s1 = 20 * r1;
        let s2 = 20 * r2;
        let h = [h[0] + m[0], h[1] + m[1], h[2] + m[2] + WHOLE];
        let d0 = dot_product(h, [r0, s2, s1]);
        let d1 = dot_product(h, [r1, r0, s2]).wrapping_add(d0 >> 44);
        let d2 = dot_product(h, [r2, r1, r0]).wrapping_add(d1 >> 44);
        let h0 = (d0 as u64 & MASK_44) + 5 * (d2 >> 42) as u64;
        let h1 = (d1 as u64 & MASK_44) + (h0 >> 44);
        [h0 & MASK_44, h1, d2 as u64 & MASK_42]
    }
}

/// Computes the sum of three products. The sum is below 2^97, so it cannot overflow.
fn dot_product(a: [u64; 3], b: [u64; 3]) -> u128 {
    let times = |i: usize| u128::from(a[i]) * u128::from(b[i]);
    times(0).wrapping_add(times(1)).wrapping_add(times(2))
}

/// Pads the last bytes of a text with zeros.
pub fn pad_block(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// Returns the last block: no additional data, and the length of the text in bytes.
pub fn length_block(text_bytes: usize) -> [u8; BLOCK_BYTES] {
    ((text_bytes as u128) << 64).to_le_bytes()
}

fn carry_limbs([h0, h1, h2]: [u64; 3]) -> [u64; 3] {
    let h1 = h1 + (h0 >> 44);
    let h2 = h2 + (h1 >> 44);
    let h0 = (h0 & MASK_44) + 5 * (h2 >> 42);
    [h0 & MASK_44, (h1 & MASK_44) + (h0 >> 44), h2 & MASK_42]
}

fn split_limbs(x: u128) -> [u64; 3] {
    [x as u64 & MASK_44, (x >> 44) as u64 & MASK_44, (x >> 88) as u64]
}
