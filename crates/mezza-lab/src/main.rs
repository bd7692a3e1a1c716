//! The program `mezza-lab`: what the design promises, measured. Floor 4.
//!
//! ```text
//! cli --> goals --> goals/node/*  --figures--> row (verdict)  --> table, or JSON
//!                        |                      raw (lines)   --> OUT/raw/*.jsonl
//!                      clock (thread CPU, rounds, busy)   machine (fingerprint)
//! ```

mod cli;
mod clock;
mod doctor;
mod goals;
mod machine;
mod place;
mod raw;
mod row;

use std::path::Path;
use std::process::ExitCode;

/// The name under which this program is `mezza`: rows about processes start themselves, so that
/// what is measured is always what this lab was built with.
const PROGRAM: &str = "mezza";

fn main() -> ExitCode {
    let called = std::env::args_os().next();
    if called.as_deref().map(Path::new).and_then(Path::file_name) == Some(PROGRAM.as_ref()) {
        return mezza::cli::main();
    }
    cli::main()
}
