//! Nodes on cast links under one virtual clock, with loss, crashes and wrong clocks.

use std::collections::BTreeMap;

use mezza_core::{Machine, Secret};
use mezza_mesh::cell::{CELL_BYTES, CellId, HEAD_BYTES};
use mezza_mesh::node::{Bringer, Input, LinkKind, NodeSettings, Output};
use mezza_mesh::{CellLife, Grade, MeshNetwork, Node};
use mezza_sim::{SimRng, Time};

/// 2027-01-15 08:00 UTC.
pub const START_MS: u64 = 1_800_000_000_000;

/// A node and its surroundings.
pub struct Resident {
    pub node: Node,
    pub rng: SimRng,
    /// Its real-time clock minus the town's time, ms.
    pub off_ms: i64,
    pub grade: Grade,
    pub up: bool,
    /// Payloads that came, with the time of the town.
    pub cells: BTreeMap<Vec<u8>, u64>,
    /// Everything else that it said.
    pub said: Vec<Output>,
    /// Every frame that it sent, with the town's time.
    pub sent: Vec<(u64, Vec<u8>)>,
    /// Its copies of carried cells: what its disk has.
    pub disk: BTreeMap<CellId, Kept>,
}

/// The copy of a carried cell.
pub struct Kept {
    pub bringer: Bringer,
    pub bytes: Vec<u8>,
}

/// A frame on its way.
struct Flight {
    from: usize,
    to: usize,
    link: u32,
    bytes: Vec<u8>,
}

/// The number of a stream to resident `n`, at its other end.
pub fn stream_to(n: usize) -> u32 {
    100 + n as u32
}

/// Some nodes, who hears whom, and the time.
pub struct Town {
    pub residents: Vec<Resident>,
    pub hears: Vec<Vec<usize>>,
    pub now_ms: u64,
    pub loss_permille: u32,
    dice: SimRng,
    /// Frames on their way, by time and order.
    air: BTreeMap<(u64, u64), Flight>,
    order: u64,
    settings: NodeSettings,
}

impl Town {
    pub fn new(count: usize, seed: u64, settings: &NodeSettings) -> Self {
        let resident = |n: usize| Resident {
            node: Node::new(settings.clone(), MeshNetwork::new("open", None), Time::from_ms(0)),
            rng: SimRng::new(seed, n as u64),
            off_ms: 0,
            grade: Grade::Good,
            up: true,
            cells: BTreeMap::new(),
            said: Vec::new(),
            sent: Vec::new(),
            disk: BTreeMap::new(),
        };
        Self {
            residents: (0..count).map(resident).collect(),
            hears: vec![Vec::new(); count],
            now_ms: 0,
            loss_permille: 0,
            dice: SimRng::new(seed, 1_000_000),
            air: BTreeMap::new(),
            order: 0,
            settings: settings.clone(),
        }
    }

    /// Node `n` is in a closed network of the same name.
    pub fn close(&mut self, n: usize, key: u8) {
        let network = MeshNetwork::new("open", Some(Secret::copy_from(&[key; 32])));
        self.residents[n].node = Node::new(self.settings.clone(), network, Time::from_ms(0));
    }

    /// Each hears the one before and the one behind.
    pub fn chain(mut self) -> Self {
        let count = self.residents.len();
        for n in 1..count {
            self.join(n - 1, n);
        }
        self
    }

    /// All hear each other.
    pub fn room(mut self) -> Self {
        for a in 0..self.residents.len() {
            for b in a + 1..self.residents.len() {
                self.join(a, b);
            }
        }
        self
    }

    pub fn join(&mut self, a: usize, b: usize) {
        self.hears[a].push(b);
        self.hears[b].push(a);
    }

    /// Starts every node: its link and its clock.
    pub fn start(mut self) -> Self {
        (0..self.residents.len()).for_each(|n| self.boot(n));
        self
    }

    pub fn boot(&mut self, n: usize) {
        let kind = LinkKind::Cast;
        self.give(
            n,
            Input::LinkUp {
                link: 0,
                kind,
                frame_bytes_max: 1_200,
                delay_us: 1_000,
                room: 1_000_000,
            },
        );
        self.read_clock(n);
    }

    pub fn read_clock(&mut self, n: usize) {
        let time =
            Time::from_ms((START_MS + self.now_ms).saturating_add_signed(self.residents[n].off_ms));
        let grade = self.residents[n].grade;
        self.give(n, Input::Rtc { time, grade });
    }

    /// A crash: memory is gone, and the node boots again.
    pub fn crash(&mut self, n: usize) {
        let network = MeshNetwork::new("open", None);
        self.residents[n].node =
            Node::new(self.settings.clone(), network, Time::from_ms(self.now_ms));
        self.boot(n);
    }

    /// A crash of a node that has a disk: it boots, and its copies are restored.
    pub fn crash_and_restore(&mut self, n: usize) {
        self.crash(n);
        let disk = &self.residents[n].disk;
        let copies: Vec<Vec<u8>> = disk.values().map(|kept| kept.bytes.clone()).collect();
        for cell in copies {
            let _ = self.offer(n, Input::Restore { cell, bringer: 7 });
        }
    }

    /// Two nodes are out of range of each other.
    pub fn part(&mut self, a: usize, b: usize) {
        self.hears[a].retain(|other| *other != b);
        self.hears[b].retain(|other| *other != a);
    }

    /// Node `n` sends a payload of a life.
    pub fn send_for(&mut self, n: usize, life: CellLife, content: u8) -> Vec<u8> {
        let tick = self.tick(n);
        let payload = payload(0, tick, content);
        let ticket = u64::from(content);
        self.give(n, Input::Originate { ticket, life, tick, payload: payload.clone() });
        payload
    }

    /// An input that has to be taken.
    pub fn give(&mut self, n: usize, input: Input) {
        let resident = &mut self.residents[n];
        let now = Time::from_ms(self.now_ms);
        resident.node.handle(input, now, resident.rng.rng()).unwrap();
        self.drain(n);
    }

    /// An input that may be refused.
    pub fn offer(&mut self, n: usize, input: Input) -> Result<(), mezza_mesh::node::Error> {
        let resident = &mut self.residents[n];
        let done = resident.node.handle(input, Time::from_ms(self.now_ms), resident.rng.rng());
        self.drain(n);
        done
    }

    fn drain(&mut self, n: usize) {
        while let Some(output) = self.residents[n].node.poll() {
            match output {
                Output::Send { link, frame } => {
                    self.residents[n].sent.push((self.now_ms, frame.clone()));
                    let (to, at_other_end) = match link {
                        0 => (self.hears[n].clone(), 0),
                        stream => (vec![(stream - stream_to(0)) as usize], stream_to(n)),
                    };
                    for to in to {
                        if link > 0 || !self.dice.chance(self.loss_permille) {
                            self.order += 1;
                            let at = self.now_ms + 1;
                            let bytes = frame.clone();
                            let flight = Flight { from: n, to, link: at_other_end, bytes };
                            self.air.insert((at, self.order), flight);
                        }
                    }
                }
                Output::Dial { source } => self.connect(n, source as usize),
                Output::Close { link } => {
                    let other = (link - stream_to(0)) as usize;
                    for (at, link) in [(n, link), (other, stream_to(n))] {
                        let _ = self.offer(at, Input::LinkDown { link });
                    }
                }
                Output::Cell { payload, .. } => {
                    let now = self.now_ms;
                    self.residents[n].cells.entry(payload).or_insert(now);
                }
                Output::Keep { id, bringer, bytes } => {
                    self.residents[n].disk.insert(id, Kept { bringer, bytes });
                }
                Output::Forget { id } => {
                    self.residents[n].disk.remove(&id);
                }
                other => self.residents[n].said.push(other),
            }
        }
    }

    /// A stream between two nodes.
    fn connect(&mut self, a: usize, b: usize) {
        for (n, link) in [(a, stream_to(b)), (b, stream_to(a))] {
            let kind = LinkKind::Stream;
            let frame_bytes_max = 4_160;
            let up =
                Input::LinkUp { link, kind, frame_bytes_max, delay_us: 1_000, room: 1_000_000 };
            let _ = self.offer(n, up);
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        loop {
            let deadline = |r: &Resident| r.node.deadline().filter(|_| r.up).map(Time::as_ms);
            let wake = self.residents.iter().filter_map(deadline).min().unwrap_or(end);
            let frame = self.air.keys().next().map_or(end, |(at, _)| *at);
            let next = wake.min(frame).max(self.now_ms);
            if next >= end {
                self.now_ms = end;
                return;
            }
            self.now_ms = next;
            while let Some(entry) = self.air.first_entry().filter(|e| e.key().0 <= next) {
                let Flight { from, to, link, bytes } = entry.remove();
                if self.residents[to].up && (link > 0 || self.hears[from].contains(&to)) {
                    let _ = self.offer(to, Input::Frame { link, source: from as u64, bytes });
                }
            }
            for n in 0..self.residents.len() {
                if self.residents[n].up && deadline(&self.residents[n]).is_some_and(|at| at <= next)
                {
                    let resident = &mut self.residents[n];
                    resident.node.wake(Time::from_ms(next), resident.rng.rng());
                    let due = resident.node.deadline().map(Time::as_ms);
                    assert!(due.is_none_or(|at| at > next), "node {n} is due for ever (MESH-54)");
                    self.drain(n);
                }
            }
        }
    }

    /// The tick of a node's network time.
    pub fn tick(&self, n: usize) -> u32 {
        self.residents[n].node.status(Time::from_ms(self.now_ms)).cur
    }

    /// Node `n` sends a payload whose content is `content`.
    pub fn send(&mut self, n: usize, content: u8) -> Vec<u8> {
        let tick = self.tick(n);
        let payload = payload(0, self.tick(n), content);
        let life = CellLife::Minute;
        let ticket = u64::from(content);
        self.give(n, Input::Originate { ticket, life, tick, payload: payload.clone() });
        payload
    }

    /// The short ids of what each node holds.
    pub fn shorts(&self) -> Vec<Vec<u64>> {
        self.residents.iter().map(|r| r.node.live_shorts()).collect()
    }
}

/// A payload of a class, sealed at a tick.
pub fn payload(class: u8, tick: u32, content: u8) -> Vec<u8> {
    let mut payload = vec![content; CELL_BYTES[usize::from(class)] - HEAD_BYTES];
    (payload[0], payload[1]) = (0x10 | class, tick as u8);
    payload
}
