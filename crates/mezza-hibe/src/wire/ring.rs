//! The stored state of a receiver: one sealed record for each entry of the stack, and the keyring with a key for
//! each.
//!
//! A record is `1 | suite, tree | kind | depth | start u32 | points`, sealed with ChaCha20-Poly1305
//! under its own key with nonce 0. Its name and its additional data have the generation in which it
//! was first stored. The keyring is
//! `"SHK1" | suite, tree | k | origin u32 | floor u32 of each life | generation u64 | count u16`,
//! then `start u32 | kind u8 | key[32]` for each entry, then zeros. They fill it up to 12,288
//! bytes, or 28,672 for three lives, because a varying size would reveal the floors.

use alloc::vec::Vec;

use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce, Tag};
use mezza_core::{DecodeError, Reader, Secret, Wiping, Writer};

use super::card::CardBlockHash;
use super::{join_nibbles, low_of_suite};
use crate::lives::TreeCalendar;
use crate::shape::{Epoch, Shape, Tick, TreeProfile};

/// Bytes of the largest keyring.
pub const RING_BYTES_MAX: usize = Shape::Lives.ring_bytes();
/// Bytes of a record before its points.
const RECORD_HEAD_BYTES: usize = 8;
/// Bytes of the tag of a record.
const RECORD_TAG_BYTES: usize = 16;
const RING_MAGIC: &[u8; 4] = b"SHK1";
const RECORD_LABEL: &[u8] = b"fshibe/v1/rec";
const RECORD_VERSION: u8 = 1;

/// The kind of an entry of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// The user key of one epoch: a leaf, or a node that was expanded.
    Single,
    /// A node with all epochs below it.
    Node,
}

impl EntryKind {
    /// Returns the byte of the kind: 0 or 1.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the kind of a byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Single),
            1 => Some(Self::Node),
            _ => None,
        }
    }
}

/// The name of a record. A later record has a later generation, so no record replaces another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordName {
    /// The generation in which the record was first stored.
    pub generation: u64,
    /// The first epoch of the entry.
    pub start: Epoch,
    /// The kind of the entry.
    pub kind: EntryKind,
}

impl RecordName {
    fn record_aad(&self, card: &CardBlockHash) -> Vec<u8> {
        let mut w = Writer::new();
        w.put_bytes(RECORD_LABEL).put_bytes(&card.0).put_u64(self.generation);
        w.put_u32(self.start.0).put_u8(self.kind.byte());
        w.finish()
    }
}

/// The plaintext of a record.
pub(crate) struct Record<'a> {
    pub shape: Shape,
    pub kind: EntryKind,
    pub depth: u8,
    pub start: Epoch,
    pub points: &'a [u8],
}

impl Record<'_> {
    /// Encrypts the record under a key that encrypts no other record (HIBE-29).
    pub fn seal(&self, card: &CardBlockHash, name: &RecordName, key: &Secret<32>) -> Vec<u8> {
        let mut w = Writer::with_capacity(RECORD_HEAD_BYTES + self.points.len() + RECORD_TAG_BYTES);
        w.put_u8(RECORD_VERSION)
            .put_u8(join_nibbles(self.shape.nibble()))
            .put_u8(self.kind.byte())
            .put_u8(self.depth);
        w.put_u32(self.start.0).put_bytes(self.points);
        let mut text = w.finish();
        let buffer = InOutBuf::from(text.as_mut_slice());
        let sealed =
            cipher(key).encrypt_inout_detached(&Nonce::default(), &name.record_aad(card), buffer);
        // The cipher fails only for long texts; a record has a few thousand bytes.
        text.extend_from_slice(&sealed.unwrap_or_default());
        text
    }
}

/// Decrypts a record and returns its points. Error: the key is wrong, or the content differs from
/// the name.
pub(crate) fn open_record(
    sealed: &[u8],
    card: &CardBlockHash,
    shape: Shape,
    name: &RecordName,
    depth: u8,
    key: &Secret<32>,
) -> Result<Wiping<Vec<u8>>, DecodeError> {
    let (text, tag) =
        sealed.split_last_chunk::<RECORD_TAG_BYTES>().ok_or(DecodeError::Truncated)?;
    let mut text = Wiping::new(text.to_vec());
    let buffer = InOutBuf::from(text.as_mut_slice());
    let aad = name.record_aad(card);
    let opened =
        cipher(key).decrypt_inout_detached(&Nonce::default(), &aad, buffer, &Tag::from(*tag));
    opened.map_err(|_| DecodeError::Value)?;
    let mut r = Reader::new(&text);
    let head = (r.read_u8()?, r.read_u8()?, r.read_u8()?, r.read_u8()?, Epoch(r.read_u32()?));
    let tree = join_nibbles(shape.nibble());
    if head != (RECORD_VERSION, tree, name.kind.byte(), depth, name.start) {
        return Err(DecodeError::Value);
    }
    Ok(Wiping::new(r.read_rest().to_vec()))
}

fn cipher(key: &Secret<32>) -> ChaCha20Poly1305 {
    ChaCha20Poly1305::new(&Key::from(*key.expose()))
}

/// One entry of a keyring.
pub(crate) struct RingEntry {
    pub start: Epoch,
    pub kind: EntryKind,
    pub key: Secret<32>,
}

/// The keyring. It is secret, and the host must encrypt it at once.
pub(crate) struct Ring {
    pub shape: Shape,
    pub profile: TreeProfile,
    pub origin: Tick,
    /// The floor of each life, the shortest life first.
    pub floors: Vec<Epoch>,
    pub generation: u64,
    pub entries: Vec<RingEntry>,
}

impl Ring {
    /// Decodes a keyring: 12,288 bytes for a tree of one life, 28,672 for a tree of three. The
    /// entries are sorted by epoch.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let magic = r.read_array_ref::<4>()?;
        let shape =
            low_of_suite(r.read_u8()?).and_then(Shape::from_nibble).ok_or(DecodeError::Value)?;
        if bytes.len() != shape.ring_bytes() {
            return Err(DecodeError::Truncated);
        }
        let profile = TreeProfile::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?;
        let origin = Tick(r.read_u32()?);
        let calendar = TreeCalendar { shape, profile, origin };
        let floors = calendar.branches().map(|branch| {
            let floor = Epoch(r.read_u32()?);
            // A floor in the branch of another life would keep keys of both lives (HIBE-87).
            let is_within = branch.first <= floor && floor <= branch.end;
            if is_within { Ok(floor) } else { Err(DecodeError::Value) }
        });
        let floors = floors.collect::<Result<Vec<_>, _>>()?;
        let generation = r.read_u64()?;
        let count = usize::from(r.read_u16()?);
        if magic != RING_MAGIC || count > shape.entries_max() {
            return Err(DecodeError::Value);
        }
        let entries = (0..count).map(|_| RingEntry::read_from(&mut r));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        if r.read_rest().iter().any(|byte| *byte != 0) {
            return Err(DecodeError::Trailing);
        }
        Ok(Self { shape, profile, origin, floors, generation, entries })
    }
}

impl RingEntry {
    fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = Epoch(r.read_u32()?);
        let kind = EntryKind::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?;
        Ok(Self { start, kind, key: Secret::read_from(r)? })
    }
}

/// The fields of a keyring before its entries, which describe the tree.
pub(crate) struct RingHead<'a> {
    pub calendar: &'a TreeCalendar,
    /// The floor of each life, the shortest life first.
    pub floors: &'a [Epoch],
    pub generation: u64,
}

/// Encodes a keyring of at most [`Shape::entries_max`] entries.
pub(crate) fn encode_ring<'a>(
    head: &RingHead<'_>,
    entries: impl ExactSizeIterator<Item = (Epoch, EntryKind, &'a Secret<32>)>,
) -> Wiping<Vec<u8>> {
    let TreeCalendar { shape, profile, origin } = *head.calendar;
    debug_assert!(entries.len() <= shape.entries_max());
    let mut w = Writer::with_capacity(shape.ring_bytes());
    w.put_bytes(RING_MAGIC)
        .put_u8(join_nibbles(shape.nibble()))
        .put_u8(profile.byte())
        .put_u32(origin.0);
    for floor in head.floors {
        w.put_u32(floor.0);
    }
    w.put_u64(head.generation).put_u16(entries.len() as u16);
    for (start, kind, key) in entries {
        w.put_u32(start.0).put_u8(kind.byte()).put_bytes(key.expose());
    }
    w.pad_to(shape.ring_bytes());
    Wiping::new(w.finish())
}
