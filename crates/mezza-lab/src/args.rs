//! The arguments of every command that measures.

use std::path::PathBuf;

use clap::Args;

use crate::shard::Shard;

/// The seed of all random draws unless the user names one.
pub const SEED: u64 = 7;

/// How to measure.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Get the peers from the package registries first
    #[arg(long)]
    pub fetch: bool,
    /// Print JSON, one value a line
    #[arg(long)]
    pub json: bool,
    /// The seed of all random draws
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,
    /// Only part I of N, from 0: parts may run on several machines, or one after the other
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// The folder of raw lines and tables; rows about a disk measure its disk
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
