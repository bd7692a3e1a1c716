//! `signal-v3` with one part replaced by the paper's or ours, to measure the effect of each part.

use mezza_core::{Blake2b512, Suite, SuiteId};
use mezza_ratchet::suite::b2c20::KeyedBlake2b;
use mezza_ratchet::suite::paper::{DerivedChacha, Paper};
use mezza_ratchet::suite::signal::{Dialect, HmacKdf};
use mezza_ratchet::suite::v3::CbcHmac;
use mezza_ratchet::suite::{RatchetSuite, V3};
use mezza_ratchet::wire::SignalFormat;

/// Defines a suite that differs from `signal-v3` in one of the last three arguments.
macro_rules! variant {
    ($name:ident, $text:literal, $id:literal, $mac:expr, $sig:ty, $kdf:ty, $aead:ty) => {
        #[doc = concat!("`signal-v3` with only ", $text, " exchanged.")]
        #[derive(Debug)]
        pub struct $name;

        impl Suite for $name {
            const ID: SuiteId = SuiteId($id);
            const NAME: &'static str = $text;
            type SignatureHash = $sig;
            type Aead = $aead;
        }

        impl RatchetSuite for $name {
            type Kdf = $kdf;
            type Wire = SignalFormat<Self>;
        }

        impl Dialect for $name {
            const SUITE: SuiteId = Self::ID;
            const VERSION: u8 = 3;
            const MAC_BYTES: usize = $mac;
            const X3DH_INFO: &'static str = V3::X3DH_INFO;
            const EXPORTER_AT: usize = V3::EXPORTER_AT;
        }
    };
}

variant!(OnlySig, "the hash", 0x7f11, V3::MAC_BYTES, Blake2b512, HmacKdf<Self>, CbcHmac);
variant!(
    OnlyKdf,
    "the key schedule",
    0x7f12,
    V3::MAC_BYTES,
    <V3 as Suite>::SignatureHash,
    KeyedBlake2b,
    CbcHmac
);
variant!(
    OnlyAead,
    "the AEAD",
    0x7f13,
    Paper::MAC_BYTES,
    <V3 as Suite>::SignatureHash,
    HmacKdf<Self>,
    DerivedChacha
);
