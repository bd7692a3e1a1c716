//! The byte encoding of every frame, defined only here (docs/protocols/mesh.md, section Messages).
//!
//! ```text
//! 01 BEACON  net[4] | name[6] | stamp u48 | flags u8 | live u16 | sum u32
//! 02 IHAVE   name[6] | n u8 | n * short u64
//! 03 IWANT   name[6] | to[6] | n u8 | again u8 | n * short u64
//! 04 DATA    name[6] | cell
//! 05 SYNC    name[6] | to[6] | nonce u64 | slice u8 | slices u8 | p u8 | n u16 | bits
//! 06 BUSY    name[6] | to[6] | wait_ms u16
//! 07 BYE     name[6]
//! ```

pub mod filter;

use alloc::vec::Vec;
use mezza_core::{DecodeError, Reader, Writer};

use crate::frame::{Beacon, Name};
use crate::limits::SHORTS_PER_FRAME;
use filter::SyncFilter;

/// Flag: the sender accepts streams.
const STREAMS: u8 = 1;
/// Flag: the sender's clock is agreed.
const AGREED: u8 = 2;
/// Flag: the sender holds cells that travel on streams.
const LARGE: u8 = 4;
/// Bytes of a BEACON.
pub const BEACON_BYTES: usize = 24;
/// Bytes of a SYNC before its bits.
pub const SYNC_HEAD_BYTES: usize = 26;

/// One frame as sent, without the check of a closed network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireFrame<'a> {
    /// Presence.
    Beacon {
        /// The sender's network and day.
        net: [u8; 4],
        /// The sender.
        name: Name,
        /// The other fields.
        beacon: Beacon,
    },
    /// New cells of the sender.
    Have {
        /// The sender.
        name: Name,
        /// The first eight bytes of the id of each new cell.
        shorts: Vec<u64>,
    },
    /// Cells that the sender requests.
    Want {
        /// The sender.
        name: Name,
        /// The receiver of the request.
        to: Name,
        /// True if an earlier request failed.
        again: bool,
        /// First eight bytes of ids.
        shorts: Vec<u64>,
    },
    /// A cell.
    Data {
        /// The sender.
        name: Name,
        /// The bytes of the cell, not checked yet.
        cell: &'a [u8],
    },
    /// The set of the sender, as a filter.
    Sync {
        /// The sender.
        name: Name,
        /// The neighbour that compares.
        to: Name,
        /// The filter.
        filter: SyncFilter<'a>,
    },
    /// The sender's queue is long.
    Busy {
        /// The sender.
        name: Name,
        /// The neighbour that must wait.
        to: Name,
        /// The waiting time, ms.
        wait_ms: u16,
    },
    /// Farewell.
    Bye {
        /// The sender.
        name: Name,
    },
}

impl<'a> WireFrame<'a> {
    /// Encodes a frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            Self::Beacon { net, name, beacon } => {
                w.put_u8(1).put_bytes(net).put_u48(*name).put_u48(beacon.stamp);
                let flag = |set: bool, bit: u8| if set { bit } else { 0 };
                w.put_u8(
                    flag(beacon.streams, STREAMS)
                        | flag(beacon.agreed, AGREED)
                        | flag(beacon.large, LARGE),
                );
                w.put_u16(beacon.live).put_u32(beacon.sum);
            }
            Self::Have { name, shorts } => {
                w.put_u8(2).put_u48(*name).put_u8(shorts.len() as u8);
                put_shorts(&mut w, shorts);
            }
            Self::Want { name, to, again, shorts } => {
                w.put_u8(3)
                    .put_u48(*name)
                    .put_u48(*to)
                    .put_u8(shorts.len() as u8)
                    .put_u8(u8::from(*again));
                put_shorts(&mut w, shorts);
            }
            Self::Data { name, cell } => {
                w.put_u8(4).put_u48(*name).put_bytes(cell);
            }
            Self::Sync { name, to, filter } => {
                w.put_u8(5).put_u48(*name).put_u48(*to);
                filter.encode(&mut w);
            }
            Self::Busy { name, to, wait_ms } => {
                w.put_u8(6).put_u48(*name).put_u48(*to).put_u16(*wait_ms);
            }
            Self::Bye { name } => {
                w.put_u8(7).put_u48(*name);
            }
        }
        w.finish()
    }

    /// Decodes a frame. Every number is compared with its bound before anything is allocated.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            Ok(match r.read_u8()? {
                1 => Self::Beacon {
                    net: r.read_array()?,
                    name: r.read_u48()?,
                    beacon: read_beacon(r)?,
                },
                2 => {
                    let name = r.read_u48()?;
                    let n = r.read_u8()?;
                    Self::Have { name, shorts: read_shorts(r, n)? }
                }
                3 => {
                    let name = r.read_u48()?;
                    let to = r.read_u48()?;
                    let n = r.read_u8()?;
                    let again = r.read_u8()?;
                    // Other values are reserved, so that a request has a single encoding.
                    if again > 1 {
                        return Err(DecodeError::Value);
                    }
                    Self::Want { name, to, again: again == 1, shorts: read_shorts(r, n)? }
                }
                4 => Self::Data { name: r.read_u48()?, cell: r.read_rest() },
                5 => Self::Sync {
                    name: r.read_u48()?,
                    to: r.read_u48()?,
                    filter: SyncFilter::decode(r)?,
                },
                6 => Self::Busy { name: r.read_u48()?, to: r.read_u48()?, wait_ms: r.read_u16()? },
                7 => Self::Bye { name: r.read_u48()? },
                _ => return Err(DecodeError::Value),
            })
        })
    }

    /// Returns the name of the sender.
    pub fn name(&self) -> Name {
        match self {
            Self::Beacon { name, .. }
            | Self::Have { name, .. }
            | Self::Want { name, .. }
            | Self::Data { name, .. }
            | Self::Sync { name, .. }
            | Self::Busy { name, .. }
            | Self::Bye { name } => *name,
        }
    }
}

fn read_beacon(r: &mut Reader<'_>) -> Result<Beacon, DecodeError> {
    let stamp = r.read_u48()?;
    let flags = r.read_u8()?;
    // Unknown flags are ignored, so later versions may set them.
    let [streams, agreed, large] = [STREAMS, AGREED, LARGE].map(|bit| flags & bit != 0);
    Ok(Beacon { stamp, agreed, streams, large, live: r.read_u16()?, sum: r.read_u32()? })
}

fn put_shorts(w: &mut Writer, shorts: &[u64]) {
    for short in shorts {
        w.put_u64(*short);
    }
}

fn read_shorts(r: &mut Reader<'_>, n: u8) -> Result<Vec<u64>, DecodeError> {
    let n = usize::from(n);
    // An empty list is malformed, and the bound is checked before memory is allocated (MESH-41).
    if n == 0 || n > SHORTS_PER_FRAME {
        return Err(DecodeError::Value);
    }
    // The count is compared with the remaining bytes (MESH-41).
    if r.len() < 8 * n {
        return Err(DecodeError::Truncated);
    }
    (0..n).map(|_| r.read_u64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> Vec<WireFrame<'static>> {
        let beacon = Beacon {
            stamp: 0x0102_0304_0506,
            agreed: true,
            streams: true,
            large: false,
            live: 7,
            sum: 8,
        };
        let name = 0xa1a2_a3a4_a5a6;
        let to = 0xb1b2_b3b4_b5b6;
        let filter = SyncFilter { nonce: 5, slice: 1, slices: 2, p: 7, n: 3, bits: &[0x55; 9] };
        alloc::vec![
            WireFrame::Beacon { net: [1, 2, 3, 4], name, beacon },
            WireFrame::Have { name, shorts: alloc::vec![1; 144] },
            WireFrame::Want { name, to, again: true, shorts: alloc::vec![2] },
            WireFrame::Data { name, cell: &[3; 512] },
            WireFrame::Sync { name, to, filter },
            WireFrame::Busy { name, to, wait_ms: 300 },
            WireFrame::Bye { name },
        ]
    }

    #[test]
    fn every_frame_has_its_size_and_is_read_again() {
        let sizes = [24, 1_160, 23, 519, 35, 15, 7];
        for (frame, size) in frames().iter().zip(sizes) {
            let bytes = frame.encode();
            assert_eq!((bytes.len(), WireFrame::decode(&bytes)), (size, Ok(frame.clone())));
            assert_eq!(frame.name(), 0xa1a2_a3a4_a5a6);
        }
        for bad in [
            &[][..],
            &[0],
            &[8, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 145],
        ] {
            assert!(WireFrame::decode(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_that_are_a_frame_are_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 1u8..8) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Ok(frame) = WireFrame::decode(&bytes) {
                // Unknown flags are ignored, and encoded as zero.
                if kind != 1 {
                    prop_assert_eq!(frame.encode(), bytes);
                }
            }
        }
    }
}
