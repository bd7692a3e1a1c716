//! All sessions with one contact: one active, up to 40 archived.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use mezza_core::{Backend, DecodeError, Ephemeral, SuiteId, Time};
use zeroize::Zeroizing;

use crate::{
    Changes, Exporter, Identity, IdentityKey, OpenError, Padding, Prekeys, Record, SealError,
    Session,
};

/// The sessions with one contact.
pub struct Conversation<B: Backend> {
    local: IdentityKey,
    remote: IdentityKey,
    backend: PhantomData<fn() -> B>,
}

/// An opened message.
pub struct Opened {
    /// What the other side sealed.
    pub body: Zeroizing<Vec<u8>>,
    /// The id of the session that opened it, 16 bytes.
    pub session: [u8; 16],
    /// Whether this message began the session.
    pub first: bool,
    /// The exporter of the handshake; `Some` only if `first`.
    pub exporter: Option<Exporter>,
    /// The rows that change; they become durable together with the body.
    pub changes: Changes,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened {{ first: {} }}", self.first)
    }
}

/// The active session in numbers, without any key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The suite.
    pub suite: SuiteId,
    /// Whether this side began it.
    pub initiator: bool,
    /// Whether it still waits for the first reply.
    pub pending: bool,
    /// Whether the next message needs no fresh key.
    pub our_turn: bool,
    /// Messages sealed in the current sending chain.
    pub sent: u32,
    /// Next index in the current receiving chain.
    pub received: u32,
    /// Skipped keys held, over all sessions.
    pub skipped: usize,
    /// Archived sessions.
    pub archived: usize,
    /// When a message was last opened in it; `None`: never.
    pub last_opened: Option<Time>,
}

impl<B: Backend> Conversation<B> {
    /// No session yet.
    pub fn new(local: IdentityKey, remote: IdentityKey) -> Self {
        Self { local, remote, backend: PhantomData }
    }

    /// Puts the stored rows of one contact together again (tables `Session` and `Skipped`; rows of
    /// other tables are an error).
    pub fn load<'a>(
        local: IdentityKey,
        remote: IdentityKey,
        records: impl IntoIterator<Item = Record<'a>>,
    ) -> Result<Self, DecodeError> {
        let _ = (local, remote, records.into_iter());
        todo!()
    }

    /// Our identity.
    pub fn local(&self) -> &IdentityKey {
        &self.local
    }

    /// The contact's identity.
    pub fn remote(&self) -> &IdentityKey {
        &self.remote
    }

    /// Makes a session that was just initiated the active one; the old one is archived.
    pub fn begin(&mut self, session: Session<B>, now: Time) -> Changes {
        let _ = (session, now);
        todo!()
    }

    /// Whether the next [`seal`](Self::seal) needs a fresh ratchet key.
    pub fn needs_ephemeral(&self) -> bool {
        todo!()
    }

    /// Bytes of the message that [`seal`](Self::seal) would make of a body with
    /// [`Padding::Blocks`]; `None` without a session.
    pub fn message_bytes(&self, body_bytes: usize) -> Option<usize> {
        let _ = body_bytes;
        todo!()
    }

    /// Seals a body of at most 2 MiB in the active session. `outer` (0 to 64 bytes) binds the
    /// message to the layer around it; `ephemeral` is used only if
    /// [`needs_ephemeral`](Self::needs_ephemeral) says so, and wiped otherwise.
    pub fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
        ephemeral: Option<Ephemeral>,
        now: Time,
    ) -> Result<(Vec<u8>, Changes), SealError> {
        let _ = (body, outer, padding, ephemeral, now);
        todo!()
    }

    /// Opens a message of this contact, whichever session it belongs to; a first message begins a
    /// session with the prekeys of this device. An error changes nothing, here or in `prekeys`.
    pub fn open(
        &mut self,
        message: &[u8],
        outer: &[u8],
        identity: &Identity,
        prekeys: &mut Prekeys,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let _ = (message, outer, identity, prekeys, now);
        todo!()
    }

    /// Wipes what is too old: skipped keys and archived sessions after 30 days. Call it at start,
    /// before anything else, and at [`deadline`](Self::deadline).
    pub fn sweep(&mut self, now: Time) -> Changes {
        let _ = now;
        todo!()
    }

    /// When [`sweep`](Self::sweep) has something to do; `None`: never.
    pub fn deadline(&self) -> Option<Time> {
        todo!()
    }

    /// Whether there is an active session (pending or open).
    pub fn has_session(&self) -> bool {
        todo!()
    }

    /// Whether the active session still waits for the first reply.
    pub fn is_pending(&self) -> bool {
        todo!()
    }

    /// Whether the active session is confirmed: a message of the contact was opened in it.
    pub fn is_open(&self) -> bool {
        todo!()
    }

    /// The id of the active session, 16 bytes.
    pub fn active_id(&self) -> Option<[u8; 16]> {
        todo!()
    }

    /// The active session in numbers.
    pub fn summary(&self) -> Option<Summary> {
        todo!()
    }

    /// Every row, as it should lie on disk now.
    pub fn records(&self) -> Changes {
        todo!()
    }

    /// The whole state as bytes, to compare it before and after.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        todo!()
    }
}

impl<B: Backend> fmt::Debug for Conversation<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}
