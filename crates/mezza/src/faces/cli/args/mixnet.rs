//! `mezza mixnet`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::cpu::{KernelArgs, KernelName};

/// `mezza mixnet`.
#[derive(Subcommand)]
pub enum MixnetCommand {
    /// Make a key for a server or a guardian, and print its public half
    Keygen {
        /// The file to make; one that is there is not touched
        #[arg(long, value_name = "FILE", required_unless_present = "show")]
        out: Option<PathBuf>,
        /// Make nothing, and print the public half of this key
        #[arg(long, value_name = "FILE", conflicts_with = "out")]
        show: Option<PathBuf>,
    },
    /// Make, sign, check or show the config of a network
    Config {
        /// Command
        #[command(subcommand)]
        what: MixnetConfigCommand,
    },
    /// How much noise a promise takes, or what promise a noise keeps
    ///
    /// Noise is found with the accountant of `--mode`, which is a bound; beside it stands between which
    /// two numbers the least delta lies. Rounds are those in which somebody takes part: they differ from
    /// a story of being idle. From one of talking with somebody else at other times twice as many differ
    Privacy(PrivacyArgs),
    /// Run an entry: clock, announcer and concentrator
    Entry(EntryArgs),
    /// Run a mix
    Mix(MixArgs),
    /// Run a bucket store
    Bucket(BucketArgs),
    /// Join a network: the link pins its first config
    Join {
        /// As `mezza-net:1:HASH@host:port`
        link: String,
    },
    /// Leave the network: notes that wait go by the next carrier that their conversation allows, or wait.
    /// What was spent of its privacy budget is kept, and counts if it is joined again
    Leave {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show the round, the noise, the users and the privacy budget of the network joined
    ///
    /// Ends with 0 while rounds come back, with 1 while none does, with 78 while the clocks differ, and
    /// with 66 if no network is joined
    Status,
    /// Go on in the mixnet with a vault that was put back
    Resume {
        /// You know that the budget lacks the rounds since the copy was made
        #[arg(long, required = true)]
        after_restore: bool,
    },
    /// Simulate users, one connection each, and check every reply
    Load(LoadArgs),
}

impl MixnetCommand {
    /// Returns the kernel chosen by `--kernel` for a command with batch cryptography.
    pub fn kernel(&self) -> Option<KernelName> {
        match self {
            Self::Entry(EntryArgs { kernel, .. })
            | Self::Mix(MixArgs { kernel, .. })
            | Self::Load(LoadArgs { kernel, .. }) => kernel.name,
            _ => None,
        }
    }
}

/// The identity of a server.
#[derive(Args)]
pub struct ServerArgs {
    /// The config; later ones behind the first, oldest first, as files or in one file. They are read
    /// again at SIGHUP
    #[arg(long = "config", value_name = "FILE", required = true)]
    pub configs: Vec<PathBuf>,
    /// The key of this server
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Where to listen; else all addresses, at the port of the config
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The port of the metrics on loopback, 0 for none; else 7110 and the position for a mix, 7118
    /// for an entry, 7119 for a bucket store
    #[arg(long, value_name = "PORT")]
    pub metrics: Option<u16>,
}

/// `mezza mixnet entry`.
#[derive(Args)]
pub struct EntryArgs {
    /// Identity of the server
    #[command(flatten)]
    pub identity: ServerArgs,
    /// Draw the link of the network as a QR code
    #[arg(long)]
    pub qr: bool,
    /// Connections per IPv4 /24 or IPv6 /48; an IPv4 address may have a quarter; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub per_prefix: u32,
    /// End after the first conversation round
    #[arg(long)]
    pub once: bool,
    /// Which kernel computes
    #[command(flatten)]
    pub kernel: KernelArgs,
}

/// `mezza mixnet mix`.
#[derive(Args)]
pub struct MixArgs {
    /// Identity of the server
    #[command(flatten)]
    pub identity: ServerArgs,
    /// The least noise that this mix signs for
    #[arg(long, value_enum, default_value_t = NoiseFloorName::Standard)]
    pub min_noise: NoiseFloorName,
    /// Threads for heavy work; else one for each core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Which kernel computes
    #[command(flatten)]
    pub kernel: KernelArgs,
}

/// `--min-noise`.
#[derive(Clone, Copy, ValueEnum)]
pub enum NoiseFloorName {
    /// The odds factor 2 over 240,000 conversation rounds
    Standard,
    /// The odds factor 10
    Relaxed,
    /// Whatever the config says: for demonstrations
    None,
}

/// `mezza mixnet bucket`.
#[derive(Args)]
pub struct BucketArgs {
    /// Identity of the server
    #[command(flatten)]
    pub identity: ServerArgs,
    /// The folder of the buckets
    #[arg(long)]
    pub dir: PathBuf,
}

/// `mezza mixnet load`.
#[derive(Args)]
pub struct LoadArgs {
    /// The network: mezza-net:1:HASH@host:port
    #[arg(long, value_name = "URI")]
    pub network: String,
    /// How many users
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub users: u32,
    /// Which part of them talks, in pairs, 0 to 1
    #[arg(long, default_value_t = 0.5, value_parser = part)]
    pub conversing: f64,
    /// How many rounds
    #[arg(long, default_value_t = 10)]
    pub rounds: u32,
    /// Open every reply and look what is in it
    #[arg(long)]
    pub verify: bool,
    /// Which kernel computes
    #[command(flatten)]
    pub kernel: KernelArgs,
}

/// `mezza mixnet config`.
#[derive(Subcommand)]
pub enum MixnetConfigCommand {
    /// Print a whole example to begin with
    Example,
    /// Check a config as people write it, and make the file that guardians sign
    ///
    /// With `--after` a `prev` and a `base_round` that the file leaves away follow from the config before:
    /// round numbers only grow, also where the new config begins in the past or has longer intervals
    New {
        /// The config as TOML
        file: PathBuf,
        /// The config before this one; none for the first
        #[arg(long, value_name = "FILE")]
        after: Option<PathBuf>,
        /// Where to put the result; else it goes to standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Show what a guardian is to sign, ask, and add the signature
    Sign {
        /// The config
        file: PathBuf,
        /// The guardian's key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The config before this one; none for the first
        #[arg(long, value_name = "FILE")]
        after: Option<PathBuf>,
        /// Sign without being asked
        #[arg(long)]
        yes: bool,
    },
    /// Check signatures, from the first config to the last
    Verify {
        /// The configs, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show what a config says, and the link with which members join
    Show {
        /// The config
        file: PathBuf,
        /// Draw the link as a QR code
        #[arg(long)]
        qr: bool,
    },
}

/// `mezza mixnet privacy`.
#[derive(Args)]
pub struct PrivacyArgs {
    /// How many rounds of one service
    #[arg(long, required_unless_present = "preset")]
    pub rounds: Option<u64>,
    /// A preset: the promise of all services of a year together
    #[arg(long, value_enum, exclusive = true)]
    pub preset: Option<PresetName>,
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
    #[arg(long, value_enum, default_value_t = AccountingName::Gauss)]
    pub mode: AccountingName,
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

/// `--preset`.
#[derive(Clone, Copy, ValueEnum)]
pub enum PresetName {
    /// For a network that protects people
    Standard,
    /// Less noise, odds that move by a factor of 10
    Relaxed,
    /// For trying a network out
    Small,
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
pub enum AccountingName {
    /// Discrete Gaussian, Rényi accounting
    Gauss,
    /// Laplace, Rényi accounting
    Rdp,
    /// Laplace, the paper's composition
    Paper,
}

/// Parses a number from 0 to 1.
fn part(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| (0.0..=1.0).contains(n));
    number.ok_or_else(|| "write a number from 0 to 1".into())
}

/// Parses a number above zero.
fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "write a number above zero".into())
}
