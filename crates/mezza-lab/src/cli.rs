//! What may be typed, and the exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use mezza::cli::args::KernelName;
use mezza::cli::cpu::choose;
use mezza::exit::{self, Exit};

use crate::goals::{self, PartName};
use crate::terminal::{complain, say};
use crate::{doctor, ours, place, run};

/// The promises of the design, measured.
#[derive(Debug, Parser)]
#[command(name = "mezza-lab", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    /// Compute for many at once with this kernel, not with the fastest one, where a row names none
    #[arg(long, global = true, value_enum, value_name = "KERNEL")]
    kernel: Option<KernelName>,
    /// What to do
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the goals of a part, each beside its limit in one run
    Goals(goals::Order),
    /// Run tables and figures of the papers again
    Run(run::Order),
    /// List what can be run
    List {
        /// Where raw lines went
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Look at this machine: clock, load, processor
    Doctor,
    /// Measure our own operations, asked for by lines on standard input
    #[command(hide = true)]
    Peer,
}

/// Reads the words and does it.
pub fn main() -> ExitCode {
    let Cli { kernel, command } = Cli::parse();
    if let Some(Err(fault)) = kernel.map(choose) {
        complain(&format!("mezza-lab: {fault}"));
        return fault.code.into();
    }
    let done = match command {
        Command::Goals(order) => goals::run(order),
        Command::Run(order) => run::run(order),
        Command::List { out } => list(out).map(|()| Exit::Done),
        Command::Doctor => doctor::run().map(|()| Exit::Done),
        Command::Peer => ours::serve().map(|()| Exit::Done),
    };
    let exit = done.unwrap_or_else(|error| {
        complain(&format!("mezza-lab: {error:#}"));
        exit::of(&error)
    });
    exit.into()
}

/// What can be run.
fn list(out: Option<PathBuf>) -> Result<()> {
    let out = place::out(out);
    let goals = PartName::ALL.into_iter().flat_map(|part| goals::list(part, &out));
    run::list(&out).into_iter().chain(goals).try_for_each(|line| say(&line))
}
