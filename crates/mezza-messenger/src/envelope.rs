//! The relay envelope, which is the content of a mailbox. It has one of six sizes and opens with
//! one key.
//!
//! ```text
//! envelope = ver=1 | enc[32] | ct          512, 1,024, 2,048, 4,096, 8,192 or 16,384 B
//! text     = len u16 | parcel | zeros      51 B less
//! ```
//!
//! `enc` and `ct` are HPKE in base mode (RFC 9180) with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and
//! ChaCha20-Poly1305; info = "mezza relay 1" | address, aad = ver. HPKE is implemented here over
//! the backend of `mezza-core`, because the device must provide the ephemeral key.

use crate::relay_wire::MailboxAddress;
use alloc::vec::Vec;

use hkdf::{Hkdf, HkdfExtract};
use mezza_core::{
    AeadKey, Backend, EphemeralKey, PublicKey, Reader, Secret, StaticKey, Wiping, ZeroSecret,
    snapshot,
};
use sha2::Sha256;

/// The sizes of an envelope in bytes.
pub const SIZES: [usize; 6] = [512, 1_024, 2_048, 4_096, 8_192, 16_384];

/// Most bytes of a parcel: the largest envelope less version, key, tag and length.
pub const PARCEL_BYTES_MAX: usize = SIZES[5] - OVERHEAD_BYTES;

/// Bytes of version, encapsulated key, tag, and length of the parcel.
const OVERHEAD_BYTES: usize = 1 + 32 + TAG_BYTES + 2;
const TAG_BYTES: usize = 16;
const VERSION: u8 = 1;
const INFO: &str = "mezza relay 1";

/// DHKEM(X25519, HKDF-SHA256) (RFC 9180, section 7.1).
const KEM_ID: &[u8] = b"KEM\x00\x20";
/// The KEM above, HKDF-SHA256 and ChaCha20-Poly1305 (RFC 9180, sections 7.1 to 7.3).
const HPKE_ID: &[u8] = b"HPKE\x00\x20\x00\x01\x00\x03";
const MODE_BASE: u8 = 0;

/// The reason why a parcel cannot be put into an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The parcel is longer than [`PARCEL_BYTES_MAX`].
    #[error("the parcel has {bytes} bytes, an envelope holds {PARCEL_BYTES_MAX}")]
    TooBig {
        /// Bytes of the parcel.
        bytes: usize,
    },
    /// The recipient's key has low order, so the shared secret would be public.
    #[error("the key of the mailbox is not allowed")]
    BadKey,
}

/// The sender's HPKE context, computed for one mailbox before the parcel is known. It seals one
/// envelope.
pub struct SenderContext {
    address: MailboxAddress,
    to: PublicKey,
    enc: PublicKey,
    key: Secret<32>,
    iv: [u8; 12],
}

snapshot!(struct SenderContext { address, to, enc, key, iv });

impl SenderContext {
    /// Computes the context for the mailbox `address`, whose owner has the private key of `to`.
    /// `fresh` must be used for this envelope only.
    ///
    /// # Errors
    /// [`EnvelopeError::BadKey`] if `to` has low order.
    pub fn new<B: Backend>(
        address: &MailboxAddress,
        to: &PublicKey,
        fresh: EphemeralKey,
    ) -> Result<Self, EnvelopeError> {
        let enc = *fresh.public_key();
        // RFC 9180, section 7.1.4: an all-zero shared secret is refused.
        let dh = fresh.diffie_hellman::<B>(to).map_err(|ZeroSecret| EnvelopeError::BadKey)?;
        let (key, iv) = key_schedule(&dh, &enc, to, &[INFO.as_bytes(), &address.0]);
        Ok(Self { address: *address, to: *to, enc, key, iv })
    }

    /// Returns true if this context was made for this mailbox and key.
    pub fn is_for(&self, address: &MailboxAddress, to: &PublicKey) -> bool {
        self.address == *address && self.to == *to
    }

    /// Seals `parcel` into the smallest envelope that it fits into.
    ///
    /// # Errors
    /// [`EnvelopeError::TooBig`] if the parcel is longer than [`PARCEL_BYTES_MAX`].
    pub fn seal<B: Backend>(self, parcel: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
        let too_big = EnvelopeError::TooBig { bytes: parcel.len() };
        // The smallest of six sizes that fits: a relay learns 2.6 bits of the length.
        let size = SIZES.into_iter().find(|size| parcel.len() + OVERHEAD_BYTES <= *size);
        let size = size.ok_or(too_big)?;
        let mut envelope = Vec::with_capacity(size);
        envelope.push(VERSION);
        envelope.extend_from_slice(&self.enc.0);
        let text_at = envelope.len();
        envelope.extend_from_slice(&(parcel.len() as u16).to_be_bytes());
        envelope.extend_from_slice(parcel);
        // Zeros fill the envelope, and the AEAD covers them.
        envelope.resize(size - TAG_BYTES, 0);
        // The parcel is encrypted in place, so no second copy of it remains.
        let key = B::Chacha::new(self.key.expose());
        let tag = key.seal(&self.iv, &[VERSION], &mut envelope[text_at..]);
        envelope.extend_from_slice(&tag);
        Ok(envelope)
    }
}

/// Seals `parcel` into an envelope for the mailbox `address`, whose owner has the private key of
/// `to`. `fresh` must be used for this envelope only.
pub fn seal<B: Backend>(
    address: &MailboxAddress,
    to: &PublicKey,
    parcel: &[u8],
    fresh: EphemeralKey,
) -> Result<Vec<u8>, EnvelopeError> {
    SenderContext::new::<B>(address, to, fresh)?.seal::<B>(parcel)
}

/// Returns the parcel of an envelope. Returns `None` if the envelope is for another key or mailbox,
/// is damaged, or does not have one of the six sizes.
pub fn open<B: Backend>(
    address: &MailboxAddress,
    own: &StaticKey,
    envelope: &[u8],
) -> Option<Vec<u8>> {
    // Any other size was not written by this protocol, so nothing is decrypted.
    if !SIZES.contains(&envelope.len()) {
        return None;
    }
    let mut r = Reader::new(envelope);
    let version = r.read_u8().ok()?;
    let enc = PublicKey::read_from(&mut r).ok()?;
    let (ct, tag) = r.read_rest().split_last_chunk::<TAG_BYTES>()?;
    if version != VERSION {
        return None;
    }
    // A key of low order is refused, as in `SenderContext::new`.
    let dh = own.diffie_hellman::<B>(&enc).ok()?;
    let (key, iv) = key_schedule(&dh, &enc, own.public_key(), &[INFO.as_bytes(), &address.0]);
    let mut text = Wiping::new(ct.to_vec());
    if !B::Chacha::new(key.expose()).open(&iv, &[version], &mut text, tag) {
        return None;
    }
    let mut r = Reader::new(&text);
    let parcel = r.read_var16().ok()?;
    // Padding other than zeros would be a second encoding of one parcel.
    r.read_rest().iter().all(|b| *b == 0).then(|| parcel.to_vec())
}

/// Derives key and nonce of the only message of a context (RFC 9180, sections 4.1
/// `ExtractAndExpand` and 5.1 `KeySchedule`, base mode, sequence number 0).
fn key_schedule(
    dh: &Secret<32>,
    enc: &PublicKey,
    to: &PublicKey,
    info: &[&[u8]],
) -> (Secret<32>, [u8; 12]) {
    // RFC 9180, section 4.1: `shared_secret` binds both public keys.
    let eae_prk = labeled_extract(KEM_ID, &[], "eae_prk", &[dh.expose()]).1;
    let shared = Secret::<32>::init_with(|out| {
        labeled_expand(&eae_prk, KEM_ID, "shared_secret", &[&enc.0, &to.0], out);
    });
    let psk_id_hash = labeled_extract(HPKE_ID, &[], "psk_id_hash", &[]).0;
    let info_hash = labeled_extract(HPKE_ID, &[], "info_hash", info).0;
    let context = [&[MODE_BASE], psk_id_hash.as_slice(), info_hash.as_slice()];
    // RFC 9180, section 5.1: without a PSK the second input is empty.
    let secret = labeled_extract(HPKE_ID, shared.expose(), "secret", &[]).1;
    let key = Secret::init_with(|out| labeled_expand(&secret, HPKE_ID, "key", &context, out));
    let mut iv = [0; 12];
    labeled_expand(&secret, HPKE_ID, "base_nonce", &context, &mut iv);
    (key, iv)
}

/// Computes `LabeledExtract` (RFC 9180, section 4). Returns the pseudorandom key as bytes, and as
/// an object for expanding.
fn labeled_extract(
    suite: &[u8],
    salt: &[u8],
    label: &str,
    ikm: &[&[u8]],
) -> ([u8; 32], Hkdf<Sha256>) {
    let mut hkdf = HkdfExtract::<Sha256>::new(Some(salt));
    // RFC 9180, section 4: the version and suite labels separate this use from all others.
    for part in [b"HPKE-v1", suite, label.as_bytes()].iter().chain(ikm) {
        hkdf.input_ikm(part);
    }
    let (prk, hkdf) = hkdf.finalize();
    (prk.into(), hkdf)
}

/// Computes `LabeledExpand` (RFC 9180, section 4) and fills `out`.
#[expect(clippy::expect_used, reason = "the only error is an output above 8,160 bytes")]
fn labeled_expand(prk: &Hkdf<Sha256>, suite: &[u8], label: &str, info: &[&[u8]], out: &mut [u8]) {
    let out_bytes = (out.len() as u16).to_be_bytes();
    let mut parts: Vec<&[u8]> = Vec::with_capacity(4 + info.len());
    parts.extend_from_slice(&[&out_bytes, b"HPKE-v1", suite, label.as_bytes()]);
    parts.extend_from_slice(info);
    prk.expand_multi_info(&parts, out).expect("32 bytes at most");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use data_encoding::HEXLOWER;
    use mezza_core::PortableBackend;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
    }

    #[test]
    fn behind_a_parcel_stand_zeros_alone() {
        let scalar = |n: u8| Secret::init_with(|s| s.fill(n));
        let own = StaticKey::from_scalar::<PortableBackend>(scalar(7));
        let address = MailboxAddress([5; 16]);
        for at in [5, 6, 462] {
            for filler in [0, 1] {
                let fresh = EphemeralKey::from_scalar::<PortableBackend>(scalar(9));
                let outer =
                    SenderContext::new::<PortableBackend>(&address, own.public_key(), fresh)
                        .unwrap();
                let mut text = vec![0; SIZES[0] - OVERHEAD_BYTES + 2];
                (text[1], text[at]) = (3, filler);
                let chacha = <PortableBackend as Backend>::Chacha::new(outer.key.expose());
                let tag = chacha.seal(&outer.iv, &[VERSION], &mut text);
                let bytes = [&[VERSION], outer.enc.as_bytes().as_slice(), &text, &tag].concat();
                let opened = open::<PortableBackend>(&address, &own, &bytes);
                assert_eq!(opened.is_some(), filler == 0, "{at}");
            }
        }
    }

    /// The test vector of RFC 9180, appendix A.2.1, from the Diffie-Hellman secret to the first
    /// ciphertext.
    #[test]
    fn rfc_9180_a_2_1() {
        let sk_e = hex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600");
        let sk_r = hex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb");
        let enc =
            PublicKey(hex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a"));
        let pk_r =
            PublicKey(hex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a"));
        let fresh = EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(&sk_e));
        let own = StaticKey::from_scalar::<PortableBackend>(Secret::copy_from(&sk_r));
        assert_eq!((fresh.public_key(), own.public_key()), (&enc, &pk_r));

        let dh = fresh.diffie_hellman::<PortableBackend>(&pk_r).unwrap();
        assert_eq!(dh, own.diffie_hellman::<PortableBackend>(&enc).unwrap());
        let (key, iv) = key_schedule(&dh, &enc, &pk_r, &[b"Ode on a ", b"Grecian Urn"]);
        let key_hex = "ad2744de8e17f4ebba575b3f5f5a8fa1f69c2a07f6e7500bc60ca6e3e3ec1c91";
        assert_eq!((key.expose(), iv), (&hex(key_hex), hex("5c4d98150661b848853b547f")));

        let mut text = vec![];
        text.extend_from_slice(b"Beauty is truth, truth beauty");
        let tag = <PortableBackend as Backend>::Chacha::new(key.expose())
            .seal(&iv, b"Count-0", &mut text);
        text.extend_from_slice(&tag);
        let ct = "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db\
                  21993c62ce81883d2dd1b51a28";
        assert_eq!(HEXLOWER.encode(&text), ct);
    }
}
