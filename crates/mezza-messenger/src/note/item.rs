//! Items of a note.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::note::Era;
use mezza_core::{DecodeError, PublicKey, Reader, Writer, snapshot};

use super::{BUNDLE_BYTES_MAX, Inventory, MixnetStart, TEXT_BYTES_MAX};
use crate::card::{CARD_BYTES_MAX, RelayEntry};
use crate::receipt::{Kept, Receipt};

const TEXT: u8 = 1;
const HELLO: u8 = 2;
const RECEIPT: u8 = 3;
const TIMER: u8 = 4;
const CARD: u8 = 5;
const RESET: u8 = 6;
const RETRY: u8 = 7;
const MEET: u8 = 8;
const VOID: u8 = 9;
const KEPT: u8 = 10;
const BUNDLE: u8 = 11;
const INVENTORY: u8 = 12;
const TAG: u8 = 13;

/// Bytes of the tag that identifies a writer without a relay.
pub(crate) const TAG_BYTES: usize = 8;

/// One item of a note.
#[derive(Clone, PartialEq, Eq)]
pub enum Item {
    /// A text: 1 to 8,192 bytes of UTF-8.
    Text(String),
    /// The writer's mailbox for the reader, and the writer's card.
    Hello {
        /// The mailbox for the reader, or `None`.
        slot: Option<RemoteMailbox>,
        /// A tag of 8 bytes if there is no slot; otherwise it is not written.
        tag: Option<[u8; TAG_BYTES]>,
        /// The writer's card, at most 1,024 bytes, not checked here; may be empty.
        card: Vec<u8>,
    },
    /// A receipt.
    Receipt(Receipt),
    /// A new timer for both sides, in seconds; 0 switches it off.
    Timer(u32),
    /// A newer card of the writer, 1 to 1,024 bytes, not checked here.
    Card(Vec<u8>),
    /// The session was replaced: 1 a backup was restored, 2 the state was lost, 3 the user
    /// requested it.
    Reset(u8),
    /// A request to send all notes without a receipt again.
    Retry,
    /// The start of this pair's mixnet chains, the keys that advance with each round.
    Meet(MixnetStart),
    /// Numbers of notes that the writer gave up, so that the reader does not wait for them.
    Void {
        /// Era of the writer.
        era: Era,
        /// The first seq, at least 1.
        from: u32,
        /// The last seq, at least `from`.
        to: u32,
    },
    /// Digests of the notes that the receipts confirm.
    Kept(Kept),
    /// The writer's bundle, 1 to 4,096 bytes, not checked here.
    Bundle(Vec<u8>),
    /// The notes of one of the reader's eras that the writer has.
    Inventory(Inventory),
    /// The tag that the reader puts before its parcels to the writer in the mesh: 8 bytes, not all
    /// zero.
    Tag([u8; TAG_BYTES]),
    /// An item type of a newer version; its body is dropped.
    Unknown(u8),
}

/// A mailbox and the key under which envelopes for it are sealed. Wire form:
/// `relay entry | seal key[32]`, 83 B and the host.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteMailbox {
    /// Relay and address of the mailbox.
    pub relay: RelayEntry,
    /// X25519 public key for sealing.
    pub seal: PublicKey,
}

snapshot!(struct RemoteMailbox { relay, seal });

impl RemoteMailbox {
    /// Appends the wire form.
    pub fn write(&self, w: &mut Writer) {
        self.relay.write(w);
        w.put_bytes(&self.seal.0);
    }

    /// Reads the wire form from the front of the reader.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { relay: RelayEntry::read(r)?, seal: PublicKey::read_from(r)? })
    }

    fn wire_bytes(&self) -> usize {
        self.relay.wire_bytes() + 32
    }
}

impl fmt::Debug for RemoteMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteMailbox")
    }
}

impl Item {
    /// Returns the number of the item type.
    pub fn number(&self) -> u8 {
        match self {
            Self::Text(_) => TEXT,
            Self::Hello { .. } => HELLO,
            Self::Receipt(_) => RECEIPT,
            Self::Timer(_) => TIMER,
            Self::Card(_) => CARD,
            Self::Reset(_) => RESET,
            Self::Retry => RETRY,
            Self::Meet(_) => MEET,
            Self::Void { .. } => VOID,
            Self::Kept(_) => KEPT,
            Self::Bundle(_) => BUNDLE,
            Self::Inventory(_) => INVENTORY,
            Self::Tag(_) => TAG,
            Self::Unknown(number) => *number,
        }
    }

    /// Returns the number of bytes of the wire form.
    pub fn wire_bytes(&self) -> usize {
        3 + self.body_bytes()
    }

    pub(super) fn write(&self, w: &mut Writer) {
        let body_bytes = self.body_bytes();
        debug_assert!(body_bytes <= 0xffff);
        w.put_u8(self.number()).put_u16(body_bytes as u16);
        match self {
            Self::Text(text) => drop(w.put_bytes(text.as_bytes())),
            Self::Hello { slot, tag, card } => write_hello(slot.as_ref(), *tag, card, w),
            Self::Receipt(receipt) => receipt.write(w),
            Self::Timer(seconds) => drop(w.put_u32(*seconds)),
            Self::Card(bytes) | Self::Bundle(bytes) => drop(w.put_bytes(bytes)),
            Self::Reset(cause) => drop(w.put_u8(*cause)),
            Self::Meet(meet) => meet.write(w),
            Self::Void { era, from, to } => drop(w.put_bytes(&era.0).put_u32(*from).put_u32(*to)),
            Self::Kept(kept) => kept.write(w),
            Self::Inventory(inventory) => inventory.write(w),
            Self::Tag(tag) => drop(w.put_bytes(tag)),
            Self::Retry | Self::Unknown(_) => {}
        }
    }

    pub(super) fn decode(number: u8, body: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(body, |r| match number {
            TEXT => read_text(r.read_rest()),
            HELLO => read_hello(r),
            RECEIPT => Receipt::read(r).map(Self::Receipt),
            TIMER => r.read_u32().map(Self::Timer),
            CARD => Ok(Self::Card(read_bounded(r.read_rest(), CARD_BYTES_MAX)?)),
            // Causes from 4 on are not defined, so the note is malformed (3.4).
            RESET => match r.read_u8()? {
                cause @ 1..=3 => Ok(Self::Reset(cause)),
                _ => Err(DecodeError::Value),
            },
            RETRY => Ok(Self::Retry),
            MEET => MixnetStart::read(r).map(Self::Meet),
            VOID => read_void(r),
            KEPT => Kept::read(r).map(Self::Kept),
            BUNDLE => Ok(Self::Bundle(read_bounded(r.read_rest(), BUNDLE_BYTES_MAX)?)),
            INVENTORY => Inventory::read(r).map(Self::Inventory),
            // The all-zero tag is reserved for unknown senders.
            TAG => match r.read_array()? {
                [0, 0, 0, 0, 0, 0, 0, 0] => Err(DecodeError::Value),
                tag => Ok(Self::Tag(tag)),
            },
            number => {
                // The body of an unknown type is dropped. Its number is shown as newer content
                // (3.4).
                r.read_rest();
                Ok(Self::Unknown(number))
            }
        })
    }

    fn body_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Hello { slot, tag, card } => {
                let tag_bytes = tag.map_or(0, |tag| tag.len());
                4 + slot.as_ref().map_or(tag_bytes, RemoteMailbox::wire_bytes) + card.len()
            }
            Self::Receipt(_) => 21,
            Self::Timer(_) => 4,
            Self::Card(bytes) | Self::Bundle(bytes) => bytes.len(),
            Self::Reset(_) => 1,
            Self::Meet(meet) => meet.wire_bytes(),
            Self::Void { .. } => 12,
            Self::Kept(kept) => kept.wire_bytes(),
            Self::Inventory(inventory) => inventory.wire_bytes(),
            Self::Tag(tag) => tag.len(),
            Self::Retry | Self::Unknown(_) => 0,
        }
    }
}

/// `Debug` shows the type only, because a note's content must not appear in a log (MSG-37).
impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::Hello { .. } => f.write_str("Hello"),
            Self::Receipt(_) => f.write_str("Receipt"),
            Self::Timer(_) => f.write_str("Timer"),
            Self::Card(_) => f.write_str("Card"),
            Self::Reset(_) => f.write_str("Reset"),
            Self::Retry => f.write_str("Retry"),
            Self::Meet(_) => f.write_str("Meet"),
            Self::Void { .. } => f.write_str("Void"),
            Self::Kept(_) => f.write_str("Kept"),
            Self::Bundle(_) => f.write_str("Bundle"),
            Self::Inventory(_) => f.write_str("Inventory"),
            Self::Tag(_) => f.write_str("Tag"),
            Self::Unknown(number) => write!(f, "Unknown({number})"),
        }
    }
}

fn write_hello(
    slot: Option<&RemoteMailbox>,
    tag: Option<[u8; TAG_BYTES]>,
    card: &[u8],
    w: &mut Writer,
) {
    match (slot, tag) {
        (Some(slot), _) => {
            w.put_u16(slot.wire_bytes() as u16);
            slot.write(w);
        }
        (None, Some(tag)) => drop(w.put_var16(&tag)),
        (None, None) => drop(w.put_u16(0)),
    }
    w.put_var16(card);
}

fn read_hello(r: &mut Reader<'_>) -> Result<Item, DecodeError> {
    let place = r.read_var16()?;
    let card = r.read_var16()?;
    // The reader checks the card later; only its length is checked here.
    if card.len() > CARD_BYTES_MAX {
        return Err(DecodeError::Value);
    }
    let tag = <[u8; TAG_BYTES]>::try_from(place).ok();
    let slot = if place.is_empty() || tag.is_some() {
        None
    } else {
        Some(Reader::decode_exact(place, RemoteMailbox::read)?)
    };
    Ok(Item::Hello { slot, tag, card: card.to_vec() })
}

fn read_text(bytes: &[u8]) -> Result<Item, DecodeError> {
    if bytes.is_empty() || bytes.len() > TEXT_BYTES_MAX {
        return Err(DecodeError::Value);
    }
    let text = core::str::from_utf8(bytes).map_err(|_| DecodeError::Value)?;
    Ok(Item::Text(text.into()))
}

fn read_bounded(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    if bytes.is_empty() || bytes.len() > bytes_max {
        return Err(DecodeError::Value);
    }
    Ok(bytes.to_vec())
}

fn read_void(r: &mut Reader<'_>) -> Result<Item, DecodeError> {
    let era = Era::read(r)?;
    let from = r.read_u32()?;
    let to = r.read_u32()?;
    // Seq 0 is not acknowledged, so it cannot be void.
    if from == 0 || from > to {
        return Err(DecodeError::Value);
    }
    Ok(Item::Void { era, from, to })
}
