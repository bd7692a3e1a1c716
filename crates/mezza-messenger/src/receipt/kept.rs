//! Digests of the notes that a reader stores under the numbers that its receipts confirm.

use alloc::vec::Vec;

use crate::note::{Era, sent_ms};
use mezza_core::{DecodeError, Reader, Time, Writer, labelled_hash, snapshot};

/// Digest of a note: `H_4("mezza/kept", sent u48 | text)`, 4 B. Two copies of a vault may use one
/// number for two notes; the digest distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteDigest(pub [u8; NoteDigest::BYTES]);

snapshot!(struct NoteDigest(bytes));

impl NoteDigest {
    /// Bytes of the wire form.
    pub const BYTES: usize = 4;

    /// Computes the digest of a note. A body of a newer version counts as empty text.
    pub fn from_text(sent: Time, text: &str) -> Self {
        Self(labelled_hash("mezza/kept", &[&sent_ms(sent).to_be_bytes()[2..], text.as_bytes()]))
    }

    /// Reads a digest of 4 bytes.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.read_array().map(Self)
    }
}

/// Notes of one era of the writer, with the digests that the reader stores. Wire form:
/// `era[4] | n * (seq u32 | digest[4])`, 1 <= n <= [`Kept::NOTES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The writer's era.
    pub era: Era,
    /// Number and digest of each note.
    pub notes: Vec<(u32, NoteDigest)>,
}

impl Kept {
    /// Most notes in one item.
    pub const NOTES_MAX: usize = 64;

    /// Bytes of the wire form.
    pub fn wire_bytes(&self) -> usize {
        4 + self.notes.len() * (4 + NoteDigest::BYTES)
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.put_bytes(&self.era.0);
        for (seq, digest) in &self.notes {
            w.put_u32(*seq).put_bytes(&digest.0);
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let era = Era::read(r)?;
        let mut notes = Vec::new();
        while notes.is_empty() || !r.is_empty() {
            // The number of entries is bounded before memory grows with it.
            if notes.len() == Self::NOTES_MAX {
                return Err(DecodeError::Value);
            }
            notes.push((r.read_u32()?, NoteDigest::read(r)?));
        }
        Ok(Self { era, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::{Item, Note};

    #[test]
    fn msg_95_writer_and_reader_have_one_digest_whatever_the_clock_says() {
        let digest = |note: &Note| NoteDigest::from_text(note.sent, "a note");
        for ms in [0, (1 << 48) - 1, 1 << 48, (1 << 48) + 5, u64::MAX] {
            let items = Vec::from([Item::Text("a note".into())]);
            let sent = Time::from_ms(ms);
            let written = Note { era: Era([3; 4]), seq: 1, sent, timer_s: 0, items };
            let read = Note::decode(&written.encode()).expect("it is a note");
            assert_eq!(digest(&written), digest(&read), "{ms}");
        }
    }
}
