//! The program: every socket, file and clock around the pure floors. Floor 3.
//!
//! ```text
//! cli --HTTP--> web --> node (one task: device + vault) <--> carriers --TLS--> relay
//! page --HTTP, WebSocket--^         |
//!                                 store
//! ```

pub mod api;
pub mod backend;
pub mod carriers;
pub mod clock;
pub mod connection;
pub mod demo;
pub mod faces;
pub mod node;
pub mod process;
pub mod servers;
pub mod store;
pub mod testing;
pub mod tls;

use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    faces::cli::main(demo::up)
}
