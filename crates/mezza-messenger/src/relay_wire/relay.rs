//! Frames of a relay to a client.

use alloc::vec::Vec;

use mezza_core::FrameTooLong;
use mezza_core::wire::{DecodeError, Reader};

use super::client::PING;
use super::{RawOneTimePrekey, encode_frame};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoneCode {
    /// Done; for a PUT: durable.
    Done,
    /// There is no such box, or no bundle in it.
    NoBox,
    /// The box, or the relay, is full.
    Full,
    /// The envelope has none of the six sizes.
    Size,
    /// Too fast or too much for one client.
    SlowDown,
    /// Not allowed, or not a frame.
    Refused,
}

impl DoneCode {
    /// The byte on the wire, 0 to 5.
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

    /// The code of a byte on the wire.
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
        /// Largest envelope it takes, bytes.
        envelope_bytes_max: u32,
        /// Longest it keeps mail, hours.
        ttl_h_max: u16,
    },
    /// One mail of a watched box.
    Mail {
        /// The box's number on this connection.
        number: u16,
        /// The mail's number on this connection.
        nr: u32,
        /// The envelope as it was put.
        envelope: Vec<u8>,
    },
    /// The answer to a `BUNDLE_GET`.
    Bundle {
        /// Of the request.
        req: u16,
        /// As its owner set it.
        bundle: Vec<u8>,
        /// A key that nobody else is given.
        key: Option<RawOneTimePrekey>,
    },
    /// How many one-time keys are left in an intro box.
    Stock {
        /// The box's number on this connection.
        number: u16,
        /// Keys not given out.
        left: u16,
    },
    /// Another connection reads a box in place of this one.
    Displaced {
        /// The box's number on this connection.
        number: u16,
        /// True if that is over: a WATCH brings the mail here again.
        over: bool,
    },
    /// The answer to a request; `req` 0 speaks of the connection itself.
    Done {
        /// Of the request.
        req: u16,
        /// How it ended.
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
    /// The frame with its length field.
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

    /// Decodes `kind | body`, as [`super::RelayDeframer`] hands it out.
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

/// A MAIL frame around an envelope that its caller keeps.
pub fn encode_mail(number: u16, nr: u32, envelope: &[u8]) -> Result<Vec<u8>, FrameTooLong> {
    encode_frame(MAIL, 6 + envelope.len(), |w| {
        w.put_u16(number).put_u32(nr).put_bytes(envelope);
    })
}
