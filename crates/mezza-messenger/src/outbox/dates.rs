//! Correction of the times of parcels and queued notes after a change of the date (MSG-104).

use alloc::vec::Vec;

use mezza_core::Time;

use super::Outbox;
use crate::io::{ContactId, DateStep, Due, Effects, ParcelId};

impl Outbox {
    /// Moves waiting times and rate limits with the date, so that a correction ends none of them.
    /// The end of a parcel's lifetime was set by its recipient and is not moved.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time, effects: &mut Effects) {
        for contact in self.lanes.keys().copied().collect::<Vec<ContactId>>() {
            let Some(lane) = self.lanes.get_mut(&contact) else { continue };
            lane.receipts.apply_date_step(date);
            lane.repeats.apply_date_step(date);
            lane.oldest.apply_date_step(date);
            lane.timer.apply_date_step(date);
            if lane.again.apply_date_step(date, now) {
                effects.set_timer(Due::Again(contact), lane.again.due());
                self.put_lane(contact, effects);
            }
        }
        self.repeats.apply_date_step(date);
        for id in self.parcels.keys().copied().collect::<Vec<ParcelId>>() {
            self.update_parcel(id, now, effects, |parcel| {
                parcel.after = date.shift_running(parcel.after);
            });
        }
    }
}
