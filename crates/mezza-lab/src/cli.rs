//! What may be typed, and the exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use mezza::cli::args::KernelName;
use mezza::cli::cpu::choose;

use crate::goals::{self, Order, PartName};
use crate::profile::Profile;
use crate::terminal::{complain, say};
use crate::{doctor, ours, place, row, run};

/// Something is wrong with the lab itself.
const BUG: u8 = 70;

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
    Goals {
        /// Whose goals
        part: PartName,
        /// How long to measure
        #[arg(long, value_enum, default_value_t = Profile::Full)]
        profile: Profile,
        /// Get the peers of its rows from the package registries first
        #[arg(long)]
        fetch: bool,
        /// Only these rows, for example M2,M4
        #[arg(long, value_delimiter = ',', value_name = "ID,..")]
        only: Vec<String>,
        /// Print JSON, one value a line
        #[arg(long)]
        json: bool,
        /// The seed of whatever is drawn by the lab
        #[arg(long, default_value_t = 7)]
        seed: u64,
        /// Where raw lines go; its disk is the one that is measured
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Run tables and figures of the papers again
    Run {
        /// Experiments (`mezza-lab list`), a paper, or all
        #[arg(required = true, value_name = "WHAT")]
        what: Vec<String>,
        /// How long to measure
        #[arg(long, value_enum, default_value_t = Profile::Quick)]
        profile: Profile,
        /// Get their peers from the package registries first
        #[arg(long)]
        fetch: bool,
        /// Print JSON, one value a line
        #[arg(long)]
        json: bool,
        /// The seed of whatever is drawn by the lab
        #[arg(long, default_value_t = 7)]
        seed: u64,
        /// Where raw lines and tables go
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
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
        Command::Goals { part, profile, only, fetch, json, seed, out } => {
            goals::run(Order { part, profile, only, fetch, json, seed, out })
        }
        Command::Run { what, profile, fetch, json, seed, out } => {
            run::run(run::Order { what, profile, fetch, json, seed, out })
        }
        Command::List { out } => list(out).map(|()| 0),
        Command::Doctor => doctor::run().map(|()| 0),
        Command::Peer => ours::serve().map(|()| 0),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&format!("mezza-lab: {error:#}"));
            ExitCode::from(error.downcast_ref::<row::Stop>().map_or(BUG, |stop| stop.code))
        }
    }
}

/// What can be run.
fn list(out: Option<PathBuf>) -> Result<()> {
    let out = place::out(out);
    let parts = [PartName::Node, PartName::Lanes, PartName::Ratchet, PartName::Mixnet];
    let goals = parts.into_iter().flat_map(|part| goals::list(part, &out));
    run::list(&out).into_iter().chain(goals).try_for_each(|line| say(&line))
}
