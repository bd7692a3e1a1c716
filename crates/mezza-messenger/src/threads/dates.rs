//! Notes after a correction of the date (MSG-104).

use alloc::vec::Vec;

use mezza_core::Time;

use super::{Threads, store_note};
use crate::evidence::FactKind;
use crate::io::{DateStep, Due, Effects, Event, NoteId};
use crate::threads::StoredNote;

impl Threads {
    /// Moves the stored times of notes and their facts, and with them their ends.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time, effects: &mut Effects) {
        for id in self.notes.keys().copied().collect::<Vec<NoteId>>() {
            let Some(note) = self.notes.get_mut(&id) else { continue };
            if !correct_note_dates(note, date, now) {
                continue;
            }
            store_note(id, note, effects);
            effects.set_timer(Due::Note(id), note.due());
            effects.show(Event::State(note.contact, id));
        }
    }
}

/// Moves the times of one note. Returns true if one changed.
fn correct_note_dates(note: &mut StoredNote, date: &DateStep, now: Time) -> bool {
    let before = (note.at, note.sent, note.due);
    note.at = date.shift_moment(note.at, now);
    // A note that was never sealed gets a new date for its reader. For a sealed note the reader may
    // have the digest, which includes the old date (MSG-95).
    if !note.incoming && note.seq == 0 && !note.again {
        note.sent = date.shift_moment(note.sent, now);
    }
    // The end of the carrier's attempts is counted from its handover.
    let handed = note.facts.iter().rev().find(|fact| fact.what == FactKind::Handed);
    if handed.is_some_and(|fact| date.shift_moment(fact.at, now) != fact.at) {
        note.due = note.due.map(|due| date.shift_running(due));
    }
    let mut moved = before != (note.at, note.sent, note.due);
    for fact in &mut note.facts {
        let at = date.shift_moment(fact.at, now);
        moved |= fact.at != at;
        fact.at = at;
    }
    moved
}
