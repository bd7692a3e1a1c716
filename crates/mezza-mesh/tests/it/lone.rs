//! One node, and peers that may say anything to it.

use mezza_core::{Machine, Secret};
use mezza_mesh::cell::short_id;
use mezza_mesh::frame::{Beacon, Name};
use mezza_mesh::node::{Error, Input, LinkKind, NodeSettings, NodeStatus, Output};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::{CellLife, Grade, MeshCell, MeshNetwork, Node};
use mezza_sim::{SimRng, Time};

use crate::town::{START_MS, payload};

/// The cast link that every lone node has.
pub const CAST: u32 = 0;

/// A frame that the node sent.
pub struct Sent {
    pub at_ms: u64,
    pub bytes: Vec<u8>,
}

/// The node, its time, and everything that came out of it.
pub struct Lone {
    pub node: Node,
    pub rng: SimRng,
    pub now_ms: u64,
    pub grade: Grade,
    /// The node's own clock minus the time of the test, ms.
    pub off_ms: i64,
    pub sent: Vec<Sent>,
    pub said: Vec<Output>,
    network: MeshNetwork,
}

impl Lone {
    /// A node of an open network, whose clock is right.
    pub fn new(grade: Grade) -> Self {
        Self::with(&NodeSettings::default(), grade, 0)
    }

    /// A node of an open network whose clock is off by `off_ms`.
    pub fn with(settings: &NodeSettings, grade: Grade, off_ms: i64) -> Self {
        Self::of(settings, None, grade, off_ms)
    }

    /// A node of a network with this key.
    pub fn of(settings: &NodeSettings, key: Option<u8>, grade: Grade, off_ms: i64) -> Self {
        let network = || {
            let key = key.map(|byte| Secret::copy_from(&[byte; 32]));
            MeshNetwork::new("open", key)
        };
        let node = Node::new(settings.clone(), network(), Time::from_ms(0));
        let mut outside = network();
        outside.follow_clock(START_MS * 1_000);
        let rng = SimRng::new(1, 1);
        let sent = Vec::new();
        let said = Vec::new();
        let mut lone = Self { node, rng, now_ms: 0, grade, off_ms, sent, said, network: outside };
        lone.link_up(CAST, LinkKind::Cast);
        lone.read_clock();
        lone.run(2_000);
        lone
    }

    pub fn link_up(&mut self, link: u32, kind: LinkKind) {
        let frame_bytes_max = if kind == LinkKind::Cast { 1_200 } else { 4_160 };
        let delay_us = 1_000;
        let room = 1_000_000;
        self.give(Input::LinkUp { link, kind, frame_bytes_max, delay_us, room }).unwrap();
    }

    /// The node's own clock is read.
    pub fn read_clock(&mut self) {
        let time = Time::from_ms((START_MS + self.now_ms).saturating_add_signed(self.off_ms));
        let grade = self.grade;
        self.give(Input::Rtc { time, grade }).unwrap();
    }

    pub fn give(&mut self, input: Input) -> Result<(), Error> {
        let done = self.node.handle(input, Time::from_ms(self.now_ms), self.rng.rng());
        self.drain();
        done
    }

    fn drain(&mut self) {
        while let Some(output) = self.node.poll() {
            match output {
                Output::Send { frame, .. } => {
                    self.sent.push(Sent { at_ms: self.now_ms, bytes: frame });
                }
                other => self.said.push(other),
            }
        }
    }

    /// Lets time pass. The node is never due again in the millisecond in which it was woken (MESH-54).
    pub fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(at) = self.node.deadline().map(Time::as_ms).filter(|at| *at < end) {
            self.now_ms = at.max(self.now_ms);
            self.node.wake(Time::from_ms(self.now_ms), self.rng.rng());
            self.drain();
            let next = self.node.deadline().map(Time::as_ms);
            assert!(next.is_none_or(|at| at > self.now_ms), "it is due for ever");
        }
        self.now_ms = end;
    }

    /// A frame of a peer arrives on the cast link.
    pub fn hear(&mut self, source: u64, frame: &WireFrame<'_>) -> Result<(), Error> {
        self.hear_on(CAST, source, frame)
    }

    pub fn hear_on(&mut self, link: u32, source: u64, frame: &WireFrame<'_>) -> Result<(), Error> {
        let mut bytes = frame.encode();
        self.network.follow_clock((START_MS + self.now_ms) * 1_000);
        self.network.append_mac(&mut bytes);
        self.give(Input::Frame { link, source, bytes })
    }

    /// A beacon of a peer whose clock is off by `off_ms`.
    pub fn beacon(&mut self, source: u64, name: Name, off_ms: i64) -> Result<(), Error> {
        self.beacon_on(CAST, source, name, off_ms)
    }

    pub fn beacon_on(
        &mut self,
        link: u32,
        source: u64,
        name: Name,
        off_ms: i64,
    ) -> Result<(), Error> {
        let stamp = (START_MS + self.now_ms).saturating_add_signed(off_ms) / 125;
        let beacon = Beacon { stamp, agreed: true, streams: true, ..Beacon::default() };
        self.network.follow_clock((START_MS + self.now_ms) * 1_000);
        let net = self.network.net();
        self.hear_on(link, source, &WireFrame::Beacon { net, name, beacon })
    }

    pub fn status(&self) -> NodeStatus {
        self.node.status(Time::from_ms(self.now_ms))
    }

    /// The node's own name now.
    pub fn name(&self) -> Name {
        let beacon = self.sent.iter().rev().find(|sent| sent.bytes[0] == 1).unwrap();
        WireFrame::decode(&beacon.bytes).unwrap().name()
    }

    /// Frames of one kind that the node sent since.
    pub fn sent_since(&self, at_ms: u64, kind: u8) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.at_ms >= at_ms && sent.bytes[0] == kind)
    }
}

/// The cell number `n` of a tick.
pub fn cell(tick: u32, life: CellLife, n: u64) -> MeshCell {
    let mut payload = payload(0, tick, 0);
    payload[10..18].copy_from_slice(&n.to_be_bytes());
    MeshCell::new(life, tick, &payload).unwrap()
}

/// The short id of a cell.
pub fn short_of(cell: &MeshCell) -> u64 {
    short_id(&cell.id())
}
