//! Two or more people with disks, to play conversations.

use std::cell::Cell;
use std::collections::BTreeMap;

use mezza_core::{
    Backend, EphemeralKey, Machine, PortableBackend, PublicKey, Secret, StaticKey, Suite, SuiteId,
    Time, ZeroSecret,
};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3, V4};
use mezza_ratchet::{
    Bundle, BundleError, Change, Changes, CheckedBundle, Conversation, Exporter, IdentityKey,
    IdentityKeyPair, OneTimePrekey, OpenError, Opened, Padding, Prekeys, SealError, SignalBundle,
    StoredRow, SuiteList, Table,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

pub const DAY: u64 = Time::DAY_MS;

/// The number of every install of `signal-v3`.
pub const REGISTRATION: u32 = 4660;

/// One-time keys that a person hands in at a time, fewer than are asked for.
pub const STOCK: usize = 25;

/// Where every test begins: 2027-01-15 08:00 UTC.
pub const START: Time = Time::from_ms(1_800_000_000_000);

thread_local! {
    static DHS: Cell<u32> = const { Cell::new(0) };
}

/// [`PortableBackend`], counting every DH.
pub struct Counted;

impl Backend for Counted {
    type Chacha = <PortableBackend as Backend>::Chacha;
    type Pair = <PortableBackend as Backend>::Pair;

    fn prepare_scalar(scalar: &Secret<32>) -> Self::Pair {
        PortableBackend::prepare_scalar(scalar)
    }

    fn public_key(pair: &Self::Pair) -> PublicKey {
        PortableBackend::public_key(pair)
    }

    fn diffie_hellman(pair: &Self::Pair, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        DHS.set(DHS.get() + 1);
        PortableBackend::diffie_hellman(pair, their)
    }
}

/// Returns the result of `run` and the number of DHs that it took.
pub fn counting_dhs<T>(run: impl FnOnce() -> T) -> (T, u32) {
    DHS.set(0);
    let value = run();
    (value, DHS.get())
}

pub type Talk = Conversation<Counted>;

/// Rows as they lie on a disk.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Disk(pub BTreeMap<(Table, Vec<u8>), Vec<u8>>);

impl Disk {
    pub fn apply(&mut self, changes: Changes) {
        for change in changes {
            match change {
                Change::Put { table, key, value } => {
                    self.0.insert((table, key), value.to_vec());
                }
                Change::Drop { table, key } => {
                    let old = self.0.remove(&(table, key));
                    assert!(old.is_some(), "a row of {table:?} is dropped that is not there");
                }
            }
        }
    }

    pub fn of(changes: Changes) -> Self {
        let mut disk = Self::default();
        disk.apply(changes);
        disk
    }

    pub fn records(&self, ours: impl Fn(Table) -> bool) -> Vec<StoredRow<'_>> {
        self.0
            .iter()
            .filter(|((table, _), _)| ours(*table))
            .map(|((table, key), value)| StoredRow { table: *table, key, value })
            .collect()
    }

    pub fn count(&self, table: Table) -> usize {
        self.0.keys().filter(|(t, _)| *t == table).count()
    }

    /// Returns true if these bytes stand anywhere in a value of the tables that `among` names.
    pub fn holds(&self, needle: &[u8], among: impl Fn(Table) -> bool) -> bool {
        let rows = self.0.iter().filter(|((table, _), _)| among(*table));
        rows.into_iter().any(|(_, value)| value.windows(needle.len()).any(|w| w == needle))
    }
}

pub fn is_talk(table: Table) -> bool {
    matches!(table, Table::Session | Table::Skipped)
}

/// The data of one person on a server.
#[derive(Clone, Default)]
pub struct Server {
    pub bundle: Vec<u8>,
    pub signal: Option<SignalBundle>,
    pub one_time: Vec<OneTimePrekey>,
}

impl Server {
    /// Takes what a device publishes.
    pub fn publish(&mut self, bundle: Vec<u8>, prekeys: &Prekeys) {
        self.bundle = bundle;
        self.signal = prekeys.signal_bundle(REGISTRATION);
    }

    /// Returns true if both have the same bundle.
    pub fn same_bundle(&self, other: &Self) -> bool {
        let spk = |server: &Self| server.signal.as_ref().map(|signal| signal.spk);
        self.bundle == other.bundle && spk(self) == spk(other)
    }

    /// The bundle of whom it belongs to, checked by a device of `suite`.
    pub fn check(
        &self,
        suite: SuiteId,
        identity: &IdentityKey,
        now: Time,
    ) -> Result<CheckedBundle, BundleError> {
        if let Some(signal) = &self.signal {
            return signal.check(suite, identity, REGISTRATION);
        }
        let ours =
            if suite == B2c20Pq::ID { SuiteList::our_suites() } else { SuiteList::without_kem() };
        Bundle::decode(&self.bundle)?.check_with(&ours, identity, &ours, now)
    }
}

/// Returns prekeys that offer one suite alone.
pub fn offering(prekeys: Prekeys, suite: SuiteId) -> Prekeys {
    if suite == B2c20Pq::ID { prekeys } else { prekeys.offer_suites(&[suite]) }
}

/// A device with one contact, its disk and its corner of the server.
pub struct Person {
    pub identity: IdentityKeyPair,
    pub prekeys: Prekeys,
    pub talk: Talk,
    pub disk: Disk,
    pub server: Server,
    pub rng: ChaCha20Rng,
    pub now: Time,
    /// The suite it offers.
    pub suite: SuiteId,
}

/// The suites that two devices of tests may speak.
pub const SUITES: [SuiteId; 4] = [B2c20::ID, B2c20Pq::ID, V3::ID, V4::ID];

/// Alice and Bob, with prekeys published and no session.
pub fn two_people(seed: u64) -> (Person, Person) {
    two_people_of(B2c20::ID, seed)
}

/// [`two_people`] with devices of one suite.
pub fn two_people_of(suite: SuiteId, seed: u64) -> (Person, Person) {
    let a = identity(2 * seed + 1);
    let b = identity(2 * seed + 2);
    let alice = Person::new(a.duplicate(), &b, 2 * seed + 1, suite);
    (alice, Person::new(b, &a, 2 * seed + 2, suite))
}

/// Alice and Bob after one message each way: both sessions are open, it is Alice's turn.
pub fn open_session(seed: u64) -> (Person, Person) {
    open_session_of(B2c20::ID, seed)
}

/// [`open_session`] with devices of one suite.
pub fn open_session_of(suite: SuiteId, seed: u64) -> (Person, Person) {
    let (mut alice, mut bob) = two_people_of(suite, seed);
    alice.begin_with(&mut bob);
    let hello = alice.send(b"hello");
    bob.receive(&hello).expect("a first message");
    let reply = bob.send(b"reply");
    alice.receive(&reply).expect("a reply");
    (alice, bob)
}

pub fn identity(seed: u64) -> IdentityKeyPair {
    let mut rng = ChaCha20Rng::seed_from_u64(seed ^ 0x1de);
    IdentityKeyPair::new(StaticKey::random::<PortableBackend>(&mut rng))
}

impl Person {
    pub fn new(own: IdentityKeyPair, contact: &IdentityKeyPair, seed: u64, suite: SuiteId) -> Self {
        let mut person = Self {
            prekeys: offering(Prekeys::new(own.duplicate()), suite),
            talk: Talk::new(own.public_key(), contact.public_key()),
            identity: own,
            disk: Disk::default(),
            server: Server::default(),
            rng: ChaCha20Rng::seed_from_u64(seed),
            now: START,
            suite,
        };
        person.wake();
        person
    }

    pub fn fresh(&mut self) -> EphemeralKey {
        EphemeralKey::random::<PortableBackend>(&mut self.rng)
    }

    /// Wakes the prekeys and the conversation, and carries out what they want.
    pub fn wake(&mut self) {
        let changes = self.talk.sweep_expired(self.now);
        self.disk.apply(changes);
        self.prekeys.wake(self.now, &mut self.rng);
        self.settle();
    }

    /// The server says what is left of the one-time keys.
    pub fn stock(&mut self) {
        let left = Input::Stock(self.server.one_time.len() as u32);
        self.prekeys.handle(left, self.now, &mut self.rng).expect("a stock");
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let spk = (0..spk).map(|_| self.fresh().into_static()).collect();
                    let opk = (0..opk.min(STOCK)).map(|_| self.fresh().into_static()).collect();
                    let fresh = Input::Fresh { spk, opk };
                    self.prekeys.handle(fresh, self.now, &mut self.rng).expect("asked for");
                }
                Output::Store(changes) => self.disk.apply(changes),
                Output::Publish { bundle, one_time, replace } => {
                    self.server.publish(bundle, &self.prekeys);
                    if replace {
                        self.server.one_time.clear();
                    }
                    self.server.one_time.extend(one_time);
                }
                Output::Low => {}
            }
        }
        self.check_disk();
    }

    /// Begins a session with what the server holds of `other`.
    pub fn begin_with(&mut self, other: &mut Self) -> Exporter {
        let one_time = other.server.one_time.pop();
        self.begin_without(other, one_time)
    }

    /// Begins a session with or without a one-time key.
    pub fn begin_without(&mut self, other: &Self, one_time: Option<OneTimePrekey>) -> Exporter {
        let checked = other.server.check(self.suite, self.talk.remote(), self.now);
        self.initiate(checked.expect("a good bundle"), one_time).expect("a session")
    }

    pub fn begin(
        &mut self,
        bundle: &[u8],
        one_time: Option<OneTimePrekey>,
    ) -> Result<Exporter, BundleError> {
        let server = Server { bundle: bundle.to_vec(), ..Server::default() };
        let checked = server.check(self.suite, self.talk.remote(), self.now)?;
        self.initiate(checked, one_time)
    }

    /// Begins a session in 0x0101 as an initiator who offers nothing else, without one-time key.
    pub fn begin_small(&mut self, other: &Self) -> Result<Exporter, BundleError> {
        let small = SuiteList::without_kem();
        let bundle = Bundle::decode(&other.server.bundle)?;
        let checked = bundle.check_with(&small, self.talk.remote(), &small, self.now)?;
        self.initiate(checked, None)
    }

    pub fn initiate(
        &mut self,
        checked: CheckedBundle,
        one_time: Option<OneTimePrekey>,
    ) -> Result<Exporter, BundleError> {
        let base = self.fresh();
        let (session, exporter) =
            checked.initiate_session(&self.identity, base, one_time, &mut self.rng)?;
        let changes = self.talk.add_session(session, self.now);
        self.disk.apply(changes);
        self.check_disk();
        Ok(exporter)
    }

    pub fn send(&mut self, body: &[u8]) -> Vec<u8> {
        self.seal(body, &[], Padding::Blocks).expect("a message")
    }

    /// Messages with their number as body.
    pub fn send_many(&mut self, count: u32) -> Vec<Vec<u8>> {
        let mut messages = vec![self.send(&[0; 4])];
        for i in 1..count {
            let sealed = self.talk.seal(&i.to_be_bytes(), &[], Padding::Blocks, None, self.now);
            let (message, changes) = sealed.expect("a message");
            self.disk.apply(changes);
            messages.push(message);
        }
        self.check_disk();
        messages
    }

    pub fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
    ) -> Result<Vec<u8>, SealError> {
        let fresh = self.talk.needs_ephemeral().then(|| self.fresh());
        let before = self.talk.encode();
        let can_seal = self.talk.can_seal(self.now);
        let sealed = self.talk.seal(body, outer, padding, fresh, self.now);
        match &sealed {
            Ok(_) => assert!(can_seal),
            Err(SealError::NoSession | SealError::Unanswered | SealError::ChainEnd) => {
                assert!(!can_seal);
            }
            Err(_) => {}
        }
        if sealed.is_err() {
            assert!(before == self.talk.encode(), "an error changed the state");
        }
        let (message, changes) = sealed?;
        self.disk.apply(changes);
        self.check_disk();
        Ok(message)
    }

    pub fn receive(&mut self, message: &[u8]) -> Result<Vec<u8>, OpenError> {
        self.open(message, &[]).map(|opened| opened.body.to_vec())
    }

    /// Opens a message; an error must change nothing, success must tell the disk all of it.
    pub fn open(&mut self, message: &[u8], outer: &[u8]) -> Result<Opened, OpenError> {
        let before = (self.talk.encode(), self.prekeys.encode());
        let opened = self.talk.open(message, outer, &self.identity, &mut self.prekeys, self.now);
        let Ok(mut opened) = opened else {
            assert!(before == (self.talk.encode(), self.prekeys.encode()), "an error changed it");
            return opened;
        };
        self.disk.apply(core::mem::take(&mut opened.changes));
        self.settle();
        Ok(opened)
    }

    /// The disk holds what the machines say it should.
    pub fn check_disk(&self) {
        let mut all = self.talk.all_rows();
        all.append(self.prekeys.all_rows());
        assert!(Disk::of(all) == self.disk, "the changes and the state differ");
    }

    /// Starts again from the disk.
    pub fn reboot(&mut self) {
        let local = *self.talk.local();
        let remote = *self.talk.remote();
        self.talk = Talk::load(local, remote, self.disk.records(is_talk)).expect("stored rows");
        let rows = self.disk.records(|table| !is_talk(table));
        let prekeys = Prekeys::load(self.identity.duplicate(), rows).expect("stored rows");
        self.prekeys = offering(prekeys, self.suite);
        self.wake();
    }

    /// A thief's copy of this device.
    pub fn stolen(&self) -> Self {
        let rows = self.disk.records(is_talk);
        let talk = Talk::load(*self.talk.local(), *self.talk.remote(), rows).expect("rows");
        let rows = self.disk.records(|table| !is_talk(table));
        Self {
            identity: self.identity.duplicate(),
            prekeys: offering(
                Prekeys::load(self.identity.duplicate(), rows).expect("rows"),
                self.suite,
            ),
            talk,
            disk: self.disk.clone(),
            server: self.server.clone(),
            rng: ChaCha20Rng::seed_from_u64(0x7e1ef),
            now: self.now,
            suite: self.suite,
        }
    }
}

/// Both clocks move.
pub fn pass(alice: &mut Person, bob: &mut Person, ms: u64) {
    for person in [alice, bob] {
        person.now = person.now.plus_ms(ms);
    }
}
