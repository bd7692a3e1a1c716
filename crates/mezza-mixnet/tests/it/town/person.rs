//! One person of a town: the disk, the messenger, the luck, and the client while it runs.

use std::collections::{BTreeMap, BTreeSet};

use mezza_core::{Backend, PortableBackend, PublicKey, Secret, StaticKey, Time};
use mezza_lanes::Kernel;
use mezza_mixnet::client::record::{RECORD_BYTES, RoundRecord};
use mezza_mixnet::client::{Client, ClientOptions, FrameSchedule, Output};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::service::DROP_BYTES;
use mezza_mixnet::wire::Frame;

use super::disk::{Disk, Times};
use mezza_mixnet::{RoundId, Service};
use mezza_sim::{SimRng, WriteCache};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A message that a messenger has on disk, and how far it is.
pub struct Mail {
    pub contact: u32,
    pub bytes: Vec<u8>,
    pub ticket: Option<u64>,
    pub handed: bool,
    pub acked: bool,
}

/// A write of a client or of its messenger that is not synced yet.
pub(super) enum Write {
    Row { seq: u64, first: u64, record: Vec<u8> },
    Mail { seq: u64, contact: u32, number: u64, bytes: Vec<u8> },
}

/// How often things go wrong, of 1,000.
#[derive(Clone, Copy, Default)]
pub struct Luck {
    /// A crash between two outputs.
    pub crash: u32,
    /// The connection breaks when an output is carried out.
    pub cut: u32,
    /// Nobody answers a dial.
    pub dead: u32,
    /// A job is lost.
    pub lost: u32,
}

/// One person: what is on disk, and the client, if it runs.
#[expect(clippy::struct_excessive_bools, reason = "each is a trouble of its own")]
pub struct Person<B: Backend = PortableBackend> {
    pub number: u64,
    pub client: Option<Client<B>>,
    pub rows: BTreeMap<u64, Vec<u8>>,
    pub mails: Vec<Mail>,
    pub inbox: BTreeMap<u32, Vec<Vec<u8>>>,
    pub(super) newest: BTreeMap<u32, u64>,
    pub(super) connection: Option<u64>,
    /// The dial that waits for its time, with its hello and its number if it is a search, and the frames
    /// that wait at the line.
    pub(super) dial: Option<(Time, Frame, Option<u32>)>,
    pub(super) line: FrameSchedule,
    pub(super) tickets: u64,
    pub(super) up_at: Option<Time>,
    /// Nothing runs: no timer, no frame.
    pub is_asleep: bool,
    /// The line is dead, and nobody told the client.
    pub(super) is_silent: bool,
    /// The level that is shown; 0: none.
    pub level: u8,
    /// Since when conversation rounds come back without a disturbance.
    pub back: Option<Time>,
    /// When conversation rounds came back since then, and with how many users.
    pub returns: Vec<(Time, u32)>,
    pub luck: Luck,
    /// Rows are written, and the client never hears of it.
    pub slow_disk: bool,
    /// Messages come in, and the messenger does not say that it has them.
    pub slow_messenger: bool,
    pub(super) unsaid: Vec<u64>,
    /// Numbers of what is durable, not said while other outputs wait.
    pub(super) synced: Vec<(u64, bool)>,
    cache: WriteCache<Write>,
    power: SimRng,
    pub rng: ChaCha20Rng,
    pub(super) dice: ChaCha20Rng,
    /// True if rows were written since the last look at them.
    pub(super) wrote: bool,
    /// How far this clock is behind.
    pub(super) back_ms: u64,
    /// How far it was put ahead.
    pub(super) ahead_ms: u64,
    /// Rounds in the order in which they were sealed, over all lives of the process.
    pub sealed: Vec<RoundId>,
    /// Buckets and tokens of all calls that left, those that call nobody among them.
    pub calls: BTreeSet<Vec<u8>>,
    /// The wrapped content of a round and, once it left, the cell of each drop.
    pub(super) wrapped: BTreeMap<RoundId, Vec<u8>>,
    pub drops: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Rounds in which a record that was charged was followed by its onions.
    pub(super) charged: BTreeSet<RoundId>,
    pub paid: BTreeSet<RoundId>,
    pub(super) disk: Disk,
    /// Times that an observer can measure.
    pub times: Times,
    /// Sizes and kinds of what a watcher of line and disk sees.
    pub frames: Vec<(Time, u8, usize)>,
    pub records: Vec<usize>,
    pub news: Vec<Output>,
}

pub(super) fn dialling<B: Backend>(number: u64) -> StaticKey {
    StaticKey::from_scalar::<B>(Secret::init_with(|s| s.fill(200 + number as u8)))
}

/// The dialling key of a person.
pub fn dialling_key(number: u64) -> PublicKey {
    *dialling::<PortableBackend>(number).public_key()
}

impl<B: Backend> Person<B> {
    pub(super) fn setup(&self, pin: [u8; 32], kernel: &'static dyn Kernel) -> ClientOptions {
        ClientOptions { pin, dialling: dialling::<B>(self.number), floor: NoiseFloor::None, kernel }
    }

    pub(super) fn new(number: u64, seed: u64) -> Self {
        let of = |n: u64| ChaCha20Rng::seed_from_u64(seed * 1_000 + number * 10 + n);
        Self {
            number,
            client: None,
            rows: BTreeMap::new(),
            mails: Vec::new(),
            inbox: BTreeMap::new(),
            newest: BTreeMap::new(),
            connection: None,
            dial: None,
            line: FrameSchedule::default(),
            tickets: 0,
            up_at: None,
            is_asleep: false,
            is_silent: false,
            level: 0,
            back: None,
            returns: Vec::new(),
            luck: Luck::default(),
            slow_disk: false,
            slow_messenger: false,
            unsaid: Vec::new(),
            synced: Vec::new(),
            cache: WriteCache::default(),
            power: SimRng::new(seed, number),
            rng: of(1),
            dice: of(2),
            wrote: false,
            back_ms: 0,
            ahead_ms: 0,
            sealed: Vec::new(),
            calls: BTreeSet::new(),
            wrapped: BTreeMap::new(),
            drops: BTreeMap::new(),
            charged: BTreeSet::new(),
            paid: BTreeSet::new(),
            disk: Disk::default(),
            times: Times::default(),
            frames: Vec::new(),
            records: Vec::new(),
            news: Vec::new(),
        }
    }

    pub(super) fn unlucky(&mut self, permille: u32) -> bool {
        permille > 0 && self.dice.next_u32() % 1_000 < permille
    }

    /// Returns true if a dial dies on its way.
    pub(super) fn dies(&mut self) -> bool {
        self.unlucky(self.luck.dead)
    }

    /// Rounds that were charged, by the ledger.
    pub fn spent(&self) -> u64 {
        let ledger = self.client.as_ref().and_then(|client| client.ledger());
        ledger.map_or(0, |l| Service::ALL.map(|service| l.used_rounds(service)).iter().sum())
    }

    /// A round was sealed: none is sealed after a later one, whatever dies in between.
    pub(super) fn wraps(&mut self, id: RoundId, plain: Vec<u8>) {
        let last = self.sealed.iter().rfind(|its| its.service == id.service);
        assert!(last.is_none_or(|last| last.round < id.round), "{last:?}, then {id:?}");
        self.sealed.push(id);
        self.wrapped.insert(id, plain);
    }

    /// The onions of a round leave: nothing real is sent that was not charged, and nothing is sealed
    /// twice for one drop.
    pub(super) fn submits(&mut self, id: RoundId) {
        let plain = self.wrapped.remove(&id).expect("it was wrapped in this life");
        if id.service == Service::Conversation {
            for access in plain.chunks(id.service.innermost_bytes()) {
                let (drop, cell) = access.split_at(DROP_BYTES);
                let twice = self.drops.insert(drop.to_vec(), cell.to_vec());
                assert!(twice.is_none(), "two cells under one contact and round");
            }
        }
        if id.service == Service::Call {
            assert!(self.calls.insert(plain), "two onions of one call");
        }
        if self.charged.contains(&id) {
            self.paid.insert(id);
        }
        assert!(self.spent() >= self.paid.len() as u64, "something real was sent for nothing");
    }

    pub(super) fn put(&mut self, write: Write) {
        self.cache.push_write(write);
    }

    /// Everything written is durable: the numbers to say, and whether that is said later.
    pub(super) fn sync(&mut self) -> Vec<(u64, bool)> {
        let mut synced = Vec::new();
        while let Some(write) = self.cache.sync_next() {
            synced.push(self.keep(write));
        }
        synced
    }

    /// The process dies before its writes are synced.
    pub(super) fn lose_power(&mut self) {
        let reached: Vec<Write> = self.cache.lose_power(&mut self.power).collect();
        for write in reached {
            self.keep(write);
        }
    }

    fn keep(&mut self, write: Write) -> (u64, bool) {
        match write {
            Write::Row { seq, first, record } => {
                self.store(seq, first, &record);
                (seq, self.slow_disk)
            }
            Write::Mail { seq, contact, number, bytes } => {
                self.receive(contact, number, bytes);
                (seq, self.slow_messenger)
            }
        }
    }

    fn store(&mut self, seq: u64, first: u64, record: &[u8]) {
        if let Ok(record) = RoundRecord::decode(record) {
            self.records.push(RECORD_BYTES);
            if record.charged {
                self.charged.insert(record.id);
            }
        } else {
            assert!(record.len() >= 16_384 && record.len().is_power_of_two(), "a snapshot");
        }
        self.wrote = true;
        self.rows.retain(|row, _| *row >= first);
        assert!(self.rows.insert(seq, record.to_vec()).is_none(), "a row is written once");
    }

    /// A message that comes twice, after a start, is known by its number.
    fn receive(&mut self, contact: u32, number: u64, bytes: Vec<u8>) {
        let newest = self.newest.entry(contact).or_default();
        if number + 1 > *newest {
            *newest = number + 1;
            self.inbox.entry(contact).or_default().push(bytes);
        }
    }
}
