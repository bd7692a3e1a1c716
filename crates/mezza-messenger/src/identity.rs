//! The own identity and the counters that never go back: one record.

use alloc::string::String;
use alloc::vec::Vec;

use crate::note::Era;
use mezza_core::{
    Backend, CryptoRng, DecodeError, Reader, Secret, StaticKey, Time, Wiping, Writer,
};
use mezza_ratchet::{IdentityKeyPair, SuiteList};

use crate::card::{Card, CardDraft, CardError, MIXNET_PART, MixnetPart, RelayEntry};

/// Version of the stored form.
const VERSION: u8 = 1;
/// The version with what was made good; it is written where there is something.
const MENDED: u8 = 2;
/// Note numbers are stored by the block: a start goes on with the next one, and the counter costs
/// one write in so many notes.
const NOTE_BLOCK: u64 = 256;
/// No note has a number above this one.
const NOTE_MAX: u64 = u64::MAX / 2;
/// A clock beyond this day, far in the future, does not raise a serial to where there is no next.
const SERIAL_DAYS_MAX: u32 = u32::MAX / 512;
/// Relays on the card of this version.
pub(crate) const RELAYS_MAX: usize = 1;

/// Who we are, and the numbers given out so far.
pub(crate) struct OwnIdentity {
    pub name: String,
    /// Drawn when the vault is made: names the notes of this life of the device.
    pub era: Era,
    pub relays: Vec<RelayEntry>,
    /// The part 02 of the card, once a mixnet is known.
    pub network: Option<MixnetPart>,
    pub card: Card,
    pub next_contact: u32,
    pub next_note: u64,
    pub next_slot: u32,
    /// Which parcels were set aside when what was in them was owed again last: a digest of their
    /// names, zeros where there were none.
    pub mended: [u8; 16],
    scalar: Secret<32>,
}

impl OwnIdentity {
    /// A new identity with its first card.
    pub fn create<B: Backend>(
        name: &str,
        relays: Vec<RelayEntry>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, CardError> {
        let pair = StaticKey::random::<B>(rng);
        let scalar = pair.scalar().duplicate();
        let mut era = [0; 4];
        rng.fill_bytes(&mut era);
        let identity = IdentityKeyPair::new(pair);
        let draft = draft(name, &relays, 0, now);
        let card = Card::issue(&identity, draft, rng)?;
        Ok(Self {
            name: name.into(),
            era: Era(era),
            relays,
            network: None,
            card,
            next_contact: 1,
            next_note: 1,
            next_slot: 1,
            mended: [0; 16],
            scalar,
        })
    }

    /// The pair that signs and takes part in X3DH.
    pub fn identity<B: Backend>(&self) -> IdentityKeyPair {
        IdentityKeyPair::new(StaticKey::from_scalar::<B>(self.scalar.duplicate()))
    }

    /// A new card with other content; its serial is above the last one (MSG-6).
    pub fn reissue(
        &self,
        identity: &IdentityKeyPair,
        name: &str,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Card, CardError> {
        let network = self.network.map(|entry| (MIXNET_PART, entry.encode()));
        let draft = draft(name, relays, self.card.serial(), now);
        Card::issue_with(identity, draft, network.into_iter().collect(), rng)
    }

    /// Gives out the number of a note; `true`: the profile is to be stored.
    pub fn note_number(&mut self) -> (u64, bool) {
        let number = self.next_note;
        self.next_note += 1;
        (number, number.is_multiple_of(NOTE_BLOCK))
    }

    /// The stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let card = self.card.encode();
        let mut w = Writer::with_capacity(128 + card.len() + 96 * self.relays.len());
        let version = if self.mended == [0; 16] { VERSION } else { MENDED };
        w.u8(version).bytes(self.scalar.expose()).bytes(&self.era.0).var8(self.name.as_bytes());
        let next_note = self.next_note.next_multiple_of(NOTE_BLOCK);
        w.u32(self.next_contact).u64(next_note).u32(self.next_slot);
        w.u8(self.relays.len() as u8);
        for relay in &self.relays {
            relay.write(&mut w);
        }
        w.var16(&card);
        if version == MENDED {
            w.bytes(&self.mended);
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.u8()?;
            if !(VERSION..=MENDED).contains(&version) {
                return Err(DecodeError::Value);
            }
            let scalar = Secret::read(r)?;
            let era = Era::read(r)?;
            let name = text(r.var8()?)?;
            let (next_contact, next_note) = (r.u32()?, r.u64()?);
            let next_slot = r.u32()?;
            let counters = next_contact.max(next_slot) <= u32::MAX / 2 && next_note <= NOTE_MAX;
            if !counters {
                return Err(DecodeError::Value);
            }
            let mut relays = Vec::new();
            for _ in 0..r.u8()? {
                relays.push(RelayEntry::read(r)?);
            }
            let card = Card::decode(r.var16()?).map_err(|_| DecodeError::Value)?;
            let network = card.mixnet();
            let mended = if version == MENDED { r.array()? } else { [0; 16] };
            if version == MENDED && mended == [0; 16] {
                return Err(DecodeError::Value);
            }
            Ok(Self {
                name,
                era,
                relays,
                network,
                card,
                next_contact,
                next_note,
                next_slot,
                mended,
                scalar,
            })
        })
    }
}

/// UTF-8 out of a stored form.
pub(crate) fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(bytes).map(String::from).map_err(|_| DecodeError::Value)
}

fn draft<'a>(name: &'a str, relays: &[RelayEntry], last: u32, now: Time) -> CardDraft<'a> {
    // Counting from the day keeps the serial ahead of every card of an older life.
    let serial = last.saturating_add(1).max(now.days().min(SERIAL_DAYS_MAX) * 256);
    CardDraft {
        serial,
        issued_days: now.days(),
        suites: SuiteList::ours(),
        name,
        relays: relays.to_vec(),
    }
}
