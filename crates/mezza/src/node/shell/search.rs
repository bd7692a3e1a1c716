//! Search in the notes of an unlocked device.

use mezza_messenger::view::ContactState;
use mezza_messenger::{ContactId, NoteId};

use super::NodeShell;
use mezza_host::api::json::{self, NoteJson};
use mezza_host::api::{Refused, views};

/// Maximum size of a text to look for, in bytes.
const QUERY_BYTES_MAX: usize = 256;
/// Maximum number of notes in one response.
const FOUND_MAX: usize = 100;
/// Notes that are read of a thread at once.
const PAGE: usize = 200;

impl NodeShell {
    /// Returns the newest notes that contain a text, in one thread or in all. Upper and lower case
    /// are the same. Threads of unknown senders are not searched.
    ///
    /// # Errors
    /// An empty or too long text, an unknown contact, or a locked vault.
    pub fn search_notes(
        &self,
        text: &str,
        only: Option<ContactId>,
    ) -> Result<json::FoundNotes, Refused> {
        let device = self.unlocked_device()?;
        let wanted = text.trim().to_lowercase();
        if wanted.is_empty() || text.len() > QUERY_BYTES_MAX {
            let next = "look for 1 to 256 bytes";
            return Err(Refused::malformed("the text to look for is empty or too long", next));
        }
        if let Some(id) = only {
            device.contact(id).ok_or_else(Refused::no_contact)?;
        }
        let known = device.contacts().into_iter().filter(|of| of.standing != ContactState::Request);
        let ids = known.map(|of| of.id).filter(|id| only.is_none_or(|only| only == *id));
        let mut notes: Vec<NoteJson> =
            ids.flat_map(|id| self.find_in_thread(id, &wanted)).collect();
        notes.sort_by_key(|note| std::cmp::Reverse(note.at_ms));
        let more = notes.len() > FOUND_MAX;
        notes.truncate(FOUND_MAX);
        Ok(json::FoundNotes { notes, more })
    }

    /// Returns the newest notes of a thread that contain a text, one more than fit in a response.
    fn find_in_thread(&self, contact: ContactId, wanted: &str) -> Vec<NoteJson> {
        let Ok(device) = self.unlocked_device() else { return Vec::new() };
        let mut found = Vec::new();
        let mut before: Option<NoteId> = None;
        while found.len() <= FOUND_MAX {
            let page = device.thread(contact, before, PAGE, self.date());
            let Some(oldest) = page.first() else { break };
            before = Some(oldest.id);
            let notes = page.iter().rev().map(views::describe_note);
            let has = |note: &NoteJson| {
                note.text.as_ref().is_some_and(|text| text.to_lowercase().contains(wanted))
            };
            found.extend(notes.filter(has));
        }
        found.truncate(FOUND_MAX + 1);
        found
    }
}
