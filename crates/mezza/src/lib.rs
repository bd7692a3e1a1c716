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
//! use mezza::exit::{Exit, Fault};
//! use mezza::rng::OsRng;
//! use mezza::store::{Argon2Params, Vault};
//!
//! let folder = tempfile::tempdir().map_err(|e| Fault::bug(e.to_string()))?;
//! let (vault, now) = (folder.path().join("vault"), mezza::node::now());
//! // `Argon2Params::measured()` is what a person's vault takes.
//! Vault::create(&vault, b"six words", Argon2Params::DEMO, now, &mut OsRng)?.close()?;
//! let refused = Vault::open(&vault, b"other words", now).err();
//! assert_eq!(refused.map(|fault| fault.code), Some(Exit::Denied));
//! let (opened, records) = Vault::open(&vault, b"six words", now)?;
//! assert!(records.is_empty());
//! opened.close()?;
//! # Ok::<(), Fault>(())
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`node`], [`drive`], [`station`] | a running node; the loop around a device; the device with its vault and carriers |
//! | [`store`] | the vault: sealed records in SQLite |
//! | [`carriers`], [`tls`] | connections to relays and entry servers; TLS 1.3 with raw public keys |
//! | [`relay`], [`mixnet`] | the servers |
//! | [`web`], [`cli`], [`exit`] | JSON over HTTP and the page; the command line; how a command ends |
//! | [`observer`] | what a provider, a relay and a thief see of one note |
//! | [`up`] | the demo world |
//! | [`home`], [`config`], [`ports`], [`passphrase`], [`memory`] | the machine that it runs on |
//! | [`backend`], [`rng`], [`qr`] | aws-lc; the random source; QR codes drawn and read |

pub mod backend;
pub mod carriers;
pub mod cli;
pub mod config;
pub(crate) mod doors;
pub mod drive;
pub mod exit;
pub mod home;
mod log_file;
pub mod memory;
pub mod mixnet;
pub mod node;
pub mod observer;
pub mod passphrase;
pub mod ports;
pub mod qr;
pub mod relay;
pub mod rng;
pub mod station;
pub mod store;
pub mod tls;
pub mod up;
pub mod web;
