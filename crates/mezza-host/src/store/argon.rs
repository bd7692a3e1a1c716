//! Derives a key from a passphrase: Argon2id (RFC 9106) and its cost.

#![allow(clippy::disallowed_methods, reason = "floor 3 owns the clock")]

use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use mezza_core::Secret;

use crate::api::{Exit, Fault};

/// Bytes of a salt.
pub(crate) const SALT_BYTES: usize = 16;
/// Minimum memory, KiB: 64 MiB.
const M_KIB_MIN: u32 = 64 << 10;
/// Minimum product of memory and passes, KiB: 192 MiB.
const WORK_KIB_MIN: u64 = 192 << 10;
/// Maximum memory, KiB: 4 GiB. A damaged head must not request all memory.
const M_KIB_MAX: u32 = 4 << 20;
/// Maximum number of passes.
const T_MAX: u32 = 64;
/// Maximum number of lanes.
const P_MAX: u32 = 16;
/// The intended time of one guess of the passphrase, on the machine that makes the vault.
const GUESS_AIM: Duration = Duration::from_millis(500);

/// The cost of one guess of a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Params {
    /// Memory in KiB.
    pub m_kib: u32,
    /// Number of passes.
    pub t: u32,
    /// Number of lanes.
    pub p: u32,
}

impl Argon2Params {
    /// The minimum cost, 0.2 s: for tests and the demonstration.
    pub const DEMO: Self = Self { m_kib: M_KIB_MIN, t: 3, p: 1 };

    /// A cost for tests of this crate that open hundreds of vaults. The program refuses it.
    #[cfg(test)]
    pub(crate) const OF_TESTS: Self = Self { m_kib: 64, t: 1, p: 1 };

    /// Measures the cost for a user's vault: 256 MiB, and as many passes as take this machine 0.5
    /// s.
    pub fn measured() -> Result<Self, Fault> {
        let once = Self { m_kib: 256 << 10, t: 1, p: 1 };
        let start = Instant::now();
        once.derive_key(b"a measurement", &[0; SALT_BYTES])?;
        let passes = GUESS_AIM.as_micros().div_ceil(start.elapsed().as_micros().max(1));
        let t = u32::try_from(passes).unwrap_or(T_MAX).clamp(1, T_MAX);
        Ok(Self { t, ..once })
    }

    /// Returns true if a vault may have this cost: neither too cheap to guess nor too expensive for
    /// any machine.
    pub fn is_allowed(self) -> bool {
        #[cfg(test)]
        if self == Self::OF_TESTS {
            return true;
        }
        (M_KIB_MIN..=M_KIB_MAX).contains(&self.m_kib)
            && (1..=T_MAX).contains(&self.t)
            && (1..=P_MAX).contains(&self.p)
            && u64::from(self.m_kib) * u64::from(self.t) >= WORK_KIB_MIN
    }

    /// Derives the key of a passphrase, 32 bytes.
    ///
    /// Errors: [`Exit::Config`] if the cost is not allowed, [`Exit::Busy`] if the memory is not
    /// available now.
    pub fn derive_key(self, pass: &[u8], salt: &[u8; SALT_BYTES]) -> Result<Secret<32>, Fault> {
        let params = Params::new(self.m_kib, self.t, self.p, Some(32))
            .map_err(|_| Fault::bug("no such cost of Argon2id"))?;
        // The blocks are large enough for a mapping of their own: dropping them returns the pages
        // to the system, which wipes them.
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(params.block_count()).map_err(|_| {
            Fault::new(
                Exit::Busy,
                format!("{} MiB of memory are needed for the passphrase", self.m_kib >> 10),
                "close other programs and try again",
            )
        })?;
        blocks.resize(params.block_count(), Block::default());
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut result = Ok(());
        let key = Secret::init_with(|key| {
            result = argon.hash_password_into_with_memory(pass, salt, key, &mut blocks);
        });
        result.map(|()| key).map_err(|_| Fault::bug("Argon2id refuses its input"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_holds_in_both_directions() {
        assert!(Argon2Params::DEMO.is_allowed());
        assert!(!Argon2Params { t: 2, ..Argon2Params::DEMO }.is_allowed());
        assert!(!Argon2Params { m_kib: M_KIB_MIN - 1, t: 4, p: 1 }.is_allowed());
        assert!(Argon2Params { m_kib: 256 << 10, t: 1, p: 1 }.is_allowed());
        assert!(!Argon2Params { p: 0, ..Argon2Params::DEMO }.is_allowed());
        assert!(!Argon2Params { m_kib: u32::MAX, t: u32::MAX, p: u32::MAX }.is_allowed());
    }

    #[test]
    fn what_is_measured_is_allowed() {
        let cost = Argon2Params::measured().unwrap();
        assert!(cost.is_allowed(), "{cost:?}");
        assert_eq!((cost.m_kib, cost.p), (256 << 10, 1));
    }
}
