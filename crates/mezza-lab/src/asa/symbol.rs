//! The extraction function `F_ak` (thesis, section 3.2.2) and the planted secret in blocks.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rand_core::CryptoRng;
use sha2::Sha256;

/// Bits of the planted secret.
pub const SECRET_BITS: u32 = 128;

/// The attacker's key, 16 bytes.
#[derive(Clone)]
pub struct AttackKey([u8; 16]);

/// The content of an observed field: a block and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The bits, below 2^lambda.
    pub block: u32,
    /// The number of the block, below L.
    pub index: usize,
}

impl AttackKey {
    /// Wraps the bytes of a key.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Draws a random key.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self(key)
    }

    /// Returns the bytes of the key, for attacks that encrypt with it.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Computes HMAC-SHA256(ak, field), 32 bytes.
    pub fn digest(&self, field: &[u8]) -> [u8; 32] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return [0; 32] };
        mac.update(field);
        mac.finalize().into_bytes().into()
    }

    /// Returns the symbol of a field: bytes 0 to 3 of the digest modulo 2^lambda, bytes 4 to 7
    /// modulo L.
    pub fn find_symbol(&self, field: &[u8], lambda: u32) -> Symbol {
        let digest = self.digest(field);
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|n| digest[at + n]));
        let index = word(4) % count_blocks(lambda);
        Symbol { block: word(0) & ((1 << lambda) - 1), index: index as usize }
    }
}

/// Returns the number of blocks of the secret: L = ceil(128 / lambda).
pub const fn count_blocks(lambda: u32) -> u32 {
    SECRET_BITS.div_ceil(lambda)
}

/// The secret that a device was made to leak.
#[derive(Clone)]
pub struct Planted {
    secret: [u8; 16],
    lambda: u32,
}

impl Planted {
    /// Splits a secret into blocks of `lambda` bits; the last block is padded with zeros.
    pub const fn new(secret: [u8; 16], lambda: u32) -> Self {
        Self { secret, lambda }
    }

    /// Returns the bits of a block.
    pub const fn lambda(&self) -> u32 {
        self.lambda
    }

    /// Returns the number of blocks.
    pub const fn len(&self) -> usize {
        count_blocks(self.lambda) as usize
    }

    /// Returns the block with this number.
    pub fn block(&self, index: usize) -> u32 {
        let first = index as u32 * self.lambda;
        (first..first + self.lambda).fold(0, |block, at| {
            let byte = self.secret.get(at as usize / 8).copied().unwrap_or(0);
            (block << 1) | u32::from((byte >> (7 - at % 8)) & 1)
        })
    }
}

/// The rule that determines which block a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// Message n carries block n modulo L: the device counts its messages.
    Stateful,
    /// The observed field determines the block number, so the device needs no state.
    Stateless,
}

impl Sequence {
    /// Returns the number of the block in message number `message`, whose symbol is `symbol`.
    pub const fn block_index(self, symbol: Symbol, message: usize, blocks: usize) -> usize {
        match self {
            Self::Stateful => message % blocks,
            Self::Stateless => symbol.index,
        }
    }

    /// Returns the expected number of messages that carry the whole secret: L, or `L H_L` for a
    /// coupon collector.
    pub fn expected_messages(self, lambda: u32) -> f64 {
        let all = f64::from(count_blocks(lambda));
        match self {
            Self::Stateful => all,
            Self::Stateless => {
                all * (1..=count_blocks(lambda)).map(|n| 1.0 / f64::from(n)).sum::<f64>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbol_is_that_of_the_design() {
        let key = AttackKey::new([0; 16]);
        assert_eq!(key.digest(&[0; 32])[..8], [0x33, 0xad, 0x0a, 0x1c, 0x60, 0x7e, 0xc0, 0x3b]);
        assert_eq!(key.find_symbol(&[0; 32], 4), Symbol { block: 12, index: 27 });
    }

    #[test]
    fn blocks_are_the_bits_of_the_secret() {
        let planted = Planted::new([0b1010_0001; 16], 3);
        assert_eq!(planted.len(), 43);
        assert_eq!([0, 1, 2].map(|n| planted.block(n)), [0b101, 0b000, 0b011]);
        // 128 is 42 times 3 plus 2: the last block is padded with one zero.
        assert_eq!(planted.block(42), 0b010);
        assert_eq!(Planted::new([7; 16], 8).block(15), 7);
    }

    /// Erratum 12: the thesis searches (b, i) for a given i, which takes 2^lambda L trials. If the
    /// field itself determines the index, 2^lambda trials and L `H_L` messages are enough.
    #[test]
    fn all_blocks_take_so_many_messages() {
        let rounded = |lambda| format!("{:.0}", Sequence::Stateless.expected_messages(lambda));
        assert_eq!([8, 4, 1].map(rounded), ["54", "130", "695"]);
        assert!((Sequence::Stateful.expected_messages(12) - 11.0).abs() < 1e-9);
    }
}
