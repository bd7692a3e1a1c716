//! One entry of a bundle: the signed prekey of one suite.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, PublicKey, Reader, Suite, SuiteId, Writer, blake2b};

use crate::suite::kem::KEM_KEY_BYTES;
use crate::suite::{self, B2c20};
use crate::{IdentityKey, IdentityKeyPair, SuiteList, xeddsa};

/// Bytes of an entry of suite 0x0101 after its length field.
const ENTRY_BYTES: usize = 104;

/// A signed prekey in a bundle.
pub(crate) struct SignedPrekeyEntry {
    pub(crate) suite: SuiteId,
    pub(crate) spk_id: u32,
    pub(crate) spk: PublicKey,
    /// The end of the bundle in minutes since 1970.
    pub(crate) not_after: u32,
    pub(crate) signature: [u8; 64],
    /// The KEM key; present only in a post-quantum suite.
    pub(crate) kem: Option<KemKey>,
}

/// A KEM key in a bundle.
pub(crate) struct KemKey {
    pub(crate) id: u32,
    /// The public KEM key, 1,568 bytes.
    pub(crate) key: Vec<u8>,
}

impl SignedPrekeyEntry {
    /// Signs the entry and returns the signature, 64 bytes. The signature field of the entry must
    /// still be empty.
    pub(crate) fn sign(
        mut self,
        identity: &IdentityKeyPair,
        list: &SuiteList,
        rng: &mut dyn CryptoRng,
    ) -> [u8; 64] {
        self.signature =
            identity.sign::<<B2c20 as Suite>::SignatureHash>(&[&self.signed_bytes(list)], rng);
        self.signature
    }

    pub(super) fn verify(&self, identity: &IdentityKey, list: &SuiteList) -> bool {
        let signed = self.signed_bytes(list);
        xeddsa::verify::<<B2c20 as Suite>::SignatureHash>(identity, &[&signed], &self.signature)
    }

    /// Returns the bytes that the signature covers.
    fn signed_bytes(&self, list: &SuiteList) -> Vec<u8> {
        let mut digest = [0; 32];
        blake2b(&mut digest, &[], "b2c20 list", &[&list.encode()]);
        let mut writer = Writer::with_capacity(88 + self.kem_bytes());
        writer.put_bytes(b"b2c20 bundle 1").put_u16(self.suite.0).put_bytes(&digest);
        writer.put_u32(self.spk_id).put_bytes(&self.spk.0).put_u32(self.not_after);
        self.write_kem(&mut writer);
        writer.finish()
    }

    pub(super) fn read_from(reader: &mut Reader<'_>, suite: SuiteId) -> Result<Self, DecodeError> {
        let spk_id = reader.read_u32()?;
        let spk = PublicKey::read_from(reader)?;
        let not_after = reader.read_u32()?;
        let signature = reader.read_array()?;
        let kem = match suite::kem(suite) {
            Some(_) => Some(KemKey {
                id: reader.read_u32()?,
                key: reader.read_bytes(KEM_KEY_BYTES)?.to_vec(),
            }),
            None => None,
        };
        Ok(Self { suite, spk_id, spk, not_after, signature, kem })
    }

    pub(super) fn write_to(&self, writer: &mut Writer) {
        writer.put_u16(self.suite.0).put_u16((ENTRY_BYTES + self.kem_bytes()) as u16);
        writer
            .put_u32(self.spk_id)
            .put_bytes(&self.spk.0)
            .put_u32(self.not_after)
            .put_bytes(&self.signature);
        self.write_kem(writer);
    }

    fn write_kem(&self, writer: &mut Writer) {
        if let Some(kem) = &self.kem {
            writer.put_u32(kem.id).put_bytes(&kem.key);
        }
    }

    fn kem_bytes(&self) -> usize {
        self.kem.as_ref().map_or(0, |_| 4 + KEM_KEY_BYTES)
    }
}
