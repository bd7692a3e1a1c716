//! The byte encoding of every frame, defined only here (docs/protocols/mesh.md, section Messages).
//!
//! ```text
//! 01 BEACON  net[4] | name[6] | stamp u48 | flags u8 | live u16 | sum u32
//! 02 IHAVE   name[6] | n u8 | n * short u64
//! 03 IWANT   name[6] | to[6] | n u8 | again u8 | n * short u64
//! 04 DATA    name[6] | cell
//! 05 SYNC    name[6] | to[6] | nonce u64 | slice u8 | slices u8 | from u16 | n u8 | n * symbol
//! 06 BUSY    name[6] | to[6] | wait_ms u16
//! 07 BYE     name[6]
//! 08 MORE    name[6] | to[6] | nonce u64 | from u16 | n u16
//! ```

pub mod sketch;

use alloc::vec::Vec;
use mezza_core::{DecodeError, Reader, Writer};

use crate::frame::{Beacon, Name};
use crate::limits::SHORTS_PER_FRAME;
use sketch::{SYMBOL_BYTES, SYMBOLS_PER_FRAME, SketchKey, SketchSymbol};

/// Flag: the sender accepts streams.
const STREAMS: u8 = 1;
/// Flag: the sender's clock agrees with those of its neighbours.
const AGREED: u8 = 2;
/// Flag: the sender holds cells that travel on streams.
const LARGE: u8 = 4;
/// Bytes of a BEACON.
pub const BEACON_BYTES: usize = 24;
/// Bytes of a SYNC before its symbols.
pub const SYNC_HEAD_BYTES: usize = 26;

/// One frame as sent, without the MAC of a closed network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireFrame<'a> {
    /// Presence, time and summary of the cells of a device.
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
    /// A part of a sketch of the sender's cells.
    Sync {
        /// The sender.
        name: Name,
        /// The neighbour that compares.
        to: Name,
        /// The nonce and the slice of the sketch.
        key: SketchKey,
        /// The number of the first symbol.
        from: u16,
        /// The symbols.
        symbols: Vec<SketchSymbol>,
    },
    /// Requests further symbols of a sketch.
    More {
        /// The sender.
        name: Name,
        /// The device that made the sketch.
        to: Name,
        /// The nonce of the sketch.
        nonce: u64,
        /// The number of the first symbol.
        from: u16,
        /// The number of symbols; 0 after the last one: they were not enough.
        n: u16,
    },
    /// The sender has many cells to send and asks the neighbour to wait.
    Busy {
        /// The sender.
        name: Name,
        /// The neighbour that must wait.
        to: Name,
        /// The waiting time, ms.
        wait_ms: u16,
    },
    /// The sender is about to leave or to change its name.
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
            Self::Sync { name, to, key, from, symbols } => {
                w.put_u8(5).put_u48(*name).put_u48(*to);
                key.encode(&mut w);
                w.put_u16(*from).put_u8(symbols.len() as u8);
                for symbol in symbols {
                    symbol.encode(&mut w);
                }
            }
            Self::More { name, to, nonce, from, n } => {
                w.put_u8(8).put_u48(*name).put_u48(*to).put_u64(*nonce).put_u16(*from).put_u16(*n);
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
                    key: SketchKey::decode(r)?,
                    from: r.read_u16()?,
                    symbols: read_symbols(r)?,
                },
                6 => Self::Busy { name: r.read_u48()?, to: r.read_u48()?, wait_ms: r.read_u16()? },
                7 => Self::Bye { name: r.read_u48()? },
                8 => Self::More {
                    name: r.read_u48()?,
                    to: r.read_u48()?,
                    nonce: r.read_u64()?,
                    from: r.read_u16()?,
                    n: r.read_u16()?,
                },
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
            | Self::More { name, .. }
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

fn read_symbols(r: &mut Reader<'_>) -> Result<Vec<SketchSymbol>, DecodeError> {
    let n = usize::from(r.read_u8()?);
    if n == 0 || n > SYMBOLS_PER_FRAME {
        return Err(DecodeError::Value);
    }
    // The count is compared with the remaining bytes (MESH-41).
    if r.len() < SYMBOL_BYTES * n {
        return Err(DecodeError::Truncated);
    }
    (0..n).map(|_| SketchSymbol::decode(r)).collect()
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
        let key = SketchKey { nonce: 5, slice: 1, slices: 2 };
        let symbols = alloc::vec![SketchSymbol { sum: 6, check: 7, count: 8 }; 2];
        alloc::vec![
            WireFrame::Beacon { net: [1, 2, 3, 4], name, beacon },
            WireFrame::Have { name, shorts: alloc::vec![1; 144] },
            WireFrame::Want { name, to, again: true, shorts: alloc::vec![2] },
            WireFrame::Data { name, cell: &[3; 512] },
            WireFrame::Sync { name, to, key, from: 53, symbols },
            WireFrame::Busy { name, to, wait_ms: 300 },
            WireFrame::Bye { name },
            WireFrame::More { name, to, nonce: 5, from: 53, n: 9 },
        ]
    }

    #[test]
    fn every_frame_has_its_size_and_is_read_again() {
        let sizes = [24, 1_160, 23, 519, 70, 15, 7, 25];
        for (frame, size) in frames().iter().zip(sizes) {
            let bytes = frame.encode();
            assert_eq!((bytes.len(), WireFrame::decode(&bytes)), (size, Ok(frame.clone())));
            assert_eq!(frame.name(), 0xa1a2_a3a4_a5a6);
        }
        for bad in [
            &[][..],
            &[0],
            &[9, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 145],
        ] {
            assert!(WireFrame::decode(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_that_are_a_frame_are_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 1u8..9) {
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
