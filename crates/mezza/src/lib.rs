//! The program: every socket, file and clock around the pure floors. Floor 3.
//!
//! ```text
//! cli --HTTP--> web --> node (one task: device + vault) <--> carriers --TLS--> relay
//! page --HTTP, WebSocket--^         |
//!                                 store
//! ```
//!
//! A vault opens with its passphrase and with no other:
//!
//! ```
//! use mezza::testing::api::{Exit, Fault};
//! use mezza::testing::process::rng::OsRng;
//! use mezza::testing::store::{Argon2Params, Vault};
//!
//! let folder = tempfile::tempdir().map_err(|e| Fault::bug(e.to_string()))?;
//! let (vault, now) = (folder.path().join("vault"), mezza::testing::clock::now());
//! // `Argon2Params::measured()` is what a person's vault takes.
//! Vault::create(&vault, b"six words", Argon2Params::DEMO, now, &mut OsRng)?.close()?;
//! let refused = Vault::open(&vault, b"other words", now).err();
//! assert_eq!(refused.map(|fault| fault.code), Some(Exit::Denied));
//! let (opened, records) = Vault::open(&vault, b"six words", now)?;
//! assert!(records.is_empty());
//! opened.close()?;
//! # Ok::<(), Fault>(())
//! ```

// `pub(crate)` is the default: what is `pub` is reached through `testing`, and the compiler finds
// unused items.
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "this crate is read with its private items")]

mod api;
mod backend;
mod carriers;
mod clock;
mod connection;
mod demo;
mod faces;
mod node;
mod process;
mod servers;
mod store;
pub mod testing;
mod tls;

use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    faces::cli::main(demo::up)
}
