//! `mezza backup`, `mezza restore` and `mezza export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `mezza backup`.
#[derive(Subcommand)]
pub enum BackupCommand {
    /// Make a backup of the running, unlocked node
    Make(BackupFileArgs),
    /// Open a backup and check all of it; nothing is written
    Check(BackupFileArgs),
}

/// A backup, and where its passphrase comes from.
#[derive(Args)]
pub struct BackupFileArgs {
    /// The file of the backup
    pub file: PathBuf,
    /// Read the passphrase of the backup from this file; the vault's comes from where it always does
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// `mezza export`.
#[derive(Args)]
pub struct ExportArgs {
    /// Name or #number
    pub name: String,
    /// The new file
    pub file: PathBuf,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
