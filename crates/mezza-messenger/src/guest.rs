//! Somebody who invites over the mixnet: a key, a session and where they wait; no name, no card.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Secret, Time, Wiping, Writer};
use mezza_ratchet::{Conversation, IdentityKey};

use crate::io::ContactId;

/// Version of the stored form.
const VERSION: u8 = 1;
/// When they are called again who were asked and did not come, hours.
const AGAIN_HOURS: [u64; 3] = [1, 4, 12];
/// An invitation that nobody looks at is forgotten after this time: the prekey that it used ends
/// then at the latest.
const LIFE_MS: u64 = 30 * Time::DAY_MS;

/// Where the chains of a pair start, until the mixnet's client has them.
pub(crate) struct Start {
    pub root: Secret<32>,
    /// The conversation round and the call round.
    pub rounds: (u64, u64),
}

/// Somebody who invites.
pub(crate) struct Guest<B: Backend> {
    /// The number of the contact that this becomes.
    pub id: ContactId,
    pub ik: IdentityKey,
    pub conversation: Conversation<B>,
    /// Where they look for calls.
    pub bucket: u32,
    /// `None` once the client has it.
    pub start: Option<Start>,
    /// When the invitation came.
    pub at: Time,
    /// When the person asked who it is.
    pub asked: Option<Time>,
    /// How often they were called again. Not stored: a restart calls them once more.
    pub times: u8,
}

impl<B: Backend> Guest<B> {
    /// When something is due: they are called again, or forgotten.
    pub fn deadline(&self) -> Time {
        let end = self.at.plus_ms(LIFE_MS);
        let hours = AGAIN_HOURS[usize::from(self.times).min(AGAIN_HOURS.len() - 1)];
        self.asked.map_or(end, |asked| end.min(asked.plus_ms(hours * Time::HOUR_MS)))
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
        if let Some(Start { root, rounds }) = &self.start {
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
        Reader::all(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let ik = IdentityKey::decode(&r.array()?).map_err(|_| DecodeError::Value)?;
            let (bucket, at) = (r.u32()?, Time::from_ms(r.u64()?));
            let asked = Some(r.u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            let start = match r.u8()? {
                0 => None,
                1 => Some(Start { root: Secret::read(r)?, rounds: (r.u64()?, r.u64()?) }),
                _ => return Err(DecodeError::Value),
            };
            let conversation = conversation(ik)?;
            Ok(Self { id, ik, conversation, bucket, start, at, asked, times: 0 })
        })
    }
}
