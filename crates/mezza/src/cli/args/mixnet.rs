//! `mezza mixnet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `mezza mixnet`.
#[derive(Subcommand)]
pub enum Mixnet {
    /// Make a key for a server or a guardian, and print its public half
    Keygen {
        /// The file to make; one that is there is not touched
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Make, sign, check or show the config of a network
    Config {
        /// What to do
        #[command(subcommand)]
        what: MixnetConfig,
    },
    /// How much noise a promise takes, or what promise a noise keeps
    Privacy(Privacy),
}

/// `mezza mixnet config`.
#[derive(Subcommand)]
pub enum MixnetConfig {
    /// Print a whole example to begin with
    Example,
    /// Check a config as people write it, and make the file that guardians sign
    New {
        /// The config as TOML
        file: PathBuf,
        /// Where to put the result; else it goes to standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Add the signature of a guardian
    Sign {
        /// The config
        file: PathBuf,
        /// The guardian's key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The config before this one; none for the first
        #[arg(long, value_name = "FILE")]
        after: Option<PathBuf>,
    },
    /// Check signatures, from the first config to the last
    Verify {
        /// The configs, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show what a config says
    Show {
        /// The config
        file: PathBuf,
    },
}

/// `mezza mixnet privacy`.
#[derive(Args)]
pub struct Privacy {
    /// How many rounds
    #[arg(long)]
    pub rounds: u64,
    /// Of which service
    #[arg(long, value_enum, default_value_t = ServiceName::Conversation)]
    pub service: ServiceName,
    /// By which factor e^epsilon odds may move
    #[arg(long, default_value_t = std::f64::consts::LN_2, value_parser = positive)]
    pub epsilon: f64,
    /// With which probability they may move more
    #[arg(long, default_value_t = 1e-4, value_parser = positive)]
    pub delta: f64,
    /// The noise, and how it is accounted for
    #[arg(long, value_enum, default_value_t = Accounting::Gauss)]
    pub mode: Accounting,
    /// Onions of a user in one round
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub slots: u8,
    /// The mean of a noise that is there already
    #[arg(long, requires = "scale")]
    pub mu: Option<u32>,
    /// Its scale: sigma or b
    #[arg(long, requires = "mu")]
    pub scale: Option<u32>,
}

/// `--service`.
#[derive(Clone, Copy, ValueEnum)]
pub enum ServiceName {
    /// Cells in dead drops
    Conversation,
    /// Tokens in buckets
    Call,
    /// First messages in buckets
    Invitation,
}

/// `--mode`.
#[derive(Clone, Copy, ValueEnum)]
pub enum Accounting {
    /// Discrete Gaussian, Rényi accounting
    Gauss,
    /// Laplace, Rényi accounting
    Rdp,
    /// Laplace, the paper's composition
    Paper,
}

/// A number above zero.
fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "write a number above zero".into())
}
