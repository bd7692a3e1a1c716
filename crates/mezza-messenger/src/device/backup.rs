//! Contents of a device for a backup. The functions of this file change nothing.

pub mod restore;

use mezza_core::Backend;

use super::{Components, DeviceOver};
use crate::backup::{BackupContact, BackupIdentity, BackupNetwork, BackupNote, BackupWindow};
use crate::carriers::{CarrierSet, Port};
use crate::contacts::{Contact, ContactPhase};
use crate::io::ContactId;
use crate::threads::StoredNote;
use crate::view::ContactState;

/// The contents of a device for a backup. Each call returns the same values in the same order, as
/// long as the device does not change.
pub struct BackupView<'a, P: Port>(&'a Components<P>);

impl<'a, P: Port> BackupView<'a, P> {
    /// Returns the contents of this device.
    pub fn new(device: &'a DeviceOver<P>) -> Self {
        Self(&device.components)
    }

    /// Returns the identity, with its private key.
    pub fn identity(&self) -> BackupIdentity {
        self.0.profile.backup()
    }

    /// Returns all contacts, by ascending number.
    pub fn contacts(&self) -> impl Iterator<Item = BackupContact> {
        self.0.contacts.iter().map(|(id, contact)| self.0.describe_for_backup(id, contact))
    }

    /// Returns all notes that never had a timer, by ascending number.
    pub fn notes(&self) -> impl Iterator<Item = BackupNote> {
        // A backup cannot delete a note at its end, so it contains no notes with a timer
        // (BACKUP-3).
        let lasting = self.0.threads.iter().filter(|(_, note)| note.timer_s == 0);
        lasting.map(|(id, note)| BackupNote { id, ..describe_note(note) })
    }

    /// Returns the numbers that have arrived, by contact and era.
    pub fn windows(&self) -> impl Iterator<Item = BackupWindow> {
        self.0.threads.windows().map(|(contact, (arrived, read))| BackupWindow {
            contact,
            arrived: arrived.clone(),
            read: read.clone(),
        })
    }
}

impl<B: Backend> BackupView<'_, CarrierSet<B>> {
    /// Returns the charges of the mixnets that were joined.
    pub fn networks(&self) -> impl Iterator<Item = BackupNetwork> {
        self.0.carriers.charges()
    }
}

impl<P: Port> Components<P> {
    /// Returns the form of a contact in a backup.
    fn describe_for_backup(&self, id: ContactId, contact: &Contact) -> BackupContact {
        BackupContact {
            id,
            card: contact.card.clone(),
            petname: contact.petname.clone(),
            verified: contact.verified,
            policy: contact.policy.clone(),
            state: match contact.phase {
                ContactPhase::Held => ContactState::Held,
                ContactPhase::Asked => ContactState::Asked,
                ContactPhase::Open => ContactState::Open,
                ContactPhase::Request => ContactState::Request,
            },
            blocked: contact.blocked,
            own_era: self.own_era(id),
            next_seq: self.outbox.next_seq(id),
        }
    }
}

/// Returns the form of a note in a backup, without its number.
fn describe_note(note: &StoredNote) -> BackupNote {
    BackupNote {
        id: crate::io::NoteId(0),
        contact: note.contact,
        incoming: note.incoming,
        client: note.client,
        body: note.body.clone(),
        era: note.era,
        seq: note.seq,
        sent: note.sent,
        at: note.at,
        due: note.due,
        level_min: note.level_min,
        carrier: note.carrier,
        level: note.level,
        seen: note.seen,
        voided: note.voided,
        facts: note.facts.clone(),
        life: note.life,
    }
}
