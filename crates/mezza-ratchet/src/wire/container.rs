//! Our own envelope.
//!
//! ```text
//! message  F1 | 01 | suite u16 | ratchet key[32] | n u24 | pn u24 | sealed
//! first    F1 | 02 | suite u16 | IKa[32] | EKa[32] | spk_id u32 | opk_id u32 | list a | bytes 4.. of a message
//! ```
//!
//! The header of the message inside a first message, as it is authenticated, is that of a message
//! of its own: `F1 | 01 | suite | ..`.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, SuiteId, Writer};
use zeroize::Zeroizing;

use super::{Envelope, First, Inner, PAD_BYTES, Padding, SEALED_BYTES_MAX, Wire};
use crate::{IdentityKey, List, keys};

/// The first byte of every container message.
pub const FAMILY: u8 = 0xf1;
/// Kind of a message in a session that is answered.
const KIND_MESSAGE: u8 = 1;
/// Kind of a first message.
const KIND_FIRST: u8 = 2;
/// Bytes of family, kind and suite.
const CLAIM_BYTES: usize = 4;
/// Bytes in front of the sealed part.
pub const HEAD_BYTES: usize = 42;
/// The first byte of the padding.
const PAD_MARK: u8 = 0x80;
/// Longest padded body in bytes.
const PADDED_BYTES_MAX: usize = SEALED_BYTES_MAX - 32;

/// Suite and kind, from the first 4 bytes.
pub fn claim(message: &[u8]) -> Result<(SuiteId, bool), DecodeError> {
    read_claim(&mut Reader::new(message))
}

/// Decodes a message of either kind; keys are canonical afterwards.
pub fn decode(message: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let mut reader = Reader::new(message);
    let (suite, is_first) = read_claim(&mut reader)?;
    let first = if is_first { Some(read_first(&mut reader, message)?) } else { None };
    let inner = read_inner(&mut reader, suite)?;
    Ok(Envelope { first, inner })
}

/// Decodes a prefix that was stored: it must end with its list.
pub fn decode_prefix(prefix: &[u8]) -> Result<(SuiteId, First<'_>), DecodeError> {
    Reader::all(prefix, |reader| {
        let (suite, is_first) = read_claim(reader)?;
        let first = read_first(reader, prefix)?;
        if is_first { Ok((suite, first)) } else { Err(DecodeError::Value) }
    })
}

/// The prefix of the first messages of a session.
pub fn prefix(
    suite: SuiteId,
    identity: &IdentityKey,
    base: &[u8; 32],
    ids: (u32, u32),
    list: &List,
) -> Vec<u8> {
    let mut writer = Writer::with_capacity(85);
    writer.u8(FAMILY).u8(KIND_FIRST).u16(suite.0);
    writer.bytes(identity.as_bytes()).bytes(base).u32(ids.0).u32(ids.1);
    list.write(&mut writer);
    writer.finish()
}

fn read_claim(reader: &mut Reader<'_>) -> Result<(SuiteId, bool), DecodeError> {
    if reader.u8()? != FAMILY {
        return Err(DecodeError::Value);
    }
    let is_first = match reader.u8()? {
        KIND_MESSAGE => false,
        KIND_FIRST => true,
        _ => return Err(DecodeError::Value),
    };
    Ok((SuiteId(reader.u16()?), is_first))
}

fn read_first<'a>(reader: &mut Reader<'a>, message: &'a [u8]) -> Result<First<'a>, DecodeError> {
    let identity = reader.array()?;
    let base = read_key(reader)?;
    let spk_id = reader.u32()?;
    let opk_id = reader.u32()?;
    let list = List::read(reader)?;
    let prefix = &message[..message.len() - reader.len()];
    Ok(First { identity, base, spk_id, opk_id, list, prefix })
}

fn read_inner<'a>(reader: &mut Reader<'a>, suite: SuiteId) -> Result<Inner<'a>, DecodeError> {
    let key = read_key(reader)?;
    let n = reader.u24()?;
    let pn = reader.u24()?;
    let sealed = reader.rest();
    if sealed.len() > SEALED_BYTES_MAX {
        return Err(DecodeError::Value);
    }
    Ok(Inner { key, n, pn, head: Container::head(suite, &key, n, pn, 0), sealed })
}

fn read_key(reader: &mut Reader<'_>) -> Result<[u8; 32], DecodeError> {
    let key = reader.array()?;
    keys::canonical(&key).map_err(|_| DecodeError::Value)?;
    Ok(key)
}

/// The format of the suites 0x01xx.
#[derive(Debug)]
pub struct Container;

impl Wire for Container {
    const CHAIN_MAX: u32 = (1 << 24) - 1;
    const OUTER: bool = true;

    fn aad(sender: &IdentityKey, receiver: &IdentityKey, outer: &[u8]) -> Vec<u8> {
        let mut writer = Writer::with_capacity(65 + outer.len() + HEAD_BYTES);
        writer.bytes(sender.as_bytes()).bytes(receiver.as_bytes()).var8(outer);
        writer.finish()
    }

    fn head(suite: SuiteId, key: &[u8; 32], n: u32, pn: u32, _sealed_bytes: usize) -> Vec<u8> {
        let mut writer = Writer::with_capacity(HEAD_BYTES);
        writer.u8(FAMILY).u8(KIND_MESSAGE).u16(suite.0).bytes(key).u24(n).u24(pn);
        writer.finish()
    }

    fn message(prefix: &[u8], head: &[u8]) -> Vec<u8> {
        if prefix.is_empty() { head.to_vec() } else { [prefix, &head[CLAIM_BYTES..]].concat() }
    }

    fn message_bytes(prefix: &[u8], sealed_bytes: usize) -> usize {
        let front = if prefix.is_empty() { CLAIM_BYTES } else { prefix.len() };
        front + HEAD_BYTES - CLAIM_BYTES + sealed_bytes
    }

    fn pn(count: u32) -> u32 {
        count
    }

    fn closed_at(pn: u32) -> u32 {
        pn
    }

    fn padded_bytes(body_bytes: usize, padding: Padding, fixed_bytes: usize) -> Option<usize> {
        let least = body_bytes.checked_add(1)?;
        let padded = match padding {
            Padding::Blocks => least.next_multiple_of(PAD_BYTES),
            Padding::To(total) => total.checked_sub(fixed_bytes)?,
        };
        (least <= padded && padded <= PADDED_BYTES_MAX).then_some(padded)
    }

    fn pad(body: &[u8], padded_bytes: usize) -> Zeroizing<Vec<u8>> {
        let mut text = Zeroizing::new(Vec::with_capacity(padded_bytes));
        text.extend_from_slice(body);
        text.push(PAD_MARK);
        text.resize(padded_bytes, 0);
        text
    }

    fn unpad(text: Vec<u8>) -> Option<Zeroizing<Vec<u8>>> {
        let mut text = Zeroizing::new(text);
        let body_bytes = unpadded(&text)?;
        text.truncate(body_bytes);
        Some(text)
    }
}

/// The length of the body inside a padded text; `None` if the padding is not `80 00..`.
pub(crate) fn unpadded(text: &[u8]) -> Option<usize> {
    let end = text.iter().rposition(|byte| *byte != 0)?;
    (text[end] == PAD_MARK).then_some(end)
}
