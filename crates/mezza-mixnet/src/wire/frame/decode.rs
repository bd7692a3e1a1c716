//! Decoding of frames. Every decoded frame encodes to the same bytes again.

use mezza_core::{DecodeError, Reader, Time};

use super::{AbortReason, Frame, FrameBody, Items, MissedReason};
use crate::limits::FRAME_BYTES_MAX;
use crate::service::RoundId;
use crate::wire::{Manifest, Settings, SignedSettings};

impl Frame {
    /// Decodes the result of a [`LinkDeframer`](super::LinkDeframer): `type | service | round |
    /// body`.
    ///
    /// The receiver checks sizes and counts that depend on the state of a round.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are exactly one frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        // On links the deframer enforces this limit; here it applies to all other callers.
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::Value);
        }
        Reader::decode_exact(bytes, |reader| match reader.read_u8()? {
            kind @ 0x01..=0x04 => decode_link(kind, reader),
            kind => {
                let id = RoundId::read_from(reader)?;
                Ok(Self::Round(id, decode_body(kind, id, reader)?))
            }
        })
    }
}

fn decode_link(kind: u8, r: &mut Reader<'_>) -> Result<Frame, DecodeError> {
    // Frames without a round have service 0 and round 0, so that each frame has one form.
    if r.read_u8()? != 0 || r.read_u64()? != 0 {
        return Err(DecodeError::Value);
    }
    Ok(match kind {
        0x01 => Frame::Hello { version: r.read_u16()?, config: r.read_array()? },
        0x02 => Frame::Welcome { head: r.read_array()?, now: Time::from_ms(r.read_u64()?) },
        0x03 => Frame::FetchConfig { from: r.read_array()? },
        _ => Frame::Config { left: r.read_u16()?, config: r.read_rest().to_vec() },
    })
}

fn decode_body(kind: u8, id: RoundId, r: &mut Reader<'_>) -> Result<FrameBody, DecodeError> {
    Ok(match kind {
        0x05 => {
            FrameBody::Settings(of_round(id, SignedSettings::read_from(r)?, |a| a.settings.id)?)
        }
        0x06 => FrameBody::Submit(r.read_rest().to_vec()),
        0x07 => FrameBody::Return { users: r.read_u32()?, replies: r.read_rest().to_vec() },
        0x08 => FrameBody::Missed(MissedReason::from_number(r.read_u8()?)?),
        0x10 => FrameBody::NewRound,
        0x11 => FrameBody::RoundKey(r.read_array()?),
        0x12 => FrameBody::Sign(of_round(id, Settings::read_from(r)?, |s| s.id)?),
        0x13 => FrameBody::Signature(r.read_array()?),
        0x20 => FrameBody::BatchStart { count: r.read_u32()?, size: r.read_u16()? },
        0x21 => FrameBody::Onions(read_items(r)?),
        0x22 => FrameBody::BatchEnd { count: r.read_u32()? },
        0x23 => FrameBody::Replies(read_items(r)?),
        0x24 => FrameBody::RepliesEnd { count: r.read_u32()? },
        0x2f => FrameBody::Abort {
            position: r.read_u8()?,
            reason: AbortReason::from_number(r.read_u8()?)?,
            signature: r.read_array()?,
        },
        0x30 => FrameBody::Alarm { position: r.read_u8()?, signature: r.read_array()? },
        0x40 => {
            let manifest = of_round(id, Manifest::read_from(r)?, |m| m.id)?;
            FrameBody::Put { manifest, signature: r.read_array()? }
        }
        0x41 => FrameBody::Fetch { bucket: r.read_u32()? },
        0x42 if r.is_empty() => FrameBody::Object(None),
        0x42 => {
            let manifest = of_round(id, Manifest::read_from(r)?, |m| m.id)?;
            FrameBody::Object(Some((manifest, r.read_array()?)))
        }
        0x43 => FrameBody::Chunk {
            bucket: r.read_u32()?,
            offset: r.read_u32()?,
            bytes: r.read_rest().to_vec(),
        },
        0x44 => FrameBody::Stored,
        _ => return Err(DecodeError::Value),
    })
}

/// Checks that a body that repeats its round repeats the right one.
fn of_round<T>(id: RoundId, what: T, its: impl Fn(&T) -> RoundId) -> Result<T, DecodeError> {
    if its(&what) == id { Ok(what) } else { Err(DecodeError::Value) }
}

/// Reads at least one item; all have one size above zero.
fn read_items(r: &mut Reader<'_>) -> Result<Items, DecodeError> {
    let offset = r.read_u32()?;
    let count = r.read_u16()?;
    let bytes = r.read_rest();
    let whole = bytes.len().checked_rem(usize::from(count)) == Some(0);
    // Items of size 0 would make any count fit.
    if !whole || bytes.is_empty() {
        return Err(DecodeError::Value);
    }
    Ok(Items { offset, count, bytes: bytes.to_vec() })
}
