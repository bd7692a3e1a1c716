//! State of a contact in the mesh: the tags by which both sides recognise each other's parcels.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, Reader, Time, Wiping, Writer, snapshot};
use mezza_hibe::Life;

use crate::note::TAG_BYTES;

/// Version of the stored form.
const VERSION: u8 = 1;
/// Flags of the stored form.
const HAS_THEIRS: u8 = 1;
const IS_USED: u8 = 2;
/// Failed attempts in a row that are repeated without a pause; after further ones the pauses
/// double.
const AT_ONCE: u32 = 2;
/// The first pause, and the longest one, in milliseconds.
const PAUSE_MS: u64 = 30 * Time::SECOND_MS;
const PAUSE_MS_MAX: u64 = 15 * Time::MINUTE_MS;

/// A tag: 8 bytes inside the sealed layer that name a pair of writer and reader.
pub(crate) type Tag = [u8; TAG_BYTES];

/// The tag of unknown senders.
pub(super) const STRANGER: Tag = [0; TAG_BYTES];

/// State of a contact in the mesh.
#[derive(Default)]
pub(crate) struct MeshPeer {
    /// The tag that we drew for parcels of the contact; `None` before the first one.
    pub own: Option<Tag>,
    /// The tag that the contact gave us.
    pub theirs: Option<Tag>,
    /// True if the contact has used our tag, so that it needs no repetition.
    pub is_used: bool,
    // The fields below are not stored.
    /// The lowest level at which the contact is served; `None` if it is not served.
    pub level_min: Option<u8>,
    /// Attempts in a row that ended without a message from the contact.
    misses: u32,
    /// The time of the next attempt.
    pub rests_until: Option<Time>,
    /// The life of the last envelope of the contact, for answers that the device generates.
    pub arrived_with: Option<Life>,
}

snapshot!(struct MeshPeer {
    own, theirs, is_used, level_min, misses, rests_until,
    arrived_with => arrived_with.map(Life::number),
});

impl MeshPeer {
    /// Returns our tag for the contact. Draws one if there is none.
    pub fn own_tag(&mut self, rng: &mut dyn CryptoRng) -> Tag {
        *self.own.get_or_insert_with(|| {
            let mut tag = STRANGER;
            // Zeros stand for unknown senders.
            while tag == STRANGER {
                rng.fill_bytes(&mut tag);
            }
            tag
        })
    }

    /// Records that an attempt ended without a message from the contact.
    pub fn on_miss(&mut self, now: Time) {
        self.misses = self.misses.saturating_add(1);
        // Each attempt is a flood through all devices around, so a contact that is away must not
        // cause one each minute (MSG-138).
        if let Some(shift) = self.misses.checked_sub(AT_ONCE + 1) {
            let pause_ms = PAUSE_MS.checked_shl(shift.min(16)).unwrap_or(PAUSE_MS_MAX);
            self.rests_until = Some(now.plus_ms(pause_ms.min(PAUSE_MS_MAX)));
        }
    }

    /// Ends the pause, because a neighbour appeared, the contact sent something, or the user wrote
    /// a note.
    pub fn on_sign(&mut self) {
        (self.misses, self.rests_until) = (0, None);
    }

    /// Returns the row, or `None` if nothing is stored of the contact: `version u8 | flags u8 |
    /// own[8] | theirs[8]`, the last one only with its flag.
    pub fn stored_form(&self) -> Option<Wiping<Vec<u8>>> {
        if self.own.is_none() && self.theirs.is_none() {
            return None;
        }
        let mut w = Writer::with_capacity(18);
        let theirs = if self.theirs.is_some() { HAS_THEIRS } else { 0 };
        let used = if self.is_used { IS_USED } else { 0 };
        w.put_u8(VERSION).put_u8(theirs | used).put_bytes(&self.own.unwrap_or(STRANGER));
        if let Some(tag) = &self.theirs {
            w.put_bytes(tag);
        }
        Some(Wiping::new(w.finish()))
    }

    /// Reads a row.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            let flags = r.read_u8()?;
            let own = Some(r.read_array()?).filter(|tag| *tag != STRANGER);
            let theirs =
                if flags & HAS_THEIRS == 0 { None } else { Some(r.read_array::<TAG_BYTES>()?) };
            let is_used = flags & IS_USED != 0;
            // A tag of zeros would make the contact an unknown sender.
            let sound = theirs != Some(STRANGER) && (own.is_some() || theirs.is_some() && !is_used);
            if version != VERSION || flags > 3 || !sound {
                return Err(DecodeError::Value);
            }
            Ok(Self { own, theirs, is_used, ..Self::default() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_137_a_row_of_tags_is_read_as_it_was_written() {
        let rows = [(Some([1; 8]), None), (None, Some([2; 8])), (Some([1; 8]), Some([2; 8]))];
        for (own, theirs) in rows {
            for is_used in [false, true] {
                let peer = MeshPeer { own, theirs, is_used, ..MeshPeer::default() };
                let row = peer.stored_form().unwrap();
                match MeshPeer::read(&row) {
                    Ok(again) => assert_eq!(again.stored_form().unwrap()[..], row[..]),
                    Err(_) => assert!(is_used && own.is_none(), "nothing could be used"),
                }
                assert!(MeshPeer::read(&row[..row.len() - 1]).is_err());
            }
        }
        assert!(MeshPeer::default().stored_form().is_none());
    }

    #[test]
    fn msg_138_attempts_without_a_sign_are_farther_and_farther_apart() {
        let now = Time::from_ms(1_000_000);
        let mut peer = MeshPeer::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            peer.on_miss(now);
            waits.push(peer.rests_until.map_or(0, |until| until.since_ms(now) / 1_000));
        }
        assert_eq!(waits, [0, 0, 30, 60, 120, 240, 480, 900, 900]);
        peer.on_sign();
        assert_eq!(peer.rests_until, None);
    }
}
