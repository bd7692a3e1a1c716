//! The program `mezza-lab`, which measures what the designs promise and what the papers published.
//! Floor 4.
//!
//! ```text
//! cli --> goals --> goals/{node,ratchet,mixnet,lanes}/*  --figures--> row (verdict)  --> table, or JSON
//!     --> run   --> run/{signal,vuvuzela}/*              --figures--> shape (claims) --> OUT/{tables,plots}/*
//!                          |                                raw (lines)   --> OUT/raw/*.jsonl
//!     papers (as printed)   bench (rounds, comparisons)   clock (thread CPU, busy)   machine
//!                           peer: ours (`mezza-lab peer`) and lab/peers/*.sh, each a process
//! ```
//!
//! A module imports only what stands before it: `fit machine modp papers place plot prime profile rate
//! row shape shard terminal`, then `args clock limit parallel peer process thesis`, `doctor raw variant`,
//! `asa bench search`, `ours wires`, `goals`, `run`, `cli`.

mod args;
mod asa;
mod bench;
mod cli;
mod clock;
mod doctor;
mod fit;
mod goals;
mod limit;
mod machine;
mod modp;
mod ours;
mod papers;
mod parallel;
mod peer;
mod place;
mod plot;
mod prime;
mod process;
mod profile;
mod raw;
mod row;
mod run;
mod search;
mod shape;
mod shard;
mod terminal;
mod thesis;
mod variant;
mod wires;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let called = std::env::args_os().next();
    if called.as_deref().map(Path::new).and_then(Path::file_name) == Some(process::PROGRAM.as_ref())
    {
        return mezza::main();
    }
    cli::main()
}
