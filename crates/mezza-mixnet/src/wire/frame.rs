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

/// The version that a client names in its HELLO.
pub const VERSION: u16 = 1;
/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 4;
/// Bytes of `type | service | round`: the shortest frame.
pub const FRAME_HEAD_BYTES: usize = HEAD_BYTES;
/// Cuts a link's bytes into `type | service | round | body`.
pub type LinkDeframer = mezza_core::Deframer<LENGTH_BYTES, HEAD_BYTES, FRAME_BYTES_MAX>;
/// Most bytes behind the length field where no batch, object or config comes: on control links, and
/// from clients. Five slots through eight mixes take 3,290.
pub const SHORT_FRAME_BYTES_MAX: usize = 4_096;
/// The position that stands for the coordinator in ABORT.
pub const COORDINATOR: u8 = 255;

/// One frame. Those in front of a round have service 0 and round 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table of the specification names the fields")]
pub enum Frame {
    /// 01 client to entry: the last config it holds, zeros if none.
    Hello { version: u16, config: [u8; 32] },
    /// 02 entry to client: the newest config, and the entry's clock.
    Welcome { head: [u8; 32], now: Time },
    /// 03 client to entry: the configs behind this one, from genesis on for zeros.
    FetchConfig { from: [u8; 32] },
    /// 04 entry to client: one signed config, oldest first, and how many follow.
    Config { left: u16, config: Vec<u8> },
    /// All others.
    Round(RoundId, FrameBody),
}

/// A frame that is too long for a link is never queued.
impl Snapshot for Frame {
    fn snapshot_into(&self, w: &mut Writer) {
        self.encode().ok().snapshot_into(w);
    }
}

/// The body of a frame that belongs to a round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table of the specification names the fields")]
pub enum FrameBody {
    /// 05 entry to client.
    Settings(SignedSettings),
    /// 06 client to entry: its onions, one behind the other.
    Submit(Vec<u8>),
    /// 07 entry to client: its replies, one behind the other; none in services without replies.
    Return { users: u32, replies: Vec<u8> },
    /// 08 entry to client: nothing of this client is in the round.
    Missed(MissedReason),
    /// 10 coordinator to mix: make a round key.
    NewRound,
    /// 11 mix to coordinator: the public round key.
    RoundKey([u8; 32]),
    /// 12 coordinator to mix: sign these settings.
    Sign(Settings),
    /// 13 mix to coordinator: the signature.
    Signature(Signature),
    /// 20 forward: how many onions of which size were announced.
    BatchStart { count: u32, size: u16 },
    /// 21 forward: onions, contiguous.
    Onions(Items),
    /// 22 forward: how many onions were sent.
    BatchEnd { count: u32 },
    /// 23 backward: replies, contiguous.
    Replies(Items),
    /// 24 backward: how many replies were sent; 0 in services without replies.
    RepliesEnd { count: u32 },
    /// 2f any: the round is over, and who says so.
    Abort { position: u8, reason: AbortReason, signature: Signature },
    /// 30 mix to coordinator to client: own noise did not come back.
    Alarm { position: u8, signature: Signature },
    /// 40 last mix to store: what the objects that follow will be.
    Put { manifest: Manifest, signature: Signature },
    /// 41 entry to store, client to entry.
    Fetch { bucket: u32 },
    /// 42 answer to 41: the manifest, then CHUNKs; `None`: not there.
    Object(Option<(Manifest, Signature)>),
    /// 43 a piece of an object.
    Chunk { bucket: u32, offset: u32, bytes: Vec<u8> },
    /// 44 store to last mix: all objects are durable.
    Stored,
}

/// Onions or replies of one size, contiguous.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// Index of the first one in the batch.
    pub offset: u32,
    /// How many, at least 1.
    pub count: u16,
    /// `count` items of one size, one behind the other.
    pub bytes: Vec<u8>,
}

snapshot!(struct Items { offset, count, bytes });

impl Items {
    /// Bytes of one item.
    pub fn item_bytes(&self) -> usize {
        self.bytes.len() / usize::from(self.count.max(1))
    }

    /// A batch of items of `size` bytes, as full frames and a rest.
    pub fn of_batch(batch: &[u8], size: usize) -> impl Iterator<Item = Self> {
        let whole = move |(i, bytes): (usize, &[u8])| Self::nth_frame(i, size, bytes.to_vec());
        batch.chunks(size * items_per_frame(size)).enumerate().map(whole)
    }

    /// Frames for `count` items that are still to be written.
    pub fn zeros(count: usize, size: usize) -> impl Iterator<Item = Self> {
        let most = items_per_frame(size);
        let bytes = move |i: usize| vec![0; most.min(count - i * most) * size];
        (0..count.div_ceil(most)).map(move |i| Self::nth_frame(i, size, bytes(i)))
    }

    /// Frame number `i` of a batch of items of `size` bytes.
    pub(crate) fn nth_frame(i: usize, size: usize, bytes: Vec<u8>) -> Self {
        let offset = (i * items_per_frame(size)) as u32;
        Self { offset, count: (bytes.len() / size) as u16, bytes }
    }

    /// Returns true if these are the next ones of a batch: at the next offset, of the right size, as many
    /// as every frame but the last must have (MIX-11).
    pub fn is_next(&self, received: u32, announced: u32, size: usize) -> bool {
        let end = received.checked_add(u32::from(self.count));
        let full = usize::from(self.count) == items_per_frame(size);
        self.offset == received
            && self.item_bytes() == size
            // Only the last frame may be short, so that sizes of frames carry no information
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

/// Why nothing of a client is in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedReason {
    /// 1: it came after the entry stopped collecting.
    Late,
    /// 2: the network is full.
    Full,
    /// 3: the round was aborted.
    Aborted,
    /// 4: the client joined after the round was opened, or had not got its settings.
    Joined,
    /// 5: a wrong size, or a second SUBMIT.
    Malformed,
}

snapshot!(enum MissedReason [Late, Full, Aborted, Joined, Malformed]);

/// Why a round ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// 1: counts do not agree.
    Count,
    /// 2: a deadline passed.
    Deadline,
    /// 3: more than the config and the noise allow.
    TooMany,
    /// 4: a frame that the state does not expect, or of the wrong size.
    Malformed,
    /// 5: a link or a job was lost.
    Lost,
    /// 6: the settings are refused.
    Settings,
    /// 7: the server shuts down.
    Shutdown,
}

snapshot!(enum AbortReason [Count, Deadline, TooMany, Malformed, Lost, Settings, Shutdown]);

impl MissedReason {
    const ALL: [Self; 5] = [Self::Late, Self::Full, Self::Aborted, Self::Joined, Self::Malformed];

    /// The number on the wire.
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

    /// The number on the wire.
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
    /// The type on the wire.
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
