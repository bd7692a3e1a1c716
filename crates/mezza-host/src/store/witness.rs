//! The witness of a vault: the progress of its mixnet ledger and note numbers, stored outside of
//! its folder, so that a restored older copy of the folder is detected (MSG-63, MSG-91).
//!
//! ```text
//! vault   block u64, sealed like any record       the block of commits that it is in
//! file    block u64 | settled u8, sealed          FOLDER/NAME, both from the vault's master key
//!
//! claim   file k + 1, open --> vault k + 1 --> file k + 1, settled
//! ```
//!
//! A block is [`BLOCK`] commits that contain rows of the mixnet's client (with the charges of the
//! privacy ledger), rows that give notes their numbers, or prekeys, which the relay issues. Each
//! opening begins a new block. A crash may happen between any two steps of a claim. A copy restored
//! within the block of its making is not detected, nor is one restored together with its witness.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use mezza_core::{DecodeError, Reader, Secret, Wiping, blake2b};
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};
use rand_core::Rng as _;

use super::aead::{self, NONCE_BYTES, SEAL_BYTES};
use super::{Record, Vault};
use crate::api::Fault;
use crate::process::home::private;
use crate::process::rng::OsRng;

/// Number of commits per block.
pub(crate) const BLOCK: u32 = 64;
/// The kind of the vault's record of the block.
const KIND: RecordKind = RecordKind::Setting;
const KEY: &[u8] = b"witness";
/// Additional data of the file.
const AAD: &[u8] = b"mezza/witness";
/// Bytes of the file.
const FILE_BYTES: usize = 9 + SEAL_BYTES;

/// A vault's witness: the file outside of the vault's folder that shows if an older copy was
/// restored.
#[derive(Debug)]
pub struct Witness {
    path: PathBuf,
    key: Secret<32>,
    /// The block that the vault has reached.
    block: u64,
    /// Commits left in this block.
    left: u32,
    doubt: Doubt,
    commit: Commit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// The vault is as new as its witness.
    None,
    /// The vault may be an older copy: the file is missing or damaged, or names this block, which
    /// the vault has not reached.
    Of(u64),
}

/// The kind of the current commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    /// A commit without rows that count.
    Other,
    /// A further commit of the block.
    Row,
    /// The commit that claims this block.
    Claim(u64),
}

impl Witness {
    /// Opens the witness in `folder` for a vault that has just been opened and holds `records`.
    pub fn open_for(folder: &Path, vault: &Vault, records: &[Record]) -> Self {
        let key = vault.outside_key().duplicate();
        let mut name = [0; 16];
        blake2b(&mut name, key.expose(), "", &[b"name"]);
        let path = folder.join(HEXLOWER.encode(&name));
        let own = records.iter().find(|(kind, key, _)| (*kind, key.as_slice()) == (KIND, KEY));
        let block = own.and_then(|(_, _, value)| <[u8; 8]>::try_from(value.as_slice()).ok());
        let block = block.map_or(0, u64::from_be_bytes);
        let doubt = match read_block(&path, &key) {
            None if block == 0 && path.symlink_metadata().is_err() => Doubt::None,
            None => Doubt::Of(block),
            Some((its, settled)) if its > block + u64::from(!settled) => Doubt::Of(its),
            Some(_) => Doubt::None,
        };
        Self { path, key, block, left: 0, doubt, commit: Commit::Other }
    }

    /// Returns true if the vault is older than its witness, or has none.
    pub fn is_doubted(&self) -> bool {
        matches!(self.doubt, Doubt::Of(_))
    }

    /// Returns the block that the vault has not reached, if the vault may be an older copy.
    pub fn doubted_block(&self) -> Option<u64> {
        match self.doubt {
            Doubt::None => None,
            Doubt::Of(block) => Some(block),
        }
    }

    /// Accepts the vault because the user decided so: it continues in a block that neither the
    /// vault nor the file has reached. Returns the batch to commit, if the vault was doubted;
    /// [`Self::after_commit`] then ends the doubt.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be written; then the doubt stays.
    pub fn accept_doubt(&mut self) -> Result<Option<WriteBatch>, Fault> {
        match self.doubt {
            Doubt::None => Ok(None),
            Doubt::Of(block) => self.claim_block(self.block.max(block) + 1).map(Some),
        }
    }

    /// Must be called before a commit of `batches`. Returns the batch to commit with them.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be written; the commit then has no witness.
    pub fn before_commit(&mut self, batches: &[WriteBatch]) -> Result<Option<WriteBatch>, Fault> {
        let is_row = |change: &RecordChange| {
            let kinds = [
                RecordKind::NetworkRow,
                RecordKind::LeftNetwork,
                RecordKind::Owed,
                RecordKind::Prekey,
            ];
            matches!(change, RecordChange::Put { kind, .. } if kinds.contains(kind))
        };
        let has_row = batches.iter().flat_map(|batch| &batch.0).any(is_row);
        self.commit = Commit::Other;
        if self.is_doubted() || !has_row {
            return Ok(None);
        }
        if self.left == 0 {
            return self.claim_block(self.block + 1).map(Some);
        }
        self.commit = Commit::Row;
        Ok(None)
    }

    /// Begins the claim of a block. Returns the batch that the vault must store.
    fn claim_block(&mut self, next: u64) -> Result<WriteBatch, Fault> {
        self.write_block(next, false)?;
        self.commit = Commit::Claim(next);
        let value = Wiping::new(next.to_be_bytes().to_vec());
        let kind = KIND;
        let key = KEY.to_vec();
        let bucket = Retention::Permanent;
        Ok(WriteBatch(vec![RecordChange::Put { kind, key, bucket, value }]))
    }

    /// Must be called after that commit, or the one of [`Self::accept_doubt`], if it succeeded.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be written; until the next block a copy from the block
    /// before this one is not detected.
    pub fn after_commit(&mut self) -> Result<(), Fault> {
        match std::mem::replace(&mut self.commit, Commit::Other) {
            Commit::Other => {}
            Commit::Row => self.left -= 1,
            Commit::Claim(block) => {
                (self.block, self.left, self.doubt) = (block, BLOCK - 1, Doubt::None);
                self.write_block(block, true)?;
            }
        }
        Ok(())
    }

    fn write_block(&self, block: u64, settled: bool) -> Result<(), Fault> {
        if let Some(folder) = self.path.parent() {
            private::make_folder(folder)?;
        }
        let mut nonce = [0; NONCE_BYTES];
        OsRng.fill_bytes(&mut nonce);
        let text = [block.to_be_bytes().as_slice(), &[u8::from(settled)]].concat();
        private::replace(&self.path, &aead::seal(&self.key, &nonce, AAD, &text)?)
    }
}

/// Returns the block in the file and true if it is settled, or `None` if its seal is invalid.
fn read_block(path: &Path, key: &Secret<32>) -> Option<(u64, bool)> {
    let bytes = private::read(path, FILE_BYTES + 1).ok()?;
    let text = aead::open(key, AAD, &bytes)?;
    Reader::decode_exact(&text, |r| Ok::<_, DecodeError>((r.read_u64()?, r.read_u8()? == 1))).ok()
}

#[cfg(test)]
mod tests;
