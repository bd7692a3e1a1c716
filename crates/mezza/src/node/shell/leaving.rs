//! Notes that will be deleted after a few seconds, unless the user undoes the deletion (WEB-19).
//!
//! The node keeps the time and not the page: closing the tab, a lock and the end of the program
//! delete the notes at once, and no deletion is lost.

use std::collections::BTreeMap;

use mezza_core::Time;
use mezza_messenger::{Command, NoteId};

use super::NodeShell;
use mezza_host::api::{Exit, Refused};

/// How long a deletion can be undone.
const TAKE_BACK_MS: u64 = 5 * Time::SECOND_MS;
/// Maximum number of waiting notes; a further one is deleted at once.
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
    /// Deletes a note after a few seconds. Until then the deletion can be undone.
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

    /// Undoes the deletion of a note. Returns false if the note was already deleted, or no deletion
    /// was pending.
    pub fn keep_note(&mut self, note: NoteId) -> bool {
        self.leaving.0.remove(&note).is_some()
    }

    /// Deletes the notes due by boot time, or all (`None`). After a disk error the deletion is
    /// repeated a moment later, or after the next unlock.
    pub(super) fn forget_due(&mut self, boot: Option<Time>) {
        let is_due = |end: &Time| boot.is_none_or(|boot| *end <= boot);
        let due: Vec<NoteId> =
            self.leaving.0.iter().filter(|(_, end)| is_due(end)).map(|(note, _)| *note).collect();
        for note in due {
            self.leaving.0.remove(&note);
            if let Err(refused) = self.run_command(Command::Forget { note }) {
                tracing::warn!(word = refused.word, "a note is not deleted yet");
                // Another note of this turn may have failed so that the vault is locked now.
                let is_again = refused.fault.code == Exit::CannotWrite || self.open.is_none();
                if is_again {
                    let boot = self.options.clock.boot();
                    self.leaving.0.insert(note, boot.plus_ms(TAKE_BACK_MS));
                }
            }
        }
    }
}
