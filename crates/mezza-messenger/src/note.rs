//! The note: the plaintext of one message of the ratchet.
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
pub use item::{Item, RemoteMailbox};
pub use meet::MixnetStart;

/// Most bytes of a text item, UTF-8.
pub const TEXT_BYTES_MAX: usize = 8_192;
/// Most bytes of a bundle in a note: those of today take less than 2,000.
pub const BUNDLE_BYTES_MAX: usize = 4_096;
/// Most items in one note: 32 receipts, and room.
pub const ITEMS_MAX: usize = 64;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 19;
const SENT_MAX: u64 = (1 << 48) - 1;

/// The time of writing as a note holds it, ms: a later one than 48 bits have is the last of them.
pub(crate) fn sent_ms(sent: Time) -> u64 {
    sent.as_ms().min(SENT_MAX)
}

/// Keeps two lives of a vault, or of a contact in it, apart: numbers of notes count within an era.
/// 4 bytes, drawn or derived from what was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Era(pub [u8; 4]);

snapshot!(struct Era(bytes));

impl Era {
    /// Reads the next 4 bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.read_array()?))
    }
}

/// A message of the user, or of the device itself, to one contact. It is named by writer, era and seq.
#[derive(Clone, PartialEq, Eq)]
pub struct Note {
    /// Of the writer.
    pub era: Era,
    /// 1, 2, .. per contact and era; 0: asks for no receipt.
    pub seq: u32,
    /// When it was written: a claim. Whole milliseconds, at most 2^48 - 1.
    pub sent: Time,
    /// Seconds until it goes, 0: never.
    pub timer_s: u32,
    /// Its items, at most [`ITEMS_MAX`].
    pub items: Vec<Item>,
}

impl Note {
    /// The same with some of its items alone.
    #[must_use]
    pub fn with_only(&self, keep: impl Fn(&Item) -> bool) -> Self {
        let items = self.items.iter().filter(|item| keep(item)).cloned().collect();
        Self { items, ..*self }
    }

    /// The plaintext. It is built in one piece of memory, so that wiping it wipes all of it.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(self.wire_bytes());
        w.put_u8(VERSION).put_bytes(&self.era.0).put_u32(self.seq);
        w.put_u48(sent_ms(self.sent)).put_u32(self.timer_s);
        for item in &self.items {
            item.write(&mut w);
        }
        Wiping::new(w.finish())
    }

    /// Bytes that [`Note::encode`] gives.
    pub fn wire_bytes(&self) -> usize {
        HEAD_BYTES + self.items.iter().map(Item::wire_bytes).sum::<usize>()
    }

    /// Decodes a plaintext; refuses a malformed item of a known type, and keeps the number of an
    /// unknown one.
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
                // An item of type 00 is padding. Data behind it would be a hidden channel.
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
