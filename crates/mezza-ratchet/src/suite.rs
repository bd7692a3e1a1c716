//! What a ratchet suite is made of: the primitives of [`Suite`], a key schedule, a wire format.

use mezza_core::{Secret, Suite};

use crate::wire::Wire;

pub mod b2c20;

pub use b2c20::B2c20;

/// A suite of X3DH and the Double Ratchet.
pub trait RatchetSuite: Suite {
    /// Its key schedule.
    type Kdf: Kdf;
    /// Its wire format.
    type Wire: Wire;
}

/// The key schedule of a suite. All keys have 32 bytes.
pub trait Kdf {
    /// Root key and exporter from the DH results, in order, and the transcript.
    fn x3dh(shared: &[Secret<32>], transcript: &[u8; 64]) -> (Secret<32>, Secret<32>);
    /// Next root key and a new chain key.
    fn root(root: &Secret<32>, shared: &Secret<32>) -> (Secret<32>, Secret<32>);
    /// Next chain key and a message key.
    fn chain(chain: &Secret<32>) -> (Secret<32>, Secret<32>);
}
