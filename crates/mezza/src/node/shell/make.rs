//! Creates a vault with a fresh identity.

use std::path::Path;

use mezza_messenger::Device;
use mezza_messenger::card::RelayEntry;

use super::dates::VaultDate;
use super::make_carriers;
use crate::node::plan::{self, CommitPlan};
use mezza_host::api::Refused;
use mezza_host::backend::AwsLc;
use mezza_host::clock::{Clock, WrittenDate};
use mezza_host::process::rng::OsRng;
use mezza_host::store::{Argon2Params, Vault, put_date};

/// A new device in its vault, and the outputs that remain to be carried out.
pub(super) type Made = (Vault, Device<AwsLc>, CommitPlan);

/// The contents of a new vault that do not come from the user.
pub(super) struct VaultSeed {
    /// The cost of the passphrase.
    pub cost: Argon2Params,
    /// The dates to write.
    pub date: WrittenDate,
}

/// Makes a vault with a fresh identity, durable when this returns; `mezza init` uses it without a
/// node.
pub(super) fn make_vault(
    folder: &Path,
    name: &str,
    pass: &[u8],
    seed: &VaultSeed,
    relays: &[RelayEntry],
) -> Result<Made, Refused> {
    // Make the device first: an invalid name must not leave an empty vault.
    let now = seed.date.at.wall;
    let mut device = Device::create(make_carriers(), name, relays, now, &mut OsRng)?;
    let mut turn = plan::drain_device(&mut device);
    let mut first = std::mem::take(&mut turn.batches);
    first.push(put_date(&seed.date));
    let vault = Vault::create_with(folder, pass, seed.cost, &first, now, &mut OsRng)?;
    Ok((vault, device, turn))
}

/// Makes a vault with a fresh identity and closes it again.
///
/// # Errors
/// An unclean name, a vault that exists already, or a disk that refuses.
pub(crate) fn init_vault(
    folder: &Path,
    name: &str,
    pass: &[u8],
    relays: &[RelayEntry],
) -> Result<(), Refused> {
    if Vault::exists(folder) {
        return Err(Refused::exists());
    }
    let date = VaultDate::new(&Clock::system()).dates_to_store();
    let seed = VaultSeed { cost: Argon2Params::measured()?, date };
    let (vault, _, _) = make_vault(folder, name, pass, &seed, relays)?;
    vault.close()?;
    Ok(())
}
