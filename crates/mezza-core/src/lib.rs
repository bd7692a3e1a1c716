//! What every part of Mezzavoce stands on: suites, secrets, the wire codec, time, and the one
//! [`Machine`] trait. Floor 0: no socket, file, thread, clock or random source; no protocol is
//! named here.
//!
//! ```
//! use mezza_core::{Backend, Ephemeral, Portable, Secret};
//!
//! let alice = Ephemeral::from_scalar::<Portable>(Secret::fill(|s| s.fill(0x11)));
//! let bob = Ephemeral::from_scalar::<Portable>(Secret::fill(|s| s.fill(0x22)));
//! let ours = Portable::dh(&alice, bob.public());
//! let theirs = Portable::dh(&bob, alice.public());
//! assert_eq!(ours, theirs);
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`machine`] | [`Machine`]: the one shape of everything that lives on or has timers |
//! | [`time`] | [`Time`]: milliseconds since 1970, as the caller's clock says |
//! | [`secret`] | [`Secret`]: bytes that are wiped, never printed, compared in constant time |
//! | [`ephemeral`] | [`Ephemeral`]: an X25519 pair handed in by the caller |
//! | [`wiping`] | [`Wiping`]: a value that is wiped when it goes |
//! | [`wire`] | [`Reader`], [`Writer`]: big-endian, length-checked, no trailing byte |
//! | [`blake`], [`hash`] | BLAKE2b with key and person; 64-byte hashes behind one trait |
//! | [`xchacha`] | the AEAD of what lies on a disk |
//! | [`suite`], [`backend`] | which primitives (visible on the wire), and whose code (invisible) |
#![no_std]

extern crate alloc;

pub mod backend;
pub mod blake;
pub mod ephemeral;
pub mod hash;
pub mod machine;
pub mod secret;
pub mod splitter;
pub mod suite;
pub mod time;
pub mod wiping;
pub mod wire;
pub mod xchacha;

pub use backend::{Backend, FrameKey, Portable};
pub use blake::blake2b;
pub use ephemeral::{Ephemeral, Kind};
pub use hash::{Blake2b512, Hash512, Sha512};
pub use machine::Machine;
pub use rand_core::CryptoRng;
pub use secret::Secret;
pub use splitter::Splitter;
pub use suite::{Aead, Suite, SuiteId};
pub use time::Time;
pub use wiping::{Wipe, Wiping, wipe};
pub use wire::{DecodeError, Reader, Writer};
