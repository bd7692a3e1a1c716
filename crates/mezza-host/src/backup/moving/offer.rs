//! The offer of a move over a network, and the proofs of its two devices (BACKUP-33, BACKUP-34).
//!
//! ```text
//! offer        age v1 file to the recipient: S[32] | bytes u64 | BLAKE2b-256 of the file
//! commitment   BLAKE2b-256 of R[32], which the new device draws for each connection
//! digits       first 8 bytes of HMAC-SHA-256(S, "digits" | R | hash of the file), modulo 10^8
//! proof        HMAC-SHA-256(S, "stored" | R | hash) and HMAC-SHA-256(S, "made" | R | hash)
//! ```
//!
//! Only the holder of the recipient's private key can open an offer, and so prove anything about the file.
//! The commitment comes before the offer, and `R` after the file: no party on the way can search for a file
//! with the same digits.

use std::path::Path;

use aws_lc_rs::hmac;
use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest as _};
use mezza_core::{CryptoRng, PublicKey, Secret};

use super::{DIGITS, HASH_BYTES, hash_file, own_key};
use crate::api::Fault;
use crate::backup::FILE_BYTES_MAX;
use crate::backup::age::{BackupKey, Identity, Recipient};
use crate::backup::chunks::{ChunkReader, ChunkWriter};
use crate::process::home::private;

/// Bytes of the nonce of a connection, of its commitment, and of a proof.
pub const PROOF_BYTES: usize = 32;
/// Most bytes of a sealed offer; one of ours has about 300.
pub const OFFER_BYTES_MAX: usize = 1 << 10;

/// The nonce that the new device draws for a connection.
pub type MoveNonce = [u8; PROOF_BYTES];

/// A step of the new device that it proves to the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// The whole file is durable.
    Stored,
    /// The vault is made.
    Made,
}

impl MoveStep {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Stored => b"stored",
            Self::Made => b"made",
        }
    }
}

/// The description of a file that the old device sends ahead of it.
pub struct MoveOffer {
    secret: Secret<32>,
    file_bytes: u64,
    hash: [u8; HASH_BYTES],
}

impl MoveOffer {
    /// Describes a file, with a new secret.
    ///
    /// # Errors
    /// 66 if the file cannot be read.
    pub fn describe_file(file: &Path, rng: &mut dyn CryptoRng) -> Result<Self, Fault> {
        let found = file.metadata().map_err(|error| private::cannot_read(file, &error))?;
        Ok(Self::new(found.len(), hash_file(file)?, rng))
    }

    /// Makes an offer of a file with this length in bytes and this BLAKE2b-256.
    pub fn new(file_bytes: u64, hash: [u8; HASH_BYTES], rng: &mut dyn CryptoRng) -> Self {
        Self { secret: Secret::random(rng), file_bytes, hash }
    }

    /// Seals the offer to the recipient that the new device shows.
    ///
    /// # Errors
    /// 77 if the recipient is no key.
    pub fn seal(&self, recipient: &PublicKey, rng: &mut dyn CryptoRng) -> Result<Vec<u8>, Fault> {
        let key = BackupKey::draw(&Recipient::Key(recipient), rng)?;
        let mut chunks = ChunkWriter::begin(Vec::new(), &key, rng)?;
        chunks.put(self.secret.expose())?;
        chunks.put(&self.file_bytes.to_be_bytes())?;
        chunks.put(&self.hash)?;
        chunks.finish()
    }

    /// Opens an offer with the key of the new device, which has its folder at `dir`. Returns `None` if the
    /// offer is for another device, or no offer.
    pub fn open(dir: &Path, sealed: &[u8]) -> Option<Self> {
        let own = own_key(dir).ok()?;
        let mut input = sealed;
        let key = BackupKey::open(&mut input, &Identity::Key(&own)).ok()?;
        let mut chunks = ChunkReader::begin(input, &key).ok()?;
        let mut secret = zeroize::Zeroizing::new([0; 32]);
        let mut file_bytes = [0; 8];
        let mut hash = [0; HASH_BYTES];
        chunks.take(&mut *secret).ok()?;
        chunks.take(&mut file_bytes).ok()?;
        chunks.take(&mut hash).ok()?;
        let secret = Secret::copy_from(&secret);
        let offer = Self { secret, file_bytes: u64::from_be_bytes(file_bytes), hash };
        chunks.is_at_end().then_some(offer)
    }

    /// Returns the length of the file, or `None` if no device makes a file of this length.
    pub fn file_bytes(&self) -> Option<u64> {
        Some(self.file_bytes).filter(|bytes| *bytes <= FILE_BYTES_MAX)
    }

    /// Returns the BLAKE2b-256 of the file.
    pub fn file_hash(&self) -> &[u8; HASH_BYTES] {
        &self.hash
    }

    /// Returns true if a file is the one of this offer.
    ///
    /// # Errors
    /// 66 if the file cannot be read.
    pub fn is_of_file(&self, file: &Path) -> Result<bool, Fault> {
        hash_file(file).map(|hash| hash == self.hash)
    }

    /// Returns the digits that both devices compute for one connection.
    pub fn digits(&self, nonce: &MoveNonce) -> String {
        let tag = hmac::sign(&self.mac_key(), &self.covered(b"digits", nonce));
        let first = tag.as_ref().iter().take(8);
        let number = first.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("{:08}", number % 10_u64.pow(DIGITS))
    }

    /// Returns the proof of a step, 32 bytes.
    pub fn prove(&self, step: MoveStep, nonce: &MoveNonce) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.mac_key(), &self.covered(step.label(), nonce));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    /// Returns true if a proof is the one of this step. The time of the comparison is constant.
    pub fn verify(&self, step: MoveStep, nonce: &MoveNonce, proof: &[u8]) -> bool {
        hmac::verify(&self.mac_key(), &self.covered(step.label(), nonce), proof).is_ok()
    }

    fn mac_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.secret.expose())
    }

    fn covered(&self, label: &[u8], nonce: &MoveNonce) -> Vec<u8> {
        [label, nonce, &self.hash].concat()
    }
}

/// Returns the commitment to a nonce.
pub fn commit_to_nonce(nonce: &MoveNonce) -> [u8; PROOF_BYTES] {
    Blake2b::<U32>::digest(nonce).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::prepare_move;
    use crate::process::rng::OsRng;

    /// Only the device that drew the recipient opens an offer, and its proofs are those of one file, one
    /// connection and one step.
    #[test]
    fn backup_34_an_offer_opens_on_one_device_and_proves_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
        let recipient = prepare_move(&own, &mut OsRng).unwrap();
        prepare_move(&other, &mut OsRng).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"a vault").unwrap();
        let sent = MoveOffer::describe_file(&file, &mut OsRng).unwrap();
        let sealed = sent.seal(&recipient, &mut OsRng).unwrap();
        assert!(sealed.len() <= OFFER_BYTES_MAX);
        assert!(MoveOffer::open(&other, &sealed).is_none());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(MoveOffer::open(&own, &changed).is_none(), "byte {at}");
            assert!(MoveOffer::open(&own, &sealed[..at]).is_none(), "{at} bytes");
        }
        let received = MoveOffer::open(&own, &sealed).unwrap();
        assert_eq!(received.file_bytes(), Some(7));
        assert!(received.is_of_file(&file).unwrap());
        let [here, elsewhere] = [[1; PROOF_BYTES], [2; PROOF_BYTES]];
        let proof = received.prove(MoveStep::Stored, &here);
        assert!(sent.verify(MoveStep::Stored, &here, &proof));
        assert!(!sent.verify(MoveStep::Made, &here, &proof));
        assert!(!sent.verify(MoveStep::Stored, &elsewhere, &proof));
        assert_eq!(sent.digits(&here), received.digits(&here));
        assert_ne!(sent.digits(&here), sent.digits(&elsewhere));
        assert_eq!(sent.digits(&here).len(), 8);
        std::fs::write(&file, b"A vault").unwrap();
        assert!(!received.is_of_file(&file).unwrap());
    }

    /// The digits depend on a nonce that the new device reveals after the file: a party on the way cannot
    /// choose it to fit.
    #[test]
    fn backup_34_a_commitment_binds_the_nonce() {
        assert_ne!(commit_to_nonce(&[1; PROOF_BYTES]), commit_to_nonce(&[2; PROOF_BYTES]));
        assert_ne!(commit_to_nonce(&[1; PROOF_BYTES]), [1; PROOF_BYTES]);
    }
}
