//! The base of every part of Mezzavoce: suites, secrets, the wire codec, time, and the one
//! [`Machine`] trait. Floor 0: no socket, file, thread, clock or random source; no protocol is
//! named here.
//!
//! ```
//! use mezza_core::{PortableBackend, Secret, StaticKey};
//!
//! let alice = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(0x11)));
//! let bob = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(0x22)));
//! assert_eq!(alice.diffie_hellman::<PortableBackend>(bob.public_key())?, bob.diffie_hellman::<PortableBackend>(alice.public_key())?);
//! # Ok::<(), mezza_core::ZeroSecret>(())
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`machine`], [`mod@snapshot`] | [`Machine`]: the trait of every state machine that has timers; its whole state as bytes |
//! | [`time`], [`timers`] | [`Time`]: milliseconds since 1970; [`Timers`]: deadlines by key |
//! | [`secret`] | [`Secret`]: bytes that are wiped, never printed, compared in constant time |
//! | [`keys`] | [`EphemeralKey`], [`StaticKey`], [`PublicKey`]: X25519 keys by role |
//! | [`wiping`] | [`Wiping`]: a value that is wiped when it is dropped |
//! | [`wire`] | [`Reader`], [`Writer`]: big-endian, length-checked, no trailing byte |
//! | [`blake`], [`hash`] | BLAKE2b with key and person; the labelled hash; 64-byte hashes behind one trait |
//! | [`xchacha`] | the AEAD of stored rows and files |
//! | [`suite`], [`backend`] | the choice of primitives (visible on the wire), and their implementation (invisible) |
#![no_std]

extern crate alloc;

pub mod backend;
pub mod blake;
pub mod hash;
pub mod keys;
pub mod machine;
pub mod secret;
pub mod snapshot;
pub mod splitter;
pub mod suite;
pub mod time;
pub mod timers;
pub mod wiping;
pub mod wire;
pub mod xchacha;

pub use backend::{AeadKey, Backend, PortableBackend};
pub use blake::blake2b;
pub use hash::{Blake2b512, Hash512, Sha512, labelled_hash};
pub use keys::{EphemeralKey, PublicKey, StaticKey, ZeroSecret};
pub use machine::Machine;
pub use rand_core::CryptoRng;
pub use secret::Secret;
pub use snapshot::Snapshot;
pub use splitter::{Deframer, FrameTooLong};
pub use suite::{Aead, Suite, SuiteId};
pub use time::Time;
pub use timers::Timers;
pub use wiping::{Wipe, Wiping, wipe_bytes};
pub use wire::{DecodeError, Reader, Writer};
