//! Notes that the reader lacks although it has later ones (MSG-93).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use super::Outbox;
use crate::io::{ContactId, DateStep, NoteId};
use crate::receipt::Receipt;

/// Milliseconds that a note may be on its way over a slower carrier before it counts as missing.
const UNDER_WAY_MS: u64 = 10 * Time::MINUTE_MS;
/// Most times that a missing note is sealed again. Not stored: a restart counts from 0.
const REPEATS_MAX: u8 = 3;

/// Number and time of the last repetitions of each missing note.
#[derive(Default)]
pub(super) struct Repeats(BTreeMap<NoteId, (u8, Time)>);

snapshot!(struct Repeats(times));

impl Repeats {
    /// Returns true if a missing note may be sealed again, and counts the repetition.
    fn count_repeat(&mut self, note: NoteId, now: Time) -> bool {
        let (times, last) = self.0.entry(note).or_insert((0, Time::from_ms(0)));
        // A clock that went back delays a repetition by at most 10 minutes.
        let rests = now >= *last && now.since_ms(*last) < UNDER_WAY_MS;
        // Three repeats, at most one in 10 minutes (MSG-93).
        if *times >= REPEATS_MAX || rests {
            return false;
        }
        (*times, *last) = (*times + 1, now);
        true
    }

    /// Moves the stored times after a correction of the date.
    pub(super) fn apply_date_step(&mut self, date: &DateStep) {
        self.0.values_mut().for_each(|(_, last)| *last = date.shift_running(*last));
    }

    /// Forgets the repetitions of a note that has arrived or was given up.
    pub(super) fn forget_note(&mut self, note: NoteId) {
        self.0.remove(&note);
    }
}

impl Outbox {
    /// Returns our notes that a receipt does not confirm, although it covers them or a later one,
    /// and that are in no parcel.
    pub fn left_out(&self, contact: ContactId, receipt: &Receipt) -> Vec<NoteId> {
        let range = (contact, 0)..=(contact, receipt.highest_seq());
        let open = self.unreceipted[0].range(range).filter(|(_, (_, voided))| !voided);
        let open = open.map(|(_, (note, _))| *note);
        let held = |note: &NoteId| {
            let of = |(_, parcel): (_, &super::Parcel)| parcel.note == Some(*note);
            // A waiting note or a parcel is already the repetition.
            self.waiting.contains(&(contact, *note)) || self.parcels_of(contact).any(of)
        };
        open.filter(|note| !held(note)).collect()
    }

    /// Queues a missing note for sealing, if it left at least 10 minutes ago. Returns true if it
    /// was queued.
    pub fn repeat_missing(
        &mut self,
        contact: ContactId,
        note: NoteId,
        left: Time,
        now: Time,
    ) -> bool {
        // 10 minutes allow for another carrier that is slower (MSG-93).
        let under_way = now >= left && now.since_ms(left) < UNDER_WAY_MS;
        if under_way || !self.repeats.count_repeat(note, now) {
            return false;
        }
        self.waiting.insert((contact, note))
    }
}
