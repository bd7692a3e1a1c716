//! The last date of a store, in its stored form.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer};

use super::{Moment, now};

/// Version of the stored form.
const VERSION: u8 = 1;
/// How long a stored date is valid before it is written again, ms.
const WRITTEN_EVERY_MS: u64 = Time::MINUTE_MS;
/// The file with a random number that Linux draws at each start.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// One start of the system, which boot time counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemStart([u8; 16]);

impl SystemStart {
    /// Returns the present start of the system. If the system has no such number, returns a new
    /// start: each start of the program then counts as a start of the system.
    pub fn of_this_system() -> Self {
        let text = fs::read_to_string(BOOT_ID).unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).map_or_else(|_| Self::draw(), |id| Self(id.to_be_bytes()))
    }

    /// Makes a unique start from the time, the process number, and a counter.
    pub fn draw() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut w = Writer::with_capacity(16);
        w.put_u64(now().as_ms()).put_u32(process::id()).put_u32(count);
        Self(w.finish().try_into().unwrap_or_default())
    }
}

/// The last date of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenDate {
    /// The moment of writing, with the store's date as wall time.
    pub at: Moment,
    /// The system start at that moment.
    pub start: SystemStart,
    /// The first date that a correction must move, if the wall clock was doubted (MSG-104).
    pub since: Option<Time>,
    /// True if the user or another machine had confirmed the date.
    pub confirmed: bool,
}

impl WrittenDate {
    /// Returns the last moment that this stored date covers.
    pub fn end(&self) -> Time {
        self.at.wall.plus_ms(WRITTEN_EVERY_MS)
    }

    /// Returns true if the date must be written again.
    pub fn is_old(&self, now: &Self) -> bool {
        self.start != now.start
            || (self.since, self.confirmed) != (now.since, now.confirmed)
            || self.end() <= now.at.wall
            || now.at.wall < self.at.wall
    }

    /// Encodes the date: `version u8 | date u64 | since u64 | boot u64 | start[16] | confirmed u8`;
    /// since 0: no doubt.
    pub fn to_bytes(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(42);
        w.put_u8(VERSION).put_u64(self.at.wall.as_ms()).put_u64(self.since.map_or(0, Time::as_ms));
        w.put_u64(self.at.boot.as_ms()).put_bytes(&self.start.0).put_u8(u8::from(self.confirmed));
        Wiping::new(w.finish())
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    /// An unknown version or wrong length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let wall = Time::from_ms(r.read_u64()?);
            let since = Some(r.read_u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            let at = Moment { wall, boot: Time::from_ms(r.read_u64()?) };
            let start = SystemStart(r.read_array()?);
            Ok(Self { at, start, since, confirmed: r.read_u8()? == 1 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_103_a_date_is_read_as_it_was_written() {
        let at = Moment { wall: Time::from_ms(1_792_000_000_000), boot: Time::from_ms(9) };
        let start = SystemStart::of_this_system();
        for since in [None, Some(Time::from_ms(1))] {
            let written = WrittenDate { at, start, since, confirmed: since.is_none() };
            let bytes = written.to_bytes();
            assert_eq!(WrittenDate::from_bytes(&bytes), Ok(written));
            assert!(WrittenDate::from_bytes(&bytes[1..]).is_err());
            assert!(written.is_old(&WrittenDate { start: SystemStart::draw(), ..written }));
            assert!(!written.is_old(&written));
        }
        assert_eq!(start, SystemStart::of_this_system(), "one start for all processes");
    }
}
