//! A contact as the mixnet sees it, and how long it is served for nothing but its own talk
//! (MSG-54).
//!
//! Each round in which somebody is served costs privacy, and what a contact says has it served for
//! ten minutes more. So a contact that keeps talking would use up everybody's rounds. The time that
//! goes to its talk alone is counted; above its part it is served only for what the person writes.

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Time, Wiping, Writer, snapshot};

use super::apart::Meetings;
use crate::io::{DateStep, Pace, read_flag};

/// Versions of the stored form: without the dialling key, and with it.
const VERSIONS: [u8; 2] = [1, 2];
/// How long a contact is served in the mixnet for each time that it says something.
const TALK_MS: u64 = 10 * Time::MINUTE_MS;
/// Days of a year.
const YEAR_DAYS: u32 = 365;
/// Roots of a contact that the mixnet's client takes at once, each for a snapshot; then one per
/// [`ROOT_EVERY_MS`] (MSG-53).
const ROOT_BURST: u32 = 4;
/// Milliseconds until one more root may come.
const ROOT_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// For how long a contact was served while the person did not write to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Talk {
    /// The year that the next one is about, of 365 days since 1970.
    year: u32,
    ms: u64,
}

snapshot!(struct Talk { year, ms });

impl Talk {
    /// The mixnet serves it because it said something: so much longer than it would have else.
    pub fn add(&mut self, ms: u64, now: Time) {
        let year = now.as_days() / YEAR_DAYS;
        // Each year of 365 days has a share of its own (MSG-54).
        let before = if self.year == year { self.ms } else { 0 };
        (self.year, self.ms) = (year, before.saturating_add(ms));
    }

    /// How long the mixnet served it in this year for what it said.
    pub fn ms(&self, now: Time) -> u64 {
        if self.year == now.as_days() / YEAR_DAYS { self.ms } else { 0 }
    }

    /// When the year is over in which it was counted last.
    pub const fn year_end(&self) -> Time {
        Time::from_ms((self.year as u64 + 1) * YEAR_DAYS as u64 * Time::DAY_MS)
    }

    /// Reads `year u32 | ms u64`.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { year: r.read_u32()?, ms: r.read_u64()? })
    }
}

/// A contact as the mixnet sees it.
pub(crate) struct MixnetPeer {
    /// The session for which the client has a root.
    pub root_for: Option<[u8; 16]>,
    /// The dialling key that its card named then.
    pub dialling: Option<PublicKey>,
    /// They were invited, and have called to know who it was.
    pub has_called: bool,
    pub talk: Talk,
    // Not stored.
    /// Roots that it says.
    pub roots: Pace,
    /// Roots of ours, for chains that it broke.
    own_roots: Pace,
    /// When it was heard last, and when the person wrote to it last.
    heard_at: Time,
    wrote_at: Time,
    /// True if it is served for our words alone.
    pub muted: bool,
    /// The lowest level at which it is served; `None`: it is not served at all.
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
    /// A contact of whom this is stored.
    pub fn from_stored(root_for: Option<[u8; 16]>, has_called: bool, talk: Talk) -> Self {
        Self { root_for, has_called, talk, ..Self::default() }
    }

    /// Its stream is broken, so that the pair needs another root. It can break one after the other, and
    /// says so again with each further cell: beyond the pace the one that is there stays (MSG-53).
    pub fn on_stream_broken(&mut self, now: Time) {
        // A peer can break its stream at will, so our own roots have the same pace (MSG-53).
        if self.root_for.is_some() && self.own_roots.take_turn(now).is_ok() {
            self.root_for = None;
        }
    }

    /// The person writes to it.
    pub fn on_user_note(&mut self, now: Time) {
        self.wrote_at = now;
    }

    /// Returns true if the person wrote to it a short time ago.
    pub fn is_talked_to(&self, now: Time) -> bool {
        // A time in the future comes from a clock that was ahead, and counts as never.
        now >= self.wrote_at && now.since_ms(self.wrote_at) < TALK_MS
    }

    /// The date was corrected.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.roots.apply_date_step(date);
        self.own_roots.apply_date_step(date);
        self.heard_at = date.shift_running(self.heard_at);
        self.wrote_at = date.shift_running(self.wrote_at);
        self.meetings.apply_date_step(date);
    }

    /// It says something, or calls; whether that counts.
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

    /// Its row; there is none as long as nothing is known.
    pub fn stored_form(&self) -> Option<Wiping<Vec<u8>>> {
        let known = self.root_for.is_some()
            || self.dialling.is_some()
            || self.has_called
            || self.talk != Talk::default();
        known.then(|| self.write())
    }

    /// The stored form: `version u8 | root for | has called u8 | year u32 | talk u64`; version 2 has the
    /// dialling key, 32 bytes, before the year.
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
