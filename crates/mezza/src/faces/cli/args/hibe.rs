//! `mezza hibe`: for experts, scripts and tests.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mezza_hibe::{Life, TreeProfile};

use super::PassphraseArgs;
use crate::faces::cli::hibe::at;

/// `mezza hibe`.
#[derive(Subcommand)]
pub enum HibeCommand {
    /// Make a key tree in a folder of its own, and the card block that others seal for
    Keygen(KeygenArgs),
    /// Check a card block and show what it says
    Card(BlockArgs),
    /// Seal standard input for whoever made a card block; the envelope is binary
    Seal(SealArgs),
    /// Try to open envelopes
    Open(OpenArgs),
    /// Erase what is below the epoch before a time, for ever, and make ready what comes next
    Advance(AdvanceArgs),
    /// Show how far a tree is, what it holds and what comes next
    Status(TreeArgs),
    /// Make keys that recognise the envelopes of the time to come and open none
    DetectKey(DetectKeyArgs),
    /// Tell with such keys which envelopes are for their card
    Detect(DetectArgs),
    /// Overwrite the keyring of a tree and delete its folder
    Wipe {
        /// The folder
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// There is no way back
        #[arg(long)]
        yes: bool,
    },
}

/// A point in time.
#[derive(Args)]
pub struct AtArgs {
    /// As RFC 3339 (2026-11-25T10:41:00Z), as `+2m` from now or as `tick:N`; else that of the mesh node here, else this clock
    #[arg(long, value_name = "T", value_parser = at::parse)]
    pub at: Option<mezza_hibe::Tick>,
}

/// `mezza hibe status`, and what every command with a tree takes.
#[derive(Args)]
pub struct TreeArgs {
    /// The folder
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// The time
    #[command(flatten)]
    pub at: AtArgs,
    /// Where the passphrase comes from
    #[command(flatten)]
    pub key: PassphraseArgs,
}

/// How long the keys of a note stay with its receiver.
#[derive(Clone, Copy, ValueEnum)]
pub enum LifeName {
    /// 30 s to a minute
    Minute,
    /// Half an hour to an hour
    HalfHour,
    /// Half a day to a day
    HalfDay,
}

impl From<LifeName> for Life {
    fn from(name: LifeName) -> Self {
        match name {
            LifeName::Minute => Self::Minute,
            LifeName::HalfHour => Self::HalfHour,
            LifeName::HalfDay => Self::HalfDay,
        }
    }
}

/// The length of an epoch, twice: what is older is erased.
#[derive(Clone, Copy, ValueEnum)]
pub enum ProfileName {
    /// A minute
    #[value(name = "1m")]
    Minute,
    /// Five minutes
    #[value(name = "5m")]
    FiveMinutes,
    /// An hour, for slow paths
    #[value(name = "1h")]
    Hour,
}

impl From<ProfileName> for TreeProfile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Minute => Self::Minute,
            ProfileName::FiveMinutes => Self::FiveMinutes,
            ProfileName::Hour => Self::Hour,
        }
    }
}

/// `mezza hibe keygen`.
#[derive(Args)]
pub struct KeygenArgs {
    /// Folder, time and passphrase
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Keys of this one life only; else of all lives, and the sender chooses
    #[arg(long, value_enum)]
    pub profile: Option<ProfileName>,
}

/// `mezza hibe card`.
#[derive(Args)]
pub struct BlockArgs {
    /// A card block: its file, its address, a file with that, or a picture of its QR code
    pub source: String,
    /// Draw it as a QR code
    #[arg(long, conflicts_with = "out")]
    pub qr: bool,
    /// Write the QR code into a file, .png or .svg
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `mezza hibe seal`.
#[derive(Args)]
pub struct SealArgs {
    /// A card block: its file, its address, a file with that, or a picture of its QR code
    #[arg(long, value_name = "CARD")]
    pub card: String,
    /// The time
    #[command(flatten)]
    pub at: AtArgs,
    /// How long the keys for it stay with the receiver; else the shortest life of the card
    #[arg(long, value_enum)]
    pub life: Option<LifeName>,
    /// The least size: 0 to 3 stand for 506, 1018, 2042 and 4090 bytes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub bucket: u8,
    /// Write the envelope into this file, not to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `mezza hibe open`.
#[derive(Args)]
pub struct OpenArgs {
    /// Folder, time and passphrase
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Try keys of this life only
    #[arg(long, value_enum)]
    pub life: Option<LifeName>,
    /// Write each payload into a file of this folder, named like its envelope; nothing is written over
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The envelopes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `mezza hibe advance`.
#[derive(Args)]
pub struct AdvanceArgs {
    /// The folder
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// The time to go to, as RFC 3339, as `+2m` from now or as `tick:N`; else that of the mesh node here, else this clock
    #[arg(long, value_name = "T", value_parser = at::parse)]
    pub to: Option<mezza_hibe::Tick>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The clock is right, although more than a day is erased
    #[arg(long)]
    pub yes: bool,
    /// Where the passphrase comes from
    #[command(flatten)]
    pub key: PassphraseArgs,
}

/// `mezza hibe detect-key`.
#[derive(Args)]
pub struct DetectKeyArgs {
    /// Folder, time and passphrase
    #[command(flatten)]
    pub tree: TreeArgs,
    /// How long: 90s, 30m, 17h, 23d
    #[arg(long = "for", value_name = "SPAN", value_parser = at::span)]
    pub span_ms: u64,
    /// The file to write, mode 0600
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Lend more than 2,081 epochs at once
    #[arg(long)]
    pub yes: bool,
}

/// `mezza hibe detect`.
#[derive(Args)]
pub struct DetectArgs {
    /// The file with the keys
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// About when the envelopes were made
    #[command(flatten)]
    pub at: AtArgs,
    /// The envelopes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}
