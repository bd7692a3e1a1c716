//! Signal's own envelope, of versions 3 and 4.
//!
//! ```text
//! message  V | protobuf: 0A key[33], 10 counter, 18 previous counter, 22 ciphertext | mac
//! first    V | protobuf: [08 one-time id,] 12 EK[33], 1A IKa[33], 22 message, 28 registration, 30 spk id
//!                        [, 38 kem id, 42 08 ciphertext[1568]]
//! ```
//! V has the version in both halves when it is written. When it is read, only the upper half is
//! checked. A public key is `05 | u`. The two kinds differ in the wire types of fields 1 to 3.
//!
//! Stored prefix: `registration u32 | one-time id u32 | spk id u32 | EK[32] [| kem id u32 | ciphertext]`.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::marker::PhantomData;

use mezza_core::{DecodeError, PublicKey, Reader, SuiteId, Wiping, Writer};

use super::proto::{self, PreKeySignalMessage, SignalMessage};
use super::{
    BODY_BYTES_MAX, DecodedMessage, Encapsulated, FirstMessageHeader, Header, Padding,
    RatchetMessage, SEALED_BYTES_MAX, Wire,
};
use crate::suite::kem::KEM_CIPHERTEXT_BYTES;
use crate::suite::signal::Dialect;
use crate::{IdentityKey, keys, suite};

/// Bytes of a public key with its type byte.
const KEY_BYTES: usize = 33;

/// The type byte of keys and ciphertexts of Kyber1024.
pub(crate) const KEM_TYPE: u8 = 0x08;

/// The wire format of the suites that use Signal's formats.
#[derive(Debug)]
pub struct SignalFormat<D>(PhantomData<D>);

impl<D: Dialect> SignalFormat<D> {
    const FIRST_BYTE: u8 = D::VERSION << 4 | D::VERSION;

    fn read_message(bytes: &[u8]) -> Result<RatchetMessage<'_>, DecodeError> {
        let protobuf = strip_version::<D>(bytes)?;
        let protobuf_bytes =
            protobuf.len().checked_sub(D::MAC_BYTES).ok_or(DecodeError::Truncated)?;
        let message = SignalMessage::decode(&protobuf[..protobuf_bytes])?;
        let sealed_bytes = message.ciphertext.len() + D::MAC_BYTES;
        if message.counter == Self::CHAIN_MAX || sealed_bytes > SEALED_BYTES_MAX {
            return Err(DecodeError::Value);
        }
        let (head, sealed) = bytes.split_at(1 + message.ciphertext_at);
        let (tail, mac) = sealed[message.ciphertext.len()..].split_at(sealed.len() - sealed_bytes);
        let sealed = if tail.is_empty() {
            Cow::Borrowed(sealed)
        } else {
            Cow::Owned([message.ciphertext, mac].concat())
        };
        Ok(RatchetMessage {
            key: read_key(message.ratchet_key)?,
            n: message.counter,
            pn: message.previous_counter,
            head: Cow::Borrowed(head),
            sealed,
            tail,
        })
    }

    fn read_first(bytes: &[u8]) -> Result<(FirstMessageHeader, &[u8]), DecodeError> {
        let message = PreKeySignalMessage::decode(strip_version::<D>(bytes)?)?;
        let first = FirstMessageHeader {
            suite: D::SUITE,
            identity: read_key(message.identity_key)?,
            base: read_key(message.base_key)?,
            spk_id: message.signed_pre_key_id,
            opk_id: message.pre_key_id.unwrap_or(0),
            list: None,
            registration: message.registration_id.unwrap_or(0),
            kem: read_kem::<D>(&message)?,
        };
        Ok((first, message.message))
    }

    /// Appends the fields of a first message before the inner message.
    fn append_front(first: &FirstMessageHeader, message_bytes: usize, out: &mut Vec<u8>) {
        out.push(Self::FIRST_BYTE);
        if first.opk_id != 0 {
            proto::write_u32(1, first.opk_id, out);
        }
        proto::write_key(2, &first.base, out);
        proto::write_key(3, &first.identity, out);
        proto::write_length(4, message_bytes, out);
    }

    /// Decodes a prefix that was made by [`encode_prefix`](Wire::encode_prefix), or that was
    /// checked when the session was loaded.
    #[expect(clippy::expect_used, reason = "what is stored was checked")]
    fn stored_header(prefix: &[u8], initiator: &IdentityKey) -> FirstMessageHeader {
        Self::read_prefix(D::SUITE, initiator, prefix).expect("a good prefix")
    }
}

impl<D: Dialect> Wire for SignalFormat<D> {
    const CHAIN_MAX: u32 = u32::MAX;
    const OUTER: bool = false;

    fn decode(message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError> {
        if let Ok((first, inner)) = Self::read_first(message) {
            return Ok(DecodedMessage { first: Some(first), inner: Self::read_message(inner)? });
        }
        Ok(DecodedMessage { first: None, inner: Self::read_message(message)? })
    }

    fn encode_prefix(first: &FirstMessageHeader) -> Vec<u8> {
        let mut writer = Writer::with_capacity(44);
        writer
            .put_u32(first.registration)
            .put_u32(first.opk_id)
            .put_u32(first.spk_id)
            .put_bytes(&first.base.0);
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
        Reader::decode_exact(prefix, |reader| {
            let registration = reader.read_u32()?;
            let opk_id = reader.read_u32()?;
            let spk_id = reader.read_u32()?;
            let base = PublicKey::read_from(reader)?;
            keys::check_canonical(&base).map_err(|_| DecodeError::Value)?;
            let identity = *initiator.public_key();
            let kem = match suite::kem(suite) {
                Some(_) => Some(Encapsulated {
                    id: reader.read_u32()?,
                    ciphertext: reader.read_rest().to_vec(),
                }),
                None => None,
            };
            Ok(FirstMessageHeader {
                suite,
                identity,
                base,
                spk_id,
                opk_id,
                list: None,
                registration,
                kem,
            })
        })
    }

    fn append_aad(sender: &IdentityKey, receiver: &IdentityKey, _outer: &[u8], out: &mut Vec<u8>) {
        for identity in [sender, receiver] {
            out.push(proto::KEY_TYPE);
            out.extend_from_slice(identity.as_bytes());
        }
    }

    fn append_head(header: &Header<'_>, out: &mut Vec<u8>) {
        let ciphertext_bytes = header.sealed_bytes - D::MAC_BYTES;
        out.push(Self::FIRST_BYTE);
        SignalMessage::write_head(header.key, header.n, header.pn, ciphertext_bytes, out);
    }

    fn begin_message(
        prefix: &[u8],
        initiator: &IdentityKey,
        head: &[u8],
        sealed_bytes: usize,
    ) -> Vec<u8> {
        let message_bytes = head.len() + sealed_bytes;
        if prefix.is_empty() {
            let mut out = Vec::with_capacity(message_bytes);
            out.extend_from_slice(head);
            return out;
        }
        let mut out = Vec::with_capacity(message_bytes + 3 * KEY_BYTES);
        Self::append_front(&Self::stored_header(prefix, initiator), message_bytes, &mut out);
        out.extend_from_slice(head);
        out
    }

    fn append_end(prefix: &[u8], initiator: &IdentityKey, out: &mut Vec<u8>) {
        if !prefix.is_empty() {
            let first = Self::stored_header(prefix, initiator);
            proto::write_u32(5, first.registration, out);
            proto::write_u32(6, first.spk_id, out);
            if let Some(kem) = &first.kem {
                proto::write_u32(7, kem.id, out);
                proto::write_length(8, kem.ciphertext.len() + 1, out);
                out.push(KEM_TYPE);
                out.extend_from_slice(&kem.ciphertext);
            }
        }
    }

    fn message_bytes(prefix: &[u8], initiator: &IdentityKey, header: &Header<'_>) -> usize {
        let mut out = Vec::with_capacity(256);
        Self::append_head(header, &mut out);
        let message_bytes = out.len() + header.sealed_bytes;
        if prefix.is_empty() {
            return message_bytes;
        }
        out.clear();
        Self::append_front(&Self::stored_header(prefix, initiator), message_bytes, &mut out);
        Self::append_end(prefix, initiator, &mut out);
        out.len() + message_bytes
    }

    fn encode_pn(count: u32) -> u32 {
        count.saturating_sub(1)
    }

    fn closed_at(pn: u32) -> u32 {
        pn.saturating_add(1)
    }

    /// Returns `body_bytes` for [`Padding::Blocks`], because the cipher pads. A message of a given
    /// size cannot be made.
    fn padded_bytes(body_bytes: usize, padding: Padding, _fixed_bytes: usize) -> Option<usize> {
        (padding == Padding::Blocks && body_bytes <= BODY_BYTES_MAX).then_some(body_bytes)
    }

    fn pad_body(body: &[u8], _padded_bytes: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(body);
    }

    fn unpad_body(text: Vec<u8>) -> Option<Wiping<Vec<u8>>> {
        let text = Wiping::new(text);
        (text.len() <= BODY_BYTES_MAX).then_some(text)
    }
}

/// Returns the bytes after the first one, if its upper half is our version.
fn strip_version<D: Dialect>(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let (version, rest) = bytes.split_first().ok_or(DecodeError::Truncated)?;
    if version >> 4 == D::VERSION { Ok(rest) } else { Err(DecodeError::Value) }
}

/// Returns the KEM ciphertext, which version 4 requires and version 3 ignores.
fn read_kem<D: Dialect>(
    message: &PreKeySignalMessage<'_>,
) -> Result<Option<Encapsulated>, DecodeError> {
    if suite::kem(D::SUITE).is_none() {
        return Ok(None);
    }
    let id = message.kyber_pre_key_id.ok_or(DecodeError::Truncated)?;
    let typed = message.kyber_ciphertext.ok_or(DecodeError::Truncated)?;
    match typed.split_first() {
        Some((&KEM_TYPE, ciphertext)) if ciphertext.len() == KEM_CIPHERTEXT_BYTES => {
            Ok(Some(Encapsulated { id, ciphertext: ciphertext.to_vec() }))
        }
        _ => Err(DecodeError::Value),
    }
}

/// Reads a public key of 33 bytes, which must be canonical.
fn read_key(bytes: &[u8]) -> Result<PublicKey, DecodeError> {
    let bytes: &[u8; KEY_BYTES] = bytes.try_into().map_err(|_| DecodeError::Value)?;
    let (key_type, key) = bytes.split_first_chunk::<1>().ok_or(DecodeError::Value)?;
    let key = PublicKey(key.try_into().map_err(|_| DecodeError::Value)?);
    keys::check_canonical(&key).map_err(|_| DecodeError::Value)?;
    if *key_type == [proto::KEY_TYPE] { Ok(key) } else { Err(DecodeError::Value) }
}
