//! The sessions with one contact.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Time, Wiping, Writer, snapshot};
use mezza_ratchet::{Conversation, IdentityKeyPair, OpenError, Opened, Prekeys};

use super::ReplayCache;
use crate::io::{Incoming, Pace, read_flag};

/// Versions of the stored form: without a bundle sent, with one, and with a message that waits for
/// a new session.
const NOTHING_TOLD: u8 = 1;
const TOLD: u8 = 2;
const WAITING: u8 = 3;
/// Sessions that one contact may begin at once; then one per interval (MSG-92).
const BEGINS_BURST: u32 = 8;
const BEGINS_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// The sessions with one contact, and the record of messages opened in them.
pub(crate) struct SessionPeer<B: Backend> {
    pub conversation: Conversation<B>,
    /// The messages opened last. The ratchet forgets a closed chain, so a repeated message would
    /// look forged. It must not end a session.
    pub replays: ReplayCache,
    pub renewal: Renewal,
    /// Rate limit for sessions that the contact begins.
    pub begins: Pace,
    /// Rate limit for sessions that this device begins without a loss (MSG-31).
    pub own_begins: Pace,
}

snapshot!(struct SessionPeer<B> { conversation, replays, renewal, begins, own_begins });

/// The wish for a new session, and the bundle that the contact got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// True if the next note needs a new session from a new bundle.
    pub renew: bool,
    /// Time of the last message that caused a new session.
    pub last_reset: Time,
    /// Number of the signed prekey in the bundle that the contact got last; 0 if there is none
    /// (MSG-100).
    pub told: u32,
    /// True while a message waits that came too early for a new session (MSG-127). The stored
    /// messages do not show this: an answer ends the wait but leaves them stored, and a clock that
    /// jumps puts their dates before or after `last_reset`.
    pub waits: bool,
}

snapshot!(struct Renewal { renew, last_reset, told, waits });

impl Renewal {
    /// Returns the row, or `None` if nothing must be stored.
    pub fn stored(&self) -> Option<Wiping<Vec<u8>>> {
        (*self != Self::default()).then(|| self.write())
    }

    /// Encodes the stored form, 10 or 14 bytes: `version u8 | renew u8 | last reset u64 | told
    /// u32`. Version 1 has no `told`.
    fn write(&self) -> Wiping<Vec<u8>> {
        let version = match (self.waits, self.told) {
            (true, _) => WAITING,
            (false, 0) => NOTHING_TOLD,
            (false, _) => TOLD,
        };
        let mut w = Writer::with_capacity(14);
        w.put_u8(version).put_u8(u8::from(self.renew)).put_u64(self.last_reset.as_ms());
        if version != NOTHING_TOLD {
            w.put_u32(self.told);
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let version = r.read_u8()?;
            let renew = read_flag(r)?;
            let last_reset = Time::from_ms(r.read_u64()?);
            let told = match version {
                NOTHING_TOLD => 0,
                TOLD | WAITING => r.read_u32()?,
                _ => return Err(DecodeError::Value),
            };
            Ok(Self { renew, last_reset, told, waits: version == WAITING })
        })
    }
}

impl<B: Backend> SessionPeer<B> {
    /// Creates the state of a contact without opened messages.
    pub fn new(conversation: Conversation<B>) -> Self {
        Self {
            conversation,
            replays: ReplayCache::default(),
            renewal: Renewal::default(),
            begins: Pace::new(BEGINS_BURST, BEGINS_EVERY_MS),
            own_begins: Pace::new(1, BEGINS_EVERY_MS),
        }
    }

    /// Opens a message. A first message above the contact's rate limit is refused before any
    /// multiplication, because the record of base keys is shared by all contacts (MSG-92).
    pub fn open(
        &mut self,
        Incoming { bytes, outer }: Incoming<'_>,
        identity: &IdentityKeyPair,
        prekeys: &mut Prekeys,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let mut begins = self.begins.clone();
        // A first message above the rate limit is refused before a multiplication (MSG-92).
        if self.conversation.begins_session(bytes) && begins.take_turn(now).is_err() {
            return Err(OpenError::NoSession);
        }
        let opened = self.conversation.open(bytes, outer, identity, prekeys, now)?;
        // Only a session that really began counts against the rate limit.
        if opened.first {
            self.begins = begins;
        }
        Ok(opened)
    }
}
