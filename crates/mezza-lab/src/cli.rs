//! The command line: its commands and exit codes.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use mezza::testing::api::Exit;
use mezza::testing::faces::cli::args::KernelName;
use mezza::testing::faces::cli::cpu::apply_kernel_choice;

use crate::goals::{self, PartName};
use crate::terminal::{print_error, print_line};
use crate::{doctor, ours, place, run, search, wires};

/// Measures what the designs promise and what the papers published
#[derive(Debug, Parser)]
#[command(name = "mezza-lab", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    /// Compute for many at once with this kernel, not with the fastest one, where a row names none
    #[arg(long, global = true, value_enum, value_name = "KERNEL")]
    kernel: Option<KernelName>,
    /// The command
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the goals of a part, each beside its limit in one run
    Goals(goals::Order),
    /// Run tables and figures of the papers again
    Run(run::Order),
    /// List all experiments and goals
    List {
        /// The folder of raw lines and tables
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Show whether this machine is fit to measure on: clock, load, processor
    Doctor,
    /// Search a safe prime that its seed decides
    SafePrime(search::SearchOrder),
    /// Say whether the number of a file is a safe prime
    CheckPrime(search::CheckOrder),
    /// A tunnel without the bound of exchanges
    #[command(hide = true)]
    Tunnel {
        /// The state folder
        state: PathBuf,
        /// The settings
        config: PathBuf,
        /// `usual`, or `none`: frames that nothing protects
        frames: String,
    },
    /// Measure our own operations, as lines on standard input ask for them
    #[command(hide = true)]
    Peer,
    /// One step of a backup, in a process of its own
    #[command(hide = true)]
    BackupStep(goals::node::backup::StepOrder),
    /// Hours of a crowd among liars, in a process of its own
    #[command(hide = true)]
    CrowdDay(run::DayOrder),
    /// One end, firewall or observer of a handshake over TCP
    #[command(hide = true)]
    Wire {
        /// The work, as JSON
        job: String,
    },
}

/// Reads the arguments and runs the command.
pub fn main() -> ExitCode {
    let Cli { kernel, command } = Cli::parse();
    if let Some(Err(fault)) = kernel.map(apply_kernel_choice) {
        print_error(&format!("mezza-lab: {fault}"));
        return fault.code.into();
    }
    let done = match command {
        Command::Goals(order) => goals::measure_goals(order),
        Command::Run(order) => run::run_experiments(order),
        Command::List { out } => print_list(out).map(|()| Exit::Done),
        Command::Doctor => doctor::print_machine().map(|()| Exit::Done),
        Command::SafePrime(order) => search::search_prime(order),
        Command::CheckPrime(order) => search::check_prime(&order),
        Command::Tunnel { state, config, frames } => {
            ours::plain::run_links(&state, &config, &frames)
        }
        Command::Peer => ours::serve_lines().map(|()| Exit::Done),
        Command::BackupStep(order) => goals::node::backup::serve_step(&order).map(|()| Exit::Done),
        Command::CrowdDay(order) => run::serve_day(order).map(|()| Exit::Done),
        Command::Wire { job } => wires::serve_job(&job).map(|()| Exit::Done),
    };
    let exit = done.unwrap_or_else(|error| {
        // The reader of a pipe has seen enough, as `head` does.
        if is_broken_pipe(&error) {
            return Exit::Done;
        }
        print_error(&format!("mezza-lab: {error:#}"));
        crate::place::exit_of(&error)
    });
    exit.into()
}

/// Returns true if nobody reads the output any more.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Prints all experiments and goals.
fn print_list(out: Option<PathBuf>) -> Result<()> {
    let out = place::out_folder(out);
    let goals = PartName::ALL.into_iter().flat_map(|part| goals::list_part(part, &out));
    run::list_experiments(&out).into_iter().chain(goals).try_for_each(|line| print_line(&line))
}
