//! Our own envelope.
//!
//! ```text
//! message  F1 | 01 | suite u16 | ratchet key[32] | n u24 | pn u24 | sealed
//! first    F1 | 02 | suite u16 | IKa[32] | EKa[32] | spk_id u32 | opk_id u32 | list a
//!             [| kem_id u32 | ciphertext[1568]] | bytes 4.. of a message
//! ```
//!
//! The authenticated header of the message inside a first message begins like that of a separate
//! message: `F1 | 01 | suite | ..`.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, SuiteId, Wiping, Writer};

use super::{
    BODY_BYTES_MAX, DecodedMessage, Encapsulated, FirstMessageHeader, Header, PAD_BYTES, Padding,
    RatchetMessage, SEALED_BYTES_MAX, Wire,
};
use crate::suite::kem::KEM_CIPHERTEXT_BYTES;
use crate::{IdentityKey, SuiteList, keys, suite};

/// The first byte of every container message.
pub const FAMILY: u8 = 0xf1;
/// The kind byte of a message in a session that was answered.
const KIND_MESSAGE: u8 = 1;
/// The kind byte of a first message.
const KIND_FIRST: u8 = 2;
/// Bytes of family, kind and suite together.
const CLAIM_BYTES: usize = 4;
/// Bytes before the sealed part.
pub const HEAD_BYTES: usize = 42;
/// The first byte of the padding; zero bytes follow.
const PAD_MARK: u8 = 0x80;
/// Most bytes of a padded body.
const PADDED_BYTES_MAX: usize = SEALED_BYTES_MAX - 32;

/// Reads suite and kind from the first 4 bytes. Returns true if the message is a first message.
pub fn peek_suite(message: &[u8]) -> Result<(SuiteId, bool), DecodeError> {
    read_claim(&mut Reader::new(message))
}

fn read_claim(reader: &mut Reader<'_>) -> Result<(SuiteId, bool), DecodeError> {
    if reader.read_u8()? != FAMILY {
        return Err(DecodeError::Value);
    }
    let is_first = match reader.read_u8()? {
        KIND_MESSAGE => false,
        KIND_FIRST => true,
        _ => return Err(DecodeError::Value),
    };
    Ok((SuiteId(reader.read_u16()?), is_first))
}

/// Reads the handshake of a first message. If `ciphertext_bytes` is `None`, the ciphertext is the
/// rest of the reader.
fn read_first(
    reader: &mut Reader<'_>,
    suite: SuiteId,
    ciphertext_bytes: Option<usize>,
) -> Result<FirstMessageHeader, DecodeError> {
    let identity = PublicKey::read_from(reader)?;
    let base = read_key(reader)?;
    let spk_id = reader.read_u32()?;
    let opk_id = reader.read_u32()?;
    let list = Some(SuiteList::read_from(reader)?);
    let kem = match suite::kem(suite) {
        Some(_) => {
            let id = reader.read_u32()?;
            let ciphertext_bytes = ciphertext_bytes.unwrap_or(reader.len());
            Some(Encapsulated { id, ciphertext: reader.read_bytes(ciphertext_bytes)?.to_vec() })
        }
        None => None,
    };
    Ok(FirstMessageHeader { suite, identity, base, spk_id, opk_id, list, registration: 0, kem })
}

/// Reads the message inside `message`. If `own_head` is `Some`, the head is authenticated as in a
/// separate message of this suite.
fn read_inner<'a>(
    reader: &mut Reader<'a>,
    message: &'a [u8],
    own_head: Option<SuiteId>,
) -> Result<RatchetMessage<'a>, DecodeError> {
    let start = message.len() - reader.len();
    let key = read_key(reader)?;
    let n = reader.read_u24()?;
    let pn = reader.read_u24()?;
    let sealed = reader.read_rest();
    if sealed.len() > SEALED_BYTES_MAX {
        return Err(DecodeError::Value);
    }
    let fields = &message[start..message.len() - sealed.len()];
    let head = match own_head {
        None => Cow::Borrowed(&message[..HEAD_BYTES]),
        Some(suite) => Cow::Owned([&encode_claim(KIND_MESSAGE, suite), fields].concat()),
    };
    Ok(RatchetMessage { key, n, pn, head, sealed: Cow::Borrowed(sealed), tail: &[] })
}

fn encode_claim(kind: u8, suite: SuiteId) -> [u8; CLAIM_BYTES] {
    let [high, low] = suite.0.to_be_bytes();
    [FAMILY, kind, high, low]
}

fn read_key(reader: &mut Reader<'_>) -> Result<PublicKey, DecodeError> {
    let key = PublicKey::read_from(reader)?;
    keys::check_canonical(&key).map_err(|_| DecodeError::Value)?;
    Ok(key)
}

/// The wire format of the suites 0x01xx.
#[derive(Debug)]
pub struct ContainerFormat;

impl Wire for ContainerFormat {
    const CHAIN_MAX: u32 = (1 << 24) - 1;
    const OUTER: bool = true;

    fn decode(message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError> {
        let mut reader = Reader::new(message);
        let (suite, is_first) = read_claim(&mut reader)?;
        let ciphertext_bytes = Some(KEM_CIPHERTEXT_BYTES);
        let first =
            if is_first { Some(read_first(&mut reader, suite, ciphertext_bytes)?) } else { None };
        let inner = read_inner(&mut reader, message, is_first.then_some(suite))?;
        Ok(DecodedMessage { first, inner })
    }

    fn encode_prefix(first: &FirstMessageHeader) -> Vec<u8> {
        let mut writer = Writer::with_capacity(
            85 + first.kem.as_ref().map_or(0, |kem| 4 + kem.ciphertext.len()),
        );
        writer.put_bytes(&encode_claim(KIND_FIRST, first.suite));
        writer
            .put_bytes(&first.identity.0)
            .put_bytes(&first.base.0)
            .put_u32(first.spk_id)
            .put_u32(first.opk_id);
        if let Some(list) = &first.list {
            list.write_to(&mut writer);
        }
        if let Some(kem) = &first.kem {
            writer.put_u32(kem.id).put_bytes(&kem.ciphertext);
        }
        writer.finish()
    }

    fn read_prefix(
        suite: SuiteId,
        initiator: &IdentityKey,
        prefix: &[u8],
    ) -> Result<FirstMessageHeader, DecodeError> {
        let (claim, first) = Reader::decode_exact(prefix, |reader| {
            let claim = read_claim(reader)?;
            Ok::<_, DecodeError>((claim, read_first(reader, claim.0, None)?))
        })?;
        let fits = claim == (suite, true) && first.identity == *initiator.public_key();
        if fits { Ok(first) } else { Err(DecodeError::Value) }
    }

    fn append_aad(sender: &IdentityKey, receiver: &IdentityKey, outer: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(sender.as_bytes());
        out.extend_from_slice(receiver.as_bytes());
        out.push(outer.len() as u8);
        out.extend_from_slice(outer);
    }

    fn append_head(header: &Header<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&encode_claim(KIND_MESSAGE, header.suite));
        out.extend_from_slice(&header.key.0);
        for count in [header.n, header.pn] {
            debug_assert!(count < 1 << 24);
            out.extend_from_slice(&count.to_be_bytes()[1..]);
        }
    }

    fn begin_message(prefix: &[u8], _: &IdentityKey, head: &[u8], sealed_bytes: usize) -> Vec<u8> {
        let (front, head) =
            if prefix.is_empty() { (head, &[][..]) } else { (prefix, &head[CLAIM_BYTES..]) };
        let mut out = Vec::with_capacity(front.len() + head.len() + sealed_bytes);
        out.extend_from_slice(front);
        out.extend_from_slice(head);
        out
    }

    fn append_end(_: &[u8], _: &IdentityKey, _: &mut Vec<u8>) {}

    fn message_bytes(prefix: &[u8], _: &IdentityKey, header: &Header<'_>) -> usize {
        let front = if prefix.is_empty() { CLAIM_BYTES } else { prefix.len() };
        front + HEAD_BYTES - CLAIM_BYTES + header.sealed_bytes
    }

    fn encode_pn(count: u32) -> u32 {
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

    fn pad_body(body: &[u8], padded_bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + padded_bytes;
        out.extend_from_slice(body);
        out.push(PAD_MARK);
        out.resize(end, 0);
    }

    fn unpad_body(text: Vec<u8>) -> Option<Wiping<Vec<u8>>> {
        let mut text = Wiping::new(text);
        let body_bytes = unpadded_bytes(&text).filter(|bytes| *bytes <= BODY_BYTES_MAX)?;
        text.truncate(body_bytes);
        Some(text)
    }
}

/// Returns the length of the body inside a padded text; `None` if the padding is not `80 00..`.
pub(crate) fn unpadded_bytes(text: &[u8]) -> Option<usize> {
    // Zeros are counted eight bytes at a time, because most of a short text is padding.
    let (_, words) = text.as_rchunks();
    let zeros = words.iter().rev().take_while(|word| **word == [0; 8]).count();
    let end = text[..text.len() - 8 * zeros].iter().rposition(|byte| *byte != 0)?;
    (text[end] == PAD_MARK).then_some(end)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_body_that_is_too_long_to_be_sealed_is_not_opened() {
        for (bytes, opens) in [(BODY_BYTES_MAX, true), (BODY_BYTES_MAX + 1, false)] {
            let text = [vec![7; bytes].as_slice(), &[PAD_MARK, 0]].concat();
            assert_eq!(ContainerFormat::unpad_body(text).is_some(), opens);
        }
    }
}
