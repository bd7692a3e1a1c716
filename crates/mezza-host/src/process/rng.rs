//! Randomness: the operating system's generator, called directly.
//!
//! Every draw is one `getrandom(2)`: no seed in our memory can be stolen, copied by a fork or
//! frozen in a snapshot of the machine. A draw costs under a microsecond. Once a guard has sent
//! bytes, a stream from them is added (module `gifts`).

mod gifts;

use std::convert::Infallible;

use rand_core::utils::next_word_via_fill;
use rand_core::{TryCryptoRng, TryRng};

use crate::api::Exit;

pub use gifts::{keep_gifts, mix_gift};

/// The operating system's generator as a `rand_core` 0.10 `CryptoRng`.
///
/// Without randomness nothing is safe, so the program reports the failure and ends with exit code
/// 70. Committed data stays committed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRng;

impl TryRng for OsRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        if getrandom::fill(bytes).is_err() {
            eprintln!("the system gives no random numbers; mount /dev/urandom or allow getrandom");
            std::process::exit(Exit::Bug.number().into());
        }
        gifts::add_stream(bytes);
        Ok(())
    }
}

impl TryCryptoRng for OsRng {}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::CryptoRng;

    #[test]
    fn draws_differ_and_fill_everything() {
        let rng: &mut dyn CryptoRng = &mut OsRng;
        let mut a = [0; 64];
        let mut b = [0; 64];
        rng.fill_bytes(&mut a);
        rng.fill_bytes(&mut b);
        assert_ne!(a, b);
        assert!(a.chunks(16).all(|part| part != [0; 16]));
        assert_ne!(rng.next_u64(), rng.next_u64());
        assert_ne!((rng.next_u32(), rng.next_u32()), (rng.next_u32(), rng.next_u32()));
    }
}
