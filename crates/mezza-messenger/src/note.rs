//! The note: the plaintext of one ratchet message.
//!
//! ```text
//! version=1 | era[4] | seq u32 | sent u48 | timer u32 | items      19 B and the items
//! item      = type u8 | len u16 | body                              type 00: only zeros follow
//! ```

mod inventory;
mod item;
mod meet;

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};

pub use crate::receipt::{Kept, NoteDigest, Receipt};
pub use inventory::Inventory;
pub(crate) use item::TAG_BYTES;
pub use item::{Item, RemoteMailbox};
pub use meet::MixnetStart;

/// Most bytes of a text item, UTF-8.
pub const TEXT_BYTES_MAX: usize = 8_192;
/// Most bytes of a bundle in a note. Present bundles have less than 2,000.
pub const BUNDLE_BYTES_MAX: usize = 4_096;
/// Most items in one note: 32 receipts and some room.
pub const ITEMS_MAX: usize = 64;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 19;
const SENT_MAX: u64 = (1 << 48) - 1;

/// Returns the time of writing as a note stores it, in ms; a time above 48 bits becomes the largest
/// value.
pub(crate) fn sent_ms(sent: Time) -> u64 {
    sent.as_ms().min(SENT_MAX)
}

/// Note numbers count within an era. The era separates the numbers of two copies of a vault, and
/// those from before and after a contact's loss of state. 4 bytes, random or derived from random
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Era(pub [u8; 4]);

snapshot!(struct Era(bytes));

impl Era {
    /// Reads an era of 4 bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.read_array()?))
    }
}

/// A message of the user, or of the device itself, to one contact. Writer, era and seq identify it.
#[derive(Clone, PartialEq, Eq)]
pub struct Note {
    /// Era of the writer.
    pub era: Era,
    /// The note number 1, 2, .. per contact and era; 0 requests no receipt.
    pub seq: u32,
    /// Time of writing, as the writer claims it, in whole milliseconds, at most 2^48 - 1.
    pub sent: Time,
    /// Seconds until the note disappears; 0 means never.
    pub timer_s: u32,
    /// Items of the note, at most [`ITEMS_MAX`].
    pub items: Vec<Item>,
}

impl Note {
    /// Returns the same note with only the items that `keep` accepts.
    #[must_use]
    pub fn with_only(&self, keep: impl Fn(&Item) -> bool) -> Self {
        let items = self.items.iter().filter(|item| keep(item)).cloned().collect();
        Self { items, ..*self }
    }

    /// Encodes the plaintext in one allocation, so that wiping it wipes all of it.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(self.wire_bytes());
        w.put_u8(VERSION).put_bytes(&self.era.0).put_u32(self.seq);
        w.put_u48(sent_ms(self.sent)).put_u32(self.timer_s);
        for item in &self.items {
            item.write(&mut w);
        }
        Wiping::new(w.finish())
    }

    /// Returns the number of bytes that [`Note::encode`] writes.
    pub fn wire_bytes(&self) -> usize {
        HEAD_BYTES + self.items.iter().map(Item::wire_bytes).sum::<usize>()
    }

    /// Decodes a plaintext. Refuses a malformed item of a known type, and keeps only the number of
    /// an unknown one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        if r.read_u8()? != VERSION {
            return Err(DecodeError::Value);
        }
        let mut note = Self {
            era: Era::read(&mut r)?,
            seq: r.read_u32()?,
            sent: Time::from_ms(r.read_u48()?),
            timer_s: r.read_u32()?,
            items: Vec::new(),
        };
        while !r.is_empty() {
            let number = r.read_u8()?;
            if number == 0 {
                // An item of type 00 is padding. Data after it would be a hidden channel.
                let is_blank = r.read_rest().iter().all(|b| *b == 0);
                return if is_blank { Ok(note) } else { Err(DecodeError::Trailing) };
            }
            // The bound limits the memory that one note can request (MSG-35).
            if note.items.len() == ITEMS_MAX {
                return Err(DecodeError::Value);
            }
            note.items.push(Item::decode(number, r.read_var16()?)?);
        }
        Ok(note)
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note({:?})", self.items)
    }
}
