//! All sessions with one contact: one active, up to 40 archived.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use mezza_core::{Backend, DecodeError, EphemeralKey, SuiteId, Time, Wiping, snapshot};

use crate::session::StoredKey;
use crate::{Changes, Exporter, IdentityKey, Padding, SealError, Session, StoredRow, Table};

mod open;

/// Most archived sessions with one contact.
pub const ARCHIVED_MAX: usize = 40;
/// Days after its last use when an archived session is wiped.
pub const ARCHIVED_D: u64 = 30;
/// Most chain steps that one message may cost, over all sessions that are tried.
pub const TRY_STEPS_MAX: u32 = 25_000;

/// All sessions between this device and one device of a contact.
pub struct Conversation<B: Backend> {
    local: IdentityKey,
    remote: IdentityKey,
    /// The active session first, then the archived sessions in the order of last use.
    sessions: Vec<Session<B>>,
}

snapshot!(struct Conversation<B> { local, remote, sessions });

/// A message that was opened.
pub struct Opened {
    /// The body that the sender sealed.
    pub body: Wiping<Vec<u8>>,
    /// The id of the session that opened the message, 16 bytes.
    pub session: [u8; 16],
    /// True if this message began the session.
    pub first: bool,
    /// The exporter secret of the handshake; `Some` only if `first` is true.
    pub exporter: Option<Exporter>,
    /// The rows that change. Store these rows together with the body.
    pub changes: Changes,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened {{ first: {} }}", self.first)
    }
}

/// Counters and dates of the active session, without any key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// The suite of the session.
    pub suite: SuiteId,
    /// True if this device began the session.
    pub initiator: bool,
    /// True if the session still waits for the first reply.
    pub pending: bool,
    /// True if this side already has a sending chain, so that the next message needs no fresh
    /// ratchet key.
    pub our_turn: bool,
    /// Messages sealed in the current sending chain.
    pub sent: u32,
    /// The next index in the current receiving chain.
    pub received: u32,
    /// The number of skipped message keys that are stored, over all sessions.
    pub skipped: usize,
    /// The number of archived sessions.
    pub archived: usize,
    /// The time at which a message was last opened in the session; `None` if no message was opened.
    pub last_opened: Option<Time>,
}

impl<B: Backend> Conversation<B> {
    /// Creates a conversation without any session.
    pub fn new(local: IdentityKey, remote: IdentityKey) -> Self {
        Self { local, remote, sessions: Vec::new() }
    }

    /// Restores the conversation from the stored rows of one contact. Rows of tables other than
    /// `Session` and `Skipped` are an error.
    pub fn load<'a>(
        local: IdentityKey,
        remote: IdentityKey,
        records: impl IntoIterator<Item = StoredRow<'a>>,
    ) -> Result<Self, DecodeError> {
        let mut sessions = Vec::new();
        let mut keys: BTreeMap<[u8; 16], Vec<StoredKey>> = BTreeMap::new();
        for record in records {
            match record.table {
                Table::Session => sessions.push(load_session::<B>(&local, &remote, record)?),
                Table::Skipped => {
                    let row = StoredKey::decode(record.key, record.value)?;
                    keys.entry(row.session).or_default().push(row);
                }
                _ => return Err(DecodeError::Value),
            }
        }
        let active = sessions.iter().filter(|(_, active)| *active).count();
        if active != usize::from(!sessions.is_empty()) || sessions.len() > ARCHIVED_MAX + 1 {
            return Err(DecodeError::Value);
        }
        sessions.sort_by_key(|(session, active)| (!active, Reverse(session.last_used())));
        let mut sessions: Vec<_> = sessions.into_iter().map(|(session, _)| session).collect();
        for (id, rows) in keys {
            let session = sessions.iter_mut().find(|session| *session.id() == id);
            session.ok_or(DecodeError::Value)?.skipped_mut().load_rows(rows)?;
        }
        Ok(Self { local, remote, sessions })
    }

    /// Returns the identity of this device.
    pub fn local(&self) -> &IdentityKey {
        &self.local
    }

    /// Returns the identity of the contact.
    pub fn remote(&self) -> &IdentityKey {
        &self.remote
    }

    /// Makes a session that was just initiated the active session, and archives the session that
    /// was active.
    ///
    /// # Panics
    /// If the session was initiated by another identity or with another contact.
    pub fn add_session(&mut self, mut session: Session<B>, now: Time) -> Changes {
        assert!(*session.local() == self.local && *session.remote() == self.remote);
        session.set_created(now);
        let mut changes = Changes::new();
        self.activate_session(session, &mut changes);
        changes
    }

    /// Returns true if the next [`seal`](Self::seal) needs a fresh ratchet key.
    pub fn needs_ephemeral(&self) -> bool {
        self.active_session().is_some_and(Session::needs_ephemeral)
    }

    /// Returns the bytes of the message that [`seal`](Self::seal) would make of such a body with
    /// [`Padding::Blocks`]. `None` if there is no session, or if the body is too long.
    pub fn message_bytes(&self, body_bytes: usize) -> Option<usize> {
        self.active_session()?.message_bytes(body_bytes)
    }

    /// Returns true if a message of the active session with this padding has room for a body.
    pub fn fits_body(&self, body_bytes: usize, padding: Padding) -> bool {
        self.active_session().is_some_and(|session| session.fits_body(body_bytes, padding))
    }

    /// Seals a body of at most 2 MiB in the active session. `outer` (0 to 64 bytes) is
    /// authenticated with the message and not sent by the ratchet. `ephemeral` is used only if
    /// [`needs_ephemeral`](Self::needs_ephemeral) returns true, and wiped otherwise.
    ///
    /// Store the changes before the message is sent.
    pub fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
        ephemeral: Option<EphemeralKey>,
        now: Time,
    ) -> Result<(Vec<u8>, Changes), SealError> {
        let active = self.sessions.first_mut().ok_or(SealError::NoSession)?;
        let message = active.seal(body, outer, padding, ephemeral, now)?;
        let mut changes = Changes::new();
        self.record_session(0, &mut changes);
        Ok((message, changes))
    }

    /// Makes `session` the active session, and drops the oldest archived sessions above the limit.
    fn activate_session(&mut self, session: Session<B>, changes: &mut Changes) {
        self.sessions.insert(0, session);
        if self.sessions.len() > 1 {
            self.record_session(1, changes);
        }
        while self.sessions.len() > ARCHIVED_MAX + 1 {
            if let Some(oldest) = self.sessions.pop() {
                drop_session(&oldest, changes);
            }
        }
        self.record_session(0, changes);
    }

    fn record_session(&self, at: usize, changes: &mut Changes) {
        let session = &self.sessions[at];
        changes.put_row(Table::Session, session.id().to_vec(), session.encode(at == 0));
    }

    /// Wipes skipped keys and archived sessions that are older than 30 days. Call this function at
    /// start before any other, and at [`deadline`](Self::deadline).
    pub fn sweep_expired(&mut self, now: Time) -> Changes {
        let mut changes = Changes::new();
        let mut active = true;
        self.sessions.retain_mut(|session| {
            let keep = active || now < wipe_time(session);
            active = false;
            if keep {
                let id = *session.id();
                session.skipped_mut().sweep_expired(&id, now, &mut changes);
            } else {
                drop_session(session, &mut changes);
            }
            keep
        });
        changes
    }

    /// Returns the time at which [`sweep_expired`](Self::sweep_expired) must be called next; `None`
    /// if there is nothing to wipe.
    pub fn deadline(&self) -> Option<Time> {
        let archived = self.sessions.iter().skip(1).map(wipe_time);
        let skipped = self.sessions.iter().filter_map(|session| session.skipped().deadline());
        archived.chain(skipped).min()
    }

    fn active_session(&self) -> Option<&Session<B>> {
        self.sessions.first()
    }

    /// Returns true if there is an active session (pending or open).
    pub fn has_session(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Returns true if the active session can seal a message at `now`: it was answered within 30
    /// days of its begin, or is not that old, and its sending chain is not used up.
    pub fn can_seal(&self, now: Time) -> bool {
        self.active_session().is_some_and(|active| active.check_limits(now).is_ok())
    }

    /// Returns true if the active session still waits for the first reply.
    pub fn is_pending(&self) -> bool {
        self.active_session().is_some_and(Session::is_pending)
    }

    /// Returns true if the active session is confirmed: a message of the contact was opened in it.
    pub fn is_open(&self) -> bool {
        self.active_session().is_some_and(|active| !active.is_pending())
    }

    /// Returns the id of the active session, 16 bytes.
    pub fn active_id(&self) -> Option<[u8; 16]> {
        self.active_session().map(|active| *active.id())
    }

    /// Returns counters and dates of the active session.
    pub fn summary(&self) -> Option<SessionSummary> {
        let active = self.active_session()?;
        let (sent, received) = active.counters();
        Some(SessionSummary {
            suite: active.suite(),
            initiator: active.is_initiator(),
            pending: active.is_pending(),
            our_turn: !active.needs_ephemeral(),
            sent,
            received,
            skipped: self.sessions.iter().map(|session| session.skipped().len()).sum(),
            archived: self.sessions.len() - 1,
            last_opened: active.last_opened(),
        })
    }

    /// Returns every row of the conversation as it should be stored now.
    pub fn all_rows(&self) -> Changes {
        let mut changes = Changes::new();
        for (at, session) in self.sessions.iter().enumerate() {
            self.record_session(at, &mut changes);
            session.skipped().record_rows(session.id(), &mut changes);
        }
        changes
    }

    /// Returns the whole state as bytes, to compare the states before and after an operation.
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        self.all_rows().encode()
    }
}

fn load_session<B: Backend>(
    local: &IdentityKey,
    remote: &IdentityKey,
    record: StoredRow<'_>,
) -> Result<(Session<B>, bool), DecodeError> {
    let (session, active) = Session::decode(record.value)?;
    let fits = session.id() == record.key && session.local() == local && session.remote() == remote;
    if fits { Ok((session, active)) } else { Err(DecodeError::Value) }
}

fn drop_session<B: Backend>(session: &Session<B>, changes: &mut Changes) {
    session.skipped().drop_all(session.id(), changes);
    changes.drop_row(Table::Session, session.id().to_vec());
}

/// Returns the time at which an archived session is wiped.
fn wipe_time<B: Backend>(session: &Session<B>) -> Time {
    session.last_used().plus_ms(ARCHIVED_D * Time::DAY_MS)
}

impl<B: Backend> fmt::Debug for Conversation<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}
