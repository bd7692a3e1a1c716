//! Makes a vault from a backup.

use mezza_core::{CryptoRng, Time};
use mezza_messenger::RecordChange;

use super::read::BackupReader;
use crate::api::Fault;
use crate::process::home::{Home, private};
use crate::store::{Argon2Params, Vault};

/// Makes the vault of a home from a backup, in one transaction, and writes the settings of the
/// backup if the home has none. The vault is made even if the settings cannot be written; the fault
/// then says why they are missing.
///
/// # Errors
/// The errors of [`Vault::create_filled`] and of the reader. There is no vault then.
pub fn restore_home(
    home: &Home,
    reader: &mut BackupReader,
    pass: &[u8],
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Fault>, Fault> {
    let mut settings = String::new();
    let cost = Argon2Params::measured()?;
    Vault::create_filled(&home.vault(), pass, cost, now, rng, |rng, put| {
        let read = reader.read_rows(now, rng, &mut |row: RecordChange| put(row))?;
        settings = read.settings;
        Ok(())
    })?;
    if settings.is_empty() {
        return Ok(None);
    }
    Ok(private::create(&home.config(), settings.as_bytes()).err())
}
