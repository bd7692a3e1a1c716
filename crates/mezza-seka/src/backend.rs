//! Requirements of links on a backend in addition to X25519: AES-GCM with keys of both sizes.

use aes_gcm::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Key, Nonce, Tag};
use mezza_core::{AeadKey, Backend, PortableBackend};

/// A backend that also computes AES-GCM (SP 800-38D).
pub trait LinkBackend: Backend {
    /// AES-128-GCM; with an empty text, GMAC.
    type Gcm128: AeadKey<16> + Send;
    /// AES-256-GCM.
    type Gcm256: AeadKey<32> + Send;
}

impl LinkBackend for PortableBackend {
    type Gcm128 = PortableGcm128;
    type Gcm256 = PortableGcm256;
}

/// The two key sizes differ only in a type and a number.
macro_rules! portable {
    ($(#[$doc:meta])* $name:ident, $cipher:ty, $bytes:literal) => {
        $(#[$doc])*
        pub struct $name($cipher);

        impl AeadKey<$bytes> for $name {
            fn new(key: &[u8; $bytes]) -> Self {
                Self(<$cipher>::new(&Key::<$cipher>::from(*key)))
            }

            fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
                // GCM refuses only texts above 64 GiB, and a frame is far shorter.
                let text = InOutBuf::from(text);
                self.0.encrypt_inout_detached(&Nonce::from(*iv), aad, text).expect("short").into()
            }

            fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
                let text = InOutBuf::from(text);
                let tag = Tag::from(*tag);
                self.0.decrypt_inout_detached(&Nonce::from(*iv), aad, text, &tag).is_ok()
            }
        }
    };
}

portable!(
    /// AES-128-GCM of RustCrypto.
    PortableGcm128,
    Aes128Gcm,
    16
);
portable!(
    /// AES-256-GCM of RustCrypto.
    PortableGcm256,
    Aes256Gcm,
    32
);
