//! All sessions with one contact: one active, up to 40 archived.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use mezza_core::{Backend, DecodeError, EphemeralKey, SuiteId, Time, Wiping, snapshot};

use crate::session::StoredKey;
use crate::{Changes, Exporter, IdentityKey, Padding, SealError, Session, StoredRow, Table};

mod open;

/// Most archived sessions.
pub const ARCHIVED_MAX: usize = 40;
/// Days after its last use when an archived session is wiped.
pub const ARCHIVED_D: u64 = 30;
/// Chain steps that one message may cost over all sessions that are tried for it.
pub const TRY_STEPS_MAX: u32 = 25_000;

/// The sessions with one contact.
pub struct Conversation<B: Backend> {
    local: IdentityKey,
    remote: IdentityKey,
    /// The active one, then the archived ones, last used first.
    sessions: Vec<Session<B>>,
}

snapshot!(struct Conversation<B> { local, remote, sessions });

/// An opened message.
pub struct Opened {
    /// The body that the other side sealed.
    pub body: Wiping<Vec<u8>>,
    /// The id of the session that opened it, 16 bytes.
    pub session: [u8; 16],
    /// True if this message began the session.
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
pub struct SessionSummary {
    /// The suite.
    pub suite: SuiteId,
    /// True if this side began it.
    pub initiator: bool,
    /// True if it still waits for the first reply.
    pub pending: bool,
    /// True if the next message needs no fresh key.
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
        Self { local, remote, sessions: Vec::new() }
    }

    /// Puts the stored rows of one contact together again (tables `Session` and `Skipped`; rows of
    /// other tables are an error).
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

    /// Our identity.
    pub fn local(&self) -> &IdentityKey {
        &self.local
    }

    /// The contact's identity.
    pub fn remote(&self) -> &IdentityKey {
        &self.remote
    }

    /// Makes a session that was just initiated the active one; the old one is archived.
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

    /// Bytes of the message that [`seal`](Self::seal) would make of a body with
    /// [`Padding::Blocks`]; `None` without a session, or if the body is too long.
    pub fn message_bytes(&self, body_bytes: usize) -> Option<usize> {
        self.active_session()?.message_bytes(body_bytes)
    }

    /// Returns true if a message of the active session with this padding has room for a body.
    pub fn fits_body(&self, body_bytes: usize, padding: Padding) -> bool {
        self.active_session().is_some_and(|session| session.fits_body(body_bytes, padding))
    }

    /// Seals a body of at most 2 MiB in the active session. `outer` (0 to 64 bytes) binds the
    /// message to the layer around it; `ephemeral` is used only if
    /// [`needs_ephemeral`](Self::needs_ephemeral) says so, and wiped otherwise.
    ///
    /// The changes must be durable before the message leaves.
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

    /// Makes `session` the active one and drops the oldest archived one above the limit.
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

    /// Wipes what is too old: skipped keys and archived sessions after 30 days. Call it at start,
    /// before anything else, and at [`deadline`](Self::deadline).
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

    /// When [`sweep_expired`](Self::sweep_expired) has something to do; `None`: never.
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

    /// Returns true if the active session still waits for the first reply.
    pub fn is_pending(&self) -> bool {
        self.active_session().is_some_and(Session::is_pending)
    }

    /// Returns true if the active session is confirmed: a message of the contact was opened in it.
    pub fn is_open(&self) -> bool {
        self.active_session().is_some_and(|active| !active.is_pending())
    }

    /// The id of the active session, 16 bytes.
    pub fn active_id(&self) -> Option<[u8; 16]> {
        self.active_session().map(|active| *active.id())
    }

    /// The active session in numbers.
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

    /// Every row, as it should lie on disk now.
    pub fn all_rows(&self) -> Changes {
        let mut changes = Changes::new();
        for (at, session) in self.sessions.iter().enumerate() {
            self.record_session(at, &mut changes);
            session.skipped().record_rows(session.id(), &mut changes);
        }
        changes
    }

    /// The whole state as bytes, to compare it before and after.
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

/// When an archived session is wiped.
fn wipe_time<B: Backend>(session: &Session<B>) -> Time {
    session.last_used().plus_ms(ARCHIVED_D * Time::DAY_MS)
}

impl<B: Backend> fmt::Debug for Conversation<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}
