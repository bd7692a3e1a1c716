//! The item by which two devices agree on the start of their mixnet chains, the keys that advance
//! with each round.
//!
//! ```text
//! meet = network id[16] | r0 u64 | q0 u64 [| root[32]]                              32 or 64 B
//! ```

use core::fmt;
use mezza_mixnet::config::NetworkId;

use mezza_core::{DecodeError, Reader, Wiping, Writer};

/// The rounds from which the chains of a pair start. In an open session the item also contains the
/// root.
#[derive(Clone, PartialEq, Eq)]
pub struct MixnetStart {
    /// The network.
    pub network: NetworkId,
    /// The first conversation round.
    pub conversation: u64,
    /// The first call round.
    pub call: u64,
    /// The root of the chains, 32 secret bytes; `None` uses the exporter of the session.
    pub root: Option<Wiping<[u8; 32]>>,
}

impl MixnetStart {
    pub(super) fn wire_bytes(&self) -> usize {
        32 + self.root.as_ref().map_or(0, |root| root.len())
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.put_bytes(&self.network.0).put_u64(self.conversation).put_u64(self.call);
        if let Some(root) = &self.root {
            w.put_bytes(&root[..]);
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let network = NetworkId(r.read_array()?);
        let conversation = r.read_u64()?;
        let call = r.read_u64()?;
        let root = if r.is_empty() { None } else { Some(Wiping::new(r.read_array()?)) };
        Ok(Self { network, conversation, call, root })
    }
}

impl fmt::Debug for MixnetStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MixnetStart")
    }
}
