//! One session of a guard, from its first to its last byte.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, Snapshot, Time, Writer};

use super::coins::Coined;
use super::settings::{LANES, LANES_OF_ONE};
use super::{COINS, CloseReason, Guard, GuardConnection, GuardSide, Output};
use crate::coin::CoinPurpose;
use crate::gkx::GkxGuard;
use crate::keys::GuardClientId;
use crate::wire::control::{Control, ControlChannel, GuardMode, RefusalCode};

/// A session.
pub(crate) struct Session {
    /// The client of the session, once known.
    pub(super) client: Option<GuardClientId>,
    /// The destination, or the lane of an inbound connection.
    pub(super) dest: Option<u16>,
    /// True if the client dials.
    pub(super) is_dialling: bool,
    /// The address of an inbound connection, as a number.
    origin: u64,
    /// The mode; a client that dials selects it in OPEN.
    pub(super) mode: GuardMode,
    /// The connected sides.
    pub(super) link: Link,
    /// The control connection; `None` before HAIL and after the handshake.
    pub(super) talk: Option<Box<Talk>>,
    pub(super) stage: Stage,
    pub(super) owed: Owed,
}

/// A whole frame that came in on one side of a connection pair.
pub(super) struct FrameIn<'a> {
    pub conn: GuardConnection,
    pub side: GuardSide,
    pub frame: &'a [u8],
}

/// The body of OPEN.
struct OpenRequest {
    mode: GuardMode,
    dest: u16,
}

/// How far client and guard have authenticated each other.
pub(super) enum Talk {
    /// The guard's nonce was sent.
    Greeted([u8; 32]),
    /// Both nonces are known, and frames are sealed.
    Sealed(ControlChannel),
}

/// The reasons why the session counts as a refused handshake if it ends now (GUARD-35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed {
    /// True if a MAC was sent and no accepting answer has arrived.
    pub(super) answer: bool,
    /// True if a counter skipped numbers.
    pub(super) gap: bool,
    /// True if a connection was opened and no handshake frame was sent on it yet.
    pub(super) frame: bool,
}

/// The connected sides of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Only the first side is connected.
    One,
    /// The second side was requested.
    Asked,
    /// Both sides are connected.
    Both,
}

/// The stage of the handshake.
pub(super) enum Stage {
    /// Waits for HAIL and OPEN, or for the first frame of an inbound connection.
    New,
    /// A GKX handshake.
    Blind(Box<Blinded>),
    /// A handshake with coins: the slot was offered, or the coin was sent.
    Coins(Box<Coined>),
    /// The handshake is over.
    Forward,
}

/// The state of a GKX handshake.
pub(super) struct Blinded {
    wall: GkxGuard,
    /// A frame that waits for the other side.
    waiting: Option<Vec<u8>>,
}

impl Stage {
    /// Creates the stage at the beginning of GKX.
    pub(super) fn blind(wall: GkxGuard) -> Self {
        Self::Blind(Box::new(Blinded { wall, waiting: None }))
    }
}

/// Returns the lowest free lane for a new inbound connection of a client, or `None`. A lane is
/// occupied during the handshake only, because established links need no coin.
pub(super) fn free_lane<'a>(
    sessions: impl Iterator<Item = &'a Session> + Clone,
    client: GuardClientId,
    origin: u64,
) -> Option<u16> {
    // Established links occupy no lane. Otherwise eight of them would exclude all other callers.
    let is_shaking = |s: &&Session| !s.is_dialling && !matches!(s.stage, Stage::Forward);
    let of_client = sessions.filter(is_shaking).filter(|s| s.client == Some(client));
    // One address must not occupy all lanes of a client.
    if of_client.clone().filter(|s| s.origin == origin).count() >= LANES_OF_ONE {
        return None;
    }
    let mut lanes = LANES;
    lanes.find(|lane| !of_client.clone().any(|s| s.dest == Some(*lane)))
}

impl Session {
    fn new(is_dialling: bool, mode: GuardMode) -> Self {
        Self {
            client: None,
            dest: None,
            is_dialling,
            origin: 0,
            mode,
            link: Link::One,
            talk: None,
            stage: Stage::New,
            owed: Owed::default(),
        }
    }

    pub(super) fn for_dialling() -> Self {
        Self::new(true, GuardMode::Coins)
    }

    pub(super) fn for_pinned(client: GuardClientId, dest: u16) -> Self {
        let stage = Stage::blind(GkxGuard::for_dialling());
        let client = Some(client);
        let dest = Some(dest);
        Self { client, dest, stage, ..Self::new(true, GuardMode::Blind) }
    }

    pub(super) fn for_answering(
        client: GuardClientId,
        origin: u64,
        lane: u16,
        mode: GuardMode,
    ) -> Self {
        Self { client: Some(client), dest: Some(lane), origin, ..Self::new(false, mode) }
    }

    /// Returns true if frames can arrive from this side.
    pub(super) fn has_side(&self, side: GuardSide) -> bool {
        let first = if self.is_dialling { GuardSide::Inside } else { GuardSide::Wire };
        side == first || self.link == Link::Both
    }

    /// Returns client and destination, or `None` until both are known.
    pub(super) fn pair(&self) -> Option<(GuardClientId, u16)> {
        Some((self.client?, self.dest?))
    }

    pub(super) fn purpose(&self) -> CoinPurpose {
        if self.is_dialling { CoinPurpose::LinkDialling } else { CoinPurpose::LinkAnswering }
    }

    /// Returns true if the session counts as a refused handshake when it ends now.
    pub(super) fn counts_as_refused(&self) -> bool {
        self.owed != Owed::default()
    }

    /// Returns true if the session may still end as a refused handshake.
    pub(super) fn may_be_refused(&self) -> bool {
        !matches!(self.stage, Stage::Forward) || self.counts_as_refused()
    }

    /// Returns the frame that tells a paired client why it is refused, or `None` if the client has
    /// no sealed channel yet.
    pub(super) fn refusal_frame(mut self, code: RefusalCode) -> Option<Vec<u8>> {
        self.sealed_channel().map(|channel| channel.seal(&Control::Refused(code)))
    }

    pub(super) fn send_control(
        &mut self,
        conn: GuardConnection,
        out: &mut VecDeque<Output>,
        what: &Control,
    ) {
        if let Some(channel) = self.sealed_channel() {
            out.push_back(Output::Send(conn, GuardSide::Inside, channel.seal(what)));
        }
    }

    fn sealed_channel(&mut self) -> Option<&mut ControlChannel> {
        match self.talk.as_deref_mut() {
            Some(Talk::Sealed(channel)) => Some(channel),
            _ => None,
        }
    }

    /// Handles the connected other side. Returns false if the connection was not requested.
    pub(super) fn on_dialled(
        &mut self,
        conn: GuardConnection,
        out: &mut VecDeque<Output>,
        rng: &mut dyn CryptoRng,
    ) -> bool {
        // The driver reports a connection that this session did not request.
        if self.link != Link::Asked {
            return false;
        }
        self.link = Link::Both;
        if self.is_dialling {
            // A connection without a frame counts as refused, because opening one is a signal
            // (GUARD-35).
            self.owed.frame = true;
            self.send_control(conn, out, &Control::Ready);
            if let Stage::Blind(blinded) = &mut self.stage
                && let Some(frame) = blinded.waiting.take()
            {
                // The frame waited for this connection and is sent now.
                self.owed.frame = false;
                out.push_back(Output::Send(conn, GuardSide::Wire, frame));
            }
        } else {
            let nonce = self.fresh_nonce(rng);
            out.push_back(Output::Send(
                conn,
                GuardSide::Inside,
                Control::Hello { nonce }.encode_clear(),
            ));
        }
        true
    }

    fn fresh_nonce(&mut self, rng: &mut dyn CryptoRng) -> [u8; 32] {
        let mut nonce = [0; 32];
        rng.fill_bytes(&mut nonce);
        self.talk = Some(Box::new(Talk::Greeted(nonce)));
        nonce
    }

    /// Handles a frame. An error closes the session.
    pub(super) fn on_frame(
        &mut self,
        guard: &mut Guard,
        input: &FrameIn<'_>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        let FrameIn { conn, side, frame } = *input;
        let is_control = frame.get(1).is_some_and(|kind| Control::is_kind(*kind));
        match side {
            // Frames of the wire are never control frames, and control frames are never sent to the
            // wire (GUARD-28).
            GuardSide::Wire if is_control => Err(CloseReason::Control),
            GuardSide::Inside if is_control => self.on_control(guard, conn, frame, now, rng),
            GuardSide::Inside => self.pass_outgoing(guard, conn, frame, rng),
            GuardSide::Wire => self.pass_incoming(guard, conn, frame, rng),
        }
    }

    fn on_control(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        frame: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        let Some(channel) = self.sealed_channel() else {
            // Without a channel only HAIL is possible, which is sent in clear.
            return self.on_hail(guard, conn, frame, rng);
        };
        match channel.open(frame).map_err(|_| CloseReason::Control)? {
            Control::Open { mode, dest } => {
                self.on_open(guard, conn, &OpenRequest { mode, dest }, now, rng)
            }
            Control::Point(point) => self.on_point(guard, conn, &point),
            _ => Err(CloseReason::Control),
        }
    }

    /// Handles HAIL: the client of an outbound connection sends it first, that of an inbound one as
    /// an answer.
    fn on_hail(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        let hail = Control::read_clear(frame).map_err(|_| CloseReason::Control)?;
        let Control::Hail { client, nonce: theirs } = hail else {
            return Err(CloseReason::Control);
        };
        // An inbound connection is for one client, and another client must not take it.
        if self.client.is_some_and(|expected| expected != client) {
            return Err(CloseReason::Control);
        }
        let own = match (self.talk.as_deref(), &self.stage) {
            // Only before the handshake: the session of a link has no room for a channel (GUARD-36),
            // and a pinned client sends no HAIL (GUARD-32).
            (None, Stage::New) if self.is_dialling => {
                let nonce = self.fresh_nonce(rng);
                let hello = Control::Hello { nonce }.encode_clear();
                guard.out.push_back(Output::Send(conn, GuardSide::Inside, hello));
                nonce
            }
            (Some(Talk::Greeted(nonce)), _) if !self.is_dialling => *nonce,
            // A second HAIL would draw a second key for the same session.
            _ => return Err(CloseReason::Control),
        };
        let pairing = &guard.settings.find_client(client).ok_or(CloseReason::Control)?.key;
        let channel = ControlChannel::of_guard(pairing, &own, &theirs);
        // A false client fails at its first sealed frame, because it lacks the pairing key.
        self.talk = Some(Box::new(Talk::Sealed(channel)));
        self.client = Some(client);
        if !self.is_dialling {
            self.send_seed(guard, conn, rng);
            self.on_answered(guard, conn)?;
        }
        Ok(())
    }

    fn send_seed(&mut self, guard: &mut Guard, conn: GuardConnection, rng: &mut dyn CryptoRng) {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        self.send_control(conn, &mut guard.out, &Control::Seed(seed));
    }

    fn on_open(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        request: &OpenRequest,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        let OpenRequest { mode, dest } = *request;
        let (Stage::New, true, None, Some(client)) =
            (&self.stage, self.is_dialling, self.dest, self.client)
        else {
            return Err(CloseReason::Refused(RefusalCode::OutOfOrder));
        };
        // Destinations are numbers of the owner's list, because a free choice would be a channel
        // (GUARD-32).
        if guard.settings.find_destination(dest).is_none() {
            return Err(CloseReason::Refused(RefusalCode::UnknownDestination));
        }
        guard.check_admission(client, dest, now).map_err(CloseReason::Refused)?;
        (self.dest, self.mode) = (Some(dest), mode);
        // Fresh bytes help a client whose generator is broken (P5).
        self.send_seed(guard, conn, rng);
        match mode {
            GuardMode::Blind => self.stage = Stage::blind(GkxGuard::for_dialling()),
            GuardMode::Coins => self.offer_slot(guard, conn)?,
        }
        Ok(())
    }

    /// Handles the answer of an inbound client: offers its slot, or sends the waiting frame at
    /// once.
    fn on_answered(&mut self, guard: &mut Guard, conn: GuardConnection) -> Result<(), CloseReason> {
        match (&mut self.stage, self.mode) {
            (Stage::Blind(blinded), _) => {
                let frame = blinded.waiting.take().ok_or(CloseReason::Control)?;
                guard.out.push_back(Output::Send(conn, GuardSide::Inside, frame));
                Ok(())
            }
            (Stage::Coins(_), GuardMode::Coins) => self.offer_slot(guard, conn),
            _ => Err(CloseReason::Control),
        }
    }

    /// Passes a GKX frame through its guard.
    pub(super) fn pass_blind(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        side: GuardSide,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        let Stage::Blind(blinded) = &mut self.stage else { return Err(CloseReason::Control) };
        let Blinded { wall, waiting } = &mut **blinded;
        let group = &guard.group;
        let coins = &mut COINS.clone();
        let changed = match side {
            GuardSide::Inside => wall.change_outgoing(group, frame, coins, rng),
            GuardSide::Wire => wall.change_incoming(group, frame, coins, rng),
        };
        // The guard's state is unchanged, and the session closes without a reason for the peer
        // (GUARD-14).
        let changed = changed.map_err(CloseReason::Firewall)?;
        let to = if side == GuardSide::Inside { GuardSide::Wire } else { GuardSide::Inside };
        // G4 answers the tag of the initiator; the first record answers that of the responder.
        let is_tag_of_responder = !self.is_dialling && wall.is_done() && side == GuardSide::Inside;
        self.owed.answer = wall.awaits_answer() || is_tag_of_responder;
        let is_done = wall.is_done();
        if self.link == Link::Both {
            self.owed.frame &= to != GuardSide::Wire;
            guard.out.push_back(Output::Send(conn, to, changed));
        } else {
            // One frame waits while the other side is being connected. A second one is out of
            // order.
            *waiting = Some(changed);
            self.request_link(guard, conn);
        }
        if is_done {
            self.begin_forwarding(guard, conn);
        }
        Ok(())
    }

    /// Requests the connection to the other side.
    pub(super) fn request_link(&mut self, guard: &mut Guard, conn: GuardConnection) {
        // Set first, because a second request would open a second connection.
        self.link = Link::Asked;
        let (Some(client), Some(dest)) = (self.client, self.dest) else { return };
        guard.out.push_back(if self.is_dialling {
            Output::Dial(conn, dest)
        } else {
            Output::DialClient(conn, client)
        });
    }
}

impl Snapshot for Session {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_bytes(&self.client.map_or([0; 16], |client| client.0));
        w.put_u16(self.dest.unwrap_or(0)).put_u64(self.origin);
        for flag in [self.is_dialling, self.owed.answer, self.owed.gap, self.owed.frame] {
            w.put_u8(u8::from(flag));
        }
        w.put_u8(self.link as u8).put_u8(self.mode as u8);
        match self.talk.as_deref() {
            None => w.put_u8(0),
            Some(Talk::Greeted(nonce)) => w.put_u8(1).put_bytes(nonce),
            Some(Talk::Sealed(channel)) => {
                let [sent, received] = channel.counters();
                w.put_u8(2).put_u64(sent).put_u64(received)
            }
        };
        match &self.stage {
            Stage::New => {
                w.put_u8(0);
            }
            Stage::Blind(blinded) => {
                let Blinded { wall, waiting } = &**blinded;
                w.put_u8(1).put_var16(waiting.as_deref().unwrap_or_default());
                wall.snapshot_into(w);
            }
            Stage::Coins(coined) => {
                w.put_u8(2);
                coined.snapshot_into(w);
            }
            Stage::Forward => {
                w.put_u8(3);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::G3_BYTES;

    /// Bytes of the longest stored handshake frame: KE1 of SEKA.
    const FRAME_BYTES: usize = 88;

    #[test]
    fn guard_36_a_session_has_64_bytes_when_it_stands_and_512_before() {
        let session = size_of::<Session>();
        assert!(session <= 64, "{session}");
        let talk = size_of::<Talk>();
        let coined = size_of::<Coined>() + 2 * FRAME_BYTES;
        let blinded = size_of::<Blinded>() + G3_BYTES;
        assert!(session + talk + coined.max(blinded) <= 512, "{talk} {coined} {blinded}");
    }
}
