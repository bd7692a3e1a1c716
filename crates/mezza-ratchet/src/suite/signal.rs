//! The key schedule of Signal's own suites: HKDF (RFC 5869) and HMAC (RFC 2104) over SHA-256.
//!
//! ```text
//! x3dh   rk0 | ck [| pq] | ex = HKDF(0 x32, FF x32 | DH1 | DH2 | DH3 [| DH4] [| kem], info of the suite)
//! root   rk' | ck      = HKDF(rk, DH, "WhisperRatchet", 64)
//! chain  mk = HMAC(ck, 01)      ck' = HMAC(ck, 02)
//! ```
//! No message is sent in the chain of the signed prekey, so its ck is dropped, like the key pq of
//! the post-quantum ratchet. The exporter is an addition of this crate: a longer expansion does not
//! change the earlier bytes.

use core::marker::PhantomData;

use hkdf::{Hkdf, HkdfExtract};
use hmac::{Hmac, KeyInit, Mac};
use mezza_core::{Secret, SuiteId, Wiping, blake2b, wipe_bytes};
use sha2::Sha256;

use super::{Agreement, Kdf, halves};
use crate::x3dh::Transcript;

/// Differences between the suites that use Signal's formats.
pub trait Dialect: 'static {
    /// The id of the suite.
    const SUITE: SuiteId;
    /// The version number in the first byte of a message.
    const VERSION: u8;
    /// Bytes of the MAC after the protobuf message.
    const MAC_BYTES: usize;
    /// The info string of the X3DH derivation.
    const X3DH_INFO: &'static str;
    /// The offset of the exporter in the derived bytes, at most 96, directly after the secrets of
    /// the suite.
    const EXPORTER_AT: usize;
}

/// The key schedule with the labels of one dialect.
#[derive(Debug)]
pub struct HmacKdf<D>(PhantomData<D>);

impl<D: Dialect> Kdf for HmacKdf<D> {
    fn derive_agreement(shared: &[Secret<32>], transcript: &Transcript<'_>) -> Agreement {
        let mut extract = HkdfExtract::<Sha256>::new(None);
        extract.input_ikm(&[0xff; 32]);
        for secret in shared {
            extract.input_ikm(secret.expose());
        }
        let (mut prk, hkdf) = extract.finalize();
        let mut wide = Wiping::new([0; 128]);
        let exporter = D::EXPORTER_AT..D::EXPORTER_AT + 32;
        expand_into(&hkdf, D::X3DH_INFO, &mut wide[..exporter.end]);
        wipe_bytes(&mut prk);
        Agreement {
            id: session_id(transcript),
            root: Secret::init_with(|out| out.copy_from_slice(&wide[..32])),
            exporter: Secret::init_with(|out| out.copy_from_slice(&wide[exporter])),
        }
    }

    fn step_root(root: &Secret<32>, shared: &Secret<32>) -> (Secret<32>, Secret<32>) {
        halves(&derive_bytes(Some(root.expose()), shared, "WhisperRatchet"))
    }

    fn step_chain(chain: &mut Secret<32>) -> Secret<32> {
        let keyed = hmac(chain.expose());
        let key = Secret::init_with(|out| finish_digest(keyed.clone(), 1, out));
        chain.overwrite_with(|out| finish_digest(keyed, 2, out));
        key
    }
}

/// Returns `N` bytes of HKDF output. A missing salt stands for 32 zero bytes.
pub(super) fn derive_bytes<const N: usize>(
    salt: Option<&[u8; 32]>,
    secret: &Secret<32>,
    info: &str,
) -> Wiping<[u8; N]> {
    let (mut prk, hkdf) = Hkdf::<Sha256>::extract(salt.map(<[u8; 32]>::as_slice), secret.expose());
    let mut out = Wiping::new([0; N]);
    expand_into(&hkdf, info, &mut *out);
    wipe_bytes(&mut prk);
    out
}

#[expect(clippy::expect_used, reason = "at most 128 of 8,160 bytes")]
fn expand_into(hkdf: &Hkdf<Sha256>, info: &str, out: &mut [u8]) {
    hkdf.expand(info.as_bytes(), out).expect("a short output");
}

/// Returns HMAC-SHA256 with this key.
#[expect(clippy::expect_used, reason = "a key of any length is allowed")]
pub(super) fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("any key")
}

fn finish_digest(mut keyed: Hmac<Sha256>, byte: u8, out: &mut [u8; 32]) {
    keyed.update(&[byte]);
    let mut digest = keyed.finalize().into_bytes();
    out.copy_from_slice(&digest);
    wipe_bytes(&mut digest);
}

/// Returns the session id, `B_16`("", "b2c20 session", suite | `IKa` | `IKb` | `EKa`), which never
/// leaves the device.
fn session_id(transcript: &Transcript<'_>) -> [u8; 16] {
    let first = transcript.first;
    let suite = first.suite.0.to_be_bytes();
    let mut id = [0; 16];
    let parts =
        [&suite[..], &first.identity.0, transcript.responder.as_bytes().as_slice(), &first.base.0];
    blake2b(&mut id, &[], "b2c20 session", &parts);
    id
}
