//! Lying devices: they lie in their own frames, and never change a victim's memory.

use mezza::testing::servers::mesh::crowd::{HostedCrew, START};
use mezza_mesh::frame::{MeshFrame, Name};
use mezza_mesh::limits::SECOND;
use mezza_mesh::set::Set;
use mezza_sim::SimRng;
use mezza_sim::crowd::{DeviceId, Swarm};
use rand_core::Rng as _;

/// An eighth of a second, the unit of stamps, µs.
const STAMP: u64 = 125_000;
/// Frames that a black hole accepts before it has nothing to announce.
const SWALLOWED: usize = 16;
/// Cells that an empty promise announces.
const PROMISED: u64 = 16;

/// The behaviour of a liar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liar {
    /// Each beacon shows another time, up to this many seconds off.
    RandomClock(u64),
    /// All liars show the same wrong time: the true time plus this many seconds.
    Collude(i64),
    /// Each beacon shows the start time.
    Freeze,
    /// Each beacon shows the neighbours' time plus 0.45 s, just inside the margin.
    Drag,
    /// Announces cells that it never delivers.
    EmptyPromise,
    /// Accepts cells, and never announces or delivers any.
    BlackHole,
    /// Announces cells, and responds to every request that it is busy.
    Busy,
    /// Sends BYE, which announces that a device leaves, with every other beacon.
    Farewell,
    /// Sends comparisons as if its store were empty.
    Glutton,
    /// Writes many cells without a receiver; [`Stage::run_day`](super::Stage::run_day) triggers
    /// them.
    Flood,
    /// All of these attacks in turn, an hour each. In attacks that are not on clocks, its clock is
    /// off by this many seconds.
    Every(i64),
}

/// The attacks of [`Liar::Every`].
const EVERY: [Liar; 9] = [
    Liar::RandomClock(300),
    Liar::Freeze,
    Liar::Drag,
    Liar::EmptyPromise,
    Liar::BlackHole,
    Liar::Busy,
    Liar::Farewell,
    Liar::Glutton,
    Liar::Flood,
];
/// Duration of each attack in [`EVERY`], µs.
const ATTACK: u64 = 3_600 * SECOND;
/// The waiting time that a busy device names, ms.
const BUSY_MS: u16 = 1;

/// The behaviour of all liars in a scene, and their number.
#[derive(Clone, Copy, Debug)]
pub struct LiarShare {
    pub liar: Liar,
    /// The share of devices that lie, in thousandths.
    pub permille: u64,
}

impl Liar {
    /// Returns liars of this behaviour, as a share of all devices in thousandths.
    #[must_use]
    pub const fn with_share(self, permille: u64) -> LiarShare {
        LiarShare { liar: self, permille }
    }

    /// Returns the name of the behaviour.
    pub fn name(self) -> String {
        match self {
            Self::RandomClock(s) => format!("random clocks +-{s} s"),
            Self::Collude(s) => format!("colluders at {s:+} s"),
            Self::Freeze => "frozen clocks".into(),
            Self::Drag => "clocks that drag".into(),
            Self::EmptyPromise => "empty promises".into(),
            Self::BlackHole => "black holes".into(),
            Self::Busy => "busy announcers".into(),
            Self::Farewell => "farewells".into(),
            Self::Glutton => "empty comparisons".into(),
            Self::Flood => "floods".into(),
            Self::Every(s) => format!("every attack in turn, clocks at {s:+} s"),
        }
    }
}

/// A crew that contains liars.
pub struct Liars {
    /// All devices, including liars; their engines are honest.
    pub hosted: HostedCrew,
    /// The role of each device.
    pub roles: Vec<Option<Liar>>,
    /// The device that last sent a request to each device.
    asked: Vec<Name>,
}

impl Liars {
    /// Draws the devices that lie.
    pub fn new(hosted: HostedCrew, liars: Option<LiarShare>, dice: &mut SimRng) -> Self {
        let count = hosted.0.len();
        let mut roles = vec![None; count];
        if let Some(LiarShare { liar, permille }) = liars {
            let wanted = count * usize::try_from(permille).unwrap_or(0) / 1_000;
            let mut left = wanted;
            while left > 0 {
                let at = usize::try_from(dice.between(0, count as u64 - 1)).unwrap_or(0);
                if roles[at].is_none() {
                    roles[at] = Some(liar);
                    left -= 1;
                }
            }
        }
        Self { hosted, roles, asked: vec![0; count] }
    }

    /// Returns the present behaviour of a liar.
    fn choose_attack(device: DeviceId, liar: Liar, now: u64) -> Liar {
        if !matches!(liar, Liar::Every(_)) {
            return liar;
        }
        let turn = (now - START) / ATTACK + u64::from(device);
        EVERY[usize::try_from(turn).unwrap_or(0) % EVERY.len()]
    }

    /// Returns the devices that flood now.
    pub fn find_floods(&self, now: u64) -> Vec<DeviceId> {
        let roles = (0..).zip(&self.roles);
        let floods = roles.filter(|(device, role)| {
            role.is_some_and(|liar| Self::choose_attack(*device, liar, now) == Liar::Flood)
        });
        floods.map(|(device, _)| device).collect()
    }

    /// Turns a frame into a lie; `None` if the frame is not sent.
    fn make_lie(
        &mut self,
        device: DeviceId,
        liar: Liar,
        frame: MeshFrame,
        now: u64,
    ) -> Option<MeshFrame> {
        let attack = Self::choose_attack(device, liar, now);
        match (attack, frame) {
            (Liar::Busy, MeshFrame::Data(_)) => {
                let to = self.asked[device as usize];
                Some(MeshFrame::Busy { to, wait_ms: BUSY_MS })
            }
            (Liar::Glutton, MeshFrame::Sync(mut sync)) => {
                sync.held = Set::default();
                Some(MeshFrame::Sync(sync))
            }
            (Liar::Farewell, MeshFrame::Beacon(beacon)) if beacon.stamp.is_multiple_of(2) => {
                Some(MeshFrame::Bye)
            }
            (Liar::EmptyPromise | Liar::BlackHole, MeshFrame::Data(_))
            | (Liar::BlackHole, MeshFrame::Have(_) | MeshFrame::Sync(_)) => None,
            (Liar::EmptyPromise, MeshFrame::Have(mut set)) => {
                let table = self.hosted.0.table();
                let newest = table.made();
                for number in newest.saturating_sub(PROMISED)..newest {
                    if let Some(slot) = table.slot(number) {
                        set.insert(slot);
                    }
                }
                Some(MeshFrame::Have(set))
            }
            (_, MeshFrame::Beacon(mut beacon)) => {
                let own = self.shown_time(device, attack, now);
                let always = || match liar {
                    Liar::Every(offset_s) => self.shown_time(device, Liar::Collude(offset_s), now),
                    _ => None,
                };
                if let Some(shown) = own.or_else(always) {
                    beacon.stamp = shown / STAMP;
                }
                Some(MeshFrame::Beacon(beacon))
            }
            (_, frame) => Some(frame),
        }
    }

    /// Returns the time that a liar shows, µs since 1970. The crowd's time is the true time.
    fn shown_time(&mut self, device: DeviceId, liar: Liar, now: u64) -> Option<u64> {
        match liar {
            Liar::RandomClock(spread_s) => {
                let spread = 2 * spread_s * SECOND + 1;
                let off = self.hosted.0.rng(device).next_u64() % spread;
                Some((now + off).saturating_sub(spread_s * SECOND))
            }
            Liar::Collude(offset_s) => Some(now.saturating_add_signed(offset_s * 1_000_000)),
            Liar::Freeze => Some(START),
            Liar::Drag => Some(self.hosted.0.engine(device).clock().mesh_time(now) + 450_000),
            Liar::EmptyPromise
            | Liar::BlackHole
            | Liar::Busy
            | Liar::Farewell
            | Liar::Glutton
            | Liar::Flood
            | Liar::Every(_) => None,
        }
    }
}

impl Swarm for Liars {
    type Frame = MeshFrame;

    fn due_time(&self, device: DeviceId) -> u64 {
        self.hosted.due_time(device)
    }

    fn next_frame(&mut self, device: DeviceId, now: u64) -> Option<(MeshFrame, usize)> {
        let Some(liar) = self.roles[device as usize] else {
            return self.hosted.next_frame(device, now);
        };
        for _ in 0..SWALLOWED {
            let (frame, bytes) = self.hosted.next_frame(device, now)?;
            if let Some(frame) = self.make_lie(device, liar, frame, now) {
                return Some((frame, bytes));
            }
            if self.due_time(device) > now {
                return None;
            }
        }
        None
    }

    fn receive_frame(
        &mut self,
        device: DeviceId,
        contact: u16,
        frame: &MeshFrame,
        now: u64,
    ) -> bool {
        if self.roles[device as usize].is_some()
            && matches!(frame, MeshFrame::Want { to, .. } if *to == u64::from(device))
            && let Some(neighbour) = self.hosted.0.engine(device).neighbour(contact)
        {
            self.asked[device as usize] = neighbour.name;
        }
        self.hosted.receive_frame(device, contact, frame, now)
    }

    fn begin_contact(&mut self, a: DeviceId, b: DeviceId, now: u64) -> [u16; 2] {
        self.hosted.begin_contact(a, b, now)
    }

    fn end_contact(&mut self, device: DeviceId, contact: u16, now: u64) {
        self.hosted.end_contact(device, contact, now);
    }
}
