//! The tools that the tests of every crate share: the cases of `vectors/`, hexadecimal, and generators
//! whose every byte is known. All of them panic on a wrong case, as a test should.

#![allow(clippy::panic, clippy::expect_used, reason = "a test ends where a case is wrong")]

mod case;
mod generators;

pub use case::{Case, read_cases, vector_folder};
pub use generators::{Constant, Given};

use data_encoding::HEXLOWER;

/// Returns bytes as lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Returns the bytes of a lower-case hexadecimal text.
///
/// # Panics
///
/// If the text is not lower-case hexadecimal.
#[must_use]
pub fn unhex(text: &str) -> Vec<u8> {
    HEXLOWER.decode(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the bytes of a lower-case hexadecimal text of a known length.
///
/// # Panics
///
/// If the text is not lower-case hexadecimal, or has another length.
#[must_use]
pub fn unhex_array<const N: usize>(text: &str) -> [u8; N] {
    let bytes = unhex(text);
    let count = bytes.len();
    bytes.try_into().unwrap_or_else(|_| panic!("{count} bytes, not {N}: {text}"))
}
