//! A vault with a fresh identity in it.

use std::path::Path;

use mezza_messenger::Device;
use mezza_messenger::card::RelayEntry;

use super::Open;
use crate::drive;
use crate::node::{Refused, now};
use crate::rng::OsRng;
use crate::store::{Cost, Vault};

/// Makes a vault with a fresh identity in it; also what `mezza init` does without a node.
pub(super) fn make(
    folder: &Path,
    name: &str,
    pass: &[u8],
    cost: Cost,
    relays: &[RelayEntry],
) -> Result<Open, Refused> {
    // The device first: an unclean name must not leave an empty vault behind.
    let device = Device::create(name, relays, now(), &mut OsRng)?;
    let vault = Vault::create(folder, pass, cost, now(), &mut OsRng)?;
    Ok(Open { vault, device })
}

/// Makes a vault with a fresh identity and closes it again.
///
/// # Errors
/// An unclean name, a vault that exists already, or a disk that refuses.
pub fn init(folder: &Path, name: &str, pass: &[u8], relays: &[RelayEntry]) -> Result<(), Refused> {
    if Vault::exists(folder) {
        return Err(Refused::exists());
    }
    let mut open = make(folder, name, pass, Cost::measured()?, relays)?;
    let turn = drive::drain(&mut open.device);
    open.vault.commit(&turn.batches)?;
    open.vault.close()?;
    Ok(())
}
