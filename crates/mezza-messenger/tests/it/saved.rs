//! Backups of the devices of these tests, and the disks that are made from them.

use mezza_core::{CryptoRng, PortableBackend, Time};
use mezza_messenger::backup::{
    BackupContact, BackupError, BackupIdentity, BackupNetwork, BackupNote, BackupWindow,
};
use mezza_messenger::device::backup::BackupView;
use mezza_messenger::device::backup::restore::RestoreRows;
use mezza_messenger::{Device, WriteBatch};

use crate::stage::{Disk, write};

/// The values of a backup.
pub struct Saved {
    pub made: Time,
    pub identity: BackupIdentity,
    pub contacts: Vec<BackupContact>,
    pub notes: Vec<BackupNote>,
    pub windows: Vec<BackupWindow>,
    pub networks: Vec<BackupNetwork>,
    /// The charges of conversations in the mixnet at the backup, for tests alone.
    pub rounds_used: Option<u64>,
}

/// Returns the charged rounds of conversations in the mixnet, or `None` outside of any mixnet.
pub fn rounds_used(device: &Device<PortableBackend>, now: Time) -> Option<u64> {
    device.carriers().network_view(now).map(|view| view.rounds_used)
}

impl Saved {
    /// Makes a backup of a device.
    pub fn of_device(device: &Device<PortableBackend>, made: Time) -> Self {
        let view = BackupView::new(device);
        Self {
            made,
            identity: view.identity(),
            contacts: view.contacts().collect(),
            notes: view.notes().collect(),
            windows: view.windows().collect(),
            networks: view.networks().collect(),
            rounds_used: rounds_used(device, made),
        }
    }

    /// Returns the rows of a vault that is made from this backup.
    pub fn into_disk(self, now: Time, rng: &mut dyn CryptoRng) -> Result<Disk, BackupError> {
        let Self { made, identity, contacts, notes, windows, networks, .. } = self;
        let mut changes = Vec::new();
        let mut rows = RestoreRows::new::<PortableBackend>(identity, made, now, rng)?;
        for contact in contacts {
            changes.push(rows.add_contact(contact, rng)?);
        }
        for note in notes {
            changes.push(rows.add_note(note)?);
        }
        for window in windows {
            changes.push(rows.add_window(window)?);
        }
        for network in networks {
            changes.push(rows.add_network(network)?);
        }
        changes.extend(rows.finish());
        let mut disk = Disk::new();
        write(&mut disk, WriteBatch(changes).0);
        Ok(disk)
    }
}

/// The output of a device at which a backup is made.
#[derive(Default)]
pub struct BackupPoint {
    /// Outputs until the backup; `None`: no backup is made.
    left: Option<u32>,
    /// The backup, once it was made.
    pub saved: Option<Saved>,
}

impl BackupPoint {
    /// A backup after so many further outputs.
    pub fn after(outputs: u32) -> Self {
        Self { left: Some(outputs), saved: None }
    }

    /// The device has stored an output.
    pub fn pass_output(&mut self, device: &Device<PortableBackend>, now: Time) {
        if self.left == Some(0) {
            self.saved = Some(Saved::of_device(device, now));
        }
        self.left = self.left.and_then(|left| left.checked_sub(1));
    }
}
