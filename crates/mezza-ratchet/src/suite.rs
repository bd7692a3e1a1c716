//! The parts of a ratchet suite: the primitives of [`Suite`], a key schedule, a wire format.

use mezza_core::{AeadKey as _, Backend, Secret, Suite, SuiteId};

use crate::session::JUMP_MAX;
use crate::wire::Wire;
use crate::x3dh::Transcript;

pub mod b2c20;
pub mod kem;
pub mod paper;
pub mod signal;
pub mod v3;
pub mod v4;

pub use b2c20::{B2c20, B2c20Pq};
pub use kem::Kem;
pub use v3::V3;
pub use v4::V4;

/// A suite of X3DH and the Double Ratchet.
pub trait RatchetSuite: Suite {
    /// The key schedule of the suite.
    type Kdf: Kdf;
    /// The wire format of the suite.
    type Wire: Wire;
    /// The KEM that the handshake adds to the DHs; `None` without a post-quantum handshake.
    const KEM: Option<Kem> = None;
    /// Most messages by which the index of a message may be ahead of the last one in its chain.
    const JUMP_MAX: u32 = JUMP_MAX;
}

/// The key schedule of a suite. All keys have 32 bytes.
pub trait Kdf {
    /// Derives the keys that both sides share from the DH results, in order, and from the transcript.
    fn derive_agreement(shared: &[Secret<32>], transcript: &Transcript<'_>) -> Agreement;
    /// Derives the next root key and a new chain key from a DH result.
    fn step_root(root: &Secret<32>, shared: &Secret<32>) -> (Secret<32>, Secret<32>);
    /// Derives a message key, and replaces the chain key by the next one.
    fn step_chain(chain: &mut Secret<32>) -> Secret<32>;
}

/// The secrets that a handshake gives to both sides.
pub struct Agreement {
    /// The id of the session, 16 bytes; public.
    pub id: [u8; 16],
    /// The first root key.
    pub root: Secret<32>,
    /// The exporter secret.
    pub exporter: Secret<32>,
}

/// Runs an expression with `$S` as the type of the suite with a given id, if sessions may speak
/// this suite.
macro_rules! of_suite {
    ($id:expr, $S:ident => $value:expr, else $other:expr) => {
        match $id {
            $crate::suite::V3::ID => {
                type $S = $crate::suite::V3;
                $value
            }
            $crate::suite::V4::ID => {
                type $S = $crate::suite::V4;
                $value
            }
            $crate::suite::B2c20::ID => {
                type $S = $crate::suite::B2c20;
                $value
            }
            $crate::suite::B2c20Pq::ID => {
                type $S = $crate::suite::B2c20Pq;
                $value
            }
            _ => $other,
        }
    };
}
pub(crate) use of_suite;

/// Returns true if sessions may speak this suite.
pub fn is_known(suite: SuiteId) -> bool {
    of_suite!(suite, S => !S::NAME.is_empty(), else false)
}

/// Returns the KEM that the handshake of a suite adds to the DHs.
pub fn kem(suite: SuiteId) -> Option<Kem> {
    of_suite!(suite, S => S::KEM, else None)
}

/// Returns true if suite lists may contain this suite: the ids 0x01xx of our own envelope.
pub const fn is_container(suite: SuiteId) -> bool {
    suite.0 >> 8 == 0x01
}

/// Splits 64 secret bytes into two halves.
fn halves(wide: &[u8; 64]) -> (Secret<32>, Secret<32>) {
    let first = Secret::init_with(|out| out.copy_from_slice(&wide[..32]));
    let second = Secret::init_with(|out| out.copy_from_slice(&wide[32..]));
    (first, second)
}

/// Splits `key[32] | iv[12]` and returns the cipher with this key, and the iv.
#[expect(clippy::expect_used, reason = "44 bytes hold 32 and 12")]
fn key_and_iv<B: Backend>(wide: &[u8; 44]) -> (B::Chacha, [u8; 12]) {
    let key = wide.first_chunk().expect("32 bytes");
    (B::Chacha::new(key), *wide.last_chunk().expect("12 bytes"))
}
