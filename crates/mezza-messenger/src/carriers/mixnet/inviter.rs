//! The stored form of an inviter over the mixnet: identity key and bucket, without name and card.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Secret, Time, Wiping, Writer, snapshot};
use mezza_mixnet::client::StartRounds;
use mezza_ratchet::IdentityKey;

use crate::io::DateStep;

/// Hours between repeated calls to an inviter that did not answer.
const AGAIN_HOURS: [u64; 3] = [1, 4, 12];
/// Version of the stored form.
const VERSION: u8 = 2;
/// Version of the stored form without a level.
const NO_LEVEL: u8 = 1;
/// Lifetime in milliseconds of an invitation that the user ignores. Its prekey ends after the same
/// time at the latest.
const LIFE_MS: u64 = 30 * Time::DAY_MS;

/// Start of the chains of a pair, until the mixnet client has the chains.
pub(crate) struct PendingStart {
    pub root: Secret<32>,
    /// The conversation round and the call round.
    pub rounds: StartRounds,
}

snapshot!(struct PendingStart { root, rounds });

/// A device that invites us over the mixnet.
pub(crate) struct Inviter {
    pub ik: IdentityKey,
    /// The bucket in which the inviter looks for calls.
    pub bucket: u32,
    /// Start of the chains; `None` once the client has the chains.
    pub start: Option<PendingStart>,
    /// Arrival time of the invitation.
    pub at: Time,
    /// Time at which the user asked for the identity of the inviter.
    pub asked: Option<Time>,
    /// Privacy level of the carrier at the arrival of the invitation, 1 to 4. 0 in rows of earlier
    /// versions, which did not store it.
    pub level: u8,
    /// Number of repeated calls. Not stored, so a restart repeats the first call.
    pub times: u8,
}

snapshot!(struct Inviter { ik, bucket, start, at, asked, level, times });

impl Inviter {
    /// Returns the time at which the inviter must be called again or forgotten.
    pub fn deadline(&self) -> Time {
        let end = self.at.plus_ms(LIFE_MS);
        self.asked.map_or(end, |asked| end.min(next_call_at(asked, self.times)))
    }

    /// Returns true if the invitation has reached its lifetime of 30 days.
    pub fn is_over(&self, now: Time) -> bool {
        now.since_ms(self.at) >= LIFE_MS
    }

    /// Moves the stored times after a correction of the date. Returns true if the row changes.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time) -> bool {
        let before = (self.at, self.asked);
        self.at = date.shift_moment(self.at, now);
        self.asked = self.asked.map(|asked| date.shift_moment(asked, now));
        before != (self.at, self.asked)
    }

    /// Encodes the stored form: `identity key[32] | bucket u32 | at u64 | asked u64 | start`;
    /// version 2 appends the level.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(160);
        // A row without a level keeps its version, so that it is the same when written again
        // (MSG-43).
        w.put_u8(if self.level == 0 { NO_LEVEL } else { VERSION })
            .put_bytes(self.ik.as_bytes())
            .put_u32(self.bucket);
        w.put_u64(self.at.as_ms()).put_u64(self.asked.map_or(0, Time::as_ms));
        w.put_u8(u8::from(self.start.is_some()));
        if let Some(PendingStart { root, rounds }) = &self.start {
            w.put_bytes(root.expose()).put_u64(rounds.conversation).put_u64(rounds.call);
        }
        if self.level > 0 {
            w.put_u8(self.level);
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            if version != VERSION && version != NO_LEVEL {
                return Err(DecodeError::Value);
            }
            let ik = IdentityKey::decode(&r.read_array()?).map_err(|_| DecodeError::Value)?;
            let bucket = r.read_u32()?;
            let at = Time::from_ms(r.read_u64()?);
            let asked = Some(r.read_u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            let start = match r.read_u8()? {
                0 => None,
                1 => Some(PendingStart {
                    root: Secret::read_from(r)?,
                    rounds: StartRounds { conversation: r.read_u64()?, call: r.read_u64()? },
                }),
                _ => return Err(DecodeError::Value),
            };
            let level = if version == VERSION { r.read_u8()? } else { 0 };
            if version == VERSION && !(1..=4).contains(&level) {
                return Err(DecodeError::Value);
            }
            Ok(Self { ik, bucket, start, at, asked, level, times: 0 })
        })
    }
}

/// Returns the time of the next call after a call at `last` and `times` earlier repetitions.
fn next_call_at(last: Time, times: u8) -> Time {
    // 1 h, 4 h, then every 12 h (4.4).
    let hours = AGAIN_HOURS[usize::from(times).min(AGAIN_HOURS.len() - 1)];
    last.plus_ms(hours * Time::HOUR_MS)
}

/// Returns the identity key of a stored invitation, even if the rest of the row does not decode.
pub(crate) fn read_owner(bytes: &[u8]) -> Option<IdentityKey> {
    let mut r = Reader::new(bytes);
    r.read_u8().ok()?;
    IdentityKey::decode(r.read_array_ref().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use mezza_core::{EphemeralKey, PortableBackend};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> IdentityKey {
        let pair = EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(n)));
        IdentityKey::decode(pair.public_key().as_bytes()).expect("a public key")
    }

    proptest! {
        #[test]
        fn msg_112_what_is_written_is_read_with_its_level(
            (n, bucket, at, asked) in (2..=255_u8, any::<u32>(), any::<u64>(), any::<u64>()),
            start in any::<Option<([u8; 32], u64, u64)>>(),
            (place, byte) in (any::<usize>(), any::<u8>()),
        ) {
            let start = start.map(|(root, talks, calls)| {
                let rounds = StartRounds { conversation: talks, call: calls };
                PendingStart { root: Secret::copy_from(&root), rounds }
            });
            let ik = key(n);
            let at = Time::from_ms(at);
            let asked = Some(Time::from_ms(asked)).filter(|asked| *asked != Time::default());
            let level = (place % 5) as u8;
            let inviter = Inviter { ik, bucket, start, at, asked, level, times: 3 };
            let bytes = inviter.write();
            let again = Inviter::read(&bytes).map_err(|error| TestCaseError::fail(format!("{error}")))?;
            prop_assert_eq!(&again.write()[..], &bytes[..]);
            prop_assert_eq!((again.bucket, again.at, again.asked), (bucket, at, asked));
            prop_assert_eq!((again.ik, again.level, again.times), (ik, level, 0));
            prop_assert!(Inviter::read(&bytes[..place % bytes.len()]).is_err());
            prop_assert!(Inviter::read(&[&bytes[..], &[0]].concat()).is_err());
            // Every row that decodes must encode to the same bytes.
            let mut other = bytes.to_vec();
            other[place % bytes.len()] = byte;
            if let Ok(inviter) = Inviter::read(&other) {
                prop_assert_eq!(&inviter.write()[..], &other[..]);
            }
        }

        #[test]
        fn any_bytes_are_an_inviter_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(inviter) = Inviter::read(&bytes) {
                prop_assert_eq!(&inviter.write()[..], &bytes[..]);
            }
        }

        #[test]
        fn an_inviter_is_due_at_most_12_hours_after_it_was_called(
            (at, since, times) in (0..1_u64 << 45, 0..1_u64 << 32, any::<u8>()),
        ) {
            let ik = key(2);
            let at = Time::from_ms(at);
            let asked = at.plus_ms(since);
            let mut inviter = Inviter { ik, bucket: 1, start: None, at, asked: None, level: 4, times };
            prop_assert!(inviter.is_over(inviter.deadline()));
            inviter.asked = Some(asked);
            let due = inviter.deadline();
            prop_assert!(due > asked || inviter.is_over(due));
            prop_assert!(due <= asked.plus_ms(12 * Time::HOUR_MS));
        }
    }
}
