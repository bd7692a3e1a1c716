//! The share of one contact: how many of its notes are stored (MSG-51).
//!
//! An attacker may control the device of a contact. The memory that it can use up here is bounded,
//! and dropped notes are counted and shown.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};

/// Version of the stored form.
const VERSION: u8 = 1;
/// Most notes of one contact that are stored per day.
const DAY_NOTES_MAX: u32 = 5_000;
/// Most bytes of notes of one contact that are stored per day.
const DAY_BYTES_MAX: u32 = 16 << 20;
/// Most notes of one contact that the user has not seen.
const UNSEEN_NOTES_MAX: u32 = 20_000;
/// Most bytes of notes of one contact that the user has not seen.
const UNSEEN_BYTES_MAX: u32 = 64 << 20;

/// A number of notes, and the bytes of their texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub notes: u32,
    pub bytes: u32,
}

snapshot!(struct Amount { notes, bytes });

impl Amount {
    /// Adds one note of `bytes` bytes.
    pub const fn add(&mut self, bytes: u32) {
        self.notes = self.notes.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Removes one note of `bytes` bytes.
    pub const fn subtract(&mut self, bytes: u32) {
        self.notes = self.notes.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    const fn has_room(self, bytes: u32, most: Self) -> bool {
        self.notes < most.notes && self.bytes.saturating_add(bytes) <= most.bytes
    }
}

/// The used part of a contact's quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The day of `kept`, counted since 1970.
    pub day: u32,
    pub kept: Amount,
    pub refused: u32,
}

snapshot!(struct Quota { day, kept, refused });

impl Quota {
    /// Counts a note against the quota. Returns false if the quota is exhausted; the note is then
    /// only counted as refused. `unseen` is the amount that the user has not seen yet.
    pub fn try_take(&mut self, bytes: u32, unseen: Amount, now: Time) -> bool {
        let most = Amount { notes: DAY_NOTES_MAX, bytes: DAY_BYTES_MAX };
        let most_unseen = Amount { notes: UNSEEN_NOTES_MAX, bytes: UNSEEN_BYTES_MAX };
        let new_day = self.day != now.as_days();
        let mut kept = if new_day { Amount::default() } else { self.kept };
        // The writer gets no receipt, so the note counts as not arrived and is sent again (MSG-51).
        if !kept.has_room(bytes, most) || !unseen.has_room(bytes, most_unseen) {
            self.refused = self.refused.saturating_add(1);
            return false;
        }
        kept.add(bytes);
        (self.day, self.kept) = (now.as_days(), kept);
        self.refused = if new_day { 0 } else { self.refused };
        true
    }

    /// Returns the number of dropped notes, which is reset when a note is stored on a later day.
    pub const fn refused_count(&self) -> u32 {
        self.refused
    }

    /// Returns the row, or `None` if no note has arrived.
    pub fn stored_form(&self) -> Option<Wiping<Vec<u8>>> {
        (*self != Self::default()).then(|| self.write())
    }

    /// The stored form: `day u32 | notes u32 | bytes u32 | refused u32`.
    fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(17);
        w.put_u8(VERSION)
            .put_u32(self.day)
            .put_u32(self.kept.notes)
            .put_u32(self.kept.bytes)
            .put_u32(self.refused);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? == VERSION { Self::read_body(r) } else { Err(DecodeError::Value) }
        })
    }

    /// Reads the form after its version byte.
    pub fn read_body(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let day = r.read_u32()?;
        let kept = Amount { notes: r.read_u32()?, bytes: r.read_u32()? };
        Ok(Self { day, kept, refused: r.read_u32()? })
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
            let mut quota = Quota::default();
            for _ in 0..fit {
                assert!(quota.try_take(bytes, none, NOW));
            }
            assert!(!quota.try_take(bytes, none, NOW) && !quota.try_take(bytes, none, NOW));
            assert_eq!(quota.refused_count(), 2);
            assert!(quota.try_take(bytes, none, NOW.plus_ms(Time::DAY_MS)), "another day");
            assert_eq!(quota.refused_count(), 0);
        }
    }

    #[test]
    fn what_was_not_seen_is_bounded() {
        for unseen in [(UNSEEN_NOTES_MAX, 0), (0, UNSEEN_BYTES_MAX)] {
            let full = Amount { notes: unseen.0, bytes: unseen.1 };
            assert!(!Quota::default().try_take(1, full, NOW));
            let mut room = full;
            let mut quota = Quota::default();
            room.subtract(1);
            assert!(quota.try_take(1, room, NOW) && quota.refused_count() == 0);
        }
    }

    #[test]
    fn a_quota_is_read_as_it_was_written() {
        let mut quota = Quota::default();
        quota.try_take(77, Amount::default(), NOW);
        quota.try_take(5, Amount { notes: UNSEEN_NOTES_MAX, bytes: 0 }, NOW);
        let bytes = quota.write();
        assert_eq!(Quota::read(&bytes), Ok(quota));
        assert!(Quota::read(&bytes[..16]).is_err() && Quota::read(&[]).is_err());
    }
}
