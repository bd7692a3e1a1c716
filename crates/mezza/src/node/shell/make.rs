//! A vault with a fresh identity in it.

use std::path::Path;

use mezza_core::Time;
use mezza_messenger::Device;
use mezza_messenger::card::RelayEntry;

use super::carriers;
use crate::node::plan::{self, CommitPlan};
use mezza_host::api::Refused;
use mezza_host::backend::AwsLc;
use mezza_host::clock::now;
use mezza_host::process::rng::OsRng;
use mezza_host::store::{Argon2Params, Vault};

/// A device in its vault, and what is left to do of its making.
pub(super) type Made = (Vault, Device<AwsLc>, CommitPlan);

/// Makes a vault with a fresh identity in it, which is durable with it; also what `mezza init` does
/// without a node.
pub(super) fn make(
    folder: &Path,
    name: &str,
    pass: &[u8],
    (cost, now): (Argon2Params, Time),
    relays: &[RelayEntry],
) -> Result<Made, Refused> {
    // The device first: an unclean name must not leave an empty vault behind.
    let mut device = Device::create(carriers(), name, relays, now, &mut OsRng)?;
    let mut turn = plan::drain(&mut device);
    let first = std::mem::take(&mut turn.batches);
    let vault = Vault::create_with(folder, pass, cost, &first, now, &mut OsRng)?;
    Ok((vault, device, turn))
}

/// Makes a vault with a fresh identity and closes it again.
///
/// # Errors
/// An unclean name, a vault that exists already, or a disk that refuses.
pub(crate) fn init(
    folder: &Path,
    name: &str,
    pass: &[u8],
    relays: &[RelayEntry],
) -> Result<(), Refused> {
    if Vault::exists(folder) {
        return Err(Refused::exists());
    }
    let (vault, _, _) = make(folder, name, pass, (Argon2Params::measured()?, now()), relays)?;
    vault.close()?;
    Ok(())
}
