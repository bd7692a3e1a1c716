//! Control frames between a client and its guard, on the inside only (GUARD-28).
//!
//! ```text
//! 01 | kind u8 | len u16 | body          HAIL and HELLO clear, then ChaCha20-Poly1305 (RFC 8439):
//! key   = HKDF-SHA256(salt = nonce_g | nonce_c, ikm = PairingKey, info = "guard1 c2g" or "guard1 g2c", 32)
//! nonce = 4 zero bytes | u64 counter from 0        additional data = the 4 bytes of the header
//! ```

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{AeadKey as _, Backend, DecodeError, PortableBackend, Reader, Writer};
use zeroize::{Zeroize as _, Zeroizing};

use super::VERSION;
use crate::coin::{CoinPurpose, SlotIndex};
use crate::keys::{GuardClientId, PairingKey};

/// The destination number of an inbound connection.
pub const INBOUND: u16 = 0xffff;
/// Most bytes of the body of a control frame.
pub const CONTROL_BODY_MAX: usize = 64;
/// Bytes of a tag.
const TAG_BYTES: usize = 16;

/// The work of the guard on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// The guard changes every element (GKX).
    Blind,
    /// The guard checks that the client used its coins.
    Coins,
}

/// The reason why a guard refuses a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// The destination is not on the list.
    UnknownDestination = 1,
    /// The destination is blocked after too many refused handshakes.
    Blocked = 2,
    /// The slot already has another point.
    SlotTaken = 3,
    /// The frame is out of order.
    OutOfOrder = 4,
    /// The destination does not answer.
    Unreachable = 5,
    /// There are too many sessions.
    Busy = 6,
}

impl RefusalCode {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::UnknownDestination,
            2 => Self::Blocked,
            3 => Self::SlotTaken,
            4 => Self::OutOfOrder,
            5 => Self::Unreachable,
            6 => Self::Busy,
            _ => return None,
        })
    }
}

/// A slot with a value of 32 bytes: h, Z or rho.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotValue {
    /// Purpose of the coin.
    pub purpose: CoinPurpose,
    /// Number of the slot.
    pub index: u64,
    /// The value; the code that takes a coin out of it wipes it.
    pub value: [u8; 32],
}

impl SlotValue {
    /// Creates the value of a slot.
    pub const fn for_slot(slot: &SlotIndex, value: [u8; 32]) -> Self {
        Self { purpose: slot.name.purpose, index: slot.index, value }
    }
}

impl fmt::Debug for SlotValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotValue {}", self.index)
    }
}

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Client, in clear: its identification.
    Hail {
        /// Id of the client.
        client: GuardClientId,
        /// Random nonce of the client.
        nonce: [u8; 32],
    },
    /// Guard, in clear: its nonce.
    Hello {
        /// Random nonce of the guard.
        nonce: [u8; 32],
    },
    /// Client: the requested destination.
    Open {
        /// The requested mode of the guard.
        mode: GuardMode,
        /// Number of the destination.
        dest: u16,
    },
    /// Guard: the next slot and h.
    Slot(SlotValue),
    /// Client: the point Z.
    Point(SlotValue),
    /// Guard: the coin rho.
    Coin(SlotValue),
    /// Guard: 32 random bytes for the client's generator.
    Seed([u8; 32]),
    /// Guard: the destination answered.
    Ready,
    /// Guard: the refusal and its reason.
    Refused(RefusalCode),
}

impl Control {
    /// Returns the kind on the wire.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Hail { .. } => 0x70,
            Self::Hello { .. } => 0x71,
            Self::Open { .. } => 0x72,
            Self::Slot(_) => 0x73,
            Self::Point(_) => 0x74,
            Self::Coin(_) => 0x75,
            Self::Seed(_) => 0x76,
            Self::Ready => 0x77,
            Self::Refused(_) => 0x78,
        }
    }

    /// Returns true if the kind is that of a control frame.
    pub const fn is_kind(kind: u8) -> bool {
        matches!(kind, 0x70..=0x78)
    }

    /// Returns true if frames of this kind are sent in clear, without a tag.
    const fn is_clear(kind: u8) -> bool {
        // HAIL and HELLO contain the nonces from which the keys are derived.
        matches!(kind, 0x70 | 0x71)
    }

    fn encode_plain(&self) -> Zeroizing<Vec<u8>> {
        let mut w = Writer::with_capacity(CONTROL_BODY_MAX);
        match self {
            Self::Hail { client, nonce } => w.put_bytes(&client.0).put_bytes(nonce),
            Self::Hello { nonce } => w.put_bytes(nonce),
            Self::Open { mode, dest } => {
                w.put_u8(u8::from(*mode == GuardMode::Coins)).put_u16(*dest)
            }
            Self::Slot(slot) | Self::Point(slot) | Self::Coin(slot) => {
                w.put_u8(slot.purpose.wire_byte()).put_u64(slot.index).put_bytes(&slot.value)
            }
            Self::Seed(seed) => w.put_bytes(seed),
            Self::Ready => &mut w,
            Self::Refused(code) => w.put_u8(*code as u8),
        };
        Zeroizing::new(w.finish())
    }

    /// Decodes the plaintext of a kind.
    ///
    /// # Errors
    /// [`DecodeError`] for another kind, size or value.
    pub fn decode(kind: u8, plain: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(plain, |r| {
            let slot = |r: &mut Reader<'_>| -> Result<SlotValue, DecodeError> {
                let purpose = CoinPurpose::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?;
                Ok(SlotValue { purpose, index: r.read_u64()?, value: r.read_array()? })
            };
            Ok(match kind {
                0x70 => {
                    Self::Hail { client: GuardClientId(r.read_array()?), nonce: r.read_array()? }
                }
                0x71 => Self::Hello { nonce: r.read_array()? },
                0x72 => {
                    let mode = match r.read_u8()? {
                        0 => GuardMode::Blind,
                        1 => GuardMode::Coins,
                        _ => return Err(DecodeError::Value),
                    };
                    Self::Open { mode, dest: r.read_u16()? }
                }
                0x73 => Self::Slot(slot(r)?),
                0x74 => Self::Point(slot(r)?),
                0x75 => Self::Coin(slot(r)?),
                0x76 => Self::Seed(r.read_array()?),
                0x77 => Self::Ready,
                0x78 => {
                    Self::Refused(RefusalCode::from_byte(r.read_u8()?).ok_or(DecodeError::Value)?)
                }
                _ => return Err(DecodeError::Value),
            })
        })
    }

    /// Encodes a frame in clear: HAIL or HELLO.
    pub fn encode_clear(&self) -> Vec<u8> {
        let plain = self.encode_plain();
        [&encode_header(self.kind(), plain.len())[..], &plain].concat()
    }

    /// Reads a frame in clear.
    ///
    /// # Errors
    /// [`DecodeError`] for all kinds except HAIL and HELLO.
    pub fn read_clear(frame: &[u8]) -> Result<Self, DecodeError> {
        let (kind, body) = split_frame(frame)?;
        // A sealed kind in clear would be accepted without a tag.
        if Self::is_clear(kind) { Self::decode(kind, body) } else { Err(DecodeError::Value) }
    }
}

fn encode_header(kind: u8, body_bytes: usize) -> [u8; 4] {
    // A body has at most CONTROL_BODY_MAX bytes.
    let [high, low] = (body_bytes as u16).to_be_bytes();
    [VERSION, kind, high, low]
}

/// Splits a frame with a correct length field into kind and body.
fn split_frame(frame: &[u8]) -> Result<(u8, &[u8]), DecodeError> {
    Reader::decode_exact(frame, |r| {
        if r.read_u8()? != VERSION {
            return Err(DecodeError::Value);
        }
        Ok((r.read_u8()?, r.read_var16()?))
    })
}

/// The sealed channel of a control connection, for both directions.
pub struct ControlChannel {
    sends: Direction,
    receives: Direction,
}

struct Direction {
    key: <PortableBackend as Backend>::Chacha,
    counter: u64,
}

impl Direction {
    fn new(pairing: &PairingKey, nonces: [&[u8; 32]; 2], info: &[u8]) -> Self {
        let key = pairing.control_key(nonces, info);
        Self { key: mezza_core::AeadKey::new(key.expose()), counter: 0 }
    }

    fn iv(&self) -> [u8; 12] {
        let mut iv = [0; 12];
        // The nonce is four zero bytes and the counter, so no nonce repeats under the key of one
        // direction.
        iv[4..].copy_from_slice(&self.counter.to_be_bytes());
        iv
    }
}

impl ControlChannel {
    /// Creates the guard's end from the nonces of guard and client.
    pub fn of_guard(pairing: &PairingKey, guard: &[u8; 32], client: &[u8; 32]) -> Self {
        let direction = |info| Direction::new(pairing, [guard, client], info);
        Self { sends: direction(b"guard1 g2c"), receives: direction(b"guard1 c2g") }
    }

    /// Creates the client's end from the nonces of guard and client.
    pub fn of_client(pairing: &PairingKey, guard: &[u8; 32], client: &[u8; 32]) -> Self {
        let Self { sends, receives } = Self::of_guard(pairing, guard, client);
        Self { sends: receives, receives: sends }
    }

    /// Seals a control frame.
    pub fn seal(&mut self, control: &Control) -> Vec<u8> {
        let mut text = control.encode_plain();
        let header = encode_header(control.kind(), text.len() + TAG_BYTES);
        let tag = self.sends.key.seal(&self.sends.iv(), &header, &mut text);
        // Incremented after sealing, so that each frame has its own nonce.
        self.sends.counter += 1;
        [&header[..], &text, &tag].concat()
    }

    /// Opens a control frame. A refused frame does not change the counter.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is forged, repeated, out of order or malformed.
    pub fn open(&mut self, frame: &[u8]) -> Result<Control, DecodeError> {
        let (kind, body) = split_frame(frame)?;
        // The length is checked before the frame is copied (GUARD-36).
        if body.len() > CONTROL_BODY_MAX || Control::is_clear(kind) {
            return Err(DecodeError::Value);
        }
        let (text, tag) = body.split_last_chunk::<TAG_BYTES>().ok_or(DecodeError::Truncated)?;
        let mut text = Zeroizing::new(text.to_vec());
        let header = encode_header(kind, body.len());
        if !self.receives.key.open(&self.receives.iv(), &header, &mut text, tag) {
            return Err(DecodeError::Value);
        }
        let control = Control::decode(kind, &text)?;
        text.zeroize();
        // Only an authentic frame increments the counter, so that a forged one cannot desynchronise
        // the ends.
        self.receives.counter += 1;
        Ok(control)
    }

    /// Returns the numbers of sealed and opened frames, for snapshots without keys.
    pub(crate) const fn counters(&self) -> [u64; 2] {
        [self.sends.counter, self.receives.counter]
    }
}

impl fmt::Debug for ControlChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlChannel")
    }
}
