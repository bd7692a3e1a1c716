//! Frames of a link: `length u32 (of the rest) | type 1 | service 1 | round 8 | body`.
//!
//! ```
//! use mezza_core::Time;
//! use mezza_mixnet::wire::{Frame, LinkDeframer};
//!
//! let frame = Frame::Welcome { head: [7; 32], now: Time::from_ms(5) };
//! let bytes = frame.encode()?;
//! let whole = LinkDeframer::default().next_frame(&mut &bytes[..])?.ok_or("cut short")?;
//! assert_eq!(Frame::decode(&whole)?, frame);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod decode;
mod encode;

use alloc::vec;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Snapshot, Time, Wipe, Writer, snapshot};

use super::{Manifest, Settings, SignedSettings};
use crate::limits::FRAME_BYTES_MAX;
use crate::service::{HEAD_BYTES, RoundId, items_per_frame};
use crate::sign::Signature;

/// The version in a client's HELLO.
pub const VERSION: u16 = 1;
/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 4;
/// Bytes of `type | service | round`, which is the shortest frame.
pub const FRAME_HEAD_BYTES: usize = HEAD_BYTES;
/// Cuts a link's bytes into `type | service | round | body`.
pub type LinkDeframer = mezza_core::Deframer<LENGTH_BYTES, HEAD_BYTES, FRAME_BYTES_MAX>;
/// Most bytes after the length field where no batch, object or config is sent: on control links,
/// and from clients. Five slots through eight mixes take 3,290.
pub const SHORT_FRAME_BYTES_MAX: usize = 4_096;
/// The position of the coordinator in ABORT.
pub const COORDINATOR: u8 = 255;

/// One frame. Frames without a round have service 0 and round 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table of the specification names the fields")]
pub enum Frame {
    /// 01 client to entry: hash of the client's last config, zeros if it has none.
    Hello { version: u16, config: [u8; 32] },
    /// 02 entry to client: hash of the newest config, and the entry's clock.
    Welcome { head: [u8; 32], now: Time },
    /// 03 client to entry: request for the configs after this one; zeros request all from genesis
    /// on.
    FetchConfig { from: [u8; 32] },
    /// 04 entry to client: one signed config, oldest first, and the number of later ones.
    Config { left: u16, config: Vec<u8> },
    /// All frames of a round.
    Round(RoundId, FrameBody),
}

/// A frame that is too long for a link is never queued, so it has no snapshot.
impl Snapshot for Frame {
    fn snapshot_into(&self, w: &mut Writer) {
        self.encode().ok().snapshot_into(w);
    }
}

/// The body of a frame that belongs to a round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table of the specification names the fields")]
pub enum FrameBody {
    /// 05 entry to client: the signed settings of a round.
    Settings(SignedSettings),
    /// 06 client to entry: its concatenated onions.
    Submit(Vec<u8>),
    /// 07 entry to client: its concatenated replies; none in services without replies.
    Return { users: u32, replies: Vec<u8> },
    /// 08 entry to client: the client is not in the round.
    Missed(MissedReason),
    /// 10 coordinator to mix: create a round key.
    NewRound,
    /// 11 mix to coordinator: the public round key.
    RoundKey([u8; 32]),
    /// 12 coordinator to mix: sign these settings.
    Sign(Settings),
    /// 13 mix to coordinator: the signature.
    Signature(Signature),
    /// 20 forward: the number and size of the announced onions.
    BatchStart { count: u32, size: u16 },
    /// 21 forward: onions, contiguous.
    Onions(Items),
    /// 22 forward: the number of sent onions.
    BatchEnd { count: u32 },
    /// 23 backward: replies, contiguous.
    Replies(Items),
    /// 24 backward: the number of sent replies; 0 in services without replies.
    RepliesEnd { count: u32 },
    /// 2f any: the round has ended, and the position of the server that ended it.
    Abort { position: u8, reason: AbortReason, signature: Signature },
    /// 30 mix to coordinator to client: noise of the mix did not return.
    Alarm { position: u8, signature: Signature },
    /// 40 last mix to store: the manifest of the following objects.
    Put { manifest: Manifest, signature: Signature },
    /// 41 entry to store, client to entry: request for a bucket.
    Fetch { bucket: u32 },
    /// 42 answer to 41: the manifest, followed by CHUNKs; `None` if it does not exist.
    Object(Option<(Manifest, Signature)>),
    /// 43 a piece of an object.
    Chunk { bucket: u32, offset: u32, bytes: Vec<u8> },
    /// 44 store to last mix: all objects are durable.
    Stored,
}

/// Onions or replies of one size, contiguous.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// Index of the first item in the batch.
    pub offset: u32,
    /// Number of items, at least 1.
    pub count: u16,
    /// The concatenated items.
    pub bytes: Vec<u8>,
}

snapshot!(struct Items { offset, count, bytes });

impl Items {
    /// Returns the bytes of one item.
    pub fn item_bytes(&self) -> usize {
        self.bytes.len() / usize::from(self.count.max(1))
    }

    /// Splits a batch of items of `size` bytes into full frames and a rest.
    pub fn of_batch(batch: &[u8], size: usize) -> impl Iterator<Item = Self> {
        let whole = move |(i, bytes): (usize, &[u8])| Self::nth_frame(i, size, bytes.to_vec());
        batch.chunks(size * items_per_frame(size)).enumerate().map(whole)
    }

    /// Returns frames of zeros for `count` items that are written later.
    pub fn zeros(count: usize, size: usize) -> impl Iterator<Item = Self> {
        let most = items_per_frame(size);
        let bytes = move |i: usize| vec![0; most.min(count - i * most) * size];
        (0..count.div_ceil(most)).map(move |i| Self::nth_frame(i, size, bytes(i)))
    }

    /// Creates frame number `i` of a batch of items of `size` bytes.
    pub(crate) fn nth_frame(i: usize, size: usize, bytes: Vec<u8>) -> Self {
        let offset = (i * items_per_frame(size)) as u32;
        Self { offset, count: (bytes.len() / size) as u16, bytes }
    }

    /// Returns true if these are the next items of a batch: at the next offset, of the right size,
    /// and in a full frame unless it is the last one (MIX-11).
    pub fn is_next(&self, received: u32, announced: u32, size: usize) -> bool {
        let end = received.checked_add(u32::from(self.count));
        let full = usize::from(self.count) == items_per_frame(size);
        self.offset == received
            && self.item_bytes() == size
            // Only the last frame may be short, so that the sizes of frames reveal nothing
            // (MIX-11).
            && end.is_some_and(|end| end == announced || (full && end < announced))
    }
}

impl Wipe for Items {
    fn wipe(&mut self) {
        self.bytes.wipe();
    }
}

impl core::fmt::Debug for Items {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Items({} from {}, {} bytes each)", self.count, self.offset, self.item_bytes())
    }
}

/// The reason why a client is not in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedReason {
    /// 1: the SUBMIT arrived after the entry had stopped collecting.
    Late,
    /// 2: the network is full.
    Full,
    /// 3: the round was aborted.
    Aborted,
    /// 4: the client joined after the round opened, or has no settings for it.
    Joined,
    /// 5: the SUBMIT has a wrong size, or is a second one.
    Malformed,
}

snapshot!(enum MissedReason [Late, Full, Aborted, Joined, Malformed]);

/// The reason why a round ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// 1: counts differ.
    Count,
    /// 2: a deadline passed.
    Deadline,
    /// 3: there were more messages than config and noise allow.
    TooMany,
    /// 4: a frame was unexpected or had a wrong size.
    Malformed,
    /// 5: a link or a job was lost.
    Lost,
    /// 6: the settings were refused.
    Settings,
    /// 7: the server shuts down.
    Shutdown,
}

snapshot!(enum AbortReason [Count, Deadline, TooMany, Malformed, Lost, Settings, Shutdown]);

impl MissedReason {
    const ALL: [Self; 5] = [Self::Late, Self::Full, Self::Aborted, Self::Joined, Self::Malformed];

    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    fn from_number(number: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|r| r.number() == number).ok_or(DecodeError::Value)
    }
}

impl AbortReason {
    const ALL: [Self; 7] = [
        Self::Count,
        Self::Deadline,
        Self::TooMany,
        Self::Malformed,
        Self::Lost,
        Self::Settings,
        Self::Shutdown,
    ];

    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    fn from_number(number: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|r| r.number() == number).ok_or(DecodeError::Value)
    }
}

/// Returns the bytes that the signature of an ABORT covers, 43 bytes.
pub fn abort_bytes(config: &[u8; 32], id: RoundId, position: u8, reason: AbortReason) -> Vec<u8> {
    let mut w = Writer::with_capacity(43);
    w.put_bytes(config);
    id.write_to(&mut w);
    w.put_u8(position).put_u8(reason.number());
    w.finish()
}

/// Returns the bytes that the signature of an ALARM covers, 42 bytes.
pub fn alarm_bytes(config: &[u8; 32], id: RoundId, position: u8) -> Vec<u8> {
    let mut w = Writer::with_capacity(42);
    w.put_bytes(config);
    id.write_to(&mut w);
    w.put_u8(position);
    w.finish()
}

impl Frame {
    /// Returns the type number on the wire.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => 0x01,
            Self::Welcome { .. } => 0x02,
            Self::FetchConfig { .. } => 0x03,
            Self::Config { .. } => 0x04,
            Self::Round(_, body) => body.kind(),
        }
    }
}

impl FrameBody {
    const fn kind(&self) -> u8 {
        match self {
            Self::Settings(_) => 0x05,
            Self::Submit(_) => 0x06,
            Self::Return { .. } => 0x07,
            Self::Missed(_) => 0x08,
            Self::NewRound => 0x10,
            Self::RoundKey(_) => 0x11,
            Self::Sign(_) => 0x12,
            Self::Signature(_) => 0x13,
            Self::BatchStart { .. } => 0x20,
            Self::Onions(_) => 0x21,
            Self::BatchEnd { .. } => 0x22,
            Self::Replies(_) => 0x23,
            Self::RepliesEnd { .. } => 0x24,
            Self::Abort { .. } => 0x2f,
            Self::Alarm { .. } => 0x30,
            Self::Put { .. } => 0x40,
            Self::Fetch { .. } => 0x41,
            Self::Object(_) => 0x42,
            Self::Chunk { .. } => 0x43,
            Self::Stored => 0x44,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
