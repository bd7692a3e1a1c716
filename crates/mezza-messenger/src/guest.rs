//! Somebody who invites over the mixnet: a key, a session and where they wait; no name, no card.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Secret, Time, Wiping, Writer};
use mezza_ratchet::{Conversation, IdentityKey};

use crate::carriers::mixnet::again;
use crate::io::ContactId;

/// Version of the stored form.
const VERSION: u8 = 1;
/// An invitation that nobody looks at is forgotten after this time: the prekey that it used ends
/// then at the latest.
const LIFE_MS: u64 = 30 * Time::DAY_MS;

/// Where the chains of a pair start, until the mixnet's client has them.
pub(crate) struct PendingStart {
    pub root: Secret<32>,
    /// The conversation round and the call round.
    pub rounds: (u64, u64),
}

/// Somebody who invites.
pub(crate) struct IncomingInvitation<B: Backend> {
    /// The number of the contact that this becomes.
    pub id: ContactId,
    pub ik: IdentityKey,
    pub conversation: Conversation<B>,
    /// Where they look for calls.
    pub bucket: u32,
    /// `None` once the client has it.
    pub start: Option<PendingStart>,
    /// When the invitation came.
    pub at: Time,
    /// When the person asked who it is.
    pub asked: Option<Time>,
    /// How often they were called again. Not stored: a restart calls them once more.
    pub times: u8,
}

impl<B: Backend> IncomingInvitation<B> {
    /// When something is due: they are called again, or forgotten.
    pub fn deadline(&self) -> Time {
        let end = self.at.plus_ms(LIFE_MS);
        self.asked.map_or(end, |asked| end.min(again(asked, self.times)))
    }

    /// Whether the invitation is too old to be of any use.
    pub fn is_over(&self, now: Time) -> bool {
        now.since_ms(self.at) >= LIFE_MS
    }

    /// The stored form, without the conversation.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(160);
        w.u8(VERSION).bytes(self.ik.as_bytes()).u32(self.bucket);
        w.u64(self.at.ms()).u64(self.asked.map_or(0, Time::ms));
        w.u8(u8::from(self.start.is_some()));
        if let Some(PendingStart { root, rounds }) = &self.start {
            w.bytes(root.expose()).u64(rounds.0).u64(rounds.1);
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(
        id: ContactId,
        bytes: &[u8],
        conversation: impl FnOnce(IdentityKey) -> Result<Conversation<B>, DecodeError>,
    ) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let ik = IdentityKey::decode(&r.array()?).map_err(|_| DecodeError::Value)?;
            let (bucket, at) = (r.u32()?, Time::from_ms(r.u64()?));
            let asked = Some(r.u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            let start = match r.u8()? {
                0 => None,
                1 => Some(PendingStart { root: Secret::read(r)?, rounds: (r.u64()?, r.u64()?) }),
                _ => return Err(DecodeError::Value),
            };
            let conversation = conversation(ik)?;
            Ok(Self { id, ik, conversation, bucket, start, at, asked, times: 0 })
        })
    }
}

/// Whose invitation a stored form is; read leniently, for a form that is none of ours.
pub(crate) fn owner(bytes: &[u8]) -> Option<IdentityKey> {
    let mut r = Reader::new(bytes);
    r.u8().ok()?;
    IdentityKey::decode(r.array_ref().ok()?).ok()
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
        IdentityKey::decode(pair.public().as_bytes()).expect("a public key")
    }

    fn read(bytes: &[u8]) -> Result<IncomingInvitation<PortableBackend>, DecodeError> {
        IncomingInvitation::read(ContactId(7), bytes, |ik| Ok(Conversation::new(key(1), ik)))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (n, bucket, at, asked) in (2..=255_u8, any::<u32>(), any::<u64>(), any::<u64>()),
            start in any::<Option<([u8; 32], u64, u64)>>(),
            (place, byte) in (any::<usize>(), any::<u8>()),
        ) {
            let start = start.map(|(root, talks, calls)| {
                PendingStart { root: Secret::copy_from(&root), rounds: (talks, calls) }
            });
            let (ik, at) = (key(n), Time::from_ms(at));
            let asked = Some(Time::from_ms(asked)).filter(|asked| *asked != Time::default());
            let conversation = Conversation::new(key(1), ik);
            let id = ContactId(7);
            let guest =
                IncomingInvitation::<PortableBackend> { id, ik, conversation, bucket, start, at, asked, times: 3 };
            let bytes = guest.write();
            let again = read(&bytes).map_err(|error| TestCaseError::fail(format!("{error}")))?;
            prop_assert_eq!(&again.write()[..], &bytes[..]);
            prop_assert_eq!((again.bucket, again.at, again.asked), (bucket, at, asked));
            prop_assert_eq!((again.id, again.ik, again.times), (id, ik, 0));
            prop_assert!(read(&bytes[..place % bytes.len()]).is_err());
            prop_assert!(read(&[&bytes[..], &[0]].concat()).is_err());
            // Whatever else is read is written the same.
            let mut other = bytes.to_vec();
            other[place % bytes.len()] = byte;
            if let Ok(guest) = read(&other) {
                prop_assert_eq!(&guest.write()[..], &other[..]);
            }
        }

        #[test]
        fn any_bytes_are_a_guest_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(guest) = read(&bytes) {
                prop_assert_eq!(&guest.write()[..], &bytes[..]);
            }
        }

        #[test]
        fn a_guest_is_due_at_most_12_hours_after_it_was_called(
            (at, since, times) in (0..1_u64 << 45, 0..1_u64 << 32, any::<u8>()),
        ) {
            let (ik, at) = (key(2), Time::from_ms(at));
            let asked = at.plus_ms(since);
            let mut guest = IncomingInvitation::<PortableBackend> {
                id: ContactId(7),
                ik,
                conversation: Conversation::new(key(1), ik),
                bucket: 1,
                start: None,
                at,
                asked: None,
                times,
            };
            prop_assert!(guest.is_over(guest.deadline()));
            guest.asked = Some(asked);
            let due = guest.deadline();
            prop_assert!(due > asked || guest.is_over(due));
            prop_assert!(due <= asked.plus_ms(12 * Time::HOUR_MS));
        }
    }
}
