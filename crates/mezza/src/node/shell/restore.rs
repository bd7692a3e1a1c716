//! Handles a vault that was restored, or came without its state folder (MSG-111):
//!
//! ```text
//! numbers, sessions, prekeys   may be those of another life: they begin anew at once (MSG-91), and the
//!                              vault goes on in the next block of its witness
//! the mixnet's budget          lacks charges that the mixnet saw: the carrier stays down until the person
//!                              decides (MSG-63), which the record `put back` remembers
//! ```

use mezza_core::Wiping;
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};

use super::UnlockedVault;
use mezza_host::store::Record;
use mezza_host::store::witness::Witness;

/// The key of the record with the last block for which note numbers began again.
const KEY: &[u8] = b"restored";
/// Key of the record that marks a privacy budget restored from a backup: charges after the backup
/// are missing from it.
const BUDGET_KEY: &[u8] = b"put back";
const KIND: RecordKind = RecordKind::Setting;

/// The result of comparing a vault with its witness, the copy of its state outside of it.
pub(super) struct Restore {
    /// True if numbers, sessions and prekeys must begin again.
    pub begins: bool,
    /// True if the mixnet's budget lacks charges.
    pub put_back: bool,
    /// The batches that store this result.
    pub batches: Vec<WriteBatch>,
    /// True if the batches claim a block of the witness.
    pub claims: bool,
}

/// Checks if this vault is older than its witness, or came without it.
pub(super) fn find_restore(witness: Option<&mut Witness>, records: &[Record]) -> Restore {
    let has =
        |wanted: &[u8]| records.iter().any(|(kind, key, _)| (*kind, &key[..]) == (KIND, wanted));
    let put_back = has(BUDGET_KEY);
    let mut restore = Restore { begins: false, put_back, batches: Vec::new(), claims: false };
    let Some(witness) = witness else { return restore };
    let Some(block) = witness.doubted_block() else { return restore };
    let block = block.to_be_bytes();
    let is_block = |(kind, key, value): &Record| {
        (*kind, &key[..], value.as_slice()) == (KIND, KEY, block.as_slice())
    };
    restore.begins = !records.iter().any(is_block);
    restore.put_back = true;
    let put = |key: &[u8]| {
        let key = key.to_vec();
        let value = Wiping::new(block.to_vec());
        RecordChange::Put { kind: KIND, key, bucket: Retention::Permanent, value }
    };
    restore.batches.push(WriteBatch(vec![put(KEY), put(BUDGET_KEY)]));
    match witness.accept_doubt() {
        Ok(claim) => {
            restore.claims = claim.is_some();
            restore.batches.extend(claim);
        }
        // The vault is still doubted, and the next start claims the block.
        Err(fault) => {
            tracing::warn!(code = fault.code.number(), "the vault's witness cannot be written");
        }
    }
    restore
}

/// Returns the batch by which the user accepts the budget stored in the vault.
pub(super) fn acceptance_batch() -> WriteBatch {
    WriteBatch(vec![RecordChange::Drop { kind: KIND, key: BUDGET_KEY.to_vec() }])
}

impl UnlockedVault {
    /// Returns the batch for the witness to commit with `batches`. If the witness fails, the commit
    /// goes on without it, because it holds notes of other carriers.
    pub(super) fn witness_batch(&mut self, batches: &[WriteBatch]) -> Option<WriteBatch> {
        if self.claims {
            // The batches contain a claim already.
            return None;
        }
        let claimed = self.witness.as_mut()?.before_commit(batches);
        claimed.unwrap_or_else(|fault| {
            tracing::warn!(code = fault.code.number(), "the vault's witness cannot be written");
            None
        })
    }

    /// Updates the witness after a successful commit.
    pub(super) fn settle_witness(&mut self) {
        self.claims = false;
        if let Some(Err(fault)) = self.witness.as_mut().map(Witness::after_commit) {
            tracing::warn!(code = fault.code.number(), "the vault's witness cannot be written");
        }
    }

    /// Returns true if the budget of the mixnet lacks charges, because the vault was older than its
    /// witness or came without one.
    pub(super) fn is_doubted(&self) -> bool {
        self.put_back || self.witness.as_ref().is_some_and(Witness::is_doubted)
    }
}
