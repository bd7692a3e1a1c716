//! The program: every socket, file and clock around the pure floors. Floor 3.
//!
//! ```text
//! cli --HTTP--> web --> node (one task: device + vault) <--> carriers --TLS--> relay
//! page --HTTP, WebSocket--^         |
//!                                 store
//! ```

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
