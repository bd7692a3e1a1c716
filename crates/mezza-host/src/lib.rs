//! The system around a node and its servers: files, clocks, TLS, the vault, and the texts for
//! users. Floor 3.
//!
//! The crates `mezza-servers` and `mezza` build the program on this crate.
//!
//! A vault opens only with its passphrase:
//!
//! ```
//! use mezza_host::api::{Exit, Fault};
//! use mezza_host::process::rng::OsRng;
//! use mezza_host::store::{Argon2Params, Vault};
//!
//! let folder = tempfile::tempdir().map_err(|e| Fault::bug(e.to_string()))?;
//! let (vault, now) = (folder.path().join("vault"), mezza_host::clock::now());
//! // `Argon2Params::measured()` is what a person's vault takes.
//! Vault::create(&vault, b"six words", Argon2Params::DEMO, now, &mut OsRng)?.close()?;
//! let refused = Vault::open(&vault, b"other words", now).err();
//! assert_eq!(refused.map(|fault| fault.code), Some(Exit::Denied));
//! let (opened, records) = Vault::open(&vault, b"six words", now)?;
//! assert!(records.is_empty());
//! opened.close()?;
//! # Ok::<(), Fault>(())
//! ```

// `pub(crate)` is the default: only what a crate above uses is `pub`, and the compiler finds unused
// items.
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "this crate is read with its private items")]

pub mod api;
pub mod backend;
pub mod backup;
pub mod clock;
pub mod connection;
pub mod process;
pub mod store;
pub mod tls;
