//! Notes that the reader lacks although it has later ones (MSG-93).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use super::Outbox;
use crate::io::{ContactId, DateStep, NoteId};
use crate::receipt::Receipt;

/// How long a note may be under way, by another carrier than a later one, before it counts as missing.
const UNDER_WAY_MS: u64 = 10 * Time::MINUTE_MS;
/// How often a missing note is sealed once more; a restart begins anew.
const REPEATS_MAX: u8 = 3;

/// When missing notes were last sealed once more, and how often.
#[derive(Default)]
pub(super) struct Repeats(BTreeMap<NoteId, (u8, Time)>);

snapshot!(struct Repeats(times));

impl Repeats {
    /// Returns true if a note that is missing may be sealed once more; if so, it is counted.
    fn count_repeat(&mut self, note: NoteId, now: Time) -> bool {
        let (times, last) = self.0.entry(note).or_insert((0, Time::from_ms(0)));
        // A clock that was put back holds nothing up for longer than that.
        let rests = now >= *last && now.since_ms(*last) < UNDER_WAY_MS;
        // Three repeats, at most one in 10 minutes (MSG-93).
        if *times >= REPEATS_MAX || rests {
            return false;
        }
        (*times, *last) = (*times + 1, now);
        true
    }

    /// The date was corrected.
    pub(super) fn apply_date_step(&mut self, date: &DateStep) {
        self.0.values_mut().for_each(|(_, last)| *last = date.shift_running(*last));
    }

    /// A note has arrived, or is given up.
    pub(super) fn forget_note(&mut self, note: NoteId) {
        self.0.remove(&note);
    }
}

impl Outbox {
    /// Own notes that a receipt does not prove though it stands for them or for a later one, and that
    /// no parcel holds.
    pub fn left_out(&self, contact: ContactId, receipt: &Receipt) -> Vec<NoteId> {
        let range = (contact, 0)..=(contact, receipt.highest_seq());
        let open = self.unreceipted[0].range(range).filter(|(_, (_, voided))| !voided);
        let open = open.map(|(_, (note, _))| *note);
        let held = |note: &NoteId| {
            let of = |(_, parcel): (_, &super::Parcel)| parcel.note == Some(*note);
            // A parcel in progress is the repetition already.
            self.waiting.contains(&(contact, *note)) || self.parcels_of(contact).any(of)
        };
        open.filter(|note| !held(note)).collect()
    }

    /// Has a missing note sealed once more, if it left long enough ago; whether it is.
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
