//! A timer that we set, until the contact is known to have it (MSG-105, MSG-106).
//!
//! ```text
//! settled --the person sets it--> open --a receipt, or a note of the contact shows it--> settled
//!                                  --the contact's own one is shorter--> settled by that one
//! ```

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use super::Outbox;
use crate::io::{ContactId, DateStep, Pace, Step, read_flag};
use crate::note::{Item, Note};

/// Between two times that it is said again because a note of the contact shows another one.
const AGAIN_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// True if the contact is known to have our timer.
#[derive(Clone, Debug)]
pub(crate) struct TimerState {
    open: bool,
    /// The last note with a number that said it; 0: none.
    said_in: u32,
    // Not stored: a restart begins anew.
    again: Pace,
}

snapshot!(struct TimerState { open, said_in, again });

impl Default for TimerState {
    fn default() -> Self {
        Self { open: false, said_in: 0, again: Pace::new(1, AGAIN_EVERY_MS) }
    }
}

impl TimerState {
    /// The person has set it.
    pub fn open(&mut self) {
        (self.open, self.said_in) = (true, 0);
    }

    /// The contact has it, or both go by another one.
    pub fn close(&mut self) {
        (self.open, self.said_in) = (false, 0);
    }

    /// Returns true if it is not known that the contact has it.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// A note left that may say it. Only one with a number is ever acknowledged.
    pub fn record_sent(&mut self, wire: &Note) {
        let says = wire.items.iter().any(|item| matches!(item, Item::Timer(_)));
        // Only a note with a number is acknowledged (MSG-105).
        if self.open && says && wire.seq > 0 {
            self.said_in = wire.seq;
        }
    }

    /// Returns true if the arrival of the note with this number proves it.
    pub fn is_proven_by(&self, seq: u32) -> bool {
        self.open && self.said_in == seq && seq > 0
    }

    /// The date was corrected.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.again.apply_date_step(date);
    }

    /// Writes `said in u32`, if it is open.
    pub fn write(&self, w: &mut Writer) {
        w.put_u8(u8::from(self.open)).put_u32(self.said_in);
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { open: read_flag(r)?, said_in: r.read_u32()?, ..Self::default() })
    }
}

impl Outbox {
    /// Returns true if the contact is not known to have our timer: then each note of the person says it.
    pub fn timer_is_open(&self, contact: ContactId) -> bool {
        self.lanes.get(&contact).is_some_and(|lane| lane.timer.is_open())
    }

    /// The person has set a timer; it is said with the next note at the latest.
    pub fn open_timer(&mut self, contact: ContactId, step: &mut Step) {
        if let Some(lane) = self.lanes.get_mut(&contact) {
            lane.timer.open();
        }
        self.store_lane(contact, step);
    }

    /// A note of the contact shows which timer it goes by.
    pub fn settle_timer(&mut self, contact: ContactId, step: &mut Step) {
        if let Some(lane) = self.lanes.get_mut(&contact).filter(|lane| lane.timer.is_open()) {
            lane.timer.close();
            lane.owed.timer = false;
            self.store_lane(contact, step);
        }
    }

    /// A note of the contact shows another timer than ours: ours is said again, but not each time that
    /// the contact writes (MSG-27).
    pub fn repeat_timer(&mut self, contact: ContactId, now: Time, step: &mut Step) {
        if let Some(lane) = self.lanes.get_mut(&contact).filter(|lane| lane.timer.is_open())
            // A contact that always shows another timer causes one repetition in 10 minutes
            // (MSG-105).
            && lane.timer.again.take_turn(now).is_ok()
        {
            lane.owed.timer = true;
            self.store_lane(contact, step);
        }
    }
}
