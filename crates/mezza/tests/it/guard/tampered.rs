//! A tampered device: its generator draws again until the key carries the next part of a secret.

use std::convert::Infallible;

use mezza::testing::backend::hmac_sha256;
use mezza::testing::process::rng::OsRng;
use mezza_core::{EphemeralKey, PortableBackend};
use mezza_guard::coin::{CoinEncoding, CoinSecret};
use rand_core::utils::next_word_via_fill;
use rand_core::{Rng as _, TryCryptoRng, TryRng};

/// Bytes of the planted secret, each of which is a block.
const BLOCKS: usize = 16;
/// The key that the attacker shares with the tampered program.
const ATTACK_KEY: [u8; 32] = [0xa5; 32];

/// The secret that the device leaks.
#[derive(Clone, Copy)]
pub struct Planted(pub [u8; BLOCKS]);

/// A part of a secret as a reader of the wire sees it in a key.
#[derive(Clone, Copy)]
struct Symbol {
    index: usize,
    block: u8,
}

impl Symbol {
    fn of_key(key: &[u8]) -> Self {
        let hash = hmac_sha256(&ATTACK_KEY, &[key]);
        Self { index: usize::from(hash[4]) % BLOCKS, block: hash[0] }
    }
}

impl Planted {
    /// Returns true if a key carries the right block of the secret.
    pub fn fits(&self, key: &[u8]) -> bool {
        let symbol = Symbol::of_key(key);
        self.0[symbol.index] == symbol.block
    }

    /// Draws keys until one fits: the attack without a guard.
    pub fn draw_key(&self) -> EphemeralKey {
        loop {
            let key = EphemeralKey::random::<PortableBackend>(&mut OsRng);
            if self.fits(key.public_key().as_bytes()) {
                return key;
            }
        }
    }
}

/// The parts of a secret that a reader of the wire has found.
#[derive(Default)]
pub struct Reader {
    pub found: [Option<u8>; BLOCKS],
    pub hits: usize,
}

impl Reader {
    /// Reads a key of the wire.
    pub fn read_key(&mut self, planted: &Planted, key: &[u8]) {
        let symbol = Symbol::of_key(key);
        self.found[symbol.index] = Some(symbol.block);
        self.hits += usize::from(planted.fits(key));
    }

    /// Returns true if the whole secret was read.
    pub fn has_read(&self, planted: &Planted) -> bool {
        self.found == planted.0.map(Some)
    }
}

/// The generator of a tampered device: each secret of a coin is drawn again until its own key would
/// carry the next block, which is all that the device can do before it learns the guard's coin.
pub struct TamperedRng(pub Planted);

impl TryRng for TamperedRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        loop {
            OsRng.fill_bytes(bytes);
            let Ok(drawn) = <[u8; 64]>::try_from(&*bytes) else { return Ok(()) };
            let secret = CoinSecret::random(&mut Replay(drawn));
            if self.0.fits(&secret.point(CoinEncoding::X25519)) {
                return Ok(());
            }
        }
    }
}

impl TryCryptoRng for TamperedRng {}

/// Gives these 64 bytes.
struct Replay([u8; 64]);

impl TryRng for Replay {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.0[..bytes.len()]);
        Ok(())
    }
}

impl TryCryptoRng for Replay {}
