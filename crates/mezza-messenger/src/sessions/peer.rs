//! The sessions with one contact.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Time, Wiping, Writer};
use mezza_ratchet::Conversation;

use super::ReplayCache;
use crate::io::flag;

/// Version of the stored form.
const VERSION: u8 = 1;

/// The sessions with one contact, and what was opened in them.
pub(crate) struct SessionPeer<B: Backend> {
    pub conversation: Conversation<B>,
    /// Which messages were opened last. The ratchet forgets a closed chain, so that a mail that
    /// comes again would look forged; it must not end a session.
    pub replays: ReplayCache,
    pub renewal: Renewal,
}

/// Whether and why a session gives way to a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// The next note needs a new session, from a new bundle.
    pub renew: bool,
    /// When a message last made us want one.
    pub last_reset: Time,
}

impl Renewal {
    /// Its row; there is none as long as nothing happened.
    pub fn stored(&self) -> Option<Wiping<Vec<u8>>> {
        (*self != Self::default()).then(|| self.write())
    }

    /// The stored form: `renew u8 | last reset u64`.
    fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(10);
        w.u8(VERSION).u8(u8::from(self.renew)).u64(self.last_reset.ms());
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            Ok(Self { renew: flag(r)?, last_reset: Time::from_ms(r.u64()?) })
        })
    }
}

impl<B: Backend> SessionPeer<B> {
    /// Nothing was opened yet.
    pub fn new(conversation: Conversation<B>) -> Self {
        Self { conversation, replays: ReplayCache::default(), renewal: Renewal::default() }
    }
}
