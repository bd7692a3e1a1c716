//! Records on a stream: the form of a session where frames arrive once and in order.
//!
//! ```text
//! RECORD = 01 20 | length u16 | body       body = AEAD(type u8 | length u16 | payload | zeros)
//! CLOSE  = 01 21
//! ```
//!
//! Bodies have six sizes, which hide most of the payload's size (SEKA-48). The packet number is
//! counted on both sides and never sent. A session serves records or DATA, never both: both use the
//! same keys and nonces.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer};

use crate::error::FrameError;
use crate::limits::{FRAMES_PER_SUBKEY, PACKETS_MAX, TAG_BYTES};
use crate::session::LinkSession;
use crate::suite::FrameKey;
use crate::wire::VERSION;

/// The second byte of a record.
pub const RECORD: u8 = 0x20;
/// The second byte of a close.
pub const CLOSE: u8 = 0x21;
/// Bytes of a body, tag included.
pub const BODY_BYTES: [usize; 6] = [256, 512, 1_024, 2_048, 4_096, 16_384];
/// Maximum bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = BODY_BYTES[5] - TAG_BYTES - HEAD_BYTES;
/// Bytes of a record before its body.
pub const RECORD_HEADER_BYTES: usize = 4;
/// Bytes of type and length inside the body.
const HEAD_BYTES: usize = 3;

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// Data for the other side.
    Data,
    /// The last record of the stream.
    End,
    /// Data has arrived and is stored.
    Acknowledgement,
    /// A type of a later version; it is skipped.
    Other(u8),
}

impl RecordType {
    const fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::End => 1,
            Self::Acknowledgement => 2,
            Self::Other(number) => number,
        }
    }

    const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::End,
            2 => Self::Acknowledgement,
            other => Self::Other(other),
        }
    }
}

/// A payload above the limit, or a session without packet numbers left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no record has room for this")]
pub struct RecordTooLong;

/// One session on one stream. After an error the stream must not be used.
pub struct Records<F> {
    session: LinkSession,
    /// The keys of the present subkeys: outgoing and incoming.
    keys: [Option<(u32, F)>; 2],
    received: u32,
    ended: bool,
}

impl<F: FrameKey> Records<F> {
    /// Makes the records of a session that seals no DATA.
    pub fn new(session: LinkSession) -> Self {
        Self { session, keys: [None, None], received: 0, ended: false }
    }

    /// Returns the session, for its exporter.
    pub fn session(&self) -> &LinkSession {
        &self.session
    }

    /// Seals a record with this payload of at most 16,365 bytes.
    ///
    /// # Errors
    /// A longer payload, or a session that has no packet numbers left.
    pub fn seal(&mut self, kind: RecordType, payload: &[u8]) -> Result<Vec<u8>, RecordTooLong> {
        let needed = payload.len() + HEAD_BYTES + TAG_BYTES;
        let body = BODY_BYTES.into_iter().find(|body| *body >= needed).ok_or(RecordTooLong)?;
        // Each record uses a new number, so a nonce cannot repeat even if the caller drops the
        // record.
        let packet = self.session.reserve_packets(1).ok_or(RecordTooLong)?;
        let mut w = Writer::with_capacity(RECORD_HEADER_BYTES + body);
        w.put_u8(VERSION)
            .put_u8(RECORD)
            .put_u16(body as u16)
            .put_u8(kind.number())
            .put_var16(payload);
        w.pad_to(RECORD_HEADER_BYTES + body);
        let mut record = w.finish();
        let (header, rest) = record.split_at_mut(RECORD_HEADER_BYTES);
        let (text, tag) = rest.split_at_mut(body - TAG_BYTES);
        let iv = self.session.out.packet_nonce(packet);
        let key =
            key_of(&mut self.keys[0], packet, |subkey| self.session.out.derive_subkey(subkey));
        tag.copy_from_slice(&key.seal(&iv, header, text));
        Ok(record)
    }

    /// Opens the next record of the stream. Returns its type and payload.
    ///
    /// # Errors
    /// If the bytes are not the next record; the stream must not be used then.
    pub fn open(&mut self, record: &[u8]) -> Result<(RecordType, Wiping<Vec<u8>>), FrameError> {
        let body = body_bytes(record).map_err(|_| FrameError::Forged)?;
        // Nothing may follow the end record, or an attacker could extend a completed stream.
        if self.ended || self.received >= PACKETS_MAX || record.len() != RECORD_HEADER_BYTES + body
        {
            return Err(FrameError::Forged);
        }
        let (header, body) = record.split_at(RECORD_HEADER_BYTES);
        let (text, tag) = body.split_at(body.len() - TAG_BYTES);
        let tag = tag.first_chunk().ok_or(FrameError::Forged)?;
        let mut text = Wiping::new(text.to_vec());
        let packet = self.received;
        let iv = self.session.back.packet_nonce(self.received);
        let key =
            key_of(&mut self.keys[1], packet, |subkey| self.session.back.derive_subkey(subkey));
        if !key.open(&iv, header, &mut text, tag) {
            return Err(FrameError::Forged);
        }
        let (kind, payload) = payload_of(&text).map_err(|_| FrameError::Forged)?;
        let payload = Wiping::new(payload.to_vec());
        // Counted after the tag was checked. The number is never sent, so both sides stay
        // synchronised.
        self.received += 1;
        self.ended = kind == RecordType::End;
        Ok((kind, payload))
    }

    /// Returns the frame after the last record.
    pub fn close() -> [u8; 2] {
        [VERSION, CLOSE]
    }

    /// Returns true if the closed stream was cut before its `end` record (SEKA-47).
    pub fn was_cut(&self) -> bool {
        !self.ended
    }
}

/// Returns the size of a record's body, as its header states.
///
/// # Errors
/// A malformed header, or an invalid size.
pub fn body_bytes(record: &[u8]) -> Result<usize, DecodeError> {
    let mut reader = Reader::new(record);
    if reader.read_u8()? != VERSION || reader.read_u8()? != RECORD {
        return Err(DecodeError::Value);
    }
    let bytes = usize::from(reader.read_u16()?);
    BODY_BYTES.contains(&bytes).then_some(bytes).ok_or(DecodeError::Value)
}

/// Returns type and payload of a text; its padding must be zeros.
fn payload_of(text: &[u8]) -> Result<(RecordType, &[u8]), DecodeError> {
    let mut reader = Reader::new(text);
    let kind = RecordType::from_number(reader.read_u8()?);
    let payload = reader.read_var16()?;
    // Other padding would be a hidden channel, and a second encoding of the same payload.
    let is_filled = reader.read_rest().iter().all(|byte| *byte == 0);
    is_filled.then_some((kind, payload)).ok_or(DecodeError::Value)
}

/// Returns the key of a packet number, from the cache `place`.
fn key_of<F>(place: &mut Option<(u32, F)>, packet: u32, derive: impl FnOnce(u32) -> F) -> &F {
    let subkey = packet / FRAMES_PER_SUBKEY;
    // The key of the last subkey is dropped when the next one is needed.
    if place.as_ref().is_some_and(|(of, _)| *of != subkey) {
        *place = None;
    }
    &place.get_or_insert_with(|| (subkey, derive(subkey))).1
}
