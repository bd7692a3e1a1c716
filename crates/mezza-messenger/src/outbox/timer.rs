//! The state of a timer that we set, until the contact is known to have it (MSG-105, MSG-106).
//!
//! ```text
//! settled --the person sets it--> open --a receipt, or a note of the contact shows it--> settled
//!                                  --the contact's own one is shorter--> settled by that one
//! ```

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use super::Outbox;
use crate::io::{ContactId, DateStep, Effects, Pace, read_flag};
use crate::note::{Item, Note};

/// Milliseconds between two repetitions of our timer that are caused by notes of the contact with
/// another timer.
const AGAIN_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// State of our timer: open until the contact is known to have it.
#[derive(Clone, Debug)]
pub(crate) struct TimerState {
    open: bool,
    /// Number of the last note that contained the timer; 0 if there was none.
    said_in: u32,
    // Not stored: a restart begins with a full burst.
    again: Pace,
}

snapshot!(struct TimerState { open, said_in, again });

impl Default for TimerState {
    fn default() -> Self {
        Self { open: false, said_in: 0, again: Pace::new(1, AGAIN_EVERY_MS) }
    }
}

impl TimerState {
    /// Opens the state after the user set a timer.
    pub fn open(&mut self) {
        (self.open, self.said_in) = (true, 0);
    }

    /// Closes the state: the contact has our timer, or both sides agreed on another one.
    pub fn close(&mut self) {
        (self.open, self.said_in) = (false, 0);
    }

    /// Returns true if the contact is not known to have our timer.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Records a sent note with the timer.
    pub fn record_sent(&mut self, wire: &Note) {
        let says = wire.items.iter().any(|item| matches!(item, Item::Timer(_)));
        // Only a note with a number is acknowledged (MSG-105).
        if self.open && says && wire.seq > 0 {
            self.said_in = wire.seq;
        }
    }

    /// Returns true if the arrival of note `seq` proves that the contact has our timer.
    pub fn is_proven_by(&self, seq: u32) -> bool {
        self.open && self.said_in == seq && seq > 0
    }

    /// Moves the rate limit after a correction of the date.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.again.apply_date_step(date);
    }

    /// Writes `open u8 | said in u32`.
    pub fn write(&self, w: &mut Writer) {
        w.put_u8(u8::from(self.open)).put_u32(self.said_in);
    }

    /// Reads the form of [`write`](Self::write).
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { open: read_flag(r)?, said_in: r.read_u32()?, ..Self::default() })
    }
}

impl Outbox {
    /// Returns true if the contact is not known to have our timer. Each note of the user then
    /// repeats the timer.
    pub fn timer_is_open(&self, contact: ContactId) -> bool {
        self.lanes.get(&contact).is_some_and(|lane| lane.timer.is_open())
    }

    /// Opens the timer of a contact after the user set it. The next note contains it at the latest.
    pub fn open_timer(&mut self, contact: ContactId, effects: &mut Effects) {
        if let Some(lane) = self.lanes.get_mut(&contact) {
            lane.timer.open();
        }
        self.store_lane(contact, effects);
    }

    /// Closes our timer after a note of the contact showed its timer.
    pub fn settle_timer(&mut self, contact: ContactId, effects: &mut Effects) {
        if let Some(lane) = self.lanes.get_mut(&contact).filter(|lane| lane.timer.is_open()) {
            lane.timer.close();
            lane.owed.timer = false;
            self.store_lane(contact, effects);
        }
    }

    /// Owes our timer again after a note of the contact showed another one, at a limited rate
    /// (MSG-27).
    pub fn repeat_timer(&mut self, contact: ContactId, now: Time, effects: &mut Effects) {
        if let Some(lane) = self.lanes.get_mut(&contact).filter(|lane| lane.timer.is_open())
            // A contact that always shows another timer causes one repetition in 10 minutes
            // (MSG-105).
            && lane.timer.again.take_turn(now).is_ok()
        {
            lane.owed.timer = true;
            self.store_lane(contact, effects);
        }
    }
}
