//! Frames from a relay to a client.

use alloc::vec::Vec;

use mezza_core::FrameTooLong;
use mezza_core::wire::{DecodeError, Reader};

use super::client::PING;
use super::{RawOneTimePrekey, encode_frame};

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoneCode {
    /// The request succeeded; for a PUT, the mail is durable.
    Done,
    /// There is no such mailbox, or it has no bundle.
    NoBox,
    /// The mailbox or the relay is full.
    Full,
    /// The envelope does not have one of the six sizes.
    Size,
    /// The client sends too fast or too much.
    SlowDown,
    /// The request is not allowed, or the frame is malformed.
    Refused,
}

impl DoneCode {
    /// Returns the byte on the wire, 0 to 5.
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NoBox => 1,
            Self::Full => 2,
            Self::Size => 3,
            Self::SlowDown => 4,
            Self::Refused => 5,
        }
    }

    /// Returns the code of a byte on the wire.
    ///
    /// # Errors
    /// [`DecodeError::Value`] above 5.
    pub const fn from_byte(byte: u8) -> Result<Self, DecodeError> {
        Ok(match byte {
            0 => Self::Done,
            1 => Self::NoBox,
            2 => Self::Full,
            3 => Self::Size,
            4 => Self::SlowDown,
            5 => Self::Refused,
            _ => return Err(DecodeError::Value),
        })
    }
}

/// One frame from relay to client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayFrame {
    /// The first frame of a connection.
    Hello {
        /// The relay's version of this protocol.
        version: u8,
        /// The relay's clock, ms since 1970 (48 bits).
        now_ms: u64,
        /// Largest envelope that the relay accepts, in bytes.
        envelope_bytes_max: u32,
        /// Longest time that the relay stores mail, in hours.
        ttl_h_max: u16,
    },
    /// One mail of a watched mailbox.
    Mail {
        /// Number of the mailbox on this connection.
        number: u16,
        /// Number of the mail on this connection.
        nr: u32,
        /// The envelope, unchanged since its PUT.
        envelope: Vec<u8>,
    },
    /// The answer to `BUNDLE_GET`.
    Bundle {
        /// Number of the request.
        req: u16,
        /// The bundle, unchanged since its `BUNDLE_SET`.
        bundle: Vec<u8>,
        /// A one-time key, which no other client gets; `None` if none is left.
        key: Option<RawOneTimePrekey>,
    },
    /// The number of one-time keys left in an intro mailbox.
    Stock {
        /// Number of the mailbox on this connection.
        number: u16,
        /// Number of keys that were not given out.
        left: u16,
    },
    /// Another connection reads a mailbox instead of this one.
    Displaced {
        /// Number of the mailbox on this connection.
        number: u16,
        /// True if the other connection has stopped reading, so that a WATCH succeeds here again.
        over: bool,
    },
    /// The answer to a request; `req` 0 concerns the connection itself.
    Done {
        /// Number of the request.
        req: u16,
        /// Result of the request.
        code: DoneCode,
        /// Seconds to wait before the next try, for [`DoneCode::Full`] and [`DoneCode::SlowDown`].
        retry_s: u16,
    },
    /// The answer to a PING.
    Ping,
}

const HELLO: u8 = 0x01;
const MAIL: u8 = 0x14;
const BUNDLE: u8 = 0x18;
const DISPLACED: u8 = 0x19;
const STOCK: u8 = 0x1e;
const DONE: u8 = 0x1f;

impl RelayFrame {
    /// Encodes the frame with its length field.
    ///
    /// # Errors
    /// [`FrameTooLong`] above 65,536 bytes.
    pub fn encode(&self) -> Result<Vec<u8>, FrameTooLong> {
        match self {
            Self::Hello { version, now_ms, envelope_bytes_max, ttl_h_max } => {
                encode_frame(HELLO, 13, |w| {
                    w.put_u8(*version).put_u48(*now_ms & ((1 << 48) - 1));
                    w.put_u32(*envelope_bytes_max).put_u16(*ttl_h_max);
                })
            }
            Self::Mail { number, nr, envelope } => encode_mail(*number, *nr, envelope),
            Self::Bundle { req, bundle, key } => {
                let bytes = 4 + bundle.len() + if key.is_some() { 36 } else { 0 };
                encode_frame(BUNDLE, bytes, |w| {
                    w.put_u16(*req).put_var16(bundle);
                    if let Some(key) = key {
                        key.write(w);
                    }
                })
            }
            Self::Stock { number, left } => encode_frame(STOCK, 4, |w| {
                w.put_u16(*number).put_u16(*left);
            }),
            Self::Displaced { number, over } => encode_frame(DISPLACED, 3, |w| {
                w.put_u16(*number).put_u8(u8::from(*over));
            }),
            Self::Done { req, code, retry_s } => encode_frame(DONE, 5, |w| {
                w.put_u16(*req).put_u8(code.to_byte()).put_u16(*retry_s);
            }),
            Self::Ping => encode_frame(PING, 0, |_| ()),
        }
    }

    /// Decodes `kind | body`, as [`super::RelayDeframer`] returns it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let kind = r.read_u8()?;
            match kind {
                HELLO => Ok(Self::Hello {
                    version: r.read_u8()?,
                    now_ms: r.read_u48()?,
                    envelope_bytes_max: r.read_u32()?,
                    ttl_h_max: r.read_u16()?,
                }),
                MAIL => Ok(Self::Mail {
                    number: r.read_u16()?,
                    nr: r.read_u32()?,
                    envelope: r.read_rest().to_vec(),
                }),
                BUNDLE => Ok(Self::Bundle {
                    req: r.read_u16()?,
                    bundle: r.read_var16()?.to_vec(),
                    key: if r.is_empty() { None } else { Some(RawOneTimePrekey::read(r)?) },
                }),
                STOCK => Ok(Self::Stock { number: r.read_u16()?, left: r.read_u16()? }),
                DISPLACED => {
                    Ok(Self::Displaced { number: r.read_u16()?, over: crate::io::read_flag(r)? })
                }
                DONE => Ok(Self::Done {
                    req: r.read_u16()?,
                    code: DoneCode::from_byte(r.read_u8()?)?,
                    retry_s: r.read_u16()?,
                }),
                PING => Ok(Self::Ping),
                _ => Err(DecodeError::Value),
            }
        })
    }
}

/// Encodes a MAIL frame around a borrowed envelope.
pub fn encode_mail(number: u16, nr: u32, envelope: &[u8]) -> Result<Vec<u8>, FrameTooLong> {
    encode_frame(MAIL, 6 + envelope.len(), |w| {
        w.put_u16(number).put_u32(nr).put_bytes(envelope);
    })
}
