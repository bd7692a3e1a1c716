//! A device in the world: one conversation with everybody, one set of prekeys, one disk.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use mezza_core::{CryptoRng, EphemeralKey, Machine, PortableBackend, StaticKey, SuiteId, Time};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::{
    Change, Changes, Conversation, IdentityKey, IdentityKeyPair, OneTimePrekey, OpenError, Padding,
    Prekeys, SealError, StoredRow, Table,
};
use mezza_sim::{Effect, Host, HostId};

use super::thief::Read;
use crate::people;

pub type Talk = Conversation<PortableBackend>;

/// Bundles that everybody can fetch, in the order of the places.
pub type Server = Rc<RefCell<Vec<people::Server>>>;

pub fn server(count: u32) -> Server {
    Rc::new(RefCell::new(vec![people::Server::default(); count as usize]))
}

/// One-time keys that a device hands in at a time.
const STOCK: usize = 3;

/// Whose row it is: a contact's, or the device's own.
pub type Owner = Option<HostId>;

pub struct Disk {
    me: u32,
    own: IdentityKeyPair,
    everybody: Vec<IdentityKey>,
    server: Server,
    suite: SuiteId,
    rows: Rows,
}

/// Everything on a disk.
pub type Rows = BTreeMap<(Owner, Table, Vec<u8>), Vec<u8>>;

impl Disk {
    pub fn new(me: u32, people: u32, server: Server, suite: SuiteId) -> Self {
        let identities = (0..people).map(|i| people::identity(u64::from(i)));
        let everybody = identities.map(|identity| identity.public_key()).collect();
        let own = people::identity(u64::from(me));
        Self { me, own, everybody, server, suite, rows: BTreeMap::new() }
    }

    pub fn identity(&self) -> IdentityKeyPair {
        self.own.duplicate()
    }

    pub fn public(&self, person: HostId) -> IdentityKey {
        self.everybody[person.0 as usize]
    }

    pub fn contacts(&self) -> impl Iterator<Item = HostId> + use<> {
        let me = self.me;
        (0..self.everybody.len() as u32).filter(move |i| *i != me).map(HostId)
    }

    pub fn records(&self, owner: Owner) -> Vec<StoredRow<'_>> {
        self.rows
            .iter()
            .filter(|((of, ..), _)| *of == owner)
            .map(|((_, table, key), value)| StoredRow { table: *table, key, value })
            .collect()
    }

    pub fn talk(&self, contact: HostId) -> Talk {
        let rows = self.records(Some(contact));
        Talk::load(self.own.public_key(), self.public(contact), rows).expect("stored rows")
    }

    pub fn prekeys(&self) -> Prekeys {
        self.offering(Prekeys::load(self.identity(), self.records(None)).expect("stored rows"))
    }

    pub fn offering(&self, prekeys: Prekeys) -> Prekeys {
        people::offering(prekeys, self.suite)
    }

    /// The rows as they lie there now, for somebody who puts them back later.
    pub fn snapshot(&self) -> Rows {
        self.rows.clone()
    }

    /// An old state is put back.
    pub fn put_back(&mut self, rows: Rows) {
        self.rows = rows;
    }

    pub fn count(&self, table: Table) -> usize {
        self.rows.keys().filter(|(_, of, _)| *of == table).count()
    }
}

/// One atomic change.
pub enum Write {
    Rows(Owner, Changes),
    Publish {
        offer: Box<people::Server>,
        replace: bool,
    },
    /// Every session is lost, as after a backup without them.
    Forget,
}

#[derive(Clone)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub note: u64,
}

#[derive(Clone, Copy)]
pub enum Order {
    /// Send this note, in a new session if there is none.
    Say(HostId, u64),
    /// Begin a new session, whatever there is.
    Begin(HostId),
    Forget,
}

#[derive(Clone)]
pub enum News {
    Opened(Read),
    /// These bytes leave, in a session with this person.
    Sealed(HostId, Vec<u8>),
    Refused,
}

pub struct Device {
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    talks: BTreeMap<HostId, Talk>,
    server: Server,
    suite: SuiteId,
    me: u32,
    effects: VecDeque<Effect<Self>>,
    last_reset: BTreeMap<HostId, Time>,
    notes: u64,
}

impl Device {
    fn write(&mut self, owner: Owner, changes: Changes) {
        if !changes.is_empty() {
            self.effects.push_back(Effect::Write(Write::Rows(owner, changes)));
        }
    }

    fn settle(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let mut draw =
                        |n| (0..n).map(|_| StaticKey::random::<PortableBackend>(rng)).collect();
                    let fresh = Input::Fresh { spk: draw(spk), opk: draw(opk.min(STOCK)) };
                    self.prekeys.handle(fresh, now, rng).expect("asked for");
                }
                Output::Store(changes) => self.write(None, changes),
                Output::Publish { bundle, one_time, replace } => {
                    let publish = Write::Publish { offer: self.offer(bundle, one_time), replace };
                    self.effects.push_back(Effect::Write(publish));
                }
                Output::Low => {}
            }
        }
    }

    fn offer(&self, bundle: Vec<u8>, one_time: Vec<OneTimePrekey>) -> Box<people::Server> {
        let mut offer = people::Server { one_time, ..people::Server::default() };
        offer.publish(bundle, &self.prekeys);
        Box::new(offer)
    }

    /// Begins a session if the contact has published something that is still valid.
    fn begin(&mut self, to: HostId, now: Time, rng: &mut dyn CryptoRng) -> bool {
        let talk = self.talks.get_mut(&to).expect("a contact");
        let (checked, one_time) = {
            let server = &mut self.server.borrow_mut()[to.0 as usize];
            (server.check(self.suite, talk.remote(), now), server.one_time.pop())
        };
        let Ok(checked) = checked else { return false };
        let base = EphemeralKey::random::<PortableBackend>(rng);
        let begun = checked.initiate_session(&self.identity, base, one_time, rng);
        let (session, _) = begun.expect("a session");
        let changes = talk.add_session(session, now);
        self.write(Some(to), changes);
        true
    }

    fn say(&mut self, to: HostId, note: u64, now: Time, rng: &mut dyn CryptoRng) {
        for _ in 0..2 {
            let talk = self.talks.get_mut(&to).expect("a contact");
            let fresh =
                talk.needs_ephemeral().then(|| EphemeralKey::random::<PortableBackend>(rng));
            let before = talk.encode();
            match talk.seal(&note.to_be_bytes(), &[], Padding::Blocks, fresh, now) {
                Ok((bytes, changes)) => {
                    self.write(Some(to), changes);
                    self.effects.push_back(Effect::Tell(News::Sealed(to, bytes.clone())));
                    self.effects.push_back(Effect::Send { to, packet: Packet { bytes, note } });
                    return;
                }
                Err(SealError::NoSession | SealError::Unanswered) => {
                    assert!(before == talk.encode());
                    if !self.begin(to, now, rng) {
                        return;
                    }
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    /// Reacts as a messenger does to a message that does not open: one new session in ten minutes.
    fn reset(&mut self, from: HostId, now: Time, rng: &mut dyn CryptoRng) {
        let last = self.last_reset.get(&from);
        if last.is_some_and(|last| now.since_ms(*last) < 10 * Time::MINUTE_MS) {
            return;
        }
        self.last_reset.insert(from, now);
        if self.begin(from, now, rng) {
            self.notes += 1;
            let note =
                1 << 40 | u64::from(self.me) << 32 | now.as_ms() << 8 >> 20 | self.notes << 50;
            self.say(from, note, now, rng);
        }
    }
}

impl Host for Device {
    type Disk = Disk;
    type Write = Write;
    type Packet = Packet;
    type Order = Order;
    type News = News;

    fn boot(disk: &Disk, now: Time, rng: &mut dyn CryptoRng) -> Self {
        let mut device = Self {
            identity: disk.identity(),
            prekeys: disk.prekeys(),
            talks: disk.contacts().map(|contact| (contact, disk.talk(contact))).collect(),
            server: disk.server.clone(),
            suite: disk.suite,
            me: disk.me,
            effects: VecDeque::new(),
            last_reset: BTreeMap::new(),
            notes: rng.next_u64() >> 52,
        };
        device.wake(now, rng);
        // What was stored but not published before a crash is published now.
        if let Some((bundle, one_time)) = device.prekeys.current_bundle() {
            let offer = device.offer(bundle, one_time);
            if !device.server.borrow()[disk.me as usize].same_bundle(&offer) {
                let publish = Write::Publish { offer, replace: true };
                device.effects.push_back(Effect::Write(publish));
            }
        }
        device
    }

    fn apply_order(&mut self, order: Order, now: Time, rng: &mut dyn CryptoRng) {
        match order {
            Order::Say(to, note) => self.say(to, note, now, rng),
            Order::Begin(to) => {
                self.begin(to, now, rng);
            }
            Order::Forget => {
                for talk in self.talks.values_mut() {
                    *talk = Talk::new(*talk.local(), *talk.remote());
                }
                self.effects.push_back(Effect::Write(Write::Forget));
            }
        }
        // The server speaks up when nothing is left, so that sessions without one-time key happen.
        if self.server.borrow()[self.me as usize].one_time.is_empty() {
            self.prekeys.handle(Input::Stock(0), now, rng).expect("a stock");
        }
        self.settle(now, rng);
    }

    fn deliver_packet(&mut self, from: HostId, packet: Packet, now: Time, rng: &mut dyn CryptoRng) {
        let talk = self.talks.get_mut(&from).expect("a contact");
        let before = (talk.encode(), self.prekeys.encode());
        match talk.open(&packet.bytes, &[], &self.identity, &mut self.prekeys, now) {
            Ok(opened) => {
                assert_eq!(opened.body.as_slice(), packet.note.to_be_bytes());
                // Sessions and prekeys become durable in one write.
                let changes = Effect::Write(Write::Rows(Some(from), opened.changes));
                let read = Read { from, bytes: packet.bytes, note: packet.note };
                self.effects.extend([changes, Effect::Tell(News::Opened(read))]);
            }
            Err(error) => {
                assert!(before == (talk.encode(), self.prekeys.encode()), "changed by {error:?}");
                self.effects.push_back(Effect::Tell(News::Refused));
                match error {
                    OpenError::Duplicate | OpenError::ReusedBaseKey => {}
                    OpenError::NoSession | OpenError::UnknownPrekey(_) | OpenError::Forged => {
                        self.reset(from, now, rng);
                    }
                    other => panic!("{other:?} cannot happen here"),
                }
            }
        }
        self.settle(now, rng);
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let swept: Vec<_> = self
            .talks
            .iter_mut()
            .map(|(contact, talk)| (*contact, talk.sweep_expired(now)))
            .collect();
        for (contact, changes) in swept {
            self.write(Some(contact), changes);
        }
        self.prekeys.wake(now, rng);
        self.settle(now, rng);
    }

    fn deadline(&self) -> Option<Time> {
        let talks = self.talks.values().filter_map(Talk::deadline);
        talks.chain(self.prekeys.deadline()).min()
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        self.effects.pop_front()
    }

    fn apply_write(disk: &mut Disk, write: Write) {
        match write {
            Write::Rows(owner, changes) => {
                for change in changes {
                    let table = change.table();
                    let owner = if people::is_talk(table) { owner } else { None };
                    match change {
                        Change::Put { key, value, .. } => {
                            disk.rows.insert((owner, table, key), value.to_vec());
                        }
                        Change::Drop { key, .. } => {
                            let old = disk.rows.remove(&(owner, table, key));
                            assert!(old.is_some(), "{table:?} drops a row that is not there");
                        }
                    }
                }
            }
            Write::Publish { mut offer, replace } => {
                let server = &mut disk.server.borrow_mut()[disk.me as usize];
                if !replace {
                    offer.one_time.append(&mut server.one_time);
                }
                *server = *offer;
            }
            Write::Forget => disk.rows.retain(|(owner, ..), _| owner.is_none()),
        }
    }
}
