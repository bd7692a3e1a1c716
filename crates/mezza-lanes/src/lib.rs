//! The same public-key or AEAD operation on many independent inputs at once. Floor 0: knows no
//! protocol and no other crate of ours.
//!
//! A [`Kernel`] does the work; [`fastest_kernel()`] returns the fastest kernel that this CPU
//! supports. Every kernel produces the bytes of RFC 7748 and RFC 8439 for every input, in time that
//! depends on counts and sizes alone. The rules are in `docs/protocols/lanes.md`.
//!
//! ```
//! use mezza_lanes::{BASE, Scalar, Strided, fastest_kernel};
//!
//! // A server with one secret and two clients with a scalar each.
//! let (server, clients) = ([7; 32], [[1; 32], [2; 32]]);
//! let base = fastest_kernel().fixed_point(&BASE).expect("the base point has prime order");
//! let (mut public, mut points) = ([[0; 32]], [[0; 32]; 2]);
//! fastest_kernel().x25519_fixed(&base, &[server], &mut public);
//! fastest_kernel().x25519_fixed(&base, &clients, &mut points);
//!
//! // Each side computes its own way to the same secrets.
//! let (mut ours, mut theirs) = ([[0; 32]; 2], [[0; 32]; 2]);
//! fastest_kernel().x25519_shared(&Scalar::copy_from(&server), &points, &mut ours);
//! fastest_kernel().x25519_pairwise(&clients, &[public[0]; 2], &mut theirs);
//! assert_eq!(ours, theirs);
//!
//! // Two messages of 3 bytes, 19 bytes apart: 3 of the body, 16 of the tag.
//! let mut bytes = *b"one................two................";
//! fastest_kernel().seal_each(&ours, Strided::new(&mut bytes, 19, 0, 3));
//! bytes[0] ^= 1;
//! let mut ok = [0; 2];
//! fastest_kernel().open_each(&theirs, Strided::new(&mut bytes, 19, 0, 3), &mut ok);
//! assert_eq!((ok, &bytes[..3], &bytes[19..22]), ([0, 1], &[0; 3][..], &b"two"[..]));
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`mod@kernel`] | [`Kernel`]: what a CPU does for many messages at once; which one runs |
//! | `scalar`, `fixed_point`, `strided` | [`Scalar`], [`FixedPoint`], [`Strided`]: what goes in |
//! | `portable`, `poly1305` | the kernel for every CPU, one input after another |
//! | `lanes`, `eight` | what a vector can do; the kernel written once for all vectors |
//! | `avx512` | vectors of AVX-512 with IFMA, and all the `unsafe` code there is |
//! | `selftest` | [`run_selftest`]: known answers in every lane |
//! | `wipe` | [`wipe_stack`], and zeros that the compiler may not leave out |
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(test, target_arch = "x86_64"))]
mod eight;
mod fixed_point;
pub mod kernel;
#[cfg(any(test, target_arch = "x86_64"))]
mod lanes;
mod poly1305;
mod portable;
mod scalar;
mod selftest;
mod strided;
#[cfg(test)]
mod tests;
mod wipe;

pub use fixed_point::FixedPoint;
pub use kernel::{Kernel, fastest_kernel, ifma, portable};
pub use scalar::Scalar;
pub use selftest::{SelftestError, run_selftest};
pub use strided::Strided;
pub use wipe::wipe_stack;

/// The u-coordinate of the base point of X25519, little-endian (RFC 7748, section 4.1).
pub const BASE: [u8; 32] = {
    let mut u = [0; 32];
    u[0] = 9;
    u
};
