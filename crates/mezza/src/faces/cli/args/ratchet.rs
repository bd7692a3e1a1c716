//! `mezza ratchet`: for experts, scripts and tests.

use clap::{Args, Subcommand, ValueEnum};

/// `mezza ratchet`.
#[derive(Subcommand)]
pub enum RatchetCommand {
    /// Speak the line protocol of docs/protocols/ratchet.md on standard input and output
    Peer(PeerArgs),
    /// Print the safety number of two identities
    Number(NumberArgs),
    /// List the sessions with contacts: counters and times, no keys
    Sessions {
        /// Name or #number
        name: Option<String>,
    },
    /// Archive the session with a contact; the next note begins a new one
    Reset {
        /// Name or #number
        name: String,
        /// Do not ask back
        #[arg(long)]
        yes: bool,
    },
    /// Show the prekeys: ages, ends, stock; no key
    Keys {
        /// First make fresh signed prekeys. Five of a suite are kept: done often, it wipes keys
        /// that first messages under way still need
        #[arg(long)]
        rotate: bool,
        /// First fill up the one-time keys at the relay
        #[arg(long)]
        refill: bool,
    },
    /// Show which suites we offer, what a card lists, and what a session would use
    Suites {
        /// Name or #number
        name: Option<String>,
    },
}

/// `mezza ratchet peer`.
#[derive(Args)]
pub struct PeerArgs {
    /// Suite of the device
    #[arg(long, value_enum, default_value_t = SuiteName::B2c20)]
    pub suite: SuiteName,
    /// One-time keys of each bundle
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub one_time: u8,
    /// Draw all chance from these 32 bytes, so that a test repeats; whoever knows them knows the keys
    #[arg(long, value_name = "HEX", value_parser = seed)]
    pub seed: Option<[u8; 32]>,
    /// A clock that stands at this time, in milliseconds since 1970; the line `now MS` moves it
    #[arg(long, value_name = "MS")]
    pub now: Option<u64>,
}

/// Parses 32 bytes in hex.
fn seed(text: &str) -> Result<[u8; 32], String> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "write 64 lower-case hex digits".into())
}

/// Suites that the library speaks.
#[derive(Clone, Copy, ValueEnum)]
pub enum SuiteName {
    /// Ours
    B2c20,
    /// Ours, with a post-quantum handshake
    B2c20Pq,
    /// Signal's of 2016 to 2023; no contact uses it
    SignalV3,
    /// Signal's with PQXDH, before SPQR; no contact uses it
    SignalV4,
}

/// `mezza ratchet number`.
#[derive(Args)]
pub struct NumberArgs {
    /// Whose form of numbers
    #[arg(long, value_enum)]
    pub suite: SuiteName,
    /// One identity, 64 hex digits; in signal-v3 with the name that the app knows it by
    #[arg(long, value_name = "IK[:NAME]")]
    pub local: String,
    /// The other one
    #[arg(long, value_name = "IK[:NAME]")]
    pub remote: String,
    /// Print the bytes of the code as well
    #[arg(long)]
    pub scannable: bool,
}
