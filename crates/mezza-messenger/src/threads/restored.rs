//! Threads, as far as backups and inventories are concerned.

use super::{ContactId, NoteId, Threads, WaitReason, Window, Windows};

impl Threads {
    /// The windows of every contact, by contact and era.
    pub fn windows(&self) -> impl Iterator<Item = (ContactId, &Windows)> {
        self.all
            .iter()
            .flat_map(|(id, thread)| thread.windows.values().map(move |windows| (*id, windows)))
    }

    /// The numbers of each era of a contact that have arrived.
    pub fn arrived_windows(&self, contact: ContactId) -> impl Iterator<Item = &Window> {
        let windows = self.all.get(&contact).into_iter().flat_map(|thread| thread.windows.values());
        windows.map(|(arrived, _)| arrived)
    }

    /// Marks a note as waiting for the user: a restore has left it open.
    pub fn hold(&mut self, id: NoteId) {
        if let Some(note) = self.notes.get_mut(&id) {
            note.why = WaitReason::Restored;
        }
    }
}
