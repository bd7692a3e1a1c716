//! A vault that was put back: its charges are not those that the mixnet saw, so that the carrier
//! stays down until the person decides (MSG-63), and its numbers may be those of another life, so that
//! they begin anew at once (MSG-91).

use mezza_core::Wiping;
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};

use super::UnlockedVault;
use mezza_host::store::Record;
use mezza_host::store::witness::Witness;

/// The vault's record of the last block for which its numbers began anew.
const KEY: &[u8] = b"restored";

/// What is to be stored if this vault is to begin anew: it is in doubt, and did not yet for that.
pub(super) fn of(witness: Option<&Witness>, records: &[Record]) -> Option<WriteBatch> {
    let block = witness?.doubted_block()?.to_be_bytes();
    let kind = RecordKind::Setting;
    let known = records.iter().any(|(its, key, value)| {
        (*its, key.as_slice(), value.as_slice()) == (kind, KEY, block.as_slice())
    });
    let (key, value) = (KEY.to_vec(), Wiping::new(block.to_vec()));
    let put = RecordChange::Put { kind, key, bucket: Retention::Permanent, value };
    (!known).then(|| WriteBatch(vec![put]))
}

impl UnlockedVault {
    /// The batch to commit with `batches` for the witness. Without one the commit goes on: notes
    /// of other carriers are in it.
    pub(super) fn witnessed(&mut self, batches: &[WriteBatch]) -> Option<WriteBatch> {
        let claimed = self.witness.as_mut()?.before(batches);
        claimed.unwrap_or_else(|fault| {
            tracing::warn!(code = fault.code.number(), "the vault's witness cannot be written");
            None
        })
    }

    /// The commit succeeded.
    pub(super) fn settled(&mut self) {
        if let Some(Err(fault)) = self.witness.as_mut().map(Witness::after) {
            tracing::warn!(code = fault.code.number(), "the vault's witness cannot be written");
        }
    }

    /// Whether the vault is older than its witness, or came without it.
    pub(super) fn is_doubted(&self) -> bool {
        self.witness.as_ref().is_some_and(Witness::is_doubted)
    }
}
