//! Pairing with six digits that two users compare: commit, respond, open (Vaudenay, CRYPTO 2005;
//! Pasini and Vaudenay, PKC 2006), with hashes as commitments.
//!
//! ```text
//! c      = SHA-512("seka1 commit" | S1[0..36] | m1 | r_I)[..32]
//! digits = u64be(SHA-512("seka1 sas" | S1 | S2 | S3)[..8]) mod 10^6
//! ```

use core::fmt;

use sha2::{Digest, Sha512};

use crate::keys::CanonicalPoint;

/// Bytes of S1 that the commitment covers.
const COMMITTED_BYTES: usize = 36;
/// The number of different digit strings.
const DIGITS_MAX: u64 = 1_000_000;

/// Six digits that both users compare; shown as `123 456`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SasDigits(u32);

impl SasDigits {
    /// Computes the digits of three frames.
    pub fn from_frames(s1: &[u8], s2: &[u8], s3: &[u8]) -> Self {
        let digest = Sha512::new()
            .chain_update(b"seka1 sas")
            .chain_update(s1)
            .chain_update(s2)
            .chain_update(s3)
            .finalize();
        let head = digest.iter().take(8).fold(0_u64, |head, byte| (head << 8) | u64::from(*byte));
        // 2^64 is not a multiple of 10^6: the bias is below 2^-44.
        Self((head % DIGITS_MAX) as u32)
    }

    /// Returns the number, below 1,000,000.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for SasDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03} {:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

/// Computes the initiator's commitment to its key and random bytes, 32 bytes. Only the first 36
/// bytes of S1 are used, so S1 may still lack the commitment.
pub fn compute_commitment(s1: &[u8], m1: &CanonicalPoint, coins: &[u8; 16]) -> [u8; 32] {
    let digest = Sha512::new()
        .chain_update(b"seka1 commit")
        .chain_update(&s1[..COMMITTED_BYTES.min(s1.len())])
        .chain_update(m1.as_bytes())
        .chain_update(coins)
        .finalize();
    let mut commitment = [0; 32];
    commitment.copy_from_slice(&digest[..32]);
    commitment
}
