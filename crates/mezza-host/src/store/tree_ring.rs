//! The keyring of the vault's key tree: a small file that is overwritten in place (HIBE-73).
//!
//! ```text
//! vault/tree.ring  0600   two slots (module `slots`) of
//!                         nonce[24] | XChaCha20-Poly1305(ring key, keyring of hibe)
//! ```
//!
//! The ring key is keyed BLAKE2b-256(MK, "mezza/vault/hibe"). The records that the keyring names
//! are rows of the vault.

use std::path::{Path, PathBuf};

use mezza_core::{CryptoRng, Secret, Wiping};
use mezza_hibe::wire::ring::RING_BYTES_MAX;

use super::aead::{self, NONCE_BYTES, SEAL_BYTES};
use super::head::MasterKey;
use crate::api::Fault;
use crate::process::slots::SlotFile;

/// The file in the folder of the vault.
pub(super) const FILE: &str = "tree.ring";
/// The purpose of the ring key, and the additional data.
const PURPOSE: &str = "mezza/vault/hibe";
/// Bytes of a sealed keyring.
const SEALED_BYTES_MAX: usize = SEAL_BYTES + RING_BYTES_MAX;

/// The file with the keyring of the tree, if there is one.
pub(super) struct TreeRing {
    path: PathBuf,
    key: Secret<32>,
}

impl TreeRing {
    /// Makes the access to the file in the folder of a vault.
    pub(super) fn new(dir: &Path, master: &MasterKey) -> Self {
        Self { path: dir.join(FILE), key: master.derive(PURPOSE) }
    }

    /// Returns the keyring. `None` if there is no file, or if it does not open: the tree is then
    /// quarantined, and the vault opens (HIBE-93).
    pub(super) fn read(&self) -> Option<Wiping<Vec<u8>>> {
        self.path.symlink_metadata().ok()?;
        let file = SlotFile::open(&self.path, SEALED_BYTES_MAX);
        let opened = file.and_then(|file| {
            file.finish_step()?;
            file.read()
        });
        match opened {
            Ok(sealed) => aead::open(&self.key, PURPOSE.as_bytes(), &sealed),
            Err(fault) => {
                tracing::warn!(target: "mezza", "the keyring of the tree: {fault}");
                None
            }
        }
    }

    /// Replaces the keyring; no block of the file holds an older one afterwards.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(super) fn write(&self, keyring: &[u8], rng: &mut dyn CryptoRng) -> Result<(), Fault> {
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let sealed = aead::seal(&self.key, &nonce, PURPOSE.as_bytes(), keyring)?;
        if self.path.symlink_metadata().is_err() {
            return SlotFile::create(&self.path, SEALED_BYTES_MAX, &sealed).map(drop);
        }
        SlotFile::open(&self.path, SEALED_BYTES_MAX)?.write(&sealed)
    }
}
