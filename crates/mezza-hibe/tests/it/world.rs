//! A receiver that sleeps, whose clock lies and jumps, whose writes fail and who crashes between any
//! two of them: what its disk opens is exactly what is not erased, at every moment.

use std::collections::VecDeque;

use mezza_hibe::floor::{ClockTrust, JUMP_MS_MAX};
use mezza_hibe::{
    BlockPolicy, CardBlock, Delta, Epoch, FloorRule, HeldKeys, KeyTree, RecordName, Shape, System,
    Tick, TreeProfile, Trial, trial_open,
};
use mezza_sim::{CryptoRng, Effect, Host, HostId, Time, World, WorldStep, for_each_seed};

use crate::fixture::{chance, envelope_for};
use crate::thief::{Disk, Master};

/// Epochs of an hour: all limits on jumps lie within the 34 hours of the small tree.
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
    rule: Option<FloorRule>,
    /// The floor and the boot time at the first look.
    started: Option<(Epoch, u64)>,
    boot_ms: u64,
    effects: VecDeque<Write>,
    /// The generation that is stored when so many writes are done.
    storing: Option<(u64, usize)>,
}

impl Receiver {
    fn look(&mut self, look: &Look, now: Time, rng: &mut dyn CryptoRng) {
        let floor = self.tree.floor();
        let boot_ms = look.boot_ms;
        let rule = self.rule.get_or_insert_with(|| FloorRule::new(PROFILE, floor, TRUST, boot_ms));
        self.started.get_or_insert((floor, boot_ms));
        self.boot_ms = boot_ms;
        let card = self.tree.card();
        let current = card.epoch_of(Tick::from_time(now)).ok();
        let (floor, _) = rule.update_floor(current, boot_ms);
        let end = self.tree.last_epoch().plus(1);
        self.tree.erase_below(floor.min(end), rng).expect("an erasure");
        let upto = current.unwrap_or(floor).plus(1);
        self.tree.prepare_until(upto, 40, rng).expect("an expansion");
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
    type Write = (Write, u64);
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
        Self { tree, rule: None, started: None, boot_ms: 0, effects, storing }
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
        self.effects.pop_front().map(|write| Effect::Write((write, generation)))
    }

    fn apply_write(medium: &mut Medium, (write, generation): (Write, u64)) {
        let Medium { disk, generation: remembered, .. } = medium;
        match write {
            Write::Put(name, bytes) => {
                let old = disk.records.insert(name, bytes.clone());
                assert!(old.is_none_or(|old| old == bytes), "a record was replaced");
            }
            Write::Ring(keyring) => {
                disk.keyring = keyring;
                *remembered = (*remembered).max(generation);
            }
            Write::Drop(name) => {
                disk.records.remove(&name);
            }
        }
    }
}

/// A fresh small tree on a disk, and its master key.
fn medium(seed: u64, start: Tick) -> (Medium, Master) {
    let tree = KeyTree::create(&System::new(), Shape::Test, PROFILE, start, &mut chance(seed));
    let mut tree = tree.expect("a tree");
    let delta = tree.pending_delta().expect("a new tree");
    let disk = Disk { keyring: delta.keyring.to_vec(), records: delta.put.into_iter().collect() };
    let medium =
        Medium { card: tree.card().as_bytes().to_vec(), disk, generation: delta.generation };
    (medium, Master::draw(Shape::Test, &mut chance(seed)))
}

/// The floor stays within the bounds that boot time sets, whatever the clock says.
fn within_bounds(receiver: &Receiver) {
    let Some((floor, since_ms)) = receiver.started else { return };
    let elapsed_ms = receiver.boot_ms - since_ms;
    let epoch_ms = PROFILE.epoch_ms();
    let now = receiver.tree.floor();
    let jump = (JUMP_MS_MAX / epoch_ms) as u32;
    let most = floor.plus((elapsed_ms * 3 / 2).div_ceil(epoch_ms) as u32 + 1 + jump);
    let least = floor.plus((elapsed_ms.saturating_sub(TRUST.slack_ms) / epoch_ms) as u32);
    let least = least.min(receiver.tree.last_epoch().plus(1));
    assert!(least <= now && now <= most, "{least:?} <= {now:?} <= {most:?}");
}

#[test]
fn hibe_23_slow_nothing_below_the_floor_opens_whatever_happens() {
    for_each_seed(100, |seed| {
        let mut world = World::<Receiver>::new(seed);
        let start = Tick::from_time(world.now()).day_start();
        let (medium, mut master) = medium(seed, start);
        let card = CardBlock::decode(&medium.card, BlockPolicy::TestTree).expect("a card");
        let host = world.add_host(medium);
        let mut floor = Epoch(0);
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
                assert!(disk.floor() >= floor, "the floor went back");
                floor = disk.floor();
                let opens = master.epochs(&disk.opened(card.hash()));
                let expected: Vec<u32> = (floor.0..Shape::Test.epoch_count()).collect();
                assert_eq!(opens, expected, "seed {seed}");
            });
        }
        assert!(stored > 10 && floor > Epoch(0), "seed {seed}: {stored} writes, {floor:?}");
    });
}

#[test]
fn by_pairings_the_same() {
    let system = System::new();
    for_each_seed(3, |seed| {
        let mut world = World::<Receiver>::new(seed);
        let start = Tick::from_time(world.now()).day_start();
        let (medium, _) = medium(seed, start);
        let card = CardBlock::decode(&medium.card, BlockPolicy::TestTree).expect("a card");
        let host = world.add_host(medium);
        let mut envelopes: Vec<(Epoch, Vec<u8>)> = Vec::new();
        for _ in 0..20 {
            let boot_ms = world.now().as_ms();
            world.schedule_order(host, 0, Look { boot_ms, writes: None });
            world.run_for(5 * PERIOD_MS, |_, _| {});
            let tick = Tick::from_time(world.now());
            if let Ok(epoch) = card.epoch_of(tick) {
                envelopes.push((epoch, envelope_for(&system, &card, tick, b"x")));
            }
            let Some(receiver) = world.host(host) else { continue };
            let floor = receiver.tree.floor();
            let rng = &mut chance(seed);
            for (epoch, envelope) in &envelopes {
                let key = receiver.tree.open_key(&system, *epoch, rng);
                let opens = key.is_ok_and(|key| {
                    let mut held = HeldKeys::new();
                    held.insert(key);
                    matches!(trial_open(&system, &held, envelope), Trial::Opened(_))
                });
                assert_eq!(opens, *epoch >= floor, "seed {seed}, epoch {epoch:?}");
            }
        }
    });
}
