//! `mezza relay`.

use clap::{Args, Subcommand};

/// `mezza relay`.
#[derive(Args)]
pub struct Relay {
    /// What to do
    #[command(subcommand)]
    pub what: RelayWhat,
    /// Where mail lies: sqlite:PATH or postgres:URL
    #[arg(long, global = true, value_name = "STORE")]
    pub store: Option<String>,
    /// Where to listen, ADDRESS:PORT
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub listen: Option<String>,
}

/// What to do with a relay.
#[derive(Subcommand)]
pub enum RelayWhat {
    /// Run it until Ctrl-C
    Run,
    /// Make its key and store
    Init,
    /// Its key, its store, and whether it runs
    Status,
    /// Print the address that people give to `mezza init --relay`
    Uri {
        /// The name or address under which others reach it
        #[arg(long)]
        host: Option<String>,
    },
}
