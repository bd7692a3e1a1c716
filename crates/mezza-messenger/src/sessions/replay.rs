//! The record of ratchet messages that were opened last.
//!
//! The ratchet forgets a closed chain, so a repeated message of it looks forged and would cause a
//! new session. Messages are repeated after crashes: a relay delivers mail again that was not
//! acknowledged, and a sender sends parcels again that were not answered. The digests of messages
//! are therefore kept for a while, in a ring of chunks, one of which is rewritten per message.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping, Writer, labelled_hash, snapshot};

/// Digests in one chunk. With key and lengths they take 254 bytes, the smallest row of a vault.
const CHUNK: usize = 30;
/// Number of chunks, for 720 messages. A relay has at most 64 mails unanswered and 100 removals
/// uncommitted.
const CHUNKS: u32 = 24;
/// Highest number of a chunk. It would be reached after 60 thousand million messages.
const NUMBER_MAX: u32 = u32::MAX / 2;

/// Digests of the messages opened last, by chunk. Chunk numbers only increase.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayCache(BTreeMap<u32, Vec<[u8; 8]>>);

snapshot!(struct ReplayCache(chunks));

impl ReplayCache {
    /// Returns true if this message was opened recently.
    pub fn has_seen(&self, message: &[u8]) -> bool {
        let digest = Self::digest(message);
        self.0.values().any(|chunk| chunk.contains(&digest))
    }

    /// Records an opened message. Returns the place in the ring of the chunk that must be stored.
    pub fn push(&mut self, message: &[u8]) -> u8 {
        let newest = self.0.last_key_value();
        let full = newest.is_some_and(|(_, chunk)| chunk.len() >= CHUNK);
        let newest = newest.map_or(0, |(number, _)| number + u32::from(full));
        self.0.entry(newest).or_default().push(Self::digest(message));
        // The ring drops the oldest chunk, because a relay repeats at most 164 messages.
        self.0.retain(|number, _| number + CHUNKS > newest);
        (newest % CHUNKS) as u8
    }

    fn digest(message: &[u8]) -> [u8; 8] {
        labelled_hash("mezza/recent", &[message])
    }

    /// Returns the places of all chunks in the ring.
    pub fn places(&self) -> impl Iterator<Item = u8> {
        self.0.keys().map(|number| (number % CHUNKS) as u8)
    }

    /// Encodes the stored form of the chunk at a place.
    pub fn write(&self, place: u8) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(4 + 8 * CHUNK);
        let chunk = self.0.iter().find(|(number, _)| *number % CHUNKS == u32::from(place));
        if let Some((number, digests)) = chunk {
            w.put_u32(*number);
            for digest in digests {
                w.put_bytes(digest);
            }
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form of the chunk at a place.
    pub fn read(&mut self, place: u8, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut r = Reader::new(bytes);
        let number = r.read_u32()?;
        let (digests, rest) = r.read_rest().as_chunks::<8>();
        let misplaced = number > NUMBER_MAX || number % CHUNKS != u32::from(place);
        if !rest.is_empty() || digests.len() > CHUNK || misplaced {
            return Err(DecodeError::Value);
        }
        self.0.insert(number, digests.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_seven_hundred_and_forgets_older_ones() {
        let mut recent = ReplayCache::default();
        let mut stored = BTreeMap::new();
        for i in 0..2_000_u32 {
            let place = recent.push(&i.to_be_bytes());
            stored.insert(place, recent.write(place));
        }
        let mut again = ReplayCache::default();
        for (place, chunk) in &stored {
            assert!(chunk.len() <= 244, "{}", chunk.len());
            again.read(*place, chunk).expect("what was written is read");
            let elsewhere = ReplayCache::default().read((place + 1) % CHUNKS as u8, chunk);
            assert_eq!(elsewhere, Err(DecodeError::Value));
        }
        for recent in [recent, again] {
            assert!((1_310..2_000_u32).all(|i| recent.has_seen(&i.to_be_bytes())));
            assert!((0..1_200_u32).all(|i| !recent.has_seen(&i.to_be_bytes())));
            assert!(recent.places().count() <= CHUNKS as usize);
        }
        assert_eq!(ReplayCache::default().read(0, &[0; 5]), Err(DecodeError::Value));
        let far = u32::MAX - u32::MAX % CHUNKS - CHUNKS;
        assert_eq!(ReplayCache::default().read(0, &far.to_be_bytes()), Err(DecodeError::Value));
        let last = |number: u32| {
            ReplayCache::default().read((number % CHUNKS) as u8, &number.to_be_bytes())
        };
        assert_eq!(last(NUMBER_MAX), Ok(()));
        assert_eq!(last(NUMBER_MAX + 1), Err(DecodeError::Value));
    }
}
