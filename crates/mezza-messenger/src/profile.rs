//! The profile: our identity and card, and the numbers used so far, in one row.

use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, DecodeError, Reader, Secret, StaticKey, Time, Wiping, Writer,
    labelled_hash, snapshot,
};
use mezza_ratchet::{IdentityKeyPair, SuiteList};

use crate::backup::BackupIdentity;
use crate::card::{Card, CardDraft, CardError, RelayEntry};
use crate::io::{CardParts, ContactId, Effects, NoteId, RecordKind, read_text};
use crate::note::Era;

/// Version of the stored form.
const VERSION: u8 = 3;
/// Older versions also stored the name and relays of the card and the number of the next mailbox.
/// Version 2 added the digest of quarantined parcels.
const FIRST: u8 = 1;
const MENDED: u8 = 2;
/// Note numbers are stored by blocks of this size, so that the counter costs one write per block.
/// After a start the numbers continue with the next block.
const NOTE_BLOCK: u64 = 256;
/// Highest number of a note.
const NOTE_MAX: u64 = u64::MAX / 2;
/// Maximum number of cards that a device issues in a day: the part of a serial below the day.
const SERIALS_A_DAY: u32 = 256;
/// Latest day used for card serials. A clock beyond it must not raise a serial to its maximum,
/// after which there is no next one.
const SERIAL_DAYS_MAX: u32 = u32::MAX / 512;

/// Our identity, and the numbers used so far.
pub(crate) struct Profile {
    identity: IdentityKeyPair,
    scalar: Secret<32>,
    /// The era of this vault, drawn when the vault is created; the eras of notes are derived from
    /// it.
    era: Era,
    card: Card,
    next_contact: u32,
    next_note: u64,
    /// A digest of the names of the parcels that were quarantined when their content was last owed
    /// again; zeros if there were none.
    mended: [u8; 16],
}

snapshot!(struct Profile { identity, scalar, era, card, next_contact, next_note, mended });

impl Profile {
    /// Creates a new identity with its first card.
    pub fn create<B: Backend>(
        name: &str,
        parts: CardParts,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, CardError> {
        let pair = StaticKey::random::<B>(rng);
        let scalar = pair.scalar().duplicate();
        let mut era = [0; 4];
        rng.fill_bytes(&mut era);
        let identity = IdentityKeyPair::new(pair);
        let card = sign_card(&identity, name, parts, 0, now, rng)?;
        let era = Era(era);
        let mended = [0; 16];
        Ok(Self { identity, scalar, era, card, next_contact: 1, next_note: 1, mended })
    }

    /// Returns our identity and card for a backup.
    pub fn backup(&self) -> BackupIdentity {
        BackupIdentity {
            scalar: self.scalar.duplicate(),
            name: self.card.name().into(),
            serial: self.card.serial(),
            relays: self.card.relays().to_vec(),
        }
    }

    /// Creates the profile from the identity in a backup that was made at `made`. The serial of its
    /// card is above all that the lost device can have issued since.
    ///
    /// # Errors
    /// No card can be made from the name or the list of relays.
    pub fn restore<B: Backend>(
        identity: BackupIdentity,
        made: Time,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, CardError> {
        let BackupIdentity { scalar, name, serial, relays } = identity;
        let mut era = [0; 4];
        rng.fill_bytes(&mut era);
        let pair = IdentityKeyPair::new(StaticKey::from_scalar::<B>(scalar.duplicate()));
        // The part of a day counts as a day. A clock that is behind the backup adds one day.
        let days = now.as_days().saturating_sub(made.as_days()).saturating_add(1);
        let last = serial.saturating_add(days.saturating_mul(SERIALS_A_DAY));
        let parts = CardParts { relays, further: Vec::new() };
        let card = sign_card(&pair, &name, parts, last.min(u32::MAX / 2), now, rng)?;
        let mended = [0; 16];
        let era = Era(era);
        let identity = pair;
        Ok(Self { identity, scalar, era, card, next_contact: 1, next_note: 1, mended })
    }

    /// Returns the key pair that signs and takes part in X3DH.
    pub fn identity(&self) -> &IdentityKeyPair {
        &self.identity
    }

    /// Returns our card.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Returns the era of our notes to a contact, derived from the contact's number, which is never
    /// used again. A contact that is deleted and added again gets a new era, so its new notes are
    /// not taken for old ones.
    pub fn era(&self, contact: ContactId) -> Era {
        Era(labelled_hash("mezza/era", &[&self.era.0, &contact.0.to_be_bytes()]))
    }

    /// Issues a new card with a serial above the last one (MSG-6), without adopting it.
    pub fn issue_card(
        &self,
        name: &str,
        parts: CardParts,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Card, CardError> {
        sign_card(&self.identity, name, parts, self.card.serial(), now, rng)
    }

    /// Replaces our card and stores it.
    pub fn adopt_card(&mut self, card: Card, effects: &mut Effects) {
        self.card = card;
        self.store(effects);
    }

    /// Returns the number of the next contact.
    pub fn next_contact(&self) -> ContactId {
        ContactId(self.next_contact)
    }

    /// Uses up the number of the next contact.
    pub fn contact_number(&mut self, effects: &mut Effects) -> ContactId {
        let id = self.next_contact();
        self.next_contact += 1;
        self.store(effects);
        id
    }

    /// Uses up the number of the next note.
    pub fn note_number(&mut self, effects: &mut Effects) -> NoteId {
        let number = self.next_note;
        self.next_note += 1;
        // The block is stored when it is used up, so a crash skips numbers and repeats none.
        if number.is_multiple_of(NOTE_BLOCK) {
            self.store(effects);
        }
        NoteId(number)
    }

    /// Skips contact numbers up to and including `id`, unless it comes from a damaged key.
    pub fn skip_contact(&mut self, id: u32) {
        // A number from a damaged key must not exhaust the counter.
        if id <= u32::MAX / 4 {
            self.next_contact = self.next_contact.max(id + 1);
        }
    }

    /// Skips note numbers up to and including `id`.
    pub fn skip_note(&mut self, id: u64) {
        self.next_note = self.next_note.max(id + 1);
    }

    /// Stores which parcels are quarantined now: `lost` is a digest of their names. Returns true if
    /// it has changed.
    pub fn update_mended(&mut self, lost: [u8; 16], effects: &mut Effects) -> bool {
        // Sealing again is expensive, so it is done once for each set of quarantined parcels.
        let others = self.mended != lost;
        if others {
            self.mended = lost;
            self.store(effects);
        }
        others
    }

    /// Writes the row of the profile.
    pub fn store(&self, effects: &mut Effects) {
        effects.put(RecordKind::Profile, Vec::new(), self.write());
    }

    /// Encodes the stored form: `scalar[32] | era[4] | next contact u32 | next note u64 |
    /// mended[16] | card`.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let card = self.card.encode();
        let mut w = Writer::with_capacity(96 + card.len());
        w.put_u8(VERSION).put_bytes(self.scalar.expose()).put_bytes(&self.era.0);
        w.put_u32(self.next_contact).put_u64(self.next_note.next_multiple_of(NOTE_BLOCK));
        w.put_bytes(&self.mended).put_var16(&card);
        Wiping::new(w.finish())
    }

    /// Reads the stored form. Also returns the number of the next mailbox from older versions,
    /// which the relay carrier stores now.
    pub fn read<B: Backend>(bytes: &[u8]) -> Result<(Self, Option<u32>), DecodeError> {
        Reader::decode_exact(bytes, |r| match r.read_u8()? {
            VERSION => {
                let scalar = Secret::read_from(r)?;
                let era = Era::read(r)?;
                let next_contact = r.read_u32()?;
                let next_note = r.read_u64()?;
                let mended = r.read_array()?;
                let card = Card::decode(r.read_var16()?).map_err(|_| DecodeError::Value)?;
                let profile =
                    Self::from_parts::<B>(scalar, era, next_contact, next_note, mended, card)?;
                Ok((profile, None))
            }
            version @ (FIRST | MENDED) => {
                let scalar = Secret::read_from(r)?;
                let era = Era::read(r)?;
                let _name = read_text(r.read_var8()?)?;
                let next_contact = r.read_u32()?;
                let next_note = r.read_u64()?;
                let mailbox = r.read_u32()?;
                for _ in 0..r.read_u8()? {
                    RelayEntry::read(r)?;
                }
                let card = Card::decode(r.read_var16()?).map_err(|_| DecodeError::Value)?;
                let mended = if version == MENDED { r.read_array()? } else { [0; 16] };
                // Older versions stored the counter in the profile, with the same bound.
                if mailbox > u32::MAX / 2 {
                    return Err(DecodeError::Value);
                }
                let profile =
                    Self::from_parts::<B>(scalar, era, next_contact, next_note, mended, card)?;
                Ok((profile, Some(mailbox)))
            }
            _ => Err(DecodeError::Value),
        })
    }

    fn from_parts<B: Backend>(
        scalar: Secret<32>,
        era: Era,
        next_contact: u32,
        next_note: u64,
        mended: [u8; 16],
        card: Card,
    ) -> Result<Self, DecodeError> {
        if next_contact > u32::MAX / 2 || next_note > NOTE_MAX {
            return Err(DecodeError::Value);
        }
        let identity = IdentityKeyPair::new(StaticKey::from_scalar::<B>(scalar.duplicate()));
        Ok(Self { identity, scalar, era, card, next_contact, next_note, mended })
    }
}

fn sign_card(
    identity: &IdentityKeyPair,
    name: &str,
    parts: CardParts,
    last: u32,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<Card, CardError> {
    // The serial is at least 256 per day since 1970, so it exceeds those of cards from an older
    // copy of the vault.
    let serial = last.saturating_add(1).max(now.as_days().min(SERIAL_DAYS_MAX) * 256);
    let issued_days = now.as_days();
    let suites = SuiteList::our_suites();
    let draft = CardDraft { serial, issued_days, suites, name, relays: parts.relays };
    Card::issue_with(identity, draft, parts.further, rng)
}
