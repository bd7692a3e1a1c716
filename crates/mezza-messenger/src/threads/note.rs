//! The stored form of the notes of a thread: content and facts.

use alloc::string::String;
use alloc::vec::Vec;

use crate::note::{Era, NoteDigest};
use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};

use crate::evidence::{self, Fact, FactKind, WaitReason};
use crate::io::{CarrierId, ContactId, Retention, read_flag, read_text};
use crate::policy::NoteLife;
use crate::view::NoteContent;

/// Version of the stored form of a note with a life of its own.
const LIVED: u8 = 3;
/// Version of the stored form of all other notes.
const VERSION: u8 = 2;
/// The earlier version, without levels.
const OLDER: u8 = 1;

/// One note, sent or received.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one note")]
pub(crate) struct StoredNote {
    pub contact: ContactId,
    pub incoming: bool,
    /// Sent notes: the number by which a repeated command is recognised.
    pub client: [u8; 16],
    pub body: NoteContent,
    /// The era of `seq`. Writer, era and number together identify the note.
    pub era: Era,
    /// Number of the note in its era; 0 before the first sealing.
    pub seq: u32,
    pub sent: Time,
    pub at: Time,
    pub timer_s: u32,
    /// Sent notes: end of the carrier's attempts.
    pub due: Option<Time>,
    pub level_min: u8,
    pub carrier: Option<CarrierId>,
    /// Received notes: protection level of the carrier, 1 to 4; 0 in rows of earlier versions,
    /// which did not store it.
    pub level: u8,
    /// Received notes: true if the user has seen the note.
    pub seen: bool,
    /// True if the note must be sealed again, because its session is lost.
    pub again: bool,
    /// True if its number was declared void; from then on only a bit confirms it.
    pub voided: bool,
    pub facts: Vec<Fact>,
    /// Sent notes: the life that the user chose for this note alone.
    pub life: Option<NoteLife>,
    // Not stored: the reason why the note waits.
    pub why: WaitReason,
}

snapshot!(struct StoredNote {
    contact, incoming, client, body, era, seq, sent, at, timer_s, due, level_min, carrier,
    level, seen, again, voided, facts, life, why,
});

impl StoredNote {
    /// Returns the time at which the note disappears, or `None` if it has no timer.
    pub fn ends_at(&self) -> Option<Time> {
        (self.timer_s > 0).then(|| self.at.plus_ms(u64::from(self.timer_s) * Time::SECOND_MS))
    }

    /// Returns the earlier one of the timer's end and the end of the carrier's attempts (messenger
    /// 5.2).
    pub fn due(&self) -> Option<Time> {
        match (self.ends_at(), self.due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns the level of the carrier when the note arrived or left. Later changes do not affect
    /// it. `None` if the note has not left, or an earlier version did not store the level.
    pub fn travelled_at(&self) -> Option<u8> {
        let handed = self.facts.iter().rev().find(|fact| fact.what == FactKind::Handed);
        let level = if self.incoming { self.level } else { handed.map_or(0, |fact| fact.level) };
        Some(level).filter(|level| *level > 0)
    }

    /// Returns true if the note has a delivery or read receipt.
    pub fn is_delivered(&self) -> bool {
        self.facts.iter().any(|fact| matches!(fact.what, FactKind::Delivered | FactKind::Read))
    }

    /// Returns true if this is a note of ours that is neither delivered nor given up.
    pub fn is_waiting(&self, now: Time) -> bool {
        !self.incoming && !self.is_delivered() && self.due().is_none_or(|due| now < due)
    }

    /// Computes the state from the facts.
    pub fn state(&self, now: Time) -> evidence::NoteState {
        if self.incoming {
            evidence::NoteState::Received
        } else {
            evidence::compute_state(&self.facts, self.due(), self.why, now)
        }
    }

    /// Returns the vault key that seals the note, chosen by its timer (VAULT-3).
    pub fn bucket(&self) -> Retention {
        match self.ends_at() {
            None => Retention::Permanent,
            // A timer up to a day ends with its hour, a longer one with its day (VAULT-3).
            Some(end) if u64::from(self.timer_s) * Time::SECOND_MS <= Time::DAY_MS => {
                Retention::Hour(end.as_hours())
            }
            Some(end) => Retention::Day(end.as_days()),
        }
    }

    /// Encodes the stored form. Version 3 ends with `life u8`, 1 to 3.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let (kind, text) = match &self.body {
            NoteContent::Text(text) => (0, text.as_str()),
            NoteContent::Newer => (1, ""),
        };
        let mut w = Writer::with_capacity(96 + text.len() + 12 * self.facts.len());
        // A note without a life of its own has the form that earlier versions read.
        w.put_u8(if self.life.is_some() { LIVED } else { VERSION })
            .put_u32(self.contact.0)
            .put_u8(u8::from(self.incoming))
            .put_bytes(&self.client);
        w.put_bytes(&self.era.0)
            .put_u32(self.seq)
            .put_u64(self.sent.as_ms())
            .put_u64(self.at.as_ms())
            .put_u32(self.timer_s);
        w.put_u64(self.due.map_or(0, Time::as_ms)).put_u8(self.level_min);
        w.put_u8(self.carrier.map_or(0, CarrierId::number))
            .put_u8(self.level)
            .put_u8(u8::from(self.seen));
        w.put_u8(u8::from(self.again)).put_u8(u8::from(self.voided));
        w.put_u8(kind).put_var16(text.as_bytes());
        evidence::write_facts(&self.facts, &mut w);
        if let Some(life) = self.life {
            w.put_u8(NoteLife::encode_choice(Some(life)));
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            let levels = match version {
                LIVED | VERSION => true,
                OLDER => false,
                _ => return Err(DecodeError::Value),
            };
            let contact = ContactId(r.read_u32()?);
            let incoming = read_flag(r)?;
            let client = r.read_array()?;
            let era = Era::read(r)?;
            let seq = r.read_u32()?;
            let sent = Time::from_ms(r.read_u64()?);
            let at = Time::from_ms(r.read_u64()?);
            let timer_s = r.read_u32()?;
            let due = Some(r.read_u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            let pin = r.read_u8()?;
            let carrier = match r.read_u8()? {
                0 => None,
                number => Some(CarrierId::from_number(number).ok_or(DecodeError::Value)?),
            };
            let level = if levels { evidence::read_level(r)? } else { 0 };
            let seen = read_flag(r)?;
            let again = read_flag(r)?;
            let voided = read_flag(r)?;
            let body = match (r.read_u8()?, read_text(r.read_var16()?)?) {
                (0, text) => NoteContent::Text(text),
                (1, text) if text.is_empty() => NoteContent::Newer,
                _ => return Err(DecodeError::Value),
            };
            let facts = evidence::read_facts(r, levels)?;
            let life = if version == LIVED { Some(read_life(r)?) } else { None };
            let why = WaitReason::NoCarrier;
            Ok(Self {
                contact,
                incoming,
                client,
                body,
                era,
                seq,
                sent,
                at,
                timer_s,
                due,
                level_min: pin,
                carrier,
                level,
                seen,
                again,
                voided,
                facts,
                life,
                why,
            })
        })
    }

    /// Returns the digest that distinguishes this note from another one with the same number
    /// (MSG-95).
    pub fn digest(&self) -> NoteDigest {
        NoteDigest::from_text(self.sent, self.text().map_or("", String::as_str))
    }

    /// Returns the bytes of the text.
    pub fn body_bytes(&self) -> u32 {
        self.body.bytes()
    }

    /// Returns the text, or `None` for a body of a newer version, which is never sent on.
    pub fn text(&self) -> Option<&String> {
        match &self.body {
            NoteContent::Text(text) => Some(text),
            NoteContent::Newer => None,
        }
    }
}

/// Reads the life of a note. Version 3 without one would be a second encoding of version 2 (MSG-43).
fn read_life(r: &mut Reader<'_>) -> Result<NoteLife, DecodeError> {
    NoteLife::decode_choice(r.read_u8()?)?.ok_or(DecodeError::Value)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Returns the row of a note of ours that waits, as version 2 wrote it.
    fn older_row() -> Vec<u8> {
        let mut row = vec![2, 0, 0, 0, 7, 0];
        row.extend([5; 16]);
        row.extend([3; 4]);
        row.extend([0, 0, 0, 9]);
        row.extend([0, 0, 1, 0x9c, 0, 0, 0, 1]);
        row.extend([0, 0, 1, 0x9c, 0, 0, 0, 2]);
        row.extend([0; 12]);
        // Lowest level 2, carrier 3, no level, seen, neither again nor voided.
        row.extend([2, 3, 0, 1, 0, 0]);
        row.extend([0, 0, 5]);
        row.extend(b"hello");
        row.push(0);
        row
    }

    #[test]
    fn msg_150_a_note_of_an_earlier_version_has_no_life_of_its_own() {
        let older = older_row();
        let mut note = StoredNote::read(&older).unwrap();
        assert_eq!((note.contact, note.seq, note.level_min), (ContactId(7), 9, 2));
        assert_eq!(note.text().map(String::as_str), Some("hello"));
        assert_eq!(note.life, None);
        assert_eq!(note.write()[..], older, "and this version writes the same row");
        for life in [NoteLife::Minute, NoteLife::HalfHour, NoteLife::HalfDay] {
            note.life = Some(life);
            let row = note.write();
            assert_eq!(row[0], LIVED);
            let again = StoredNote::read(&row).unwrap();
            assert_eq!((again.life, &again.write()[..]), (Some(life), &row[..]));
            assert!(StoredNote::read(&row[..row.len() - 1]).is_err());
        }
        // Version 3 without a life would be a second form of version 2 (MSG-43).
        for wrong in [0, 4] {
            let mut row = note.write().to_vec();
            *row.last_mut().unwrap() = wrong;
            assert!(StoredNote::read(&row).is_err(), "{wrong}");
        }
    }
}
