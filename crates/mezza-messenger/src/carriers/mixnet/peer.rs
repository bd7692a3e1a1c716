//! State of a contact in the mixnet, and the time for which the mixnet serves the contact only
//! because the contact writes (MSG-54).
//!
//! Each round that serves a contact costs privacy budget, and each message of a contact extends its
//! service by ten minutes. A contact that keeps writing would therefore use up all rounds. The time
//! caused by its messages alone is counted. Above its yearly share a contact is served only for
//! notes of the user.

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Time, Wiping, Writer, snapshot};

use super::apart::Meetings;
use crate::io::{DateStep, Pace, read_flag};

/// Versions of the stored form: 1 without the dialling key, 2 with it.
const VERSIONS: [u8; 2] = [1, 2];
/// Milliseconds for which one message of a contact extends its service in the mixnet.
const TALK_MS: u64 = 10 * Time::MINUTE_MS;
/// Days of a share's year.
const YEAR_DAYS: u32 = 365;
/// Roots that the client accepts at once from one contact, each for a snapshot; after them one per
/// [`ROOT_EVERY_MS`] (MSG-53).
const ROOT_BURST: u32 = 4;
/// Milliseconds until one more root is accepted.
const ROOT_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// Service time of a contact while the user did not write to the contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Talk {
    /// The year of `ms`, in units of 365 days since 1970.
    year: u32,
    ms: u64,
}

snapshot!(struct Talk { year, ms });

impl Talk {
    /// Adds `ms` milliseconds of service that a message of the contact caused.
    pub fn add(&mut self, ms: u64, now: Time) {
        let year = now.as_days() / YEAR_DAYS;
        // Each year of 365 days has a share of its own (MSG-54).
        let before = if self.year == year { self.ms } else { 0 };
        (self.year, self.ms) = (year, before.saturating_add(ms));
    }

    /// Returns the milliseconds counted in the current year.
    pub fn ms(&self, now: Time) -> u64 {
        if self.year == now.as_days() / YEAR_DAYS { self.ms } else { 0 }
    }

    /// Returns the end of the year of the last count.
    pub const fn year_end(&self) -> Time {
        Time::from_ms((self.year as u64 + 1) * YEAR_DAYS as u64 * Time::DAY_MS)
    }

    /// Reads `year u32 | ms u64`.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { year: r.read_u32()?, ms: r.read_u64()? })
    }
}

/// State of a contact in the mixnet.
pub(crate) struct MixnetPeer {
    /// The session for which the client has a root.
    pub root_for: Option<[u8; 16]>,
    /// The dialling key on the contact's card when the root was set.
    pub dialling: Option<PublicKey>,
    /// True if the contact was invited and has called for our identity.
    pub has_called: bool,
    pub talk: Talk,
    // The fields below are not stored.
    /// Rate limit for roots from the contact.
    pub roots: Pace,
    /// Rate limit for our own roots after the contact broke its stream.
    own_roots: Pace,
    /// `heard_at` is the time of the contact's last activity, `wrote_at` that of the user's last
    /// note to the contact.
    heard_at: Time,
    wrote_at: Time,
    /// True while the contact is served for notes of the user only.
    pub muted: bool,
    /// Lowest level at which the contact is served; `None` if the contact is not served at all.
    pub level_min: Option<u8>,
    pub meetings: Meetings,
}

snapshot!(struct MixnetPeer {
    root_for, dialling, has_called, talk, roots, own_roots, heard_at, wrote_at, muted,
    level_min, meetings,
});

impl Default for MixnetPeer {
    fn default() -> Self {
        Self {
            root_for: None,
            dialling: None,
            has_called: false,
            talk: Talk::default(),
            roots: Pace::new(ROOT_BURST, ROOT_EVERY_MS),
            own_roots: Pace::new(ROOT_BURST, ROOT_EVERY_MS),
            heard_at: Time::default(),
            wrote_at: Time::default(),
            muted: false,
            level_min: Some(1),
            meetings: Meetings::default(),
        }
    }
}

impl MixnetPeer {
    /// Restores a contact from a row of version 1, which has no dialling key.
    pub fn from_stored(root_for: Option<[u8; 16]>, has_called: bool, talk: Talk) -> Self {
        Self { root_for, has_called, talk, ..Self::default() }
    }

    /// Requests another root after the contact's stream broke. A contact can break one stream after
    /// another, and each further cell reports the break again, so above the rate limit the existing
    /// root stays (MSG-53).
    pub fn on_stream_broken(&mut self, now: Time) {
        // A peer can break its stream at will, so our own roots have the same pace (MSG-53).
        if self.root_for.is_some() && self.own_roots.take_turn(now).is_ok() {
            self.root_for = None;
        }
    }

    /// Counts a note of the user to the contact.
    pub fn on_user_note(&mut self, now: Time) {
        self.wrote_at = now;
    }

    /// Returns true if the user wrote to the contact in the last 10 minutes.
    pub fn is_talked_to(&self, now: Time) -> bool {
        // A time in the future comes from a clock that was ahead, and counts as never.
        now >= self.wrote_at && now.since_ms(self.wrote_at) < TALK_MS
    }

    /// Moves the stored times after a correction of the date.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.roots.apply_date_step(date);
        self.own_roots.apply_date_step(date);
        self.heard_at = date.shift_running(self.heard_at);
        self.wrote_at = date.shift_running(self.wrote_at);
        self.meetings.apply_date_step(date);
    }

    /// Counts a parcel or a call of the contact. Returns true if service time was added.
    pub fn record_activity(&mut self, now: Time) -> bool {
        // Messages within 10 minutes of each other overlap, and overlaps count once (MSG-54).
        let gap_ms = now.since_ms(self.heard_at).min(TALK_MS);
        self.heard_at = now;
        // Time does not count if the user wrote in the 10 minutes before (MSG-54).
        if self.is_talked_to(now) {
            return false;
        }
        self.talk.add(gap_ms, now);
        true
    }

    /// Returns the row of the contact, or `None` if nothing must be stored.
    pub fn stored_form(&self) -> Option<Wiping<Vec<u8>>> {
        let known = self.root_for.is_some()
            || self.dialling.is_some()
            || self.has_called
            || self.talk != Talk::default();
        known.then(|| self.write())
    }

    /// Encodes the stored form: `version u8 | root for | has called u8 | year u32 | talk u64`.
    /// Version 2 has the dialling key, 32 bytes, before the year.
    fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(32);
        w.put_u8(VERSIONS[usize::from(self.dialling.is_some())]);
        w.put_u8(u8::from(self.root_for.is_some()));
        if let Some(session) = &self.root_for {
            w.put_bytes(session);
        }
        w.put_u8(u8::from(self.has_called));
        if let Some(dialling) = &self.dialling {
            w.put_bytes(dialling.as_bytes());
        }
        w.put_u32(self.talk.year).put_u64(self.talk.ms);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            if !VERSIONS.contains(&version) {
                return Err(DecodeError::Value);
            }
            let root_for = if read_flag(r)? { Some(r.read_array()?) } else { None };
            let has_called = read_flag(r)?;
            let dialling = if version == 2 { Some(PublicKey::read_from(r)?) } else { None };
            let peer = Self::from_stored(root_for, has_called, Talk::read(r)?);
            Ok(Self { dialling, ..peer })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1_792_000_000_000);

    #[test]
    fn msg_53_whoever_breaks_chain_after_chain_gets_few_roots() {
        let mut peer = MixnetPeer::default();
        let mut roots = |after_ms: u64| {
            let rounds = (0..20).filter(|_| {
                peer.root_for = Some([1; 16]);
                peer.on_stream_broken(NOW.plus_ms(after_ms));
                peer.on_stream_broken(NOW.plus_ms(after_ms));
                peer.root_for.is_none()
            });
            rounds.count()
        };
        assert_eq!(roots(0), 4);
        assert_eq!(roots(ROOT_EVERY_MS - 1), 0);
        assert_eq!(roots(ROOT_EVERY_MS), 1);
    }

    #[test]
    fn talk_is_counted_by_the_year() {
        let mut talk = Talk::default();
        talk.add(5, NOW);
        talk.add(6, NOW.plus_ms(1));
        assert_eq!(talk.ms(NOW), 11);
        let later = NOW.plus_ms(365 * Time::DAY_MS);
        assert_eq!(talk.ms(later), 0);
        talk.add(7, later);
        assert_eq!(talk.ms(later), 7);
    }
}
