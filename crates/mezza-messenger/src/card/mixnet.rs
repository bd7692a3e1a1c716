//! The mixnet part of a card: the owner's network, and the key under which invitations to the owner
//! are sealed.
//!
//! ```text
//! part 02 = network id[16] | D[32]                                                         48 B
//! ```

use mezza_core::{DecodeError, PublicKey, Reader, Writer};
use mezza_mixnet::config::NetworkId;

use alloc::vec::Vec;

/// The kind of the mixnet part.
pub const MIXNET_PART: u8 = 2;

/// The mixnet part of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixnetPart {
    /// The network.
    pub network: NetworkId,
    /// The dialling key D, X25519, under which invitations are sealed and calls are sorted.
    pub dialling: PublicKey,
}

impl MixnetPart {
    /// Encodes the wire form, 48 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(48);
        w.put_bytes(&self.network.0).put_bytes(&self.dialling.0);
        w.finish()
    }

    /// Decodes the wire form; bytes after it are refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            Ok(Self { network: NetworkId(r.read_array()?), dialling: PublicKey::read_from(r)? })
        })
    }
}
