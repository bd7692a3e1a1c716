//! Every frame of pairing and exchange: its fields, its bytes, and the field classes for a
//! firewall.
//!
//! A frame begins `version 01 | kind | suite | flags 00 | index u32`. Integers are big-endian. A
//! frame of another length, version or suite, with flags, or with a point that is not canonical is
//! malformed (SEKA-1).

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Snapshot, Writer};

use crate::keys::{CanonicalPoint, LinkId};
use crate::limits::TAG_BYTES;

/// The version that every handshake frame begins with.
pub const VERSION: u8 = 0x01;
/// Bytes of version, kind, suite, flags and index.
pub const HEADER_BYTES: usize = 8;
/// The first byte of a DATA frame.
pub const DATA: u8 = 0x81;
/// Bytes of a DATA frame before its ciphertext.
pub const DATA_HEADER_BYTES: usize = 8;
/// Bytes that a DATA frame adds to an Ethernet frame: header, flags, tag.
pub const DATA_OVERHEAD_BYTES: usize = DATA_HEADER_BYTES + 1 + TAG_BYTES;
/// The longest frame of pairing or exchange.
pub const HANDSHAKE_BYTES_MAX: usize = Ke1::BYTES;
/// The UDP port of a tunnel.
pub const UDP_PORT: u16 = 4_795;
/// The Ethernet type of a tunnel without IP (IEEE 802, local experiments).
pub const ETHER_TYPE: u16 = 0x88b5;

/// The class of a field, for a firewall that checks foreign frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldClass {
    /// Equal in every frame of the pairing.
    Pinned,
    /// Grows by 1 to 16 from attempt to attempt.
    Counter,
    /// Computed from other fields.
    Derived,
    /// A point of the curve.
    Element,
    /// Repeats a field of the other side.
    Echo,
    /// A tag.
    Mac,
    /// Random bytes, a commitment to them, or its opening.
    Coins,
}

/// One field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireField {
    /// The field's name in the specification.
    pub name: &'static str,
    /// The field's offset in bytes.
    pub offset: usize,
    /// The field's length in bytes.
    pub bytes: usize,
    /// The field's class.
    pub class: FieldClass,
}

/// A value with a single encoding on the wire.
trait FieldBytes: Sized {
    const BYTES: usize;
    fn write(&self, w: &mut Writer);
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

impl FieldBytes for LinkId {
    const BYTES: usize = 6;

    fn write(&self, w: &mut Writer) {
        Self::write(*self, w);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read(reader)
    }
}

/// Zeros mean any receiver.
impl FieldBytes for Option<LinkId> {
    const BYTES: usize = 6;

    fn write(&self, w: &mut Writer) {
        w.put_bytes(self.as_ref().map_or(&[0; 6], |id| id.as_bytes()));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.read_array()? {
            [0, 0, 0, 0, 0, 0] => Ok(None),
            bytes => LinkId::from_bytes(bytes).map(Some).ok_or(DecodeError::Value),
        }
    }
}

impl<const N: usize> FieldBytes for [u8; N] {
    const BYTES: usize = N;

    fn write(&self, w: &mut Writer) {
        w.put_bytes(self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.read_array()
    }
}

impl FieldBytes for u32 {
    const BYTES: usize = 4;

    fn write(&self, w: &mut Writer) {
        w.put_u32(*self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.read_u32()
    }
}

impl FieldBytes for CanonicalPoint {
    const BYTES: usize = 32;

    fn write(&self, w: &mut Writer) {
        w.put_bytes(self.as_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read(reader)
    }
}

/// A frame of pairing or exchange.
pub trait HandshakeFrame: Sized {
    /// The second byte of the frame.
    const KIND: u8;
    /// The length of the frame in bytes.
    const BYTES: usize;
    /// The fields, which cover the frame without gaps.
    const FIELDS: &'static [WireField];

    /// Encodes the frame as [`HandshakeFrame::BYTES`] bytes.
    fn encode(&self) -> Vec<u8>;

    /// Decodes a whole frame of suite `suite`.
    fn decode(suite: u8, bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// Defines one frame: its kind, its length, and its fields in order.
macro_rules! frame {
    ($(#[$doc:meta])* $name:ident $kind:literal $bytes:literal {
        $($(#[$field_doc:meta])* $field:ident $named:literal: $type:ty, $class:ident;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// The suite of the pairing.
            pub suite: u8,
            /// The index that the other side puts into DATA: link number and low byte of the attempt; 0 in
            /// frames of pairing.
            pub index: u32,
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $name {
            /// Bytes of the frame.
            pub const BYTES: usize = $bytes;
            /// The second byte of the frame.
            pub const KIND: u8 = $kind;
        }

        impl HandshakeFrame for $name {
            const KIND: u8 = $kind;
            const BYTES: usize = $bytes;
            const FIELDS: &'static [WireField] = &{
                let mut offset = HEADER_BYTES;
                let fields = [
                    WireField { name: "ver", offset: 0, bytes: 1, class: FieldClass::Pinned },
                    WireField { name: "kind", offset: 1, bytes: 1, class: FieldClass::Pinned },
                    WireField { name: "suite", offset: 2, bytes: 1, class: FieldClass::Pinned },
                    WireField { name: "flags", offset: 3, bytes: 1, class: FieldClass::Pinned },
                    WireField { name: "link", offset: 4, bytes: 3, class: FieldClass::Pinned },
                    WireField { name: "index", offset: 7, bytes: 1, class: FieldClass::Counter },
                    $({
                        let bytes = <$type as FieldBytes>::BYTES;
                        offset += bytes;
                        WireField {
                            name: $named, offset: offset - bytes, bytes, class: FieldClass::$class,
                        }
                    },)+
                ];
                assert!(offset == $bytes, "the fields tile the frame");
                fields
            };

            fn encode(&self) -> Vec<u8> {
                let mut w = Writer::with_capacity($bytes);
                w.put_u8(VERSION).put_u8($kind).put_u8(self.suite).put_u8(0).put_u32(self.index);
                $(FieldBytes::write(&self.$field, &mut w);)+
                w.finish()
            }

            fn decode(suite: u8, bytes: &[u8]) -> Result<Self, DecodeError> {
                Reader::decode_exact(bytes, |reader| {
                    let [version, kind, own, flags] = reader.read_array()?;
                    // Flags other than 0 are reserved. A frame of a later version must not be
                    // accepted in part (SEKA-1).
                    if version != VERSION || kind != $kind || own != suite || flags != 0 {
                        return Err(DecodeError::Value);
                    }
                    let index = reader.read_u32()?;
                    // The index has 24 bits. Upper bits would make two encodings of one value.
                    if index >> 24 != 0 {
                        return Err(DecodeError::Value);
                    }
                    Ok(Self {
                        suite, index,
                        $($field: <$type as FieldBytes>::read(reader)?,)+
                    })
                })
            }
        }

        impl Snapshot for $name {
            fn snapshot_into(&self, w: &mut Writer) {
                w.put_bytes(&self.encode());
            }
        }
    };
}

frame!(
    /// Pairing: the initiator's key, for any device or a named one.
    B1 0x10 68 {
        /// The initiator.
        from "ID_I": LinkId, Pinned;
        /// The intended responder; `None`: any device.
        to "ID_R": Option<LinkId>, Pinned;
        /// The session id.
        session_id "s": [u8; TAG_BYTES], Derived;
        /// The initiator's ephemeral key.
        m1 "m1": CanonicalPoint, Element;
    }
);
frame!(
    /// Pairing: the responder's key.
    B2 0x11 68 {
        /// The responder.
        from "ID_R": LinkId, Pinned;
        /// The initiator.
        to "ID_I": LinkId, Pinned;
        /// The session id of the answered B1.
        session_id "s": [u8; TAG_BYTES], Echo;
        /// The responder's ephemeral key.
        m2 "m2": CanonicalPoint, Element;
    }
);
frame!(
    /// Pairing with six digits: a commitment, which S3 opens.
    S1 0x12 68 {
        /// The initiator.
        from "ID_I": LinkId, Pinned;
        /// The intended responder; `None`: any device.
        to "ID_R": Option<LinkId>, Pinned;
        /// The session id.
        session_id "s": [u8; TAG_BYTES], Derived;
        /// The commitment.
        commitment "c": [u8; 32], Coins;
    }
);
frame!(
    /// Pairing with six digits: the responder's key, sent before it knows the initiator's.
    S2 0x13 84 {
        /// The responder.
        from "ID_R": LinkId, Pinned;
        /// The initiator.
        to "ID_I": LinkId, Pinned;
        /// The session id of the answered S1.
        session_id "s": [u8; TAG_BYTES], Echo;
        /// The responder's ephemeral key.
        m2 "m2": CanonicalPoint, Element;
        /// The responder's random bytes.
        coins "r_R": [u8; 16], Coins;
    }
);
frame!(
    /// Pairing with six digits: the initiator opens its commitment.
    S3 0x14 84 {
        /// The initiator.
        from "ID_I": LinkId, Pinned;
        /// The responder.
        to "ID_R": LinkId, Pinned;
        /// The session id.
        session_id "s": [u8; TAG_BYTES], Derived;
        /// The initiator's ephemeral key.
        m1 "m1": CanonicalPoint, Element;
        /// The initiator's random bytes.
        coins "r_I": [u8; 16], Coins;
    }
);
frame!(
    /// Exchange: the initiator's key, authenticated under the shared state.
    Ke1 0x15 88 {
        /// The initiator.
        from "ID_I": LinkId, Pinned;
        /// The responder.
        to "ID_R": LinkId, Pinned;
        /// The session id.
        session_id "s": [u8; TAG_BYTES], Derived;
        /// The number of the attempt, never reused.
        attempt "a": u32, Counter;
        /// The initiator's ephemeral key.
        m1 "m1": CanonicalPoint, Element;
        /// The tag over all fields before it.
        tag "t1": [u8; TAG_BYTES], Mac;
    }
);
frame!(
    /// Exchange: the responder's key.
    Ke2 0x16 88 {
        /// The responder.
        from "ID_R": LinkId, Pinned;
        /// The initiator.
        to "ID_I": LinkId, Pinned;
        /// The session id of the answered KE1.
        session_id "s": [u8; TAG_BYTES], Echo;
        /// The attempt of the answered KE1.
        attempt "a": u32, Echo;
        /// The responder's ephemeral key.
        m2 "m2": CanonicalPoint, Element;
        /// The tag over all fields before it and over KE1.
        tag "t2": [u8; TAG_BYTES], Mac;
    }
);
frame!(
    /// Exchange: the initiator confirms KE2.
    Ke3 0x17 56 {
        /// The initiator.
        from "ID_I": LinkId, Pinned;
        /// The responder.
        to "ID_R": LinkId, Pinned;
        /// The session id.
        session_id "s": [u8; TAG_BYTES], Derived;
        /// The attempt.
        attempt "a": u32, Counter;
        /// The tag over all fields before it, over KE1 and KE2.
        tag "t3": [u8; TAG_BYTES], Mac;
    }
);
frame!(
    /// A responder that needs a session requests an exchange.
    Nudge 0x18 40 {
        /// The responder.
        from "ID_R": LinkId, Pinned;
        /// The initiator.
        to "ID_I": LinkId, Pinned;
        /// The last attempt that the responder answered.
        attempt "a": u32, Counter;
        /// The tag over all fields before it.
        tag "tn": [u8; TAG_BYTES], Mac;
    }
);

/// Returns the kind of a handshake frame with at least its header, or `None` for other frames.
pub fn kind_of(frame: &[u8]) -> Option<u8> {
    (frame.len() >= HEADER_BYTES && frame[0] == VERSION).then(|| frame[1])
}

/// Returns sender and receiver of a handshake frame, which all kinds have at the same offsets. The
/// receiver is `None` for zeros.
pub fn names_of(frame: &[u8]) -> Option<(LinkId, Option<LinkId>)> {
    let mut reader = Reader::new(frame.get(HEADER_BYTES..)?);
    let from = LinkId::read(&mut reader).ok()?;
    Some((from, FieldBytes::read(&mut reader).ok()?))
}

/// Returns true if a handshake frame belongs to pairing.
pub fn is_pairing(kind: u8) -> bool {
    // Kinds 0x10 to 0x14 are contiguous, so a range check is enough.
    (B1::KIND..=S3::KIND).contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUITE: u8 = 2;

    fn holds<F: HandshakeFrame + PartialEq + core::fmt::Debug>(body: &[u8]) {
        let mut bytes = Vec::from([VERSION, F::KIND, SUITE, 0, 0, 1, 2, 3]);
        bytes.extend_from_slice(&body[..F::BYTES - HEADER_BYTES]);
        // The strategy must draw unicast names and canonical points.
        for at in [8, 14] {
            bytes[at] = 2;
        }
        for field in F::FIELDS.iter().filter(|field| field.class == FieldClass::Element) {
            bytes[field.offset + 31] &= 0x3f;
        }
        let frame = F::decode(SUITE, &bytes).expect("a frame");
        assert_eq!(frame.encode(), bytes);
        for cut in 0..bytes.len() {
            assert!(F::decode(SUITE, &bytes[..cut]).is_err());
        }
        bytes.push(0);
        assert!(F::decode(SUITE, &bytes).is_err());
        bytes.pop();
        for (at, value) in [(0, 2), (1, 0x7f), (2, 1), (3, 1), (4, 1)] {
            let before = core::mem::replace(&mut bytes[at], value);
            assert!(F::decode(SUITE, &bytes).is_err(), "{at}");
            bytes[at] = before;
        }
    }

    proptest! {
        #[test]
        fn seka_1_and_2_frames_are_whole_and_their_fields_tile_them(
            body in proptest::collection::vec(any::<u8>(), 80),
        ) {
            holds::<B1>(&body);
            holds::<B2>(&body);
            holds::<S1>(&body);
            holds::<S2>(&body);
            holds::<S3>(&body);
            holds::<Ke1>(&body);
            holds::<Ke2>(&body);
            holds::<Ke3>(&body);
            holds::<Nudge>(&body);
        }
    }

    #[test]
    fn the_fields_of_a_frame_leave_no_gap() {
        for fields in [B1::FIELDS, S3::FIELDS, Ke1::FIELDS, Ke3::FIELDS, Nudge::FIELDS] {
            let end = fields.iter().fold(0, |end, field| {
                assert_eq!(field.offset, end, "{}", field.name);
                end + field.bytes
            });
            assert_eq!(end, fields.last().map_or(0, |last| last.offset + last.bytes));
        }
    }
}
