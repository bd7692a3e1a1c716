//! The program: every socket, file and clock around the pure floors. Floor 3.
//!
//! ```text
//! cli --HTTP--> web --> node (one task: device + vault) <--> carriers --TLS--> relay
//! page --HTTP, WebSocket--^         |
//!                                 store
//! ```

// `pub(crate)` is the default: what is `pub` is reached through `testing`, and the compiler finds
// whatever nobody uses.
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
