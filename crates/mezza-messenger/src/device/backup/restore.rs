//! Creates the rows of a new vault from the contents of a backup.
//!
//! ```text
//! identity -> contacts -> notes -> windows -> networks -> finish: the rows that depend on all others
//! ```
//!
//! The rows are those of a device that has just begun a new era with every contact (MSG-91). They
//! contain no session, no prekey and no mailbox, so that the first start creates fresh ones.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Time, Wiping};

use crate::backup::{
    BackupContact, BackupError, BackupIdentity, BackupNetwork, BackupNote, BackupWindow,
};
use crate::carriers::LeftNetwork;
use crate::contacts::{Contact, ContactPhase};
use crate::evidence::WaitReason;
use crate::io::{ContactId, NoteId, RecordChange, RecordKind, ResetCause, Retention, key32, key64};
use crate::note::{Era, TEXT_BYTES_MAX};
use crate::outbox::{Aftermath, FormerEra, Lane};
use crate::policy::timer_step;
use crate::profile::Profile;
use crate::threads::{StoredNote, key_seen, write_windows};
use crate::view::ContactState;

/// Most contacts and most notes, which is more than a file of 4 GiB contains.
const CONTACTS_MAX: usize = 100_000;
const NOTES_MAX: u64 = 10_000_000;
/// Most facts of one note, which is more than four carriers can add.
const FACTS_MAX: usize = 255;
/// The highest numbers of contacts and notes that a device gives out.
const CONTACT_ID_MAX: u32 = u32::MAX / 4;
const NOTE_ID_MAX: u64 = u64::MAX / 4;

/// One contact while the rest of the backup is read.
struct RestoredContact {
    lane: Lane,
    left: Aftermath,
    /// True if the contact gets receipts, and therefore inventories.
    is_told: bool,
    eras: BTreeSet<Era>,
}

/// Creates the rows of a vault, one value of a backup after the other.
pub struct RestoreRows {
    profile: Profile,
    made: Time,
    now: Time,
    contacts: BTreeMap<ContactId, RestoredContact>,
    identities: BTreeSet<[u8; 32]>,
    networks: BTreeSet<[u8; 32]>,
    last_note: Option<NoteId>,
    notes: u64,
}

impl RestoreRows {
    /// Begins with the identity of a backup that was made at `made`.
    ///
    /// # Errors
    /// [`BackupError::Identity`] if no card can be issued from it.
    pub fn new<B: Backend>(
        identity: BackupIdentity,
        made: Time,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, BackupError> {
        let profile = Profile::restore::<B>(identity, made, now, rng);
        Ok(Self {
            profile: profile.map_err(|_| BackupError::Identity)?,
            made,
            now,
            contacts: BTreeMap::new(),
            identities: BTreeSet::new(),
            networks: BTreeSet::new(),
            last_note: None,
            notes: 0,
        })
    }

    /// Adds a contact. Returns the row of the contact.
    ///
    /// # Errors
    /// [`BackupError::Contact`] if the contact was added before, has our own key, or is malformed.
    pub fn add_contact(
        &mut self,
        contact: BackupContact,
        rng: &mut dyn CryptoRng,
    ) -> Result<RecordChange, BackupError> {
        let id = contact.id;
        let wrong = BackupError::Contact(id.0);
        let phase = match contact.state {
            ContactState::Held => ContactPhase::Held,
            ContactState::Asked => ContactPhase::Asked,
            ContactState::Open => ContactPhase::Open,
            ContactState::Request => ContactPhase::Request,
            ContactState::Blocked => return Err(wrong),
        };
        let ik = *contact.card.ik();
        let is_new = self.identities.insert(*ik.as_bytes()) && !self.contacts.contains_key(&id);
        let is_other = ik != self.profile.identity().public_key();
        let is_numbered = (1..=CONTACT_ID_MAX).contains(&id.0) && contact.next_seq > 0;
        let is_sound = contact.policy.is_sound()
            && contact.petname.as_deref().is_none_or(crate::name::is_clean);
        if !(is_new && is_other && is_numbered && is_sound) || self.contacts.len() >= CONTACTS_MAX {
            return Err(wrong);
        }
        let mut era = Era([0; 4]);
        rng.fill_bytes(&mut era.0);
        let mut lane = Lane { era: Some(era), ..Lane::default() };
        // A contact in phase `Held` (card only) does not know us (MSG-107).
        if matches!(phase, ContactPhase::Asked | ContactPhase::Open) {
            lane.owed.hello = true;
            lane.owed.owe_reset(ResetCause::Restored);
        }
        let is_told = contact.policy.delivered && !contact.blocked && phase == ContactPhase::Open;
        let former = Some(FormerEra { era: contact.own_era, next_seq: contact.next_seq });
        let left = Aftermath { made: self.made, former, ..Aftermath::default() };
        self.profile.skip_contact(id.0);
        let eras = BTreeSet::new();
        self.contacts.insert(id, RestoredContact { lane, left, is_told, eras });
        let stored = Contact {
            card: contact.card,
            petname: contact.petname,
            verified: contact.verified,
            policy: contact.policy,
            phase,
            blocked: contact.blocked,
            trouble: None,
        };
        Ok(put(RecordKind::Contact, key32(id.0), stored.write()))
    }

    /// Adds a note; notes must be added by ascending number. Returns the row of the note.
    ///
    /// # Errors
    /// [`BackupError::Note`] if the note belongs to no contact, or its number is not above the last
    /// one.
    pub fn add_note(&mut self, note: BackupNote) -> Result<RecordChange, BackupError> {
        let id = note.id;
        let wrong = BackupError::Note(id.0);
        let is_next = self.last_note.is_none_or(|last| last < id) && id.0 <= NOTE_ID_MAX;
        let contact = self.contacts.get_mut(&note.contact).ok_or(wrong)?;
        let is_leveled = (1..=4).contains(&note.level_min) && note.level <= 4;
        let fits = note.body.bytes() as usize <= TEXT_BYTES_MAX && note.facts.len() <= FACTS_MAX;
        if !is_next || !is_leveled || !fits || self.notes >= NOTES_MAX {
            return Err(wrong);
        }
        self.last_note = Some(id);
        self.notes += 1;
        self.profile.skip_note(id.0);
        let stored = stored_note(note, self.now);
        if is_unsure(&stored) {
            contact.left.unsure.insert(id);
        }
        Ok(put(RecordKind::Note, key64(id.0), stored.write()))
    }

    /// Adds the numbers of one era of a contact that have arrived. Returns their row.
    ///
    /// # Errors
    /// [`BackupError::Window`] if the window belongs to no contact, or the era has a window
    /// already.
    pub fn add_window(&mut self, window: BackupWindow) -> Result<RecordChange, BackupError> {
        let id = window.contact;
        let wrong = BackupError::Window(id.0);
        let contact = self.contacts.get_mut(&id).ok_or(wrong)?;
        let era = window.arrived.era();
        if window.read.era() != era || !contact.eras.insert(era) {
            return Err(wrong);
        }
        contact.lane.owed.inventory = contact.is_told;
        contact.lane.owed.receipt = contact.is_told;
        let value = write_windows(&(window.arrived, window.read));
        Ok(put(RecordKind::Seen, key_seen(id, era), value))
    }

    /// Adds the charges of a mixnet. Returns their row. The new device has joined no mixnet. When
    /// it joins again it continues with these charges, so that a restore never restores a spent
    /// budget (BACKUP-24).
    ///
    /// # Errors
    /// [`BackupError::Network`] if the network was added before, or its address is too long.
    pub fn add_network(&mut self, network: BackupNetwork) -> Result<RecordChange, BackupError> {
        if !self.networks.insert(network.pin) || u8::try_from(network.address.len()).is_err() {
            return Err(BackupError::Network);
        }
        let left = LeftNetwork { address: network.address, remembered: network.remembered };
        Ok(put(RecordKind::LeftNetwork, network.pin.to_vec(), left.write()))
    }

    /// Returns the rows that depend on all others.
    pub fn finish(self) -> impl Iterator<Item = RecordChange> {
        let profile = put(RecordKind::Profile, Vec::new(), self.profile.write());
        let contacts = self.contacts.into_iter().flat_map(|(id, contact)| {
            let lane = put(RecordKind::Owed, key32(id.0), contact.lane.write());
            let left = contact.left.stored();
            let left = left.map(|value| put(RecordKind::Aftermath, key32(id.0), value));
            [lane].into_iter().chain(left)
        });
        [profile].into_iter().chain(contacts)
    }
}

/// Returns the retention of a record, which follows from its kind or its content, or `None` if the
/// content does not decode.
pub fn retention_of(kind: RecordKind, value: &[u8]) -> Option<Retention> {
    let of_note = || StoredNote::read(value).ok().map(|note| note.bucket());
    kind.retention().or_else(|| (kind == RecordKind::Note).then(of_note).flatten())
}

/// Returns true if the user must decide about a note. It had no number in the backup, and the lost
/// device may have sent it since (BACKUP-23).
fn is_unsure(note: &StoredNote) -> bool {
    !note.incoming && note.seq == 0 && !note.is_delivered()
}

/// Returns the stored form of a note. A note that was numbered and has no receipt is sealed again,
/// under its era and number. A note that has expired or was given up is not sent again.
fn stored_note(note: BackupNote, now: Time) -> StoredNote {
    let mut stored = StoredNote {
        contact: note.contact,
        incoming: note.incoming,
        client: note.client,
        body: note.body,
        era: note.era,
        seq: note.seq,
        sent: note.sent,
        at: note.at,
        timer_s: timer_step(0),
        due: note.due,
        level_min: note.level_min,
        carrier: note.carrier,
        level: note.level,
        seen: note.seen,
        again: false,
        voided: note.voided,
        facts: note.facts,
        life: note.life,
        why: WaitReason::Sending,
    };
    stored.again = stored.seq > 0 && !stored.voided && stored.is_waiting(now);
    stored
}

fn put(kind: RecordKind, key: Vec<u8>, value: Wiping<Vec<u8>>) -> RecordChange {
    let bucket = kind.retention().unwrap_or(Retention::Permanent);
    RecordChange::Put { kind, key, bucket, value }
}
