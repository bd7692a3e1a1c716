//! Clock and randomness of a peer: the system's, or values from the command line so that a test is
//! repeatable.

use std::convert::Infallible;

use mezza_core::{Secret, Time, blake2b};
use rand_core::{TryCryptoRng, TryRng};

use mezza_host::clock;
use mezza_host::process::rng::OsRng;

/// Bytes of a block of [`Chance::Seeded`].
const BLOCK_BYTES: usize = 64;

/// The random generator of a peer.
pub(super) enum Chance {
    /// The operating system.
    System,
    /// A seed and the number of the next block, for tests only: the seed determines every key.
    Seeded(Secret<32>, u64),
}

impl Chance {
    /// Returns the system's generator, or that of a seed.
    pub(super) fn from_seed(seed: Option<&[u8; 32]>) -> Self {
        seed.map_or(Self::System, |seed| Self::Seeded(Secret::copy_from(seed), 0))
    }
}

impl TryRng for Chance {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        let Self::Seeded(seed, next) = self else { return OsRng.try_fill_bytes(bytes) };
        for chunk in bytes.chunks_mut(BLOCK_BYTES) {
            let mut block = [0; BLOCK_BYTES];
            blake2b(&mut block, seed.expose(), "mezza peer seed", &[&next.to_be_bytes()]);
            chunk.copy_from_slice(&block[..chunk.len()]);
            *next += 1;
        }
        Ok(())
    }
}

impl TryCryptoRng for Chance {}

/// The clock of a peer.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// The system's clock.
    System,
    /// A clock that stays at this time until a command moves it.
    At(Time),
}

impl Clock {
    /// Returns the time.
    pub(super) fn now(self) -> Time {
        match self {
            Self::System => clock::now(),
            Self::At(time) => time,
        }
    }
}
