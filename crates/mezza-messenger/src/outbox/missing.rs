//! Notes that the reader lacks although it has later ones (MSG-93).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use super::Outbox;
use crate::io::{ContactId, DateStep, NoteId};

/// Milliseconds that a note may be on its way over a slower carrier before it counts as missing.
const UNDER_WAY_MS: u64 = 10 * Time::MINUTE_MS;
/// Most times that a missing note is sealed again. Not stored: a restart counts from 0.
const REPEATS_MAX: u8 = 3;

/// Number and time of the last repetitions of each missing note.
#[derive(Default)]
pub(super) struct Repeats(BTreeMap<NoteId, (u8, Time)>);

snapshot!(struct Repeats(times));

/// The time at which a missing note is sealed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepeatTime {
    /// The note was queued for sealing.
    Now,
    /// The note may still arrive: it is looked at again at this time.
    Later(Time),
    /// The note was repeated as often as it may be.
    Never,
}

impl Repeats {
    /// Counts the repetition of a missing note that left at `left`, if it may be sealed again now.
    fn count_repeat(&mut self, note: NoteId, left: Time, now: Time) -> RepeatTime {
        // A clock that went back delays a repetition by at most 10 minutes.
        let rests = |since: Time| now >= since && now.since_ms(since) < UNDER_WAY_MS;
        // 10 minutes allow for another carrier that is slower (MSG-93).
        if rests(left) {
            return RepeatTime::Later(left.plus_ms(UNDER_WAY_MS));
        }
        let (times, last) = self.0.entry(note).or_insert((0, Time::from_ms(0)));
        // Three repeats, at most one in 10 minutes (MSG-93).
        if *times >= REPEATS_MAX {
            return RepeatTime::Never;
        }
        if rests(*last) {
            return RepeatTime::Later(last.plus_ms(UNDER_WAY_MS));
        }
        (*times, *last) = (*times + 1, now);
        RepeatTime::Now
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
    /// Records that a receipt of a contact covers our notes up to and including `seq`.
    pub fn cover_notes(&mut self, contact: ContactId, seq: u32) {
        let covered = self.covered.entry(contact).or_default();
        *covered = seq.max(*covered);
    }

    /// Returns our notes that no receipt confirms, although one covers them or a later note, and
    /// that are in no parcel.
    pub fn left_out(&self, contact: ContactId) -> Vec<NoteId> {
        let Some(covered) = self.covered.get(&contact) else { return Vec::new() };
        let range = (contact, 0)..=(contact, *covered);
        let open = self.unreceipted[0].range(range).filter(|(_, (_, voided))| !voided);
        let open = open.map(|(_, (note, _))| *note);
        let held = |note: &NoteId| {
            let of = |(_, parcel): (_, &super::Parcel)| parcel.note == Some(*note);
            // A waiting note or a parcel is already the repetition.
            self.waiting.contains(&(contact, *note)) || self.parcels_of(contact).any(of)
        };
        open.filter(|note| !held(note)).collect()
    }

    /// Queues a missing note that left at `left` for sealing, if it may be repeated now.
    pub fn repeat_missing(
        &mut self,
        contact: ContactId,
        note: NoteId,
        left: Time,
        now: Time,
    ) -> RepeatTime {
        let when = self.repeats.count_repeat(note, left, now);
        if when == RepeatTime::Now {
            self.waiting.insert((contact, note));
            // A note at the end of the reader's window is not sent twice (section 8).
            if let Some(lane) = self.lanes.get_mut(&contact) {
                let _ = lane.oldest.take_turn(now);
            }
        }
        when
    }
}
