//! Backups of an unlocked vault.

use std::path::Path;

use mezza_core::{Machine as _, Time};
use mezza_messenger::io::NetworkAddress;
use mezza_messenger::{Device, WriteBatch};

use mezza_host::api::Refused;
use mezza_host::api::json::BackupJson;
use mezza_host::backend::AwsLc;
use mezza_host::backup::{BackupContent, BackupKey, write_backup};
use mezza_host::process::rng::OsRng;
use mezza_host::store::MOVED;

use super::NodeShell;
use super::network::join_input;
use crate::node::plan::{self, CommitPlan};

/// Joins the mixnet of a backup again, at the first start of a restored vault. A network that cannot be
/// joined is not tried again: `mezza mixnet join` says why.
pub(super) fn rejoin_network(
    device: &mut Device<AwsLc>,
    network: NetworkAddress,
    forget: WriteBatch,
    now: Time,
) -> CommitPlan {
    if let Err(refused) = device.handle(join_input(network), now, &mut OsRng) {
        tracing::warn!(%refused, "the mixnet of the backup was not joined again");
    }
    let mut turn = plan::drain_device(device);
    turn.batches.push(forget);
    turn
}

impl NodeShell {
    /// The refusal where there is no vault: there never was one, or it has moved away.
    pub(super) fn no_identity(&self) -> Refused {
        let is_moved = self.options.vault.join(MOVED).exists();
        if is_moved { Refused::moved() } else { Refused::empty() }
    }

    /// Writes a backup to a new file. The state of the device at this moment is in it, and all of it is
    /// durable there when this returns.
    ///
    /// # Errors
    /// The vault is locked, there is a file already, or the disk refuses.
    pub fn write_backup(
        &mut self,
        path: &Path,
        key: &BackupKey,
        settings: &str,
    ) -> Result<BackupJson, Refused> {
        let made = self.date();
        // Facts that wait for the next commit are in the device already, and so in the backup. They are
        // committed first, so that no backup is ahead of its vault.
        self.commit_later()?;
        let device = self.unlocked_device()?;
        let content = BackupContent { device, settings, made };
        let manifest = write_backup(path, key, &content, &mut OsRng)?;
        Ok(BackupJson {
            file: path.display().to_string(),
            made_ms: manifest.made_ms,
            program: manifest.program,
            contacts: manifest.counts.contacts,
            notes: manifest.counts.notes,
        })
    }
}
