//! A correction of the date moves the times of parcels and notes on their way out (MSG-104).

use alloc::vec::Vec;

use mezza_core::Time;

use super::Outbox;
use crate::io::{ContactId, DateStep, Due, ParcelId, Step};

impl Outbox {
    /// Moves waits and paces with the date, so that a correction ends none of them. Until when a parcel
    /// can be opened is a date that its reader gave, and stays.
    pub fn correct(&mut self, date: &DateStep, now: Time, step: &mut Step) {
        for contact in self.lanes.keys().copied().collect::<Vec<ContactId>>() {
            let Some(lane) = self.lanes.get_mut(&contact) else { continue };
            lane.receipts.correct(date);
            lane.repeats.correct(date);
            lane.oldest.correct(date);
            lane.timer.correct(date);
            if lane.again.correct(date, now) {
                step.timer(Due::Again(contact), lane.again.due());
                self.put(contact, step);
            }
        }
        self.repeats.correct(date);
        for id in self.parcels.keys().copied().collect::<Vec<ParcelId>>() {
            self.change(id, now, step, |parcel| parcel.after = date.running(parcel.after));
        }
    }
}
