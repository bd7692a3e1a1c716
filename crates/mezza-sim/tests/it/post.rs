//! A post office: letters are repeated until acknowledged, and read exactly once.

use mezza_sim::{CryptoRng, Effect, Host, HostId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Repeat what is not acknowledged this often.
pub const REPEAT_MS: u64 = 1_000;

/// The state that survives a crash.
#[derive(Clone, Debug, Default)]
pub struct Drawer {
    pub outbox: BTreeMap<u32, HostId>,
    pub read: BTreeSet<(HostId, u32)>,
    pub written: u32,
    /// A planted bug: the acknowledgement leaves before the letter is on the disk.
    pub hasty: bool,
}

#[derive(Clone, Debug)]
pub enum Paper {
    Letter(u32),
    Thanks(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The letter is safe in the outbox.
    Accepted(u32),
    /// The reader sees it for the first time.
    Read(HostId, u32),
    /// The reader has it, says the reader.
    Delivered(u32),
    /// The stream to this peer broke.
    Lost(HostId),
}

/// One change of the drawer.
pub enum Change {
    Post(u32, HostId),
    Read(HostId, u32),
    Done(u32),
}

pub struct Office {
    drawer: Drawer,
    repeat_at: Time,
    effects: VecDeque<Effect<Self>>,
    pub stored: u32,
}

impl Office {
    fn change(&mut self, change: impl Fn() -> Change) {
        Self::apply_write(&mut self.drawer, change());
        self.effects.push_back(Effect::Write(change()));
    }

    fn send(&mut self, to: HostId, packet: Paper) {
        self.effects.push_back(Effect::Send { to, packet });
    }
}

impl Host for Office {
    type Disk = Drawer;
    type Write = Change;
    type Packet = Paper;
    type Order = HostId;
    type News = News;

    fn boot(disk: &Drawer, now: Time, _: &mut dyn CryptoRng) -> Self {
        Self { drawer: disk.clone(), repeat_at: now, effects: VecDeque::new(), stored: 0 }
    }

    fn apply_order(&mut self, to: HostId, now: Time, _: &mut dyn CryptoRng) {
        let number = self.drawer.written + 1;
        self.change(|| Change::Post(number, to));
        self.effects.push_back(Effect::Tell(News::Accepted(number)));
        self.repeat_at = now;
    }

    fn deliver_packet(&mut self, from: HostId, packet: Paper, _: Time, _: &mut dyn CryptoRng) {
        match packet {
            Paper::Letter(number) => {
                if self.drawer.hasty {
                    self.send(from, Paper::Thanks(number));
                }
                if !self.drawer.read.contains(&(from, number)) {
                    self.change(|| Change::Read(from, number));
                    self.effects.push_back(Effect::Tell(News::Read(from, number)));
                }
                self.send(from, Paper::Thanks(number));
            }
            Paper::Thanks(number) => {
                if self.drawer.outbox.contains_key(&number) {
                    self.change(|| Change::Done(number));
                    self.effects.push_back(Effect::Tell(News::Delivered(number)));
                }
            }
        }
    }

    fn stream_lost(&mut self, peer: HostId, _: Time, _: &mut dyn CryptoRng) {
        self.effects.push_back(Effect::Tell(News::Lost(peer)));
    }

    fn write_durable(&mut self, _: Time, _: &mut dyn CryptoRng) {
        self.stored += 1;
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        self.repeat_at = now.plus_ms(REPEAT_MS);
        for (number, to) in self.drawer.outbox.clone() {
            self.send(to, Paper::Letter(number));
        }
    }

    fn deadline(&self) -> Option<Time> {
        (!self.drawer.outbox.is_empty()).then_some(self.repeat_at)
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        self.effects.pop_front()
    }

    fn apply_write(disk: &mut Drawer, change: Change) {
        match change {
            Change::Post(number, to) => {
                disk.written = number;
                disk.outbox.insert(number, to);
            }
            Change::Read(from, number) => {
                disk.read.insert((from, number));
            }
            Change::Done(number) => {
                disk.outbox.remove(&number);
            }
        }
    }
}
