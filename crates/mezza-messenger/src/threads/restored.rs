//! Threads, as far as backups and inventories are concerned.

use super::{ContactId, NoteId, Threads, WaitReason, Window, Windows};

impl Threads {
    /// Returns the windows of every contact, by contact and era.
    pub fn windows(&self) -> impl Iterator<Item = (ContactId, &Windows)> {
        self.all
            .iter()
            .flat_map(|(id, thread)| thread.windows.values().map(move |windows| (*id, windows)))
    }

    /// Returns the windows of arrived notes of each era of a contact.
    pub fn arrived_windows(&self, contact: ContactId) -> impl Iterator<Item = &Window> {
        let windows = self.all.get(&contact).into_iter().flat_map(|thread| thread.windows.values());
        windows.map(|(arrived, _)| arrived)
    }

    /// Makes a note wait for the user's decision, because its fate is unknown after a restore.
    pub fn hold(&mut self, id: NoteId) {
        if let Some(note) = self.notes.get_mut(&id) {
            note.why = WaitReason::Restored;
        }
    }
}
