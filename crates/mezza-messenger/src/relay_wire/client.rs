//! Frames from a client to a relay.

use alloc::vec::Vec;

use mezza_core::wire::{DecodeError, Reader};
use mezza_core::{FrameTooLong, Secret, snapshot};

use super::{MailboxAddress, RawOneTimePrekey, TAKEN_MAX, encode_frame};

/// The purpose of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxKind {
    /// For the mail of one contact.
    Conversation,
    /// For first notes of unknown senders. Only this kind has a bundle.
    Intro,
}

snapshot!(enum MailboxKind [Conversation, Intro]);

/// One frame from client to relay.
///
/// The client chooses `req`, and exactly one answer repeats it. Tokens are secrets, so frames with
/// a token have no `Clone`.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// Create the mailbox of this token; may be repeated.
    Open {
        /// Request number, repeated in the answer.
        req: u16,
        /// Secret token of the mailbox.
        token: Secret<32>,
        /// The purpose of the mailbox.
        kind: MailboxKind,
    },
    /// Remove the mailbox of this token with all its mail.
    Close {
        /// Request number, repeated in the answer.
        req: u16,
        /// Secret token of the mailbox.
        token: Secret<32>,
    },
    /// Put mail into a mailbox.
    Put {
        /// Request number, repeated in the answer.
        req: u16,
        /// Address of the mailbox.
        address: MailboxAddress,
        /// Hours for which the relay should store the mail; cut to the relay's limit.
        ttl_h: u16,
        /// The envelope, in one of the six sizes.
        envelope: Vec<u8>,
    },
    /// Deliver the mail of this token's mailbox, now and as it arrives.
    Watch {
        /// Request number, repeated in the answer.
        req: u16,
        /// The client's number for the mailbox on this connection.
        number: u16,
        /// Secret token of the mailbox.
        token: Secret<32>,
    },
    /// Report mail that the client has stored, so that the relay may delete it.
    Taken {
        /// Number of the mailbox on this connection.
        number: u16,
        /// Numbers of at most 64 mails on this connection.
        mails: Vec<u32>,
    },
    /// Replace the bundle of an intro mailbox and add one-time keys.
    BundleSet {
        /// Request number, repeated in the answer.
        req: u16,
        /// Secret token of the mailbox.
        token: Secret<32>,
        /// True to delete the old stock first.
        fresh: bool,
        /// The bundle, which the relay does not decode.
        bundle: Vec<u8>,
        /// One-time keys to add.
        keys: Vec<RawOneTimePrekey>,
    },
    /// Request the bundle of an intro mailbox and one of its one-time keys.
    BundleGet {
        /// Request number, repeated in the answer.
        req: u16,
        /// Address of the mailbox.
        address: MailboxAddress,
    },
    /// Request a PING frame as a sign of life.
    Ping,
}

const OPEN: u8 = 0x10;
const CLOSE: u8 = 0x11;
const PUT: u8 = 0x12;
const WATCH: u8 = 0x13;
const TAKEN: u8 = 0x15;
const BUNDLE_SET: u8 = 0x16;
const BUNDLE_GET: u8 = 0x17;
/// Kind of PING, which is the same in both directions.
pub(super) const PING: u8 = 0x1d;

/// The flag of `BUNDLE_SET` that drops the old stock.
const FLAG_FRESH: u8 = 0x01;

impl ClientFrame {
    /// Encodes the frame with its length field.
    ///
    /// # Errors
    /// [`FrameTooLong`] above 65,536 bytes or above 64 mail numbers.
    pub fn encode(&self) -> Result<Vec<u8>, FrameTooLong> {
        match self {
            Self::Open { req, token, kind } => encode_frame(OPEN, 35, |w| {
                let kind = match kind {
                    MailboxKind::Conversation => 0,
                    MailboxKind::Intro => 1,
                };
                w.put_u16(*req).put_bytes(token.expose()).put_u8(kind);
            }),
            Self::Close { req, token } => encode_frame(CLOSE, 34, |w| {
                w.put_u16(*req).put_bytes(token.expose());
            }),
            Self::Put { req, address, ttl_h, envelope } => {
                encode_frame(PUT, 20 + envelope.len(), |w| {
                    w.put_u16(*req).put_bytes(&address.0).put_u16(*ttl_h).put_bytes(envelope);
                })
            }
            Self::Watch { req, number, token } => encode_frame(WATCH, 36, |w| {
                w.put_u16(*req).put_u16(*number).put_bytes(token.expose());
            }),
            Self::Taken { number, mails } => encode_taken(*number, mails),
            Self::BundleSet { req, token, fresh, bundle, keys } => {
                let bytes = 39 + bundle.len() + 36 * keys.len();
                encode_frame(BUNDLE_SET, bytes, |w| {
                    w.put_u16(*req)
                        .put_bytes(token.expose())
                        .put_u8(u8::from(*fresh))
                        .put_var16(bundle);
                    w.put_u16(keys.len() as u16);
                    for key in keys {
                        key.write(w);
                    }
                })
            }
            Self::BundleGet { req, address } => encode_frame(BUNDLE_GET, 18, |w| {
                w.put_u16(*req).put_bytes(&address.0);
            }),
            Self::Ping => encode_frame(PING, 0, |_| ()),
        }
    }

    /// Decodes `kind | body`, as [`super::RelayDeframer`] returns it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let kind = r.read_u8()?;
            match kind {
                OPEN => Ok(Self::Open {
                    req: r.read_u16()?,
                    token: Secret::read_from(r)?,
                    kind: match r.read_u8()? {
                        0 => MailboxKind::Conversation,
                        1 => MailboxKind::Intro,
                        _ => return Err(DecodeError::Value),
                    },
                }),
                CLOSE => Ok(Self::Close { req: r.read_u16()?, token: Secret::read_from(r)? }),
                PUT => Ok(Self::Put {
                    req: r.read_u16()?,
                    address: MailboxAddress::read(r)?,
                    ttl_h: r.read_u16()?,
                    envelope: r.read_rest().to_vec(),
                }),
                WATCH => Ok(Self::Watch {
                    req: r.read_u16()?,
                    number: r.read_u16()?,
                    token: Secret::read_from(r)?,
                }),
                TAKEN => decode_taken(r),
                BUNDLE_SET => decode_bundle_set(r),
                BUNDLE_GET => {
                    Ok(Self::BundleGet { req: r.read_u16()?, address: MailboxAddress::read(r)? })
                }
                PING => Ok(Self::Ping),
                _ => Err(DecodeError::Value),
            }
        })
    }
}

fn encode_taken(number: u16, mails: &[u32]) -> Result<Vec<u8>, FrameTooLong> {
    if mails.len() > TAKEN_MAX {
        return Err(FrameTooLong);
    }
    encode_frame(TAKEN, 3 + 4 * mails.len(), |w| {
        w.put_u16(number).put_u8(mails.len() as u8);
        for nr in mails {
            w.put_u32(*nr);
        }
    })
}

fn decode_taken(r: &mut Reader<'_>) -> Result<ClientFrame, DecodeError> {
    let number = r.read_u16()?;
    let count = usize::from(r.read_u8()?);
    if count > TAKEN_MAX {
        return Err(DecodeError::Value);
    }
    let mails = (0..count).map(|_| r.read_u32()).collect::<Result<_, _>>()?;
    Ok(ClientFrame::Taken { number, mails })
}

fn decode_bundle_set(r: &mut Reader<'_>) -> Result<ClientFrame, DecodeError> {
    let req = r.read_u16()?;
    let token = Secret::read_from(r)?;
    let flags = r.read_u8()?;
    // Unknown flags would change the meaning of the frame.
    if flags & !FLAG_FRESH != 0 {
        return Err(DecodeError::Value);
    }
    let bundle = r.read_var16()?.to_vec();
    let count = usize::from(r.read_u16()?);
    // The count is checked against the bytes that are present before memory is allocated.
    if r.len() < count * 36 {
        return Err(DecodeError::Truncated);
    }
    let keys = (0..count).map(|_| RawOneTimePrekey::read(r)).collect::<Result<_, _>>()?;
    Ok(ClientFrame::BundleSet { req, token, fresh: flags & FLAG_FRESH != 0, bundle, keys })
}
