//! Notes that are deleted in a moment, unless the person takes that back (WEB-19).
//!
//! The node keeps the end, not the page: a tab that is closed, a lock from elsewhere and the end of the
//! program delete at once what was to be deleted, and lose nothing of it.

use std::collections::BTreeMap;

use mezza_core::Time;
use mezza_messenger::{Command, NoteId};

use super::NodeShell;
use mezza_host::api::Refused;

/// How long a deletion can be taken back.
const TAKE_BACK_MS: u64 = 5 * Time::SECOND_MS;
/// Notes that wait at once; a further one is deleted without waiting.
const NOTES_MAX: usize = 256;

/// Notes with the boot time at which each is deleted.
#[derive(Default)]
pub(super) struct LeavingNotes(BTreeMap<NoteId, Time>);

impl LeavingNotes {
    /// Returns the boot time of the next deletion.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.values().min().copied()
    }
}

impl NodeShell {
    /// Deletes a note in a moment. Its deletion can be taken back until then.
    ///
    /// # Errors
    /// If the vault is locked.
    pub fn forget_soon(&mut self, note: NoteId) -> Result<(), Refused> {
        if self.open.is_none() {
            return Err(Refused::locked());
        }
        if self.leaving.0.len() >= NOTES_MAX {
            return self.run_command(Command::Forget { note });
        }
        let end = self.options.clock.boot().plus_ms(TAKE_BACK_MS);
        self.leaving.0.insert(note, end);
        Ok(())
    }

    /// Takes the deletion of a note back. Returns false if it was deleted already, or never was to be.
    pub fn keep_note(&mut self, note: NoteId) -> bool {
        self.leaving.0.remove(&note).is_some()
    }

    /// Deletes the notes that are due by boot time, or all of them (`None`). What the disk refuses is
    /// tried again a moment later.
    pub(super) fn forget_due(&mut self, boot: Option<Time>) {
        let is_due = |end: &Time| boot.is_none_or(|boot| *end <= boot);
        let due: Vec<NoteId> =
            self.leaving.0.iter().filter(|(_, end)| is_due(end)).map(|(note, _)| *note).collect();
        for note in due {
            self.leaving.0.remove(&note);
            if let Err(refused) = self.run_command(Command::Forget { note }) {
                tracing::warn!(word = refused.word, "a note is not deleted yet");
                let again =
                    boot.filter(|_| refused.fault.code == mezza_host::api::Exit::CannotWrite);
                if let Some(boot) = again {
                    self.leaving.0.insert(note, boot.plus_ms(TAKE_BACK_MS));
                }
            }
        }
    }
}
