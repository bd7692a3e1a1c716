//! The two protobuf messages (proto2) of Signal's formats. Fields may come in any order, and
//! unknown fields are skipped. A message is refused if a known field comes twice, has a wrong wire
//! type or is out of range, if a varint is too long, or if a length is beyond the end.

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader};

/// Most bytes of a varint that is a known field, a tag or a length.
const VARINT_BYTES_MAX: usize = 5;
/// Most bytes of a varint that is skipped.
const SKIPPED_BYTES_MAX: usize = 10;

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

/// A message of the Double Ratchet. Fields 1, 2 and 4 are required; a missing field 3 counts as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalMessage<'a> {
    /// Field 1: the ratchet key of the sender, with its type byte.
    pub ratchet_key: &'a [u8],
    /// Field 2: the index of the message in its chain.
    pub counter: u32,
    /// Field 3: the count for the previous chain.
    pub previous_counter: u32,
    /// Field 4: the ciphertext.
    pub ciphertext: &'a [u8],
    /// The offset of the ciphertext in the decoded bytes.
    pub ciphertext_at: usize,
}

impl<'a> SignalMessage<'a> {
    /// Decodes a message. Returns an error if bytes are left over.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut ratchet_key = None;
        let mut counter = None;
        let mut previous = None;
        let mut ciphertext = None;
        let mut ciphertext_at = 0;
        let mut fields = Fields::new(bytes);
        while let Some(field) = fields.next_field()? {
            match field.number {
                1 => set_once(&mut ratchet_key, field.as_bytes()?)?,
                2 => set_once(&mut counter, field.as_u32()?)?,
                3 => set_once(&mut previous, field.as_u32()?)?,
                4 => {
                    set_once(&mut ciphertext, field.as_bytes()?)?;
                    ciphertext_at = fields.bytes_read() - field.as_bytes()?.len();
                }
                _ => {}
            }
        }
        Ok(Self {
            ratchet_key: require_field(ratchet_key)?,
            counter: require_field(counter)?,
            previous_counter: previous.unwrap_or(0),
            ciphertext: require_field(ciphertext)?,
            ciphertext_at,
        })
    }

    /// Appends all bytes before a ciphertext of `ciphertext_bytes`: the key as `05 | key`, both
    /// counters, tag and length of the ciphertext.
    pub fn write_head(
        key: &PublicKey,
        counter: u32,
        previous: u32,
        ciphertext_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        write_key(1, key, out);
        write_u32(2, counter, out);
        write_u32(3, previous, out);
        write_length(4, ciphertext_bytes, out);
    }
}

/// A first message. Fields 2, 3, 4 and 6 are required. Only version 4 has fields 7 and 8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreKeySignalMessage<'a> {
    /// Field 1: the id of the one-time prekey, if one was used.
    pub pre_key_id: Option<u32>,
    /// Field 2: the base key EK, with its type byte.
    pub base_key: &'a [u8],
    /// Field 3: the identity key of the initiator, with its type byte.
    pub identity_key: &'a [u8],
    /// Field 4: one whole message of the Double Ratchet.
    pub message: &'a [u8],
    /// Field 5: the registration number of the initiator's install.
    pub registration_id: Option<u32>,
    /// Field 6: the id of the signed prekey.
    pub signed_pre_key_id: u32,
    /// Field 7: the id of the KEM key.
    pub kyber_pre_key_id: Option<u32>,
    /// Field 8: the KEM ciphertext, with its type byte.
    pub kyber_ciphertext: Option<&'a [u8]>,
}

impl<'a> PreKeySignalMessage<'a> {
    /// Returns true if these bytes are a first message. The first three fields of a first message
    /// have other wire types than those of a ratchet message.
    pub fn is_prekey_message(bytes: &[u8]) -> bool {
        PreKeySignalMessage::decode(bytes).is_ok()
    }

    /// Decodes a first message. Returns an error if bytes are left over.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut pre_key_id = None;
        let mut registration_id = None;
        let mut signed_pre_key_id = None;
        let mut base_key = None;
        let mut identity_key = None;
        let mut message = None;
        let mut kyber_pre_key_id = None;
        let mut kyber_ciphertext = None;
        let mut fields = Fields::new(bytes);
        while let Some(field) = fields.next_field()? {
            match field.number {
                1 => set_once(&mut pre_key_id, field.as_u32()?)?,
                2 => set_once(&mut base_key, field.as_bytes()?)?,
                3 => set_once(&mut identity_key, field.as_bytes()?)?,
                4 => set_once(&mut message, field.as_bytes()?)?,
                5 => set_once(&mut registration_id, field.as_u32()?)?,
                6 => set_once(&mut signed_pre_key_id, field.as_u32()?)?,
                7 => set_once(&mut kyber_pre_key_id, field.as_u32()?)?,
                8 => set_once(&mut kyber_ciphertext, field.as_bytes()?)?,
                _ => {}
            }
        }
        Ok(Self {
            pre_key_id,
            base_key: require_field(base_key)?,
            identity_key: require_field(identity_key)?,
            message: require_field(message)?,
            registration_id,
            signed_pre_key_id: require_field(signed_pre_key_id)?,
            kyber_pre_key_id,
            kyber_ciphertext,
        })
    }
}

/// Appends field `number` with a public key as `05 | key`.
pub(super) fn write_key(number: u32, PublicKey(key): &PublicKey, out: &mut Vec<u8>) {
    write_length(number, key.len() + 1, out);
    out.push(KEY_TYPE);
    out.extend_from_slice(key);
}

/// Appends field `number` with an integer.
pub(crate) fn write_u32(number: u32, value: u32, out: &mut Vec<u8>) {
    write_tag(number, VARINT, out);
    write_varint(u64::from(value), out);
}

/// Appends tag and length of field `number`; the caller appends the bytes of the field.
pub(crate) fn write_length(number: u32, bytes: usize, out: &mut Vec<u8>) {
    write_tag(number, BYTES, out);
    write_varint(bytes as u64, out);
}

fn write_tag(number: u32, wire_type: u64, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | wire_type, out);
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The type byte of an X25519 key.
pub(crate) const KEY_TYPE: u8 = 0x05;

/// One decoded field.
struct Field<'a> {
    number: u64,
    value: Value<'a>,
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A value of fixed size; no known field has this wire type.
    Fixed,
}

impl<'a> Field<'a> {
    fn as_u32(&self) -> Result<u32, DecodeError> {
        match self.value {
            Value::Varint(value) => u32::try_from(value).map_err(|_| DecodeError::Value),
            _ => Err(DecodeError::Value),
        }
    }

    fn as_bytes(&self) -> Result<&'a [u8], DecodeError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::Value),
        }
    }
}

/// An iterator over the fields of a message.
struct Fields<'a> {
    reader: Reader<'a>,
    bytes: usize,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), bytes: bytes.len() }
    }

    /// Returns the number of bytes read so far.
    fn bytes_read(&self) -> usize {
        self.bytes - self.reader.len()
    }

    fn next_field(&mut self) -> Result<Option<Field<'a>>, DecodeError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let tag = read_varint(&mut self.reader, VARINT_BYTES_MAX)?;
        let number = tag >> 3;
        if number == 0 || tag > u64::from(u32::MAX) {
            return Err(DecodeError::Value);
        }
        let value = match tag & 7 {
            VARINT => Value::Varint(self.read_integer(number)?),
            BYTES => {
                let len = read_varint(&mut self.reader, VARINT_BYTES_MAX)?;
                let len = usize::try_from(len).map_err(|_| DecodeError::Truncated)?;
                Value::Bytes(self.reader.read_bytes(len)?)
            }
            FIXED_32 => self.reader.read_bytes(4).map(|_| Value::Fixed)?,
            FIXED_64 => self.reader.read_bytes(8).map(|_| Value::Fixed)?,
            _ => return Err(DecodeError::Value),
        };
        Ok(Some(Field { number, value }))
    }

    /// Reads a varint. The numbers of known fields are 1 to 8.
    fn read_integer(&mut self, number: u64) -> Result<u64, DecodeError> {
        let bytes_max = if number <= 8 { VARINT_BYTES_MAX } else { SKIPPED_BYTES_MAX };
        read_varint(&mut self.reader, bytes_max)
    }
}

fn read_varint(reader: &mut Reader<'_>, bytes_max: usize) -> Result<u64, DecodeError> {
    let mut value = 0;
    for i in 0..bytes_max {
        let byte = reader.read_u8()?;
        let part = u64::from(byte & 0x7f);
        if i == SKIPPED_BYTES_MAX - 1 && part > 1 {
            return Err(DecodeError::Value);
        }
        value |= part << (7 * i);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(DecodeError::Value)
}

fn set_once<T>(field: &mut Option<T>, value: T) -> Result<(), DecodeError> {
    if field.replace(value).is_none() { Ok(()) } else { Err(DecodeError::Value) }
}

fn require_field<T>(field: Option<T>) -> Result<T, DecodeError> {
    field.ok_or(DecodeError::Truncated)
}
