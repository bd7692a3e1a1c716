//! Two devices, a wire between them, and disks that answer at once: the stage of most tests.

use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, Time};
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::suite::{FrameKey, LinkSuite};
use mezza_seka::{
    FrameTarget, LinkId, LinkRole, LinkSession, Opener, Pairing, PairingFailure, PairingInput,
    PairingOutput, PairingSettings, Peer, PeerAddress, PeerEvent, PeerInput, PeerOutput,
    PeerSettings, Sealer, StoreKey,
};
use mezza_sim::SimRng;

/// The suite of most tests.
pub type Default = DefaultSuite<PortableBackend>;
/// Its frames.
pub type Frames = <Default as LinkSuite>::Frames;

/// A key for records.
pub fn store_key() -> StoreKey {
    StoreKey::new(Secret::init_with(|key| key.fill(7)))
}

/// The name of a device.
pub fn id(byte: u8) -> LinkId {
    LinkId::from_bytes([2, 0, 0, 0, 0, byte]).expect("a name")
}

/// The address of the other side in most tests.
pub const HOME: PeerAddress = PeerAddress([1; 20]);

/// A device that pairs.
pub struct Device<S: LinkSuite> {
    pub pairing: Pairing<S>,
    pub dice: SimRng,
    pub sent: Vec<Vec<u8>>,
    /// The destination of each frame; `None`: everybody on the link.
    pub targets: Vec<Option<PeerAddress>>,
    pub digits: Option<u32>,
    pub done: bool,
    pub failed: Option<PairingFailure>,
    pub writes: Vec<(u64, Vec<u8>)>,
    /// The private keys that were drawn.
    pub tapes: Vec<[u8; 32]>,
}

impl<S: LinkSuite> Device<S> {
    pub fn new(own: u8, change: impl FnOnce(&mut PairingSettings)) -> Self {
        let mut dice = SimRng::new(u64::from(own), 0);
        let mut settings = PairingSettings::new(id(own), "cam1", u16::from(own));
        change(&mut settings);
        let now = Time::from_ms(1_000);
        let pairing = Pairing::open_window(settings, store_key(), now, 1_000, dice.rng());
        let sent = Vec::new();
        let writes = Vec::new();
        let tapes = Vec::new();
        let targets = Vec::new();
        Self {
            pairing,
            dice,
            sent,
            targets,
            digits: None,
            done: false,
            failed: None,
            writes,
            tapes,
        }
    }

    pub fn give(&mut self, input: PairingInput, now: Time) {
        let _ = mezza_sim::handle_checked(&mut self.pairing, input, now, self.dice.rng());
        self.drain(now);
    }

    pub fn hear(&mut self, frame: &[u8], now: Time) {
        let frame = frame.to_vec();
        self.give(PairingInput::Datagram { frame, from: HOME, on_link: true }, now);
    }

    pub fn wake(&mut self, now: Time) {
        if self.pairing.deadline().is_some_and(|due| due <= now) {
            self.pairing.wake(now, self.dice.rng());
            self.drain(now);
        }
    }

    fn drain(&mut self, now: Time) {
        while let Some(output) = self.pairing.poll() {
            let answer = match output {
                PairingOutput::Want | PairingOutput::Peer(PeerOutput::Want) => {
                    let scalar = Secret::random(self.dice.rng());
                    self.tapes.push(*scalar.expose());
                    Some(PairingInput::Give(EphemeralKey::from_scalar::<S::Backend>(scalar)))
                }
                PairingOutput::Send { to, frame } => {
                    self.targets.push(to);
                    self.sent.push(frame);
                    None
                }
                PairingOutput::Peer(PeerOutput::Store { seq, sealed }) => {
                    self.writes.push((seq, sealed.to_vec()));
                    Some(PairingInput::Peer(PeerInput::Stored(seq)))
                }
                PairingOutput::Digits(digits) => {
                    self.digits = Some(digits.number());
                    None
                }
                PairingOutput::Done => {
                    self.done = true;
                    None
                }
                PairingOutput::Failed(failure) => {
                    self.failed = Some(failure);
                    None
                }
                _ => None,
            };
            if let Some(answer) = answer {
                let _ = self.pairing.handle(answer, now, self.dice.rng());
            }
        }
    }
}

/// Runs a pairing of two devices; `wire` sees each frame with the number of its sender and may change,
/// drop or add to what arrives.
pub fn run_pairing<S: LinkSuite>(
    devices: &mut [Device<S>],
    until_ms: u64,
    mut wire: impl FnMut(usize, Vec<u8>) -> Vec<(usize, Vec<u8>)>,
    mut look: impl FnMut(&mut [Device<S>], Time),
) {
    for ms in (1_000..1_000 + until_ms).step_by(10) {
        let now = Time::from_ms(ms);
        for device in devices.iter_mut() {
            device.wake(now);
        }
        look(devices, now);
        for from in 0..devices.len() {
            for frame in std::mem::take(&mut devices[from].sent) {
                for (to, frame) in wire(from, frame) {
                    devices[to].hear(&frame, now);
                }
            }
        }
    }
}

/// Frames go from each to the other.
pub fn across(from: usize, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
    vec![(1 - from, frame)]
}

/// A peer that lives, with its sessions and its disk.
pub struct Side<S: LinkSuite> {
    pub peer: Peer<S>,
    pub dice: SimRng,
    pub sent: Vec<Vec<u8>>,
    /// The target of each frame since the test looked last.
    pub targets: Vec<(Vec<u8>, FrameTarget)>,
    /// Each address that the peer was found at.
    pub moved: Vec<PeerAddress>,
    pub sessions: Vec<(LinkSession, Opener<S::Frames>)>,
    pub using: Option<u32>,
    pub events: Vec<PeerEvent>,
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Writes are answered by the test.
    pub slow_disk: bool,
    /// The private keys that were drawn: what a reader of its chance has.
    pub tapes: Vec<[u8; 32]>,
}

impl<S: LinkSuite> Side<S> {
    pub fn new(peer: Peer<S>, seed: u64) -> Self {
        let sent = Vec::new();
        let sessions = Vec::new();
        let events = Vec::new();
        let writes = Vec::new();
        let dice = SimRng::new(seed, 9);
        let mut side = Self {
            peer,
            dice,
            sent,
            targets: Vec::new(),
            moved: Vec::new(),
            sessions,
            using: None,
            events,
            writes,
            slow_disk: false,
            tapes: Vec::new(),
        };
        side.drain(Time::from_ms(2_000));
        side
    }

    pub fn give(&mut self, input: PeerInput, now: Time) -> Result<(), mezza_seka::LinkError> {
        let done = mezza_sim::handle_checked(&mut self.peer, input, now, self.dice.rng());
        self.drain(now);
        done
    }

    pub fn hear(&mut self, frame: &[u8], now: Time) -> Result<(), mezza_seka::LinkError> {
        self.hear_from(frame, HOME, now)
    }

    pub fn hear_from(
        &mut self,
        frame: &[u8],
        from: PeerAddress,
        now: Time,
    ) -> Result<(), mezza_seka::LinkError> {
        let mut frame = frame.to_vec();
        let Some(index) = mezza_seka::session::index_of(&frame) else {
            return self.give(PeerInput::Datagram { frame, from }, now);
        };
        let found = self.sessions.iter_mut().find(|(session, _)| session.own_index() == index);
        let Some((session, opener)) = found else { return Err(mezza_seka::LinkError::Refused) };
        let attempt = session.attempt();
        match opener.open(session, &mut frame) {
            Ok(_) => self.give(PeerInput::Fresh(attempt), now),
            Err(_) => Err(mezza_seka::LinkError::Refused),
        }
    }

    pub fn wake(&mut self, now: Time) {
        if self.peer.deadline().is_some_and(|due| due <= now) {
            self.peer.wake(now, self.dice.rng());
            self.drain(now);
        }
    }

    /// A frame with this text under the session that is sent under.
    pub fn seal(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let (session, _) = self.sessions.iter().find(|(s, _)| Some(s.attempt()) == self.using)?;
        seal::<S::Frames>(session, text)
    }

    fn drain(&mut self, now: Time) {
        while let Some(output) = self.peer.poll() {
            match output {
                PeerOutput::Want => {
                    let scalar = Secret::random(self.dice.rng());
                    self.tapes.push(*scalar.expose());
                    let key = EphemeralKey::from_scalar::<S::Backend>(scalar);
                    let _ = self.peer.handle(PeerInput::Give(key), now, self.dice.rng());
                }
                PeerOutput::Store { seq, sealed } => {
                    self.writes.push((seq, sealed.to_vec()));
                    if !self.slow_disk {
                        let _ = self.peer.handle(PeerInput::Stored(seq), now, self.dice.rng());
                    }
                }
                PeerOutput::Send { to, frame } => {
                    self.targets.push((frame.clone(), to));
                    self.sent.push(frame);
                }
                PeerOutput::Moved(address) => self.moved.push(address),
                PeerOutput::Install(session) => self.sessions.push((*session, Opener::default())),
                PeerOutput::Use(attempt) => self.using = Some(attempt),
                PeerOutput::KeepAlive { attempt, .. } => {
                    let found = self.sessions.iter().find(|(s, _)| s.attempt() == attempt);
                    let frame = found.and_then(|(session, _)| seal::<S::Frames>(session, &[0]));
                    self.sent.extend(frame);
                }
                PeerOutput::Retire(attempt) => {
                    self.sessions.retain(|(session, _)| session.attempt() != attempt);
                    self.using = self.using.filter(|using| *using != attempt);
                }
                PeerOutput::Tell(event) => self.events.push(event),
            }
        }
    }
}

/// A DATA frame.
pub fn seal<F: FrameKey>(session: &LinkSession, text: &[u8]) -> Option<Vec<u8>> {
    let mut frame = vec![0; 24 + text.len()];
    frame[8..8 + text.len()].copy_from_slice(text);
    Sealer::<F>::default().seal(session, session.reserve_packets(1)?, &mut frame);
    Some(frame)
}

/// Two peers fresh from a pairing, the initiator first, and the time.
pub fn paired<S: LinkSuite>() -> ([Side<S>; 2], Time) {
    paired_with(|_| {})
}

/// The same, with other settings.
pub fn paired_with<S: LinkSuite>(change: impl Fn(&mut PeerSettings)) -> ([Side<S>; 2], Time) {
    let device = |own: u8, role: LinkRole| {
        Device::<S>::new(own, |settings| {
            settings.role = Some(role);
            change(&mut settings.peer_settings);
        })
    };
    let mut devices = [device(1, LinkRole::Initiator), device(2, LinkRole::Responder)];
    run_pairing(&mut devices, 4_000, across, |_, _| {});
    let mut seed = 0;
    let sides = devices.map(|device| {
        assert!(device.done, "{:?}", device.failed);
        let (peer, _) = device.pairing.into_peer().expect("paired");
        seed += 1;
        let mut side = Side::new(peer, seed);
        side.writes = device.writes;
        side
    });
    (sides, Time::from_ms(6_000))
}

/// Lets time pass; frames that `wire` lets through reach the other side.
pub fn run<S: LinkSuite>(
    sides: &mut [Side<S>; 2],
    from: Time,
    ms: u64,
    mut wire: impl FnMut(usize, &[u8]) -> bool,
) -> Time {
    let end = from.plus_ms(ms);
    let mut now = from;
    loop {
        // Frames arrive at once, in their order.
        while sides.iter().any(|side| !side.sent.is_empty()) {
            for at in 0..2 {
                for frame in std::mem::take(&mut sides[at].sent) {
                    if wire(at, &frame) {
                        let _ = sides[1 - at].hear(&frame, now);
                    }
                }
            }
        }
        let due = sides.iter().filter_map(|side| side.peer.deadline()).min();
        match due.filter(|due| *due <= end) {
            Some(due) => now = now.max(due),
            None => return end,
        }
        for side in sides.iter_mut() {
            side.wake(now);
        }
    }
}

/// One exchange, begun by the initiator now, which nobody disturbs; true if both sides accepted it and
/// hold the same state.
pub fn exchange<S: LinkSuite>(sides: &mut [Side<S>; 2], now: Time) -> bool {
    let before = sides[1].peer.record().rekeys;
    let _ = sides[0].give(PeerInput::Rekey, now);
    run(sides, now, 3_000, |_, _| true);
    sides[1].peer.record().rekeys > before && states_agree(sides)
}

/// Returns true if both sides hold exactly one state, the same.
pub fn states_agree<S: LinkSuite>(sides: &[Side<S>; 2]) -> bool {
    let [(one, first), (two, second)] = sides.each_ref().map(|side| side.peer.stolen_states());
    one == two && first.is_none() && second.is_none()
}
