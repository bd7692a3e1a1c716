//! `mezza card` and `mezza add`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use mezza_host::api::json::CardFormJson;

/// `mezza card`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CardArgs {
    /// Look at a card instead
    #[command(subcommand)]
    pub what: Option<CardCommand>,
    /// Which parts to give away
    #[arg(long, value_enum, default_value_t = CardFormJson::Full)]
    pub form: CardFormJson,
    /// Make keys for the mesh first, if there are none, and put them on the card
    #[arg(long)]
    pub mesh: bool,
    /// Date and time of this device are right, though nobody vouches for them
    #[arg(long, requires = "mesh")]
    pub confirm_clock: bool,
    /// Draw it as a QR code
    #[arg(long)]
    pub qr: bool,
    /// Write the QR code into this file, .png or .svg, not on the screen
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `mezza card show`.
#[derive(Subcommand)]
pub enum CardCommand {
    /// Check a card and show what it says
    Show {
        /// An address, a file with one, or a picture of a QR code
        source: String,
    },
    /// Make a new card with another name or other relays; your contacts are told
    #[command(arg_required_else_help = true)]
    Renew {
        /// The name that others read, at most 24 bytes
        #[arg(long)]
        name: Option<String>,
        /// Your relay from now on, as `mezzavoce:r1/..`; or a card, whose relay you then share
        #[arg(long = "relay", value_name = "URI|CARD")]
        relays: Vec<String>,
    },
}

/// `mezza add`.
#[derive(Args)]
pub struct AddArgs {
    /// An address, a file with one, or a picture of a QR code
    pub source: String,
    /// Your name for the contact; else the one on the card
    #[arg(long = "as", value_name = "PETNAME")]
    pub petname: Option<String>,
    /// You took the card from the person's own screen
    #[arg(long)]
    pub in_person: bool,
}
