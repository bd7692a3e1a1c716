//! A correction of the date moves the times of parcels and notes on their way out (MSG-104).

use alloc::vec::Vec;

use mezza_core::Time;

use super::Outbox;
use crate::io::{ContactId, DateStep, Due, ParcelId, Step};

impl Outbox {
    /// Moves waits and paces with the date, so that a correction ends none of them. Until when a parcel
    /// can be opened is a date that its reader gave, and stays.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time, step: &mut Step) {
        for contact in self.lanes.keys().copied().collect::<Vec<ContactId>>() {
            let Some(lane) = self.lanes.get_mut(&contact) else { continue };
            lane.receipts.apply_date_step(date);
            lane.repeats.apply_date_step(date);
            lane.oldest.apply_date_step(date);
            lane.timer.apply_date_step(date);
            if lane.again.apply_date_step(date, now) {
                step.set_timer(Due::Again(contact), lane.again.due());
                self.put_lane(contact, step);
            }
        }
        self.repeats.apply_date_step(date);
        for id in self.parcels.keys().copied().collect::<Vec<ParcelId>>() {
            self.update_parcel(id, now, step, |parcel| {
                parcel.after = date.shift_running(parcel.after);
            });
        }
    }
}
