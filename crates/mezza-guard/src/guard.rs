//! The machine of a guard: the sessions of all clients, and the ledger of slots.
//!
//! ```text
//! blind, dialling:   New --G1--> Committed --G2--> Answered --G3 checked--> Opened --G4--> Forward
//! coins, dialling:   New --HAIL,OPEN--> Slot --POINT--> Coined --frame, X ok--> Sent --answer--> .. --> Forward
//! coins, answering:  frame of the wire, HELLO,HAIL --> Slot --POINT--> Coined --answer, X ok--> .. --> Forward
//! any state --bad frame, wrong order, 10 s--> closed: coins wiped, slot kept
//! ```
//! `Persist` is output before the `Send` that depends on it. The driver makes the record durable
//! first, and closes the connection if it cannot.

mod coins;
mod forward;
mod session;
mod settings;

pub(crate) use settings::LANES;
pub use settings::{
    Destination, GuardClientSettings, GuardSettings, HANDSHAKE_MS_MAX, INBOUND_LANES, SESSIONS_MAX,
    StrictPolicy,
};

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, Machine, Snapshot, Time, Wiping, Writer};

use crate::coin::{CoinEra, CoinKey};
use crate::coins::Uniform;
use crate::connections::{Connections, NoRoom};
use crate::error::FirewallError;
use crate::group::Ristretto;
use crate::keys::GuardClientId;
use crate::ledger::{LedgerRecord, REFUSALS_ALARM, REFUSALS_BLOCK, REFUSALS_EVER, SlotLedger};
use crate::rule::FrameRuleError;
use crate::wire::control::RefusalCode;
use session::{FrameIn, Session};

/// The number of a connection pair, which the driver chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuardConnection(pub u64);

/// The two ends of a connection pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardSide {
    /// The side of the client.
    Inside,
    /// The side of the network.
    Wire,
}

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A client connected to the guard and will identify itself.
    Inside,
    /// A client that does not know the guard connected to the listener of a destination (blind
    /// mode).
    Pinned(GuardClientId, u16),
    /// A peer connected to the listener of a client; the number stands for the peer's address.
    Wire(GuardClientId, u64),
}

/// Events that a guard handles.
#[derive(Debug)]
pub enum Input {
    /// A connection arrived.
    Opened(GuardConnection, Opening),
    /// The requested connection was made.
    Dialled(GuardConnection),
    /// The requested connection failed.
    DialFailed(GuardConnection),
    /// A whole frame arrived.
    Frame(GuardConnection, GuardSide, Vec<u8>),
    /// One side closed the connection.
    Closed(GuardConnection, GuardSide),
    /// The owner unblocked a destination of a client.
    Unblock(GuardClientId, u16),
    /// The owner reset a slot of a client that lost its state.
    ResetSlot(crate::coin::SlotName),
    /// The owner changed the list of clients or that of destinations.
    Lists {
        /// All clients by id.
        clients: BTreeMap<GuardClientId, GuardClientSettings>,
        /// All destinations by number.
        destinations: BTreeMap<u16, Destination>,
    },
}

/// Effects that a guard requests.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a frame to one side.
    Send(GuardConnection, GuardSide, Vec<u8>),
    /// Connect to a destination by its number.
    Dial(GuardConnection, u16),
    /// Connect to a client.
    DialClient(GuardConnection, GuardClientId),
    /// Store a record durably before the next output.
    Persist(GuardConnection, LedgerRecord),
    /// From now on forward records without passing them to the guard, under the rule of records.
    Pump(GuardConnection),
    /// Close both sides of a connection.
    Close(GuardConnection, CloseReason),
    /// Report an event to the owner.
    Event(GuardEvent),
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// One side closed the connection.
    Ended,
    /// The guard refused the client.
    Refused(RefusalCode),
    /// A frame violated its rule.
    Frame(FrameRuleError),
    /// A GKX frame violated its rule.
    Firewall(FirewallError),
    /// A control frame was malformed, or the client is unknown.
    Control,
    /// The handshake took too long.
    Timeout,
}

/// Events for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardEvent {
    /// The first refused handshake of a day, which may have transported 128 bits.
    Notice(GuardClientId, u16),
    /// The third or a further refused handshake of a day.
    Alarm {
        /// The client whose handshake was refused.
        client: GuardClientId,
        /// The number of the destination, or of the lane.
        dest: u16,
        /// The number of refused handshakes in the last 24 hours; 20 means 20 or more.
        refusals: usize,
        /// True if the destination is blocked for this client from now on (GUARD-35).
        is_blocked: bool,
    },
    /// The number of this client's refused handshakes over the life of the ledger, a multiple of
    /// [`REFUSALS_EVER`]. A device that leaks 128 bits per refusal may have sent its keys by now:
    /// replace the device and its keys.
    Worn(GuardClientId, u32),
    /// A frame without a rule was passed, under the policy `Report`.
    Uncovered(GuardConnection),
}

/// The reason why an input is refused. The guard is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// The caller used an unknown connection number.
    #[error("no such connection")]
    UnknownConnection,
    /// The caller used a connection number that is already in use.
    #[error("the number stands for a connection already")]
    Twice,
    /// There are too many connections, in all or from one address.
    #[error("too many connections")]
    TooMany,
    /// The destination is blocked for this client: 20 handshakes were refused in a day.
    #[error("the destination is blocked for this client; the owner can unblock it")]
    Blocked,
    /// The caller used an unknown client or destination.
    #[error("no such client or destination")]
    Unknown,
    /// The caller reported a connection that was not requested, or a frame from an unconnected
    /// side.
    #[error("not now")]
    Unasked,
}

impl From<NoRoom> for GuardError {
    fn from(none: NoRoom) -> Self {
        match none {
            NoRoom::Twice => Self::Twice,
            NoRoom::Full => Self::TooMany,
        }
    }
}

/// The machine of a guard.
pub struct Guard {
    settings: GuardSettings,
    group: Ristretto,
    key: CoinKey,
    era: CoinEra,
    ledger: SlotLedger,
    sessions: Connections<Session>,
    out: VecDeque<Output>,
}

impl Guard {
    /// Starts a guard with the content of its ledger. The guard draws a new era and returns it as a
    /// record, which must be durable first.
    pub fn start(
        settings: GuardSettings,
        key: CoinKey,
        mut ledger: SlotLedger,
        rng: &mut dyn CryptoRng,
    ) -> (Self, LedgerRecord) {
        let mut era = CoinEra([0; 32]);
        // Each start has a fresh era, because a restored ledger must not reveal a coin for a second
        // point (GUARD-20).
        rng.fill_bytes(&mut era.0);
        let record = LedgerRecord::Era(era);
        ledger.apply_record(&record);
        let guard = Self {
            settings,
            group: Ristretto::new(),
            key,
            era,
            ledger,
            sessions: Connections::new(SESSIONS_MAX),
            out: VecDeque::new(),
        };
        (guard, record)
    }

    /// Returns the ledger, for the audit and the owner.
    pub const fn ledger(&self) -> &SlotLedger {
        &self.ledger
    }

    /// Returns the number of sessions in progress.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    fn persist_record(&mut self, conn: GuardConnection, record: LedgerRecord) {
        // The record is applied and queued together, before any output that depends on it
        // (GUARD-37).
        self.ledger.apply_record(&record);
        self.out.push_back(Output::Persist(conn, record));
    }

    fn open_session(
        &mut self,
        conn: GuardConnection,
        opening: Opening,
        now: Time,
    ) -> Result<(), GuardError> {
        // Checked first, because a refused connection must leave the guard unchanged.
        self.sessions.check_room(conn)?;
        let session = match opening {
            Opening::Inside => Session::for_dialling(),
            Opening::Pinned(client, dest) => {
                // The listener of a pinned client must know both, because this client sends no HAIL
                // (GUARD-32).
                if !self.settings.is_known(client) || self.settings.find_destination(dest).is_none()
                {
                    return Err(GuardError::Unknown);
                }
                self.check_admission(client, dest, now).map_err(|code| match code {
                    RefusalCode::Blocked => GuardError::Blocked,
                    _ => GuardError::TooMany,
                })?;
                Session::for_pinned(client, dest)
            }
            Opening::Wire(client, origin) => {
                let mode = self.settings.find_client(client).ok_or(GuardError::Unknown)?.inbound;
                // If all lanes are full, the newest caller is refused, so that handshakes in
                // progress continue.
                let lane = session::free_lane(self.sessions.values(), client, origin);
                Session::for_answering(client, origin, lane.ok_or(GuardError::TooMany)?, mode)
            }
        };
        self.sessions.insert(conn, session, now);
        Ok(())
    }

    /// Checks that a client may begin a handshake with a destination (GUARD-35, GUARD-47).
    ///
    /// # Errors
    /// `Blocked` by the owner, or after 20 refusals in a day; `Busy` if the handshakes in progress could exceed that
    /// number.
    fn check_admission(
        &mut self,
        client: GuardClientId,
        dest: u16,
        now: Time,
    ) -> Result<(), RefusalCode> {
        // The owner's block holds until the owner ends it (GUARD-49).
        if self.settings.find_destination(dest).is_some_and(|dest| dest.is_blocked) {
            return Err(RefusalCode::Blocked);
        }
        // Boot time begins anew at a restart, and a block must not last longer than a day after it.
        self.ledger.clamp_refusals(now);
        // Each refused handshake may carry 128 bits, so their number in a day is bounded (GUARD-35).
        let refusals = self.ledger.count_refusals(client, dest, now);
        if refusals >= REFUSALS_BLOCK {
            return Err(RefusalCode::Blocked);
        }
        // A refusal is counted when its session ends. Simultaneous sessions must not send more MACs
        // than successive ones (GUARD-47).
        let is_of = |session: &&Session| session.pair() == Some((client, dest));
        let open = self.sessions.values().filter(is_of).filter(|session| session.may_be_refused());
        if refusals + open.count() >= REFUSALS_BLOCK {
            return Err(RefusalCode::Busy);
        }
        Ok(())
    }

    /// Replaces the owner's lists. Sessions of a client or destination that is gone or blocked end.
    fn replace_lists(
        &mut self,
        clients: BTreeMap<GuardClientId, GuardClientSettings>,
        destinations: BTreeMap<u16, Destination>,
        now: Time,
    ) {
        self.settings.clients = clients;
        self.settings.destinations = destinations;
        let settings = &self.settings;
        let is_over = |session: &Session| {
            let is_gone = session.client.is_some_and(|client| !settings.is_known(client));
            let dest = session.dest.filter(|_| session.is_dialling);
            let allows = |dest: u16| settings.find_destination(dest).is_some_and(|d| !d.is_blocked);
            is_gone || dest.is_some_and(|dest| !allows(dest))
        };
        let over = self.sessions.iter().filter(|(_, session)| is_over(session));
        // An established link would otherwise outlive the block (GUARD-49).
        for conn in over.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.close_session(conn, CloseReason::Refused(RefusalCode::Blocked), now);
        }
    }

    /// Ends a session. Its coins are wiped, and its slot is kept. A handshake whose MAC was not
    /// answered counts as refused (GUARD-35).
    fn close_session(&mut self, conn: GuardConnection, reason: CloseReason, now: Time) {
        let Some(session) = self.sessions.remove(conn) else { return };
        // The guard cannot check the MAC that it passed on, so the client may have hidden 128 bits
        // in it, whatever ended the session (GUARD-35).
        if let (true, Some((client, dest))) = (session.counts_as_refused(), session.pair()) {
            // Durable before the event, because a restart must not forget refusals (GUARD-37).
            self.persist_record(conn, LedgerRecord::Refused(client, dest, now));
            let event = match self.ledger.count_refusals(client, dest, now) {
                0..=1 => Some(GuardEvent::Notice(client, dest)),
                refusals if refusals >= REFUSALS_ALARM => {
                    // A lane is never blocked. Otherwise one caller who does not answer could cut
                    // off all callers (GUARD-48).
                    let is_blocked = session.is_dialling && refusals >= REFUSALS_BLOCK;
                    Some(GuardEvent::Alarm { client, dest, refusals, is_blocked })
                }
                _ => None,
            };
            self.out.extend(event.map(Output::Event));
            // Refusals over the life of the ledger add up, including one a day, which never raises
            // a daily alarm (GUARD-45).
            let ever = self.ledger.refused_ever(client);
            if ever.is_multiple_of(REFUSALS_EVER) {
                self.out.push_back(Output::Event(GuardEvent::Worn(client, ever)));
            }
        }
        // Only a client with a sealed channel gets the reason, because others are not
        // authenticated.
        if let CloseReason::Refused(code) = reason
            && let Some(frame) = session.refusal_frame(code)
        {
            self.out.push_back(Output::Send(conn, GuardSide::Inside, frame));
        }
        self.out.push_back(Output::Close(conn, reason));
    }

    fn on_frame(
        &mut self,
        conn: GuardConnection,
        side: GuardSide,
        frame: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), GuardError> {
        // The session is taken out while it is processed, so that it can change the guard.
        let mut session = self.sessions.take_out(conn).ok_or(GuardError::UnknownConnection)?;
        // A frame from an unconnected side is an error of the driver and changes nothing.
        if !session.has_side(side) {
            self.sessions.put_back(conn, session);
            return Err(GuardError::Unasked);
        }
        // An error closes the session: a handshake is not repaired in the middle.
        let taken = session.on_frame(self, &FrameIn { conn, side, frame }, now, rng);
        self.sessions.put_back(conn, session);
        if let Err(reason) = taken {
            self.close_session(conn, reason, now);
        }
        Ok(())
    }

    fn on_dialled(
        &mut self,
        conn: GuardConnection,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), GuardError> {
        let mut session = self.sessions.take_out(conn).ok_or(GuardError::UnknownConnection)?;
        let is_asked = session.on_dialled(conn, &mut self.out, rng);
        self.sessions.put_back(conn, session);
        // A connection that was not requested must not become the other side of a session.
        if is_asked { Ok(()) } else { Err(GuardError::Unasked) }
    }

    fn check_known(&self, conn: GuardConnection) -> Result<(), GuardError> {
        self.sessions.get(conn).map(|_| ()).ok_or(GuardError::UnknownConnection)
    }
}

impl Machine for Guard {
    type Input = Input;
    type Output = Output;
    type Error = GuardError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), GuardError> {
        match input {
            Input::Opened(conn, opening) => self.open_session(conn, opening, now)?,
            Input::Dialled(conn) => self.on_dialled(conn, rng)?,
            Input::DialFailed(conn) => {
                self.check_known(conn)?;
                // No frame was sent, so this end does not count as a refused handshake.
                self.close_session(conn, CloseReason::Refused(RefusalCode::Unreachable), now);
            }
            Input::Frame(conn, side, frame) => self.on_frame(conn, side, &frame, now, rng)?,
            Input::Closed(conn, _) => {
                self.check_known(conn)?;
                self.close_session(conn, CloseReason::Ended, now);
            }
            Input::Unblock(client, dest) => {
                if !self.settings.is_known(client) {
                    return Err(GuardError::Unknown);
                }
                self.persist_record(GuardConnection(0), LedgerRecord::Unblocked(client, dest));
            }
            Input::ResetSlot(name) => {
                if !self.settings.is_known(name.client) {
                    return Err(GuardError::Unknown);
                }
                // The present number is given up and never offered again (GUARD-22).
                let (slot, _) = self.ledger.find_slot(name);
                self.persist_record(GuardConnection(0), LedgerRecord::Reset(slot));
            }
            Input::Lists { clients, destinations } => {
                self.replace_lists(clients, destinations, now);
            }
        }
        Ok(())
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        while let Some(conn) = self.sessions.take_overdue(now) {
            // A silent peer counts as a refusal if a MAC was sent (GUARD-35).
            self.close_session(conn, CloseReason::Timeout, now);
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.sessions.deadline()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl Snapshot for Guard {
    fn snapshot_into(&self, w: &mut Writer) {
        let Self { settings: _, group: _, key: _, era, ledger, sessions, out } = self;
        w.put_bytes(&era.0);
        ledger.snapshot_into(w);
        for (conn, session) in sessions.iter() {
            w.put_u64(conn.0);
            session.snapshot_into(w);
        }
        w.put_u64(sessions.deadline().map_or(0, Time::as_ms)).put_u64(out.len() as u64);
        for output in out {
            w.put_var16(alloc::format!("{output:?}").as_bytes());
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard with {} sessions", self.sessions.len())
    }
}

/// The honest source of a guard's coins.
const COINS: Uniform = Uniform;
