//! Notes to a contact whose fate is unknown after a restore: the user decides about them, or the
//! contact lost them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};

use crate::io::{NoteId, read_flag};
use crate::note::Era;

/// Version of the stored form.
const VERSION: u8 = 1;
/// Maximum number of notes in each list, so that they fit into a row of the vault. Beyond it, the
/// oldest are removed.
const NOTES_MAX: usize = 50_000;

/// The era of our notes in the backup, and the number that the next one would have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormerEra {
    pub era: Era,
    pub next_seq: u32,
}

snapshot!(struct FormerEra { era, next_seq });

/// The state that a restore leaves with one contact, on either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aftermath {
    /// Time when the backup was made from which this device was restored; 0 if it was not restored.
    pub made: Time,
    /// The era of our notes in the backup, which the lost device continued to use.
    pub former: Option<FormerEra>,
    /// Own notes that had no number in the backup. The lost device may have sent them.
    pub unsure: BTreeSet<NoteId>,
    /// Own notes that the contact had and lost.
    pub lost: BTreeSet<NoteId>,
    /// Number of notes from the lost device that the contact has and this device has not.
    pub ahead: u32,
}

snapshot!(struct Aftermath { made, former, unsure, lost, ahead });

impl Aftermath {
    /// Returns the stored row, or `None` if nothing was restored.
    pub fn stored(&self) -> Option<Wiping<Vec<u8>>> {
        (*self != Self::default()).then(|| self.write())
    }

    /// Adds a note that the contact lost.
    pub fn lose(&mut self, note: NoteId) {
        self.lost.insert(note);
        if self.lost.len() > NOTES_MAX {
            self.lost.pop_first();
        }
    }

    /// Removes a note from the lists, because its fate is decided.
    pub fn settle(&mut self, note: NoteId) {
        self.unsure.remove(&note);
        self.lost.remove(&note);
    }

    /// The stored form: `made u64 | flag u8 | era[4] | next u32 | ahead u32 | two lists n u32 | ids u64`.
    fn write(&self) -> Wiping<Vec<u8>> {
        let notes = self.unsure.len() + self.lost.len();
        let mut w = Writer::with_capacity(32 + 8 * notes);
        w.put_u8(VERSION).put_u64(self.made.as_ms()).put_u8(u8::from(self.former.is_some()));
        if let Some(former) = &self.former {
            w.put_bytes(&former.era.0).put_u32(former.next_seq);
        }
        w.put_u32(self.ahead);
        for list in [&self.unsure, &self.lost] {
            w.put_u32(list.len() as u32);
            for note in list {
                w.put_u64(note.0);
            }
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let made = Time::from_ms(r.read_u64()?);
            let former = if read_flag(r)? {
                Some(FormerEra { era: Era::read(r)?, next_seq: r.read_u32()? })
            } else {
                None
            };
            let ahead = r.read_u32()?;
            let unsure = read_notes(r)?;
            Ok(Self { made, former, unsure, lost: read_notes(r)?, ahead })
        })
    }
}

/// Reads a list of ascending numbers.
fn read_notes(r: &mut Reader<'_>) -> Result<BTreeSet<NoteId>, DecodeError> {
    let count = r.read_u32()? as usize;
    if count > NOTES_MAX {
        return Err(DecodeError::Value);
    }
    let mut notes = BTreeSet::new();
    for _ in 0..count {
        let note = NoteId(r.read_u64()?);
        // Ids must ascend, so that each set has one encoding.
        if notes.last().is_some_and(|last| *last >= note) {
            return Err(DecodeError::Value);
        }
        notes.insert(note);
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_21_what_a_restore_left_is_read_as_it_was_written() {
        let mut left = Aftermath {
            made: Time::from_ms(1_792_000_000_000),
            former: Some(FormerEra { era: Era([3; 4]), next_seq: 17 }),
            unsure: [NoteId(4), NoteId(9)].into(),
            lost: BTreeSet::new(),
            ahead: 2,
        };
        left.lose(NoteId(7));
        let bytes = left.stored().expect("something is left");
        assert_eq!(Aftermath::read(&bytes), Ok(left.clone()));
        assert!((0..bytes.len()).all(|cut| Aftermath::read(&bytes[..cut]).is_err()));
        for note in [4, 5, 7] {
            left.settle(NoteId(note));
        }
        assert_eq!((left.unsure.len(), left.lost.len()), (1, 0));
        assert!(Aftermath::default().stored().is_none());
    }
}
