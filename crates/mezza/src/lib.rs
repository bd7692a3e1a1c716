//! The program: a node, its carriers, and its user interfaces. Floor 3; `mezza-host` has the access
//! to the system, `mezza-servers` the servers that the program runs.
//!
//! ```text
//! cli --HTTP--> web --> node (one task: device + vault) <--> carriers --TLS--> relay
//! page --HTTP, WebSocket--^         |
//!                                 store
//! ```

// `pub(crate)` is the default: `pub` items are reached through `testing`, and the compiler finds
// unused items.
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "this crate is read with its private items")]

mod carriers;
mod demo;
mod faces;
mod node;
pub mod testing;

use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    faces::cli::main(demo::run_up)
}
