//! Suite 0x0004: Signal's protocol with PQXDH (2023), without the post-quantum ratchet of 2025.
//! Like `signal-v3`, with Kyber1024 of round 3 in the handshake.

use mezza_core::{Sha512, Suite, SuiteId};

use super::signal::{Dialect, HmacKdf};
use super::v3::{CbcHmac, MAC_BYTES};
use super::{Kem, RatchetSuite};
use crate::wire::SignalFormat;

/// Suite 0x0004, Signal's protocol with PQXDH.
#[derive(Debug)]
pub struct V4;

impl Suite for V4 {
    const ID: SuiteId = SuiteId(0x0004);
    const NAME: &'static str = "signal-v4";
    type SignatureHash = Sha512;
    type Aead = CbcHmac;
}

impl RatchetSuite for V4 {
    type Kdf = HmacKdf<Self>;
    type Wire = SignalFormat<Self>;
    const KEM: Option<Kem> = Some(Kem::Kyber1024);
    const JUMP_MAX: u32 = 25_000;
}

impl Dialect for V4 {
    const SUITE: SuiteId = Self::ID;
    const VERSION: u8 = 4;
    const MAC_BYTES: usize = MAC_BYTES;
    const X3DH_INFO: &'static str = "WhisperText_X25519_SHA-256_CRYSTALS-KYBER-1024";
    const EXPORTER_AT: usize = 96;
}
