//! Outgoing notes and items for one contact.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};

use super::{Owed, TimerState};
use crate::io::{DateStep, Pace, read_flag};
use crate::note::Era;

/// Version of the stored form.
const VERSION: u8 = 4;
/// Version of the stored form without an open timer, and of all rows before version 4.
const NO_TIMER: u8 = 3;
/// Older versions: 2 had no digests of stored notes, 1 also had one era per contact.
const OLDER: [u8; 2] = [1, 2];
/// Receipts that may be sent at once; then one per [`RECEIPT_EVERY_MS`] (MSG-27).
const RECEIPT_BURST: u32 = 10;
/// Milliseconds until one more receipt may be sent.
const RECEIPT_EVERY_MS: u64 = 2 * Time::SECOND_MS;
/// Notes that may be sealed again at once; then one per [`REPEAT_EVERY_MS`] (MSG-53).
const REPEAT_BURST: u32 = 16;
/// Milliseconds until one more note may be sealed again.
const REPEAT_EVERY_MS: u64 = Time::SECOND_MS;
/// Milliseconds between two times that all notes without a receipt are sent again at a contact's
/// request (MSG-53).
const AGAIN_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// A contact's request for all notes without a receipt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgainWish {
    /// Time at which the contact last got all notes again.
    at: Time,
    /// True if the contact has requested all notes again since that time.
    waits: bool,
}

snapshot!(struct AgainWish { at, waits });

impl AgainWish {
    /// Handles a request. Returns true if it is granted now; otherwise it is granted at
    /// [`due`](Self::due).
    pub fn request_turn(&mut self, now: Time) -> bool {
        // A clock that went back delays nothing. Requests during the wait do not extend it
        // (MSG-53).
        self.waits = now >= self.at && now.since_ms(self.at) < AGAIN_EVERY_MS;
        if !self.waits {
            self.at = now;
        }
        !self.waits
    }

    /// Returns the time at which a waiting request is granted, or `None` if none waits.
    pub fn due(&self) -> Option<Time> {
        self.waits.then(|| self.at.plus_ms(AGAIN_EVERY_MS))
    }

    /// Moves the stored time after a correction of the date. Returns true if it changed.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time) -> bool {
        let before = self.at;
        self.at = date.shift_moment(before, now);
        before != self.at
    }

    /// Writes `at u64 | waits u8`.
    fn write(&self, w: &mut Writer) {
        w.put_u64(self.at.as_ms()).put_u8(u8::from(self.waits));
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { at: Time::from_ms(r.read_u64()?), waits: read_flag(r)? })
    }
}

/// Outgoing notes and items for one contact.
pub(crate) struct Lane {
    pub next_seq: u32,
    pub owed: Owed,
    pub again: AgainWish,
    /// The era of our notes, if it differs from that of the profile.
    pub era: Option<Era>,
    /// The state of our timer: open until the contact is known to have it.
    pub timer: TimerState,
    // Not stored: a restart begins with full bursts.
    pub receipts: Pace,
    /// True while a new era waits for the rate limit of `again` (MSG-132).
    pub era_waits: bool,
    /// Rate limit for sealing our notes again.
    pub repeats: Pace,
    /// Rate limit for repeating the oldest note without a receipt, which blocks newer ones.
    pub oldest: Pace,
}

snapshot!(struct Lane { next_seq, owed, again, era, timer, receipts, era_waits, repeats, oldest });

impl Default for Lane {
    fn default() -> Self {
        Self::from_stored(1, Owed::default(), AgainWish::default(), None)
    }
}

impl Lane {
    /// Creates a lane from these stored values.
    pub fn from_stored(next_seq: u32, owed: Owed, again: AgainWish, era: Option<Era>) -> Self {
        Self {
            next_seq,
            owed,
            again,
            era,
            timer: TimerState::default(),
            receipts: Pace::new(RECEIPT_BURST, RECEIPT_EVERY_MS),
            era_waits: false,
            repeats: Pace::new(REPEAT_BURST, REPEAT_EVERY_MS),
            oldest: Pace::new(1, Time::HOUR_MS),
        }
    }

    /// Encodes the stored form: `next seq u32 | owed | again | flag u8 | era[4]`; version 4 appends
    /// the timer.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(32);
        w.put_u8(if self.timer.is_open() { VERSION } else { NO_TIMER }).put_u32(self.next_seq);
        self.owed.write(&mut w);
        self.again.write(&mut w);
        w.put_u8(u8::from(self.era.is_some()))
            .put_bytes(self.era.as_ref().map_or(&[], |era| &era.0[..]));
        if self.timer.is_open() {
            self.timer.write(&mut w);
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            let is_known = [VERSION, NO_TIMER].contains(&version) || OLDER.contains(&version);
            if !is_known {
                return Err(DecodeError::Value);
            }
            let next_seq = r.read_u32()?;
            let owed = Owed::read(r, version >= NO_TIMER)?;
            let again = AgainWish::read(r)?;
            let era = if version != OLDER[0] && read_flag(r)? { Some(Era::read(r)?) } else { None };
            let mut lane = Self::from_stored(next_seq, owed, again, era);
            if version == VERSION {
                lane.timer = TimerState::read(r)?;
            }
            // Each state has only one form, or a row would change when it is written again
            // (MSG-43).
            let is_canonical = version != VERSION || lane.timer.is_open();
            if is_canonical { Ok(lane) } else { Err(DecodeError::Value) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1_792_000_000_000);

    #[test]
    fn everything_again_once_in_ten_minutes_whatever_the_clock_does() {
        let mut wish = AgainWish::default();
        assert!(wish.request_turn(NOW) && wish.due().is_none());
        assert!(!wish.request_turn(NOW.plus_ms(AGAIN_EVERY_MS - 1)));
        assert_eq!(wish.due(), Some(NOW.plus_ms(AGAIN_EVERY_MS)));
        assert!(wish.request_turn(NOW.plus_ms(AGAIN_EVERY_MS)) && wish.due().is_none());
        assert!(wish.request_turn(NOW.minus_ms(Time::DAY_MS)), "the clock was put back");
    }
}
