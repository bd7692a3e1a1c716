//! From a passphrase to a key: Argon2id (RFC 9106), and how much of it.

#![allow(clippy::disallowed_methods, reason = "floor 3 owns the clock")]

use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use mezza_core::Secret;

use crate::api::{Exit, Fault};

/// Bytes of a salt.
pub(crate) const SALT_BYTES: usize = 16;
/// Least memory, KiB: 64 MiB.
const M_KIB_MIN: u32 = 64 << 10;
/// Least product of memory and passes, KiB: 192 MiB.
const WORK_KIB_MIN: u64 = 192 << 10;
/// Most memory, KiB: 4 GiB. A damaged head must not ask for all there is.
const M_KIB_MAX: u32 = 4 << 20;
/// Most passes.
const T_MAX: u32 = 64;
/// Most lanes.
const P_MAX: u32 = 16;
/// How long one guess shall take on the machine that makes the vault.
const GUESS_AIM: Duration = Duration::from_millis(500);

/// The cost of one guess of a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Params {
    /// Memory, KiB.
    pub m_kib: u32,
    /// Passes.
    pub t: u32,
    /// Lanes.
    pub p: u32,
}

impl Argon2Params {
    /// The least cost that is allowed, 0.2 s: for tests and the demo world.
    pub const DEMO: Self = Self { m_kib: M_KIB_MIN, t: 3, p: 1 };

    /// The cost of a person's vault: 256 MiB, and so many passes that this machine needs 0.5 s.
    pub fn measured() -> Result<Self, Fault> {
        let once = Self { m_kib: 256 << 10, t: 1, p: 1 };
        let start = Instant::now();
        once.derive_key(b"a measurement", &[0; SALT_BYTES])?;
        let passes = GUESS_AIM.as_micros().div_ceil(start.elapsed().as_micros().max(1));
        let t = u32::try_from(passes).unwrap_or(T_MAX).clamp(1, T_MAX);
        Ok(Self { t, ..once })
    }

    /// Returns true if a vault may have this cost: not too cheap to guess, not beyond every machine.
    pub fn is_allowed(self) -> bool {
        (M_KIB_MIN..=M_KIB_MAX).contains(&self.m_kib)
            && (1..=T_MAX).contains(&self.t)
            && (1..=P_MAX).contains(&self.p)
            && u64::from(self.m_kib) * u64::from(self.t) >= WORK_KIB_MIN
    }

    /// The key of a passphrase, 32 bytes.
    ///
    /// Errors: [`Exit::Config`] if the cost is not allowed, [`Exit::Busy`] if the memory is not to
    /// be had now.
    pub fn derive_key(self, pass: &[u8], salt: &[u8; SALT_BYTES]) -> Result<Secret<32>, Fault> {
        let params = Params::new(self.m_kib, self.t, self.p, Some(32))
            .map_err(|_| Fault::bug("no such cost of Argon2id"))?;
        // The blocks are large enough to be mapped alone: dropping them gives the pages back to
        // the system, which wipes them.
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
