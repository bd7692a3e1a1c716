//! A receiver that sleeps, whose clock lies and jumps, whose writes fail and who crashes between any
//! two of them: what its disk opens is exactly what is not erased, at every moment.

use std::collections::VecDeque;

use mezza_hibe::floor::{ClockTrust, JUMP_MS_MAX};
use mezza_hibe::{
    BlockPolicy, Branch, CardBlock, CarriedEnvelope, Delta, EnvelopeTime, Epoch, FloorRules,
    HeldKeys, KeyTree, Life, RecordName, Shape, System, Tick, TreeProfile, Trial,
    trial_open_carried,
};
use mezza_sim::{CryptoRng, Effect, Host, HostId, Time, World, WorldStep, for_each_seed};

use crate::fixture::{chance, envelope_of_life};
use crate::thief::{Disk, Master};

/// Epochs of half an hour: all limits on jumps lie within the hours of the small trees.
const PROFILE: TreeProfile = TreeProfile::Hour;
const TRUST: ClockTrust = ClockTrust::FAIR;
/// How often the receiver looks at its clocks.
const PERIOD_MS: u64 = 10 * Time::MINUTE_MS;

/// One change of the disk.
enum Write {
    Put(RecordName, Vec<u8>),
    Ring(Vec<u8>),
    Drop(RecordName),
}

/// A change of the disk, and the generation to which it belongs.
struct NumberedWrite {
    write: Write,
    generation: u64,
}

/// The card, which never changes, and what does.
struct Medium {
    card: Vec<u8>,
    disk: Disk,
    /// The generation that the host remembers outside of the folder.
    generation: u64,
}

/// The kernel's timer, with the boot time; of the writes of this step only so many succeed.
struct Look {
    boot_ms: u64,
    writes: Option<usize>,
}

struct Receiver {
    tree: KeyTree,
    rules: Option<FloorRules>,
    /// The floors and the boot time at the first look.
    started: Option<(Vec<Epoch>, u64)>,
    boot_ms: u64,
    effects: VecDeque<Write>,
    /// The generation that is stored when so many writes are done.
    storing: Option<(u64, usize)>,
}

impl Receiver {
    fn look(&mut self, look: &Look, now: Time, rng: &mut dyn CryptoRng) {
        let boot_ms = look.boot_ms;
        let rules = self.rules.get_or_insert_with(|| FloorRules::new(&self.tree, TRUST, boot_ms));
        self.started.get_or_insert_with(|| (floors_of(&self.tree), boot_ms));
        self.boot_ms = boot_ms;
        let now = Tick::from_time(now);
        // A clock that shows a time after the life of the card counts as none: lies would end every world.
        let shown = self.tree.card().epoch_of(now).is_ok().then_some(now);
        let floors = rules.update_floors(&self.tree, shown, boot_ms);
        self.tree.erase_below_floors(&floors, rng).expect("an erasure");
        for life in self.tree.card().lives() {
            let upto = self.tree.card().find_epoch(life, now);
            let upto = upto.unwrap_or(self.tree.find_floor(life).expect("a floor")).plus(1);
            self.tree.prepare_life(life, upto, 40, rng).expect("an expansion");
        }
        if let Some(Delta { generation, put, keyring, drop }) = self.tree.pending_delta() {
            let puts = put.into_iter().map(|(name, bytes)| Write::Put(name, bytes));
            let ring = Write::Ring(keyring.to_vec());
            let drops = drop.into_iter().map(Write::Drop);
            self.effects = puts.chain([ring]).chain(drops).collect();
            let all = self.effects.len();
            self.effects.truncate(look.writes.unwrap_or(all));
            self.storing = (self.effects.len() == all).then_some((generation, all));
        }
    }
}

impl Host for Receiver {
    type Disk = Medium;
    type Write = NumberedWrite;
    type Packet = ();
    type Order = Look;
    type News = ();

    fn boot(medium: &Medium, _: Time, _: &mut dyn CryptoRng) -> Self {
        let card = CardBlock::decode(&medium.card, BlockPolicy::TestTree).expect("a card");
        let Disk { keyring, records } = &medium.disk;
        let tree = KeyTree::import(&card, keyring, records, medium.generation);
        let tree = tree.expect("whatever a crash left loads");
        let effects = VecDeque::new();
        let storing = None;
        Self { tree, rules: None, started: None, boot_ms: 0, effects, storing }
    }

    fn apply_order(&mut self, look: Look, now: Time, rng: &mut dyn CryptoRng) {
        self.look(&look, now, rng);
    }

    fn deliver_packet(&mut self, _: HostId, (): (), _: Time, _: &mut dyn CryptoRng) {}

    fn write_durable(&mut self, _: Time, _: &mut dyn CryptoRng) {
        if let Some((generation, left)) = &mut self.storing {
            *left -= 1;
            if *left == 0 {
                self.tree.confirm_stored(*generation);
                self.storing = None;
            }
        }
    }

    fn wake(&mut self, _: Time, _: &mut dyn CryptoRng) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        let generation = self.storing.map_or(0, |(generation, _)| generation);
        self.effects.pop_front().map(|write| Effect::Write(NumberedWrite { write, generation }))
    }

    fn apply_write(medium: &mut Medium, numbered: NumberedWrite) {
        let Medium { disk, generation: remembered, .. } = medium;
        match numbered.write {
            Write::Put(name, bytes) => {
                let old = disk.records.insert(name, bytes.clone());
                assert!(old.is_none_or(|old| old == bytes), "a record was replaced");
            }
            Write::Ring(keyring) => {
                disk.keyring = keyring;
                *remembered = (*remembered).max(numbered.generation);
            }
            Write::Drop(name) => {
                disk.records.remove(&name);
            }
        }
    }
}

/// The floor of each life.
fn floors_of(tree: &KeyTree) -> Vec<Epoch> {
    tree.card().lives().map(|life| tree.find_floor(life).expect("a floor")).collect()
}

fn branches_of(card: &CardBlock) -> Vec<Branch> {
    card.calendar().branches().collect()
}

/// A fresh small tree on a disk, and its master key.
fn medium(shape: Shape, seed: u64, start: Tick) -> (Medium, Master) {
    let tree = KeyTree::create(&System::new(), shape, PROFILE, start, &mut chance(seed));
    let mut tree = tree.expect("a tree");
    let delta = tree.pending_delta().expect("a new tree");
    let disk = Disk { keyring: delta.keyring.to_vec(), records: delta.put.into_iter().collect() };
    let medium =
        Medium { card: tree.card().as_bytes().to_vec(), disk, generation: delta.generation };
    (medium, Master::draw(shape, &mut chance(seed)))
}

/// The floor of each life stays within the bounds that boot time sets, whatever the clock says.
fn within_bounds(receiver: &Receiver) {
    let Some((floors, since_ms)) = &receiver.started else { return };
    let elapsed_ms = receiver.boot_ms - since_ms;
    let branches = branches_of(receiver.tree.card());
    for ((branch, floor), now) in branches.iter().zip(floors).zip(floors_of(&receiver.tree)) {
        let epoch_ms = branch.epoch_ms();
        let jump = (JUMP_MS_MAX / epoch_ms) as u32;
        let most = floor.plus((elapsed_ms * 3 / 2).div_ceil(epoch_ms) as u32 + 1 + jump);
        let least = floor.plus((elapsed_ms.saturating_sub(TRUST.slack_ms) / epoch_ms) as u32);
        let least = least.min(branch.end);
        assert!(least <= now && now <= most, "{branch:?}: {least:?} <= {now:?} <= {most:?}");
    }
}

/// Checks that a disk opens exactly [floor, end) of each life, after every write and every crash.
fn judge_disk(shape: Shape, seeds: u64) {
    for_each_seed(seeds, |seed| {
        let mut world = World::<Receiver>::new(seed);
        let start = Tick::from_time(world.now()).day_start();
        let (medium, mut master) = medium(shape, seed, start);
        let card = CardBlock::decode(&medium.card, BlockPolicy::TestTree).expect("a card");
        let branches = branches_of(&card);
        let host = world.add_host(medium);
        let mut floors: Vec<Epoch> = branches.iter().map(|branch| branch.first).collect();
        let first = floors.clone();
        let mut stored = 0;
        for _ in 0..40 {
            let dice = world.dice();
            let writes = dice.chance(200).then(|| dice.between(0, 12) as usize);
            let sleep = if dice.chance(100) { dice.between(1, 40) } else { 1 };
            let crash = dice.chance(150);
            let lie = dice.chance(150);
            let effects = dice.between(0, 12);
            let hours = dice.between(0, 40);
            let sign = if dice.chance(500) { 1 } else { -1 };
            if crash {
                world.crash_after(host, effects);
            }
            if lie {
                let hours = i64::try_from(hours).expect("a few hours");
                world.shift_clock(host, sign * hours * Time::HOUR_MS.cast_signed());
            }
            let boot_ms = world.now().as_ms();
            world.schedule_order(host, 0, Look { boot_ms, writes });
            world.run_for(sleep * PERIOD_MS, |world, step| {
                if let Some(receiver) = world.host(host) {
                    within_bounds(receiver);
                }
                if !matches!(step, WorldStep::Stored(_) | WorldStep::Crashed(_)) {
                    return;
                }
                stored += 1;
                let disk = &world.disk(host).disk;
                let now = disk.floors();
                assert!(now.iter().zip(&floors).all(|(now, old)| now >= old), "a floor went back");
                floors = now;
                let opens = master.epochs(&disk.opened(card.hash()));
                let expected = branches.iter().zip(&floors);
                let expected = expected.flat_map(|(branch, floor)| floor.0..branch.end.0);
                assert_eq!(opens, expected.collect::<Vec<_>>(), "seed {seed}");
            });
        }
        assert!(stored > 10 && floors[0] > first[0], "seed {seed}: {stored} writes, {floors:?}");
    });
}

#[test]
fn hibe_23_slow_nothing_below_the_floor_opens_whatever_happens() {
    judge_disk(Shape::Test, 100);
}

#[test]
fn hibe_83_slow_exactly_what_is_not_erased_of_each_life_opens() {
    // A seed of three lives takes four times as long as one of a single life: 2.8 s and 0.64 s.
    judge_disk(Shape::TestLives, 40);
}

/// An envelope with what its carrier names.
struct Sent {
    time: EnvelopeTime,
    epoch: Epoch,
    envelope: Vec<u8>,
}

/// The same by pairings: an envelope of a life opens exactly while the floor of this life is not above it.
fn judge_pairings(shape: Shape) {
    let system = System::new();
    for_each_seed(3, |seed| {
        let mut world = World::<Receiver>::new(seed);
        let start = Tick::from_time(world.now()).day_start();
        let (medium, _) = medium(shape, seed, start);
        let card = CardBlock::decode(&medium.card, BlockPolicy::TestTree).expect("a card");
        let host = world.add_host(medium);
        let mut sent: Vec<Sent> = Vec::new();
        for _ in 0..20 {
            let boot_ms = world.now().as_ms();
            world.schedule_order(host, 0, Look { boot_ms, writes: None });
            world.run_for(5 * PERIOD_MS, |_, _| {});
            let tick = Tick::from_time(world.now());
            for life in card.lives() {
                if card.seal_key_for(life, tick).is_ok() {
                    let epoch = card.find_epoch(life, tick).expect("an epoch");
                    let envelope = envelope_of_life(&system, &card, life, tick);
                    sent.push(Sent { time: EnvelopeTime { life, tick }, epoch, envelope });
                }
            }
            let Some(receiver) = world.host(host) else { continue };
            let rng = &mut chance(seed);
            for Sent { time, epoch, envelope } in &sent {
                let floor = receiver.tree.find_floor(time.life).expect("a floor");
                let key = receiver.tree.open_key(&system, *epoch, rng);
                let opens = key.is_ok_and(|key| {
                    let mut held = HeldKeys::new();
                    held.insert(key);
                    let carried = CarriedEnvelope { envelope, time: Some(*time) };
                    let trial = trial_open_carried(&system, &held, &[carried]).pop();
                    matches!(trial, Some(Trial::Opened(_)))
                });
                assert_eq!(opens, *epoch >= floor, "seed {seed}, {time:?}");
            }
        }
        let lives: Vec<Life> = card.lives().collect();
        assert!(lives.iter().all(|life| sent.iter().any(|sent| sent.time.life == *life)));
    });
}

#[test]
fn by_pairings_the_same() {
    judge_pairings(Shape::Test);
}

#[test]
fn hibe_83_slow_by_pairings_the_same_of_each_life() {
    judge_pairings(Shape::TestLives);
}
