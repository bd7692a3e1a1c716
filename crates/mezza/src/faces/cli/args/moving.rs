//! `mezza move`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `mezza move`.
#[derive(Subcommand)]
pub enum MoveCommand {
    /// On the new device: show where to move to; then check the file, and take it with its key
    In(MoveInArgs),
    /// On the old device, which must not run: write the file, then destroy this identity here
    Out(MoveOutArgs),
    /// On the old device: give the move up, as long as nothing was destroyed
    Cancel,
}

/// `mezza move in`.
#[derive(Args)]
pub struct MoveInArgs {
    /// The file that the old device wrote
    pub file: Option<PathBuf>,
    /// The key that the old device shows at the end, `mezza-move:..`
    #[arg(long, value_name = "KEY", requires = "file")]
    pub key: Option<String>,
    /// Wait for the old device at this address of the local network: its file and its key come from there
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["file", "key"])]
    pub listen: Option<String>,
}

/// `mezza move out`.
#[derive(Args)]
pub struct MoveOutArgs {
    /// The recipient that the new device shows, `age1..`; without it the key of a finished move is shown again
    pub recipient: Option<String>,
    /// The new file, for example on a USB stick
    #[arg(conflicts_with = "to")]
    pub file: Option<PathBuf>,
    /// Send file and key to the new device, which waits there with `mezza move in --listen`
    #[arg(long, value_name = "HOST:PORT", requires = "recipient")]
    pub to: Option<String>,
    /// The eight digits that the new device shows for this file: destroys this identity here
    #[arg(long, value_name = "DIGITS", conflicts_with_all = ["recipient", "file", "to"])]
    pub digits: Option<String>,
    /// Where the passphrase of the vault comes from
    #[command(flatten)]
    pub key: super::PassphraseArgs,
}
