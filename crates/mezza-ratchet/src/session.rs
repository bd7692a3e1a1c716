//! One session: a Double Ratchet in one suite.

use core::fmt;
use core::marker::PhantomData;

use mezza_core::Backend;

/// A session in one of the suites.
pub enum Session<B: Backend> {
    /// Suite 0x0101.
    B2c20(PhantomData<fn() -> B>),
}

impl<B: Backend> fmt::Debug for Session<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}
