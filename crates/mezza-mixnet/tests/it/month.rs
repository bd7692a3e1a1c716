//! Days and weeks of a network with everything that happens to people: sleep, lost lines, clocks that
//! are set, programs that are started again, new configs, an entry that moves, mixes that are away.
//!
//! A second program stands beside it. It knows roots and what is sealed, reads the key schedule from the
//! specification, and counts what each round costs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::rc::Rc;

use mezza_core::{Time, labelled_hash};
use mezza_mixnet::config::{Config, SignatureSet, SignedConfig};
use mezza_mixnet::job::{Job, JobOutput, Noise};
use mezza_mixnet::privacy::NoisePreset;
use mezza_mixnet::wire::{Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::fixture::{Net, OPEN, config, signer};
use crate::town::Town;
use crate::toy::{TOY, Toy};

/// People, each a contact of every other.
const PEOPLE: usize = 4;
/// From one round to the next: conversations, calls, invitations, milliseconds.
const INTERVALS_MS: [u32; 3] = [30_000, 240_000, 3_600_000];
/// A step between two looks, milliseconds.
const STEP_MS: u64 = 30_000;
/// How long a note may take once both sides are back, milliseconds: three call rounds, in which three
/// partners are called one by one, and twenty conversation rounds, of which two people who serve three
/// partners each meet in every fifth.
const NOTE_MS: u64 = 3 * INTERVALS_MS[1] as u64 + 20 * INTERVALS_MS[0] as u64;
/// A clock that is off by no more takes part in rounds, milliseconds.
const CLOCK_MS: u64 = 25_000;
/// Users of a round that hide somebody.
const CROWD: u32 = 128;

/// All services with noise of the preset `relaxed`.
fn first_config() -> Config {
    let mut config = config(3);
    config.valid_until = OPEN.plus_ms(400 * Time::DAY_MS);
    for (policy, interval_ms) in config.services.iter_mut().zip(INTERVALS_MS) {
        NoisePreset::Relaxed.fill_policy(policy);
        (policy.interval_ms, policy.buckets) = (interval_ms, 1);
    }
    config
}

/// A conversation chain of the key schedule, as the specification has it.
struct SecondWheel {
    chain: [u8; 32],
    round: u64,
}

impl SecondWheel {
    fn new(root: u8) -> Self {
        let round = 100_u64;
        let chain = labelled_hash("mezza/mix conv", &[&[root; 32], &round.to_be_bytes()]);
        Self { chain, round }
    }

    /// The dead drop of a round; rounds come in order.
    fn drop_of(&mut self, round: u64) -> [u8; 16] {
        while self.round < round {
            self.round += 1;
            let next = self.round.to_be_bytes();
            self.chain = labelled_hash("mezza/mix step", &[&self.chain, &next]);
        }
        let number = round.to_be_bytes();
        let met: [u8; 64] = labelled_hash("mezza/mix meet", &[&self.chain, &number]);
        std::array::from_fn(|at| met[at])
    }
}

/// The budget that one person spent, counted from sealed rounds.
#[derive(Default)]
struct SecondCount {
    wheels: Vec<SecondWheel>,
    rounds: BTreeMap<Service, u64>,
}

impl SecondCount {
    fn read(&mut self, id: RoundId, plain: &[u8]) {
        let real = match id.service {
            Service::Conversation => {
                let drop = &plain[..16];
                self.wheels.iter_mut().any(|wheel| wheel.drop_of(id.round) == drop)
            }
            Service::Call | Service::Invitation => plain[..4] != [0; 4],
        };
        *self.rounds.entry(id.service).or_default() += u64::from(real);
    }
}

/// Something that ends, or happens, at a time that was set.
enum Due {
    Wake { at: usize, told: bool },
    Dials { at: usize },
    Ahead { at: usize, ms: u64 },
    Behind { at: usize, ms: u64 },
    Mixes,
    Config(Change),
    Begins(Change),
}

/// The change of a new config.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    Weak,
    Strong,
    Entry(u8),
}

struct Note {
    from: usize,
    to: usize,
    /// Its place among the notes of this pair and direction.
    number: usize,
    written: Time,
    late: bool,
}

struct World {
    town: Town<Toy>,
    dice: ChaCha20Rng,
    due: BTreeMap<(Time, u32), Due>,
    dues: u32,
    configs: Vec<SignedConfig>,
    /// Noise that hides nobody is in force.
    weak: bool,
    changed: Time,
    users: Rc<Cell<u32>>,
    counts: Rc<RefCell<Vec<SecondCount>>>,
    notes: Vec<Note>,
    sent: BTreeMap<(usize, usize), Vec<Vec<u8>>>,
    faults: Vec<String>,
    /// Looks at a person that is back, and those that showed level 4.
    looks: (u64, u64),
    slowest_ms: u64,
    troubles: BTreeMap<&'static str, u32>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut net = Net::<Toy>::with_kernel(first_config(), seed, &TOY);
        // The noise is drawn and stands in every sum; it is not made, since nobody looks at it.
        net.breakage = Some(Box::new(|_, job| {
            matches!(job, Job::Noise(_)).then(|| JobOutput::Noise(Noise::default()))
        }));
        net.checks = false;
        let mut town = Town::around(net, PEOPLE as u64, seed);
        let users = Rc::new(Cell::new(200));
        let named = Rc::clone(&users);
        town.liar = Some(Box::new(move |_, frame| match frame {
            Frame::Round(id, FrameBody::Return { replies, .. }) => {
                vec![Frame::Round(id, FrameBody::Return { users: named.get(), replies })]
            }
            other => vec![other],
        }));
        let counts = Rc::new(RefCell::new(Vec::new()));
        counts.borrow_mut().resize_with(PEOPLE, SecondCount::default);
        let second = Rc::clone(&counts);
        town.sealed = Some(Box::new(move |at, id, plain| second.borrow_mut()[at].read(id, plain)));
        let mut genesis = SignedConfig::new(first_config());
        genesis.add_signature(SignatureSet::Own, 0, &signer(1));
        Self {
            town,
            dice: ChaCha20Rng::seed_from_u64(seed),
            due: BTreeMap::new(),
            dues: 0,
            configs: vec![genesis],
            weak: false,
            changed: OPEN,
            users,
            counts,
            notes: Vec::new(),
            sent: BTreeMap::new(),
            faults: Vec::new(),
            looks: (0, 0),
            slowest_ms: 0,
            troubles: BTreeMap::new(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.dice.next_u64() % n
    }

    /// A time of chance up to `most`, short ones as often as long ones.
    fn while_ms(&mut self, most: u64) -> u64 {
        let halvings = self.below(10);
        let top = most >> halvings;
        1_000 + self.below(top.max(1))
    }

    fn person(&mut self) -> usize {
        self.below(PEOPLE as u64) as usize
    }

    fn later(&mut self, ms: u64, due: Due) {
        self.dues += 1;
        self.due.insert((self.town.now().plus_ms(ms), self.dues), due);
    }

    /// Everybody knows everybody, and has met.
    fn begin(&mut self) {
        self.town.until(OPEN.plus_ms(STEP_MS));
        let mut root = 0;
        for a in 0..PEOPLE {
            for b in a + 1..PEOPLE {
                root += 1;
                self.town.introduce(a, b, root);
                let mut counts = self.counts.borrow_mut();
                counts[a].wheels.push(SecondWheel::new(root));
                counts[b].wheels.push(SecondWheel::new(root));
                drop(counts);
                self.write(a, b);
                self.write(b, a);
            }
        }
        let end = self.town.now().plus_ms(40 * Time::MINUTE_MS);
        self.town.until(end);
        self.look();
    }

    fn write(&mut self, from: usize, to: usize) {
        let len = 1 + self.below(200) as usize;
        let all = self.sent.entry((from, to)).or_default();
        let number = all.len();
        let mut bytes = vec![1 + from as u8; 8 + len];
        bytes[..8].copy_from_slice(&(1 + number as u64).to_be_bytes());
        all.push(bytes.clone());
        self.notes.push(Note { from, to, number, written: self.town.now(), late: false });
        self.town.write(from, to, bytes);
    }

    fn successor(&mut self, change: Change, ahead_ms: u64) -> SignedConfig {
        let mut next = self.configs.last().expect("a genesis").config().clone();
        let begins = self.town.now().plus_ms(ahead_ms);
        (next.prev, next.seq, next.valid_from) = (next.hash(), next.seq + 1, begins);
        for policy in &mut next.services {
            policy.base_round = policy.round_at(begins).expect("it began before") + 1;
            policy.base_time = begins;
            match change {
                Change::Weak => {
                    (policy.mu, policy.scale) = (policy.mu / 20 * 18, policy.scale / 20 * 18);
                }
                Change::Strong => {
                    let buckets = policy.buckets;
                    NoisePreset::Relaxed.fill_policy(policy);
                    policy.buckets = buckets;
                }
                Change::Nothing | Change::Entry(_) => {}
            }
        }
        if let Change::Entry(key) = change {
            next.coordinator.key = signer(key).public_key();
            next.coordinator.address = format!("m{key}:7000");
        }
        let mut signed = SignedConfig::new(next);
        signed.add_signature(SignatureSet::Predecessor, 0, &signer(1));
        signed
    }

    fn happens(&mut self, due: &Due) {
        match *due {
            Due::Wake { at, told } => self.town.wake_up(at, told),
            Due::Dials { at } => self.town.people[at].luck.dead = 0,
            Due::Ahead { at, ms } => {
                self.town.disturb(at);
                self.town.put_ahead(at, ms);
            }
            Due::Behind { at, ms } => {
                self.town.disturb(at);
                self.town.put_back(at, ms);
            }
            Due::Mixes => {
                self.town.city.deaf.clear();
                (0..PEOPLE).for_each(|at| self.town.disturb(at));
            }
            Due::Config(change) => {
                let ahead_ms = 10 * Time::MINUTE_MS + self.below(2 * Time::HOUR_MS);
                let next = self.successor(change, ahead_ms);
                self.town.publish(&next);
                self.configs.push(next);
                self.later(ahead_ms, Due::Begins(change));
            }
            Due::Begins(change) => {
                self.changed = self.town.now();
                match change {
                    Change::Weak => self.weak = true,
                    Change::Strong => self.weak = false,
                    Change::Entry(key) => self.town.replace_entry(key, &self.configs),
                    Change::Nothing => {}
                }
            }
        }
    }

    fn trouble(&mut self) {
        let at = self.person();
        if self.town.people[at].is_asleep || self.town.people[at].client.is_none() {
            return;
        }
        let name = match self.below(9) {
            0 => {
                self.town.cut(at);
                "lines lost"
            }
            1 => {
                self.town.people[at].luck.dead = 1_000;
                self.town.cut(at);
                let ms = self.while_ms(3 * Time::HOUR_MS);
                self.later(ms, Due::Dials { at });
                "lines lost for a while"
            }
            2 => {
                self.town.silence(at);
                "lines that died without a word"
            }
            3 | 4 => {
                self.town.fall_asleep(at);
                let ms = self.while_ms(12 * Time::HOUR_MS);
                let told = self.below(2) == 0;
                self.later(ms, Due::Wake { at, told });
                "sleeps"
            }
            5 => {
                let ms = self.while_ms(6 * Time::HOUR_MS);
                self.town.stop(at, ms);
                "starts"
            }
            6 => self.step_clock(at),
            7 if self.town.city.deaf.is_empty() => {
                self.town.city.deaf.push(1);
                let ms = self.while_ms(2 * Time::HOUR_MS);
                self.later(ms, Due::Mixes);
                "mixes away"
            }
            _ => {
                let crowd = if self.users.get() < CROWD { 200 } else { 100 };
                self.users.set(crowd);
                "crowds that come or go"
            }
        };
        *self.troubles.entry(name).or_default() += 1;
    }

    fn step_clock(&mut self, at: usize) -> &'static str {
        if self.town.clock_error(at) > 0 {
            return "clocks left alone";
        }
        let sizes = [5_000, 20_000, 180_000, 2 * Time::HOUR_MS, 26 * Time::HOUR_MS];
        let size = self.below(5) as usize;
        let ahead = self.below(2) == 0;
        let ms = sizes[size];
        let after = self.while_ms(3 * Time::HOUR_MS);
        let now = Due::Ahead { at, ms };
        let then = Due::Behind { at, ms };
        let (first, second) = if ahead { (now, then) } else { (then, now) };
        self.happens(&first);
        self.later(after, second);
        "clocks set"
    }

    /// Since when a person takes part, if it does.
    fn back(&self, at: usize) -> Option<Time> {
        let there = self.town.city.deaf.is_empty() && self.town.clock_error(at) <= CLOCK_MS;
        self.town.people[at].back.filter(|_| there)
    }

    fn look(&mut self) {
        let now = self.town.now();
        let mut notes = std::mem::take(&mut self.notes);
        for note in &mut notes {
            let both = self.back(note.from).zip(self.back(note.to));
            let Some(since) = both.map(|(a, b)| a.max(b).max(note.written)) else { continue };
            let came = self.came(note);
            let took = now.since_ms(since);
            if came {
                self.slowest_ms = self.slowest_ms.max(took.min(NOTE_MS));
            } else if took > NOTE_MS && !note.late {
                note.late = true;
                let Note { from, to, number, written, .. } = *note;
                let at = |time: Time| time.since_ms(OPEN) / 1_000;
                let backs = [from, to].map(|who| self.back(who).map(at));
                self.faults.push(format!(
                    "note {number} of {from} for {to}, written at {} s, both back since {} s \
                     ({backs:?}), is not there at {} s",
                    at(written),
                    at(since),
                    at(now)
                ));
            }
        }
        notes.retain(|note| !self.came(note));
        self.notes = notes;
        (0..PEOPLE).for_each(|at| self.look_at_level(at));
    }

    fn came(&self, note: &Note) -> bool {
        let inbox = self.town.people[note.to].inbox.get(&(note.from as u32));
        inbox.is_some_and(|inbox| inbox.len() > note.number)
    }

    /// Level 4 holds while rounds come back, the last three with a crowd, under enough noise.
    fn look_at_level(&mut self, at: usize) {
        let now = self.town.now();
        let person = &self.town.people[at];
        if person.is_asleep {
            return;
        }
        let lately = person.returns.iter().rev().take(3);
        let crowded = lately.clone().count() == 3 && lately.clone().all(|(_, n)| *n >= CROWD);
        let last = lately.clone().next().map(|(when, _)| now.since_ms(*when));
        let returning = last.is_some_and(|ms| ms < 3 * u64::from(INTERVALS_MS[0]));
        // A clock may be off by some seconds when a config begins, and the last round is of the old one.
        let changes = now.since_ms(self.changed) <= u64::from(INTERVALS_MS[0]);
        let holds = returning && crowded && (!self.weak || changes);
        let is_back = person.back.is_some() && self.town.city.deaf.is_empty();
        self.looks.0 += u64::from(is_back && holds);
        self.looks.1 += u64::from(is_back && person.level == 4);
        if person.level == 4 && !holds {
            let seconds = now.since_ms(OPEN) / 1_000;
            self.faults.push(format!("level 4 at {at} after {seconds} s: last {last:?} ms ago"));
        }
    }

    /// The ledgers are what the second program counts.
    fn compare(&mut self) {
        for (at, count) in self.counts.borrow().iter().enumerate() {
            let client = self.town.people[at].client.as_ref();
            let Some(ledger) = client.and_then(|client| client.ledger()) else { continue };
            let mut spent: BTreeMap<Service, u64> = BTreeMap::new();
            for rounds in ledger.all_spent() {
                *spent.entry(rounds.service).or_default() += rounds.rounds;
            }
            for service in Service::ALL {
                let of = |all: &BTreeMap<Service, u64>| all.get(&service).copied().unwrap_or(0);
                let ledger = of(&spent);
                let second = of(&count.rounds);
                if ledger != second {
                    self.faults.push(format!("{at} spent {second} {service:?}, says {ledger}"));
                }
            }
        }
    }

    fn run(&mut self, days: u64) {
        self.begin();
        let part = days * Time::DAY_MS / 7;
        let changes = [
            Change::Nothing,
            Change::Entry(43),
            Change::Weak,
            Change::Strong,
            Change::Entry(44),
            Change::Nothing,
        ];
        for (change, number) in changes.into_iter().zip(1..) {
            self.later(number * part, Due::Config(change));
        }
        let end = OPEN.plus_ms(days * Time::DAY_MS);
        let mut day = self.town.now().plus_ms(Time::HOUR_MS);
        while self.town.now() < end {
            let next = self.town.now().plus_ms(STEP_MS);
            let set = self.due.first_key_value().map(|((time, _), _)| *time);
            self.town.until(set.map_or(next, |set| set.min(next)));
            while let Some(first) = self.due.first_entry() {
                if first.key().0 > self.town.now() {
                    break;
                }
                let due = first.remove();
                self.happens(&due);
            }
            if self.below(48) == 0 {
                let from = self.person();
                let to = self.person();
                if from != to && !self.town.people[from].is_asleep {
                    self.write(from, to);
                }
            }
            if self.below(100) == 0 {
                self.trouble();
            }
            self.look();
            if self.town.now() >= day {
                day = day.plus_ms(4 * Time::HOUR_MS);
                self.compare();
                self.town.forget_past();
            }
        }
        self.compare();
    }

    /// Every note came once and in its order.
    fn check(&mut self) {
        for ((from, to), sent) in &self.sent {
            let got = self.town.people[*to].inbox.get(&(*from as u32));
            let got = got.map_or(&[][..], |inbox| inbox);
            if !sent.starts_with(got) {
                self.faults.push(format!("notes of {from} for {to} are not those that were sent"));
            }
        }
    }
}

fn live(seed: u64, days: u64) {
    let mut world = World::new(seed);
    world.run(days);
    world.check();
    let notes: usize = world.sent.values().map(Vec::len).sum();
    let (held, shown) = world.looks;
    let configs = world.configs.len() - 1;
    let said = writeln!(
        std::io::stdout(),
        "seed {seed}, {days} days: {notes} notes, slowest {} s; level 4 shown in {shown} of {held} \
         looks; {configs} configs; {:?}",
        world.slowest_ms / 1_000,
        world.troubles
    );
    said.expect("a test has an output");
    let few = &world.faults[..world.faults.len().min(12)];
    assert!(few.is_empty(), "seed {seed}: {} faults, first {few:#?}", world.faults.len());
    assert!(shown > 0 && shown <= held);
}

/// A number from the environment, so that a longer time or another world needs no new program.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

/// One day; `MEZZA_DAYS=30` lives a month, `MEZZA_WORLD` names the seed.
#[test]
fn mix_84_slow_notes_come_levels_hold_and_ledgers_are_right_whatever_happens() {
    live(given("MEZZA_WORLD").unwrap_or(2), given("MEZZA_DAYS").unwrap_or(1));
}
