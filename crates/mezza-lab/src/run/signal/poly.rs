//! An attack on Poly1305 (RFC 8439): two tags under one key give the key.
//!
//! ```text
//! t = (.. + c r^2 + len r mod p) + s mod 2^128         p = 2^130 - 5, c the one block that differs
//! t1 - t2 + k 2^128 = (c1 - c2) r^2 mod p   for one k of -4..4   ->  r by a square root  ->  s
//! ```

/// 2^128 - 5, the lower part of p = 2^130 - 5.
const P_LOW: u128 = u128::MAX - 4;
/// The upper part of p.
const P_HIGH: u8 = 3;
/// Bits that Poly1305 clears in r.
const CLAMP: u128 = 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;

/// A number modulo p, below p.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fe {
    high: u8,
    low: u128,
}

impl Fe {
    const ZERO: Self = Self { high: 0, low: 0 };
    const ONE: Self = Self { high: 0, low: 1 };
    /// 2^128.
    const TOP: Self = Self { high: 1, low: 0 };
    /// The exponent p - 2, which inverts.
    const INVERT: Self = Self { high: P_HIGH, low: P_LOW - 2 };
    /// The exponent (p + 1) / 4, which takes a square root.
    const ROOT: Self = Self { high: 0, low: u128::MAX };

    fn from_low(low: u128) -> Self {
        Self { high: 0, low }
    }

    fn add(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        Self { high: self.high + other.high + u8::from(carry), low }.reduce_once().reduce_once()
    }

    /// Subtracts p if the number is not below p.
    fn reduce_once(self) -> Self {
        if (self.high, self.low) < (P_HIGH, P_LOW) {
            return self;
        }
        let (low, borrow) = self.low.overflowing_sub(P_LOW);
        Self { high: self.high - P_HIGH - u8::from(borrow), low }
    }

    fn neg(self) -> Self {
        if self == Self::ZERO {
            return self;
        }
        let (low, borrow) = P_LOW.overflowing_sub(self.low);
        Self { high: P_HIGH - self.high - u8::from(borrow), low }
    }

    fn is_bit_set(self, at: u32) -> bool {
        if at < 128 { self.low >> at & 1 == 1 } else { self.high >> (at - 128) & 1 == 1 }
    }

    fn mul(self, other: Self) -> Self {
        (0..130).rev().fold(Self::ZERO, |sum, at| {
            let sum = sum.add(sum);
            if other.is_bit_set(at) { sum.add(self) } else { sum }
        })
    }

    fn power(self, exponent: Self) -> Self {
        (0..130).rev().fold(Self::ONE, |product, at| {
            let product = product.mul(product);
            if exponent.is_bit_set(at) { product.mul(self) } else { product }
        })
    }
}

/// The one-time key of one text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolyKey {
    r: u128,
    s: u128,
}

impl PolyKey {
    /// Recovers the key from two ciphertexts of equal length, at most 16 bytes, and their tags,
    /// made with equal additional data and key. `None` for other input.
    pub fn of_two(aad: &[u8], texts: [&[u8]; 2], tags: [[u8; 16]; 2]) -> Option<Self> {
        let [c1, c2] = texts.map(read_block);
        let [t1, t2] = tags.map(|tag| Fe::from_low(u128::from_le_bytes(tag)));
        let inverse = c1.add(c2.neg()).power(Fe::INVERT);
        let difference = t1.add(t2.neg());
        let mut tops = Fe::TOP.mul(Fe::from_low(4)).neg();
        for _ in -4..=4 {
            let square = difference.add(tops).mul(inverse);
            let root = square.power(Fe::ROOT);
            for r in [root, root.neg()] {
                if r.mul(r) == square && r.high == 0 && r.low & !CLAMP == 0 {
                    let sum = evaluate_polynomial(r.low, aad, texts[0]);
                    let s = u128::from_le_bytes(tags[0]).wrapping_sub(sum);
                    let key = Self { r: r.low, s };
                    if key.compute_tag(aad, texts[1]) == tags[1] {
                        return Some(key);
                    }
                }
            }
            tops = tops.add(Fe::TOP);
        }
        None
    }

    /// Reads a one-time key from ChaCha20's output (RFC 8439, section 2.6).
    fn of_bytes(key: &[u8; 32]) -> Self {
        let half = |at: usize| u128::from_le_bytes(core::array::from_fn(|i| key[at + i]));
        Self { r: half(0) & CLAMP, s: half(16) }
    }

    /// Computes the tag of any text under this key.
    pub fn compute_tag(&self, aad: &[u8], text: &[u8]) -> [u8; 16] {
        evaluate_polynomial(self.r, aad, text).wrapping_add(self.s).to_le_bytes()
    }
}

/// Finds a block to append to `text` (whole blocks, no additional data) so that both one-time keys
/// give the same tag. Returns the block and the tag; `None` if no block of 16 bytes does. The tag
/// is linear in the block.
pub fn common_block(keys: [[u8; 32]; 2], text: &[u8]) -> Option<([u8; 16], [u8; 16])> {
    let mut lengths = [0; 16];
    lengths[8..].copy_from_slice(&(text.len() as u64 + 16).to_le_bytes());
    let keys = keys.map(|key| PolyKey::of_bytes(&key));
    let lines = keys.map(|PolyKey { r, s }| {
        let r = Fe::from_low(r);
        let sum = text.chunks(16).fold(Fe::ZERO, |sum, bytes| sum.add(read_block(bytes)).mul(r));
        let constant =
            sum.add(Fe::TOP).mul(r).add(read_block(&lengths)).mul(r).add(Fe::from_low(s));
        (constant, r.mul(r))
    });
    let [(c1, r1), (c2, r2)] = lines;
    let inverse = r1.add(r2.neg()).power(Fe::INVERT);
    let mut difference = c2.add(c1.neg()).add(Fe::TOP.mul(Fe::from_low(5)).neg());
    for _ in -5..=5 {
        let x = difference.mul(inverse);
        let free = x.low.to_le_bytes();
        let whole = [text, &free].concat();
        let tags = keys.map(|key| key.compute_tag(&[], &whole));
        if x.high == 0 && tags[0] == tags[1] {
            return Some((free, tags[0]));
        }
        difference = difference.add(Fe::TOP);
    }
    None
}

/// Reads up to 16 bytes as Poly1305 reads a padded block.
fn read_block(bytes: &[u8]) -> Fe {
    let mut padded = [0; 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    Fe::from_low(u128::from_le_bytes(padded)).add(Fe::TOP)
}

/// Evaluates the polynomial of RFC 8439, section 2.8, modulo 2^128.
fn evaluate_polynomial(r: u128, aad: &[u8], text: &[u8]) -> u128 {
    let mut lengths = [0; 16];
    lengths[..8].copy_from_slice(&(aad.len() as u64).to_le_bytes());
    lengths[8..].copy_from_slice(&(text.len() as u64).to_le_bytes());
    let blocks = aad.chunks(16).chain(text.chunks(16)).chain([&lengths[..]]);
    blocks.fold(Fe::ZERO, |sum, bytes| sum.add(read_block(bytes)).mul(Fe::from_low(r))).low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_modulo_the_prime() {
        let p_less_one = Fe { high: P_HIGH, low: P_LOW - 1 };
        assert_eq!(p_less_one.add(Fe::ONE), Fe::ZERO);
        assert_eq!(Fe::ONE.neg(), p_less_one);
        assert_eq!(p_less_one.mul(p_less_one), Fe::ONE);
        // 2^130 = 5 modulo p.
        assert_eq!(Fe::TOP.mul(Fe::from_low(4)), Fe::from_low(5));
        let x = Fe { high: 2, low: 0x1234_5678_9abc_def0_1234_5678 };
        assert_eq!(x.mul(x.power(Fe::INVERT)), Fe::ONE);
        let square = x.mul(x);
        assert!([x, x.neg()].contains(&square.power(Fe::ROOT)));
    }

    #[test]
    fn two_tags_give_the_key() {
        let key = PolyKey { r: 0x0806_d540_0e52_447c_036d_5554_08be_d685 & CLAMP, s: 0x1bf5_4941 };
        let texts: [&[u8]; 2] = [b"sixteen bytes on", b"and sixteen more"];
        let tags = texts.map(|text| key.compute_tag(b"head", text));
        assert_eq!(PolyKey::of_two(b"head", texts, tags), Some(key));
        let mut wrong = tags;
        wrong[1][3] ^= 1;
        assert_ne!(PolyKey::of_two(b"head", texts, wrong), Some(key));
    }
}
