//! Every frame between a client and a relay: `len u24 | kind u8 | body`, big-endian.
//!
//! `len` counts the bytes after it, including the kind, 1 to 65,536. A client sends
//! [`ClientFrame`], a relay sends [`RelayFrame`]. [`RelayDeframer`] cuts a byte stream into frames
//! and never holds more than it received, so a length field alone allocates nothing.
//!
//! ```
//! use mezza_messenger::relay_wire::{ClientFrame, MailboxAddress, RelayDeframer};
//!
//! let ask = ClientFrame::BundleGet { req: 7, address: MailboxAddress([0x11; 16]) };
//! let bytes = ask.encode()?;
//! let frame = RelayDeframer::default().next_frame(&mut &bytes[..])?.ok_or("cut short")?;
//! assert_eq!(ClientFrame::decode(&frame)?, ask);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod client;
mod relay;

pub use client::{ClientFrame, MailboxKind};
pub use relay::{DoneCode, RelayFrame, encode_mail};

use alloc::vec::Vec;

use mezza_core::wire::{DecodeError, Reader, Writer};
use mezza_core::{FrameTooLong, Secret, Time, labelled_hash, snapshot};

/// The version a relay announces in its HELLO.
pub const VERSION: u8 = 1;
/// The name of this protocol in TLS (RFC 7301).
pub const ALPN: &[u8] = b"mezza-relay/1";
/// Most bytes after the length field of one frame, including its kind.
pub const FRAME_BYTES_MAX: usize = 65_536;
/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 3;
/// Cuts a connection's bytes into `kind | body`.
pub type RelayDeframer = mezza_core::Deframer<LENGTH_BYTES, 1, FRAME_BYTES_MAX>;
/// The only sizes of an envelope in bytes; they reveal 2.6 bits of the content's length.
pub const ENVELOPE_BYTES: [usize; 6] = [512, 1_024, 2_048, 4_096, 8_192, 16_384];
/// The largest envelope, bytes.
pub const ENVELOPE_BYTES_MAX: usize = 16_384;
/// Most mail numbers in one TAKEN.
pub const TAKEN_MAX: usize = 64;
/// Largest difference in milliseconds between a relay's clock and ours; above it neither clock is
/// trusted.
pub const CLOCK_DIFFERENCE_MS_MAX: u64 = Time::DAY_MS;

/// The address of a mailbox: 16 bytes that reveal nothing about the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxAddress(pub [u8; 16]);

snapshot!(struct MailboxAddress(bytes));

impl MailboxAddress {
    /// Returns the address of the mailbox whose secret is `token`: `H_16("mezza/slot", token)`.
    pub fn from_token(token: &Secret<32>) -> Self {
        Self(labelled_hash("mezza/slot", &[token.expose()]))
    }

    /// Reads an address of 16 bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.read_array()?))
    }
}

/// Returns true if an envelope of `bytes` bytes has one of the six lengths.
pub fn is_envelope_size(bytes: usize) -> bool {
    ENVELOPE_BYTES.contains(&bytes)
}

/// A one-time prekey as a bundle's owner publishes it, 36 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawOneTimePrekey {
    /// The owner's number of the key.
    pub id: u32,
    /// The public X25519 key.
    pub key: [u8; 32],
}

impl RawOneTimePrekey {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { id: reader.read_u32()?, key: reader.read_array()? })
    }

    fn write(&self, writer: &mut Writer) {
        writer.put_u32(self.id).put_bytes(&self.key);
    }
}

/// Encodes a frame: the length, `kind`, and `bytes` bytes written by `body`.
///
/// # Errors
/// [`FrameTooLong`] above [`FRAME_BYTES_MAX`].
fn encode_frame(
    kind: u8,
    bytes: usize,
    body: impl FnOnce(&mut Writer),
) -> Result<Vec<u8>, FrameTooLong> {
    let len = bytes + 1;
    // The length is checked before memory is allocated.
    if len > FRAME_BYTES_MAX {
        return Err(FrameTooLong);
    }
    let mut writer = Writer::with_capacity(LENGTH_BYTES + len);
    writer.put_u24(len as u32).put_u8(kind);
    body(&mut writer);
    debug_assert_eq!(writer.len(), LENGTH_BYTES + len);
    Ok(writer.finish())
}

#[cfg(test)]
mod tests;
