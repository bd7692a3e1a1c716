//! Encoding of frames.

use alloc::vec::Vec;
use core::mem;

use mezza_core::{FrameTooLong, Writer};

use super::{Frame, FrameBody, LENGTH_BYTES};
use crate::limits::FRAME_BYTES_MAX;

impl Frame {
    /// Encodes the frame with its length field.
    ///
    /// # Errors
    /// [`FrameTooLong`] above 262,144 bytes after the length field.
    pub fn encode(&self) -> Result<Vec<u8>, FrameTooLong> {
        self.encode_before(0)
    }

    /// Encodes the frame as two consecutive pieces. The second piece is the long list of onions or
    /// replies, which is not copied.
    ///
    /// # Errors
    /// As for [`Self::encode`].
    pub fn into_pieces(mut self) -> Result<[Vec<u8>; 2], FrameTooLong> {
        let long = match &mut self {
            Self::Round(_, FrameBody::Onions(items) | FrameBody::Replies(items)) => {
                mem::take(&mut items.bytes)
            }
            _ => Vec::new(),
        };
        Ok([self.encode_before(long.len())?, long])
    }

    /// Encodes the first bytes of a frame that has `behind` more bytes.
    fn encode_before(&self, behind: usize) -> Result<Vec<u8>, FrameTooLong> {
        let mut writer = Writer::with_capacity(64 + self.bulk_bytes());
        writer.put_u32(0).put_u8(self.kind());
        match self {
            Self::Round(id, body) => {
                id.write_to(&mut writer);
                body.write_to(&mut writer);
            }
            link => {
                writer.put_u8(0).put_u64(0);
                link.write_link(&mut writer);
            }
        }
        let mut bytes = writer.finish();
        let len = bytes.len() - LENGTH_BYTES + behind;
        // The peer would close the link at such a length, so it is refused here.
        if len > FRAME_BYTES_MAX {
            return Err(FrameTooLong);
        }
        bytes[..LENGTH_BYTES].copy_from_slice(&(len as u32).to_be_bytes());
        Ok(bytes)
    }

    /// Returns the bytes of the only long field.
    fn bulk_bytes(&self) -> usize {
        match self {
            Self::Config { config, .. } => config.len(),
            Self::Round(_, FrameBody::Onions(items) | FrameBody::Replies(items)) => {
                items.bytes.len()
            }
            Self::Round(_, FrameBody::Chunk { bytes, .. } | FrameBody::Submit(bytes)) => {
                bytes.len()
            }
            Self::Round(_, FrameBody::Return { replies, .. }) => replies.len(),
            _ => 512,
        }
    }

    fn write_link(&self, w: &mut Writer) {
        match self {
            Self::Hello { version, config } => w.put_u16(*version).put_bytes(config),
            Self::Welcome { head, now } => w.put_bytes(head).put_u64(now.as_ms()),
            Self::FetchConfig { from } => w.put_bytes(from),
            Self::Config { left, config } => w.put_u16(*left).put_bytes(config),
            Self::Round(..) => w,
        };
    }
}

impl FrameBody {
    fn write_to(&self, w: &mut Writer) {
        match self {
            Self::Settings(announcement) => {
                announcement.write_to(w);
                w
            }
            Self::Submit(onions) => w.put_bytes(onions),
            Self::Return { users, replies } => w.put_u32(*users).put_bytes(replies),
            Self::Missed(reason) => w.put_u8(reason.number()),
            Self::NewRound | Self::Stored | Self::Object(None) => w,
            Self::RoundKey(key) => w.put_bytes(key),
            Self::Sign(settings) => w.put_bytes(&settings.encode()),
            Self::Signature(signature) => w.put_bytes(signature),
            Self::BatchStart { count, size } => w.put_u32(*count).put_u16(*size),
            Self::Onions(items) | Self::Replies(items) => {
                w.put_u32(items.offset).put_u16(items.count).put_bytes(&items.bytes)
            }
            Self::BatchEnd { count } | Self::RepliesEnd { count } => w.put_u32(*count),
            Self::Abort { position, reason, signature } => {
                w.put_u8(*position).put_u8(reason.number()).put_bytes(signature)
            }
            Self::Alarm { position, signature } => w.put_u8(*position).put_bytes(signature),
            Self::Put { manifest, signature } | Self::Object(Some((manifest, signature))) => {
                w.put_bytes(&manifest.encode()).put_bytes(signature)
            }
            Self::Fetch { bucket } => w.put_u32(*bucket),
            Self::Chunk { bucket, offset, bytes } => {
                w.put_u32(*bucket).put_u32(*offset).put_bytes(bytes)
            }
        };
    }
}
