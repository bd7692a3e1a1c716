//! The sessions with one contact.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Time, Wiping, Writer, snapshot};
use mezza_ratchet::{Conversation, IdentityKeyPair, OpenError, Opened, Prekeys};

use super::ReplayCache;
use crate::io::{Incoming, Pace, read_flag};

/// Versions of the stored form: where no bundle was told, where one was, and where a message waits
/// for a new session.
const NOTHING_TOLD: u8 = 1;
const TOLD: u8 = 2;
const WAITING: u8 = 3;
/// Sessions that one contact begins at once, and then one in so many milliseconds (MSG-92).
const BEGINS_BURST: u32 = 8;
const BEGINS_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// The sessions with one contact, and what was opened in them.
pub(crate) struct SessionPeer<B: Backend> {
    pub conversation: Conversation<B>,
    /// Which messages were opened last. The ratchet forgets a closed chain, so that a mail that
    /// comes again would look forged; it must not end a session.
    pub replays: ReplayCache,
    pub renewal: Renewal,
    /// How often the contact may begin a session.
    pub begins: Pace,
}

snapshot!(struct SessionPeer<B> { conversation, replays, renewal, begins });

/// True if and why a session gives way to a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// The next note needs a new session, from a new bundle.
    pub renew: bool,
    /// When a message last made us want one.
    pub last_reset: Time,
    /// The signed prekey of our bundle that the contact was told last, 0: none (MSG-100).
    pub told: u32,
    /// Set while a message waits that came too early for a new session (MSG-127). It cannot be told from
    /// the messages that are kept: an answer ends the wait and leaves them there, and a clock that jumps
    /// puts their dates before or behind `last_reset`.
    pub waits: bool,
}

snapshot!(struct Renewal { renew, last_reset, told, waits });

impl Renewal {
    /// Its row; there is none as long as nothing happened.
    pub fn stored(&self) -> Option<Wiping<Vec<u8>>> {
        (*self != Self::default()).then(|| self.write())
    }

    /// The stored form, of 10 or 14 bytes: `version u8 | renew u8 | last reset u64 | told u32`; in version
    /// 1 without the last.
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
    /// Nothing was opened yet.
    pub fn new(conversation: Conversation<B>) -> Self {
        Self {
            conversation,
            replays: ReplayCache::default(),
            renewal: Renewal::default(),
            begins: Pace::new(BEGINS_BURST, BEGINS_EVERY_MS),
        }
    }

    /// Opens a message. A first message beyond the contact's pace is refused before anything is
    /// multiplied: the memory of base keys is one for all contacts (MSG-92).
    pub fn open(
        &mut self,
        Incoming { bytes, outer }: Incoming<'_>,
        identity: &IdentityKeyPair,
        prekeys: &mut Prekeys,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let mut begins = self.begins.clone();
        // A first message beyond the pace is refused before a multiplication (MSG-92).
        if self.conversation.begins_session(bytes) && begins.take_turn(now).is_err() {
            return Err(OpenError::NoSession);
        }
        let opened = self.conversation.open(bytes, outer, identity, prekeys, now)?;
        // Only a session that really began counts against the pace.
        if opened.first {
            self.begins = begins;
        }
        Ok(opened)
    }
}
