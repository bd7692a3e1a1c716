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
    /// Have the node make backups into a folder; `off` ends that
    Auto(AutoBackupArgs),
}

/// `mezza backup auto`.
#[derive(Args)]
pub struct AutoBackupArgs {
    /// The folder, or `off`
    pub folder: PathBuf,
    /// Time between two backups: 1h, 12h, 1d, 7d
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_pause)]
    pub every: u64,
    /// How many are kept
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub keep: usize,
    /// Read the passphrase of the backups from this file
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// `12h`, `7d` in seconds.
///
/// # Errors
/// A text for `clap` to show.
fn parse_pause(text: &str) -> Result<u64, String> {
    let hours = text.strip_suffix('h').map(|number| (number, 3_600));
    let (number, unit_s) = hours
        .or_else(|| text.strip_suffix('d').map(|number| (number, 86_400)))
        .ok_or("write hours or days, as `12h` or `7d`")?;
    let number: u64 = number.parse().map_err(|_| "write a whole number, as `12h` or `7d`")?;
    let pause_s =
        number.checked_mul(unit_s).filter(|pause_s| (3_600..=31_536_000).contains(pause_s));
    pause_s.ok_or_else(|| "between 1h and 365d".into())
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
