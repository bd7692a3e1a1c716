//! What one contact may take of this device: how much of its notes is kept (MSG-51), how often our
//! own are sent to it again (MSG-53), and for how long the mixnet serves it for nothing but its own
//! talk (MSG-54).
//!
//! A friend's device may be in the hands of somebody else. What it can use up here is bounded, and
//! what was not kept is counted and shown.

use mezza_core::{DecodeError, Reader, Time, Writer};

/// Notes of one contact that are kept in a day.
const DAY_NOTES_MAX: u32 = 5_000;
/// Bytes of them.
const DAY_BYTES_MAX: u32 = 16 << 20;
/// Notes of one contact that the person has not seen.
const UNSEEN_NOTES_MAX: u32 = 20_000;
/// Bytes of them.
const UNSEEN_BYTES_MAX: u32 = 64 << 20;
/// Between two times that everything without a receipt is sent again because a contact asks.
pub(crate) const AGAIN_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// How long a contact is served in the mixnet for each time that it says something.
pub(crate) const TALK_MS: u64 = 10 * Time::MINUTE_MS;
/// The part of a year's rounds that may go to one contact while the person does not write to it.
pub(crate) const TALK_PART: u64 = 8;

/// Days of a year.
const YEAR_DAYS: u32 = 365;

/// Notes and the bytes of their texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub notes: u32,
    pub bytes: u32,
}

impl Amount {
    /// One more note.
    pub const fn add(&mut self, bytes: u32) {
        self.notes = self.notes.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// One note less.
    pub const fn subtract(&mut self, bytes: u32) {
        self.notes = self.notes.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    const fn has_room(self, bytes: u32, most: Self) -> bool {
        self.notes < most.notes && self.bytes.saturating_add(bytes) <= most.bytes
    }
}

/// What a contact has used of its share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// The day that the next two are about, since 1970.
    day: u32,
    kept: Amount,
    refused: u32,
    /// When it last got everything again.
    again_at: Time,
    /// It has asked once more since then.
    again: bool,
    /// The year that the next one is about, of 365 days since 1970.
    year: u32,
    /// How long the mixnet served it while the person did not write to it.
    talk_ms: u64,
}

impl Share {
    /// Takes one note into the share; `false`: it is over, and the note is only counted. `unseen`
    /// is what the person has not looked at yet.
    pub fn take(&mut self, bytes: u32, unseen: Amount, now: Time) -> bool {
        let most = Amount { notes: DAY_NOTES_MAX, bytes: DAY_BYTES_MAX };
        let most_unseen = Amount { notes: UNSEEN_NOTES_MAX, bytes: UNSEEN_BYTES_MAX };
        let new_day = self.day != now.days();
        let mut kept = if new_day { Amount::default() } else { self.kept };
        if !kept.has_room(bytes, most) || !unseen.has_room(bytes, most_unseen) {
            self.refused = self.refused.saturating_add(1);
            return false;
        }
        kept.add(bytes);
        (self.day, self.kept) = (now.days(), kept);
        self.refused = if new_day { 0 } else { self.refused };
        true
    }

    /// Notes that were not kept, as long as none is kept on a later day.
    pub const fn refused(&self) -> u32 {
        self.refused
    }

    /// It wants everything without a receipt again; whether it gets it now. If not, it gets it at
    /// [`again_due`](Self::again_due).
    pub fn wants_again(&mut self, now: Time) -> bool {
        // A clock that was put back holds nothing up.
        let rests = now >= self.again_at && now.since_ms(self.again_at) < AGAIN_EVERY_MS;
        self.again = rests;
        if !rests {
            self.again_at = now;
        }
        !rests
    }

    /// When it gets everything again that it asked for too early.
    pub fn again_due(&self) -> Option<Time> {
        self.again.then(|| self.again_at.plus_ms(AGAIN_EVERY_MS))
    }

    /// The mixnet serves it because it said something: so much longer than it would have else.
    pub fn talk(&mut self, ms: u64, now: Time) {
        let year = now.days() / YEAR_DAYS;
        let before = if self.year == year { self.talk_ms } else { 0 };
        (self.year, self.talk_ms) = (year, before.saturating_add(ms));
    }

    /// How long the mixnet served it in this year for what it said.
    pub fn talked_ms(&self, now: Time) -> u64 {
        if self.year == now.days() / YEAR_DAYS { self.talk_ms } else { 0 }
    }

    /// When the year is over in which it was counted last.
    pub const fn year_end(&self) -> Time {
        Time::from_ms((self.year as u64 + 1) * YEAR_DAYS as u64 * Time::DAY_MS)
    }

    /// Writes `day u32 | notes u32 | bytes u32 | refused u32 | again at u64 | again u8 |
    /// year u32 | talk u64`.
    pub fn write(&self, w: &mut Writer) {
        w.u32(self.day).u32(self.kept.notes).u32(self.kept.bytes).u32(self.refused);
        w.u64(self.again_at.ms()).u8(u8::from(self.again)).u32(self.year).u64(self.talk_ms);
    }

    /// Reads what [`write`](Self::write) wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            day: r.u32()?,
            kept: Amount { notes: r.u32()?, bytes: r.u32()? },
            refused: r.u32()?,
            again_at: Time::from_ms(r.u64()?),
            again: crate::contact::flag(r)?,
            year: r.u32()?,
            talk_ms: r.u64()?,
        })
    }
}

/// What may go at once, and then one in every interval. Not stored: a restart begins anew.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    burst: u32,
    every_ms: u64,
    left: u32,
    since: Time,
}

impl Pace {
    /// A full burst.
    pub const fn new(burst: u32, every_ms: u64) -> Self {
        Self { burst, every_ms, left: burst, since: Time::from_ms(0) }
    }

    /// Takes one, or says when the next one may go.
    pub fn take(&mut self, now: Time) -> Result<(), Time> {
        // A clock that was put back holds nothing up.
        self.since = self.since.min(now);
        let grown = now.since_ms(self.since) / self.every_ms;
        if grown > 0 {
            let left = u64::from(self.left).saturating_add(grown);
            self.left = left.min(u64::from(self.burst)) as u32;
            self.since = now;
        }
        self.left = self.left.checked_sub(1).ok_or(self.since.plus_ms(self.every_ms))?;
        Ok(())
    }

    /// What it would do next, as bytes.
    pub fn write(&self, w: &mut Writer) {
        w.u32(self.left).u64(self.since.ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1_792_000_000_000);

    #[test]
    fn a_day_has_its_share_of_notes_and_of_bytes() {
        let none = Amount::default();
        for (bytes, fit) in [(1, DAY_NOTES_MAX), (8_192, 2_048)] {
            let mut share = Share::default();
            for _ in 0..fit {
                assert!(share.take(bytes, none, NOW));
            }
            assert!(!share.take(bytes, none, NOW) && !share.take(bytes, none, NOW));
            assert_eq!(share.refused(), 2);
            assert!(share.take(bytes, none, NOW.plus_ms(Time::DAY_MS)), "another day");
            assert_eq!(share.refused(), 0);
        }
    }

    #[test]
    fn what_was_not_seen_is_bounded() {
        for unseen in [(UNSEEN_NOTES_MAX, 0), (0, UNSEEN_BYTES_MAX)] {
            let full = Amount { notes: unseen.0, bytes: unseen.1 };
            assert!(!Share::default().take(1, full, NOW));
            let (mut room, mut share) = (full, Share::default());
            room.subtract(1);
            assert!(share.take(1, room, NOW) && share.refused() == 0);
        }
    }

    #[test]
    fn everything_again_once_in_ten_minutes_whatever_the_clock_does() {
        let mut share = Share::default();
        assert!(share.wants_again(NOW) && share.again_due().is_none());
        assert!(!share.wants_again(NOW.plus_ms(AGAIN_EVERY_MS - 1)));
        assert_eq!(share.again_due(), Some(NOW.plus_ms(AGAIN_EVERY_MS)));
        assert!(share.wants_again(NOW.plus_ms(AGAIN_EVERY_MS)) && share.again_due().is_none());
        assert!(share.wants_again(NOW.minus_ms(Time::DAY_MS)), "the clock was put back");
    }

    #[test]
    fn talk_is_counted_by_the_year() {
        let mut share = Share::default();
        share.talk(5, NOW);
        share.talk(6, NOW.plus_ms(1));
        assert_eq!(share.talked_ms(NOW), 11);
        let later = NOW.plus_ms(365 * Time::DAY_MS);
        assert_eq!(share.talked_ms(later), 0);
        share.talk(7, later);
        assert_eq!(share.talked_ms(later), 7);
    }

    #[test]
    fn a_share_is_read_as_it_was_written() {
        let mut share = Share::default();
        share.take(77, Amount::default(), NOW);
        let full = Amount { notes: UNSEEN_NOTES_MAX, bytes: 0 };
        share.take(5, full, NOW);
        share.wants_again(NOW);
        share.wants_again(NOW);
        share.talk(99, NOW);
        let mut w = Writer::new();
        share.write(&mut w);
        assert_eq!(Reader::decode_exact(&w.finish(), Share::read), Ok(share));
    }

    #[test]
    fn a_pace_is_a_burst_and_then_one_in_an_interval() {
        let mut pace = Pace::new(3, 1_000);
        assert!((0..3).all(|_| pace.take(NOW).is_ok()));
        assert_eq!(pace.take(NOW), Err(NOW.plus_ms(1_000)));
        assert!(pace.take(NOW.plus_ms(1_000)).is_ok());
        assert!(pace.take(NOW.plus_ms(1_999)).is_err());
        // Who asks too early does not begin the interval anew.
        assert!(pace.take(NOW.plus_ms(2_600)).is_ok() && pace.take(NOW.plus_ms(3_400)).is_err());
        assert!(pace.take(NOW.plus_ms(3_600)).is_ok());
        // The clock was put back.
        let then = NOW.minus_ms(Time::DAY_MS);
        assert_eq!(pace.take(then), Err(then.plus_ms(1_000)));
        let later = NOW.plus_ms(Time::DAY_MS);
        assert_eq!((0..9).filter(|_| pace.take(later).is_ok()).count(), 3);
    }
}
