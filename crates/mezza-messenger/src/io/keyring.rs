//! A step of the mesh keyring. Its rows are sealed under keys that lie in one small file, so that
//! replacing this file forgets keys.

use alloc::vec::Vec;

use mezza_core::{Wiping, snapshot};

use super::{RecordChange, WriteBatch};

/// Changes of a keyring and its rows. The driver makes `before` durable, then replaces the keyring
/// file, then makes `after` durable, and then reports the generation (MSG-135). A step that fails
/// is repeated with the next one, which contains its changes.
pub struct KeyringStep {
    /// The number of this state.
    pub generation: u64,
    /// Rows that the new keyring refers to.
    pub before: WriteBatch,
    /// The keyring, which replaces the earlier one as a whole. The driver seals it.
    pub keyring: Wiping<Vec<u8>>,
    /// Rows to delete, and the generation that a later start requires.
    pub after: WriteBatch,
}

snapshot!(struct KeyringStep { generation, before, keyring, after });

impl KeyringStep {
    /// Returns all changed rows, in order.
    pub fn changes(&self) -> impl Iterator<Item = &RecordChange> {
        self.before.0.iter().chain(&self.after.0)
    }
}
