//! Two peers in seeded worlds: frames are lost, repeated, late and out of order, hosts crash
//! between any two effects, and power goes between a write and its sync. Afterwards one exchange that
//! nobody disturbs succeeds, no attempt was used twice, and no tag of suite `paper` repeats a nonce.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{CryptoRng, EphemeralKey, Machine, Time};
use mezza_seka::record::SEALED_BYTES;
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::suite::paper::PaperSuite;
use mezza_seka::wire::{Ke1, kind_of};
use mezza_seka::{
    LinkSession, Opener, Peer, PeerAddress, PeerInput, PeerOutput, PeerRecord, PeerSettings,
};
use mezza_sim::{CrashRate, Effect, Host, HostId, LinkModel, World, for_each_seed};

use crate::stage::{paired, seal, store_key};
use crate::toy::Toy;

/// A file with two slots, as the program writes it.
#[derive(Clone)]
pub struct TwoSlots {
    slots: [Vec<u8>; 2],
    newest: usize,
}

impl TwoSlots {
    /// A file after these writes.
    fn after(writes: &[(u64, Vec<u8>)]) -> Self {
        let mut disk = Self { slots: [vec![0; SEALED_BYTES], vec![0; SEALED_BYTES]], newest: 1 };
        for (_, sealed) in writes {
            disk.write(sealed.clone());
        }
        disk
    }

    fn write(&mut self, sealed: Vec<u8>) {
        self.newest = 1 - self.newest;
        self.slots[self.newest] = sealed;
    }

    fn newest(&self) -> (u64, PeerRecord) {
        let slots = [self.slots[0].as_slice(), self.slots[1].as_slice()];
        let (seq, _, record) = PeerRecord::open_newest(&store_key(), slots).expect("a slot opens");
        (seq, record)
    }
}

/// A host with one peer.
struct Device<S: LinkSuite> {
    peer: Peer<S>,
    other: HostId,
    outputs: VecDeque<Effect<Self>>,
    writing: VecDeque<u64>,
    sessions: Vec<(LinkSession, Opener<S::Frames>)>,
}

/// An action of a user.
enum Order {
    Rekey,
    Carrier,
}

impl<S: LinkSuite> Device<S> {
    fn give(&mut self, input: PeerInput, now: Time, rng: &mut dyn CryptoRng) {
        let _ = self.peer.handle(input, now, rng);
        self.drain(now, rng);
    }

    fn drain(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.peer.poll() {
            match output {
                PeerOutput::Want => {
                    let key = EphemeralKey::random::<S::Backend>(rng);
                    let _ = self.peer.handle(PeerInput::Give(key), now, rng);
                }
                PeerOutput::Store { seq, sealed } => {
                    self.writing.push_back(seq);
                    self.outputs.push_back(Effect::Write(sealed.to_vec()));
                }
                PeerOutput::Send { frame: packet, .. } => {
                    self.outputs.push_back(Effect::Send { to: self.other, packet });
                }
                PeerOutput::Install(session) => self.sessions.push((*session, Opener::default())),
                PeerOutput::KeepAlive { attempt, .. } => {
                    let found = self.sessions.iter().find(|(s, _)| s.attempt() == attempt);
                    let frame = found.and_then(|(session, _)| seal::<S::Frames>(session, &[0]));
                    let send = |packet| Effect::Send { to: self.other, packet };
                    self.outputs.extend(frame.map(send));
                }
                PeerOutput::Retire(attempt) => {
                    self.sessions.retain(|(session, _)| session.attempt() != attempt);
                }
                PeerOutput::Use(_) | PeerOutput::Tell(_) | PeerOutput::Moved(_) => {}
            }
        }
    }
}

/// The disk knows which of the two hosts it is.
type Disk = (HostId, TwoSlots);

impl<S: LinkSuite> Host for Device<S> {
    type Disk = Disk;
    type Write = Vec<u8>;
    type Packet = Vec<u8>;
    type Order = Order;
    type News = ();

    fn boot((other, disk): &Disk, now: Time, rng: &mut dyn CryptoRng) -> Self {
        let settings = PeerSettings::default();
        let stored = disk.newest();
        let peer = Peer::restore(stored.0, stored.1, store_key(), settings, now).expect("restored");
        let outputs = VecDeque::new();
        let writing = VecDeque::new();
        let mut device = Self { peer, other: *other, outputs, writing, sessions: Vec::new() };
        device.give(PeerInput::Carrier(true), now, rng);
        device
    }

    fn apply_order(&mut self, order: Order, now: Time, rng: &mut dyn CryptoRng) {
        let input = match order {
            Order::Rekey => PeerInput::Rekey,
            Order::Carrier => PeerInput::Carrier(true),
        };
        self.give(input, now, rng);
    }

    fn deliver_packet(
        &mut self,
        _: HostId,
        mut packet: Vec<u8>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let Some(index) = mezza_seka::session::index_of(&packet) else {
            let input = PeerInput::Datagram { frame: packet, from: PeerAddress::default() };
            return self.give(input, now, rng);
        };
        let found = self.sessions.iter_mut().find(|(session, _)| session.own_index() == index);
        let Some((session, opener)) = found else { return };
        if opener.open(session, &mut packet).is_ok() {
            let attempt = session.attempt();
            self.give(PeerInput::Fresh(attempt), now, rng);
        }
    }

    fn write_durable(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        if let Some(seq) = self.writing.pop_front() {
            self.give(PeerInput::Stored(seq), now, rng);
        }
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.peer.wake(now, rng);
        self.drain(now, rng);
    }

    fn deadline(&self) -> Option<Time> {
        self.peer.deadline()
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        self.outputs.pop_front()
    }

    fn apply_write((_, disk): &mut Disk, sealed: Vec<u8>) {
        disk.write(sealed);
    }
}

/// Two hosts fresh from a pairing.
fn world<S: LinkSuite>(seed: u64) -> (World<Device<S>>, [HostId; 2]) {
    let (sides, _) = paired::<S>();
    let mut world = World::new(seed);
    let ids = [HostId(0), HostId(1)];
    for (side, other) in sides.iter().zip([ids[1], ids[0]]) {
        world.add_host((other, TwoSlots::after(&side.writes)));
    }
    (world, ids)
}

/// Checks that one undisturbed exchange brings both disks to the same state.
fn heals<S: LinkSuite>(
    world: &mut World<Device<S>>,
    [one, two]: [HostId; 2],
) -> Result<(), String> {
    world.stop_faults();
    world.set_link(one, two, LinkModel::datagram());
    // Whatever is under way may end, and the bound of exchanges fills up.
    world.run_for(90_000, |_, _| {});
    let before = world.host(two).map(|host| host.peer.record().rekeys);
    world.schedule_order(one, 0, Order::Rekey);
    world.run_for(10_000, |_, _| {});
    let states = |place| {
        let host = world.host(place).ok_or("down")?;
        let (current, pending) = host.peer.stolen_states();
        Ok::<_, String>((*current, pending.is_some(), host.peer.record().rekeys))
    };
    let first = states(one)?;
    let second = states(two)?;
    if Some(second.2) <= before {
        return Err(format!("no exchange was accepted: {before:?}, {}", second.2));
    }
    if first.0 != second.0 || first.1 || second.1 {
        return Err("the states differ".into());
    }
    let on_disk = |place| {
        let (_, disk): &Disk = world.disk(place);
        let settings = PeerSettings::default();
        let slots = disk.slots.each_ref().map(|sealed| {
            let stored =
                PeerRecord::open(&store_key(), sealed).map_err(|error| error.to_string())?;
            let peer =
                Peer::<S>::restore(stored.0, stored.1, store_key(), settings, Time::from_ms(0));
            Ok::<_, String>(*peer.map_err(|error| error.to_string())?.stolen_states().0)
        });
        Ok::<_, String>([slots[0].clone()?, slots[1].clone()?])
    };
    let disks = [on_disk(one)?, on_disk(two)?];
    if disks.concat().iter().any(|state| *state != first.0) {
        return Err("a slot holds another state".into());
    }
    Ok(())
}

/// A frame with a tag: who sent it, which, and in which attempt. Two frames of one such place are one.
type TagPlace = (HostId, u8, [u8; 4]);

/// Watches what leaves: no attempt is used for two frames.
#[derive(Default)]
struct Watch(BTreeMap<TagPlace, Vec<u8>>);

impl Watch {
    fn see(&mut self, from: HostId, frame: &[u8]) {
        let Some(kind @ 0x15..=0x17) = kind_of(frame) else { return };
        let attempt = *frame[36..].first_chunk().expect("an attempt");
        let place = (from, kind, attempt);
        // KE2 may be made again for the same KE1 after a crash before its write: it never left then.
        let before = self.0.entry(place).or_insert_with(|| frame.to_vec());
        assert!(before == frame, "kind {kind:x} of attempt {attempt:?} left in two forms");
    }
}

/// One schedule of faults.
fn adverse<S: LinkSuite>(seed: u64) {
    let (mut world, ids) = world::<S>(seed);
    let lossy = LinkModel { loss_permille: 150, duplicate_permille: 150, ..LinkModel::lossy() };
    world.set_link(ids[0], ids[1], lossy);
    for place in ids {
        world.cache_writes(place);
        world.set_crash_rate(place, CrashRate { permille: 60, down_ms: (10, 3_000) });
    }
    for _ in 0..world.dice().between(2, 6) {
        let place = ids[world.dice().between(0, 1) as usize];
        let at = world.dice().between(0, 30_000);
        let order = if world.dice().chance(700) { Order::Rekey } else { Order::Carrier };
        world.schedule_order(place, at, order);
    }
    world.run_for(40_000, |_, _| {});
    heals(&mut world, ids).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn slow_adverse_schedules_never_part_two_peers() {
    for_each_seed(5_000, adverse::<DefaultSuite<Toy>>);
}

#[test]
fn slow_adverse_schedules_never_part_two_peers_with_suite_paper() {
    for_each_seed(5_000, adverse::<PaperSuite<Toy>>);
}

/// A crash after every single effect of an exchange, at either side.
#[test]
fn a_crash_after_every_single_effect_is_healed() {
    for crashes in 0..2 {
        for effects in 0..30 {
            for cached in [false, true] {
                let (mut world, ids) = world::<DefaultSuite<Toy>>(effects);
                if cached {
                    for place in ids {
                        world.cache_writes(place);
                    }
                }
                world.crash_after(ids[crashes], effects);
                world.schedule_order(ids[0], 100, Order::Rekey);
                world.run_for(5_000, |_, _| {});
                let healed = heals(&mut world, ids);
                assert!(healed.is_ok(), "{crashes} after {effects}, {cached}: {healed:?}");
            }
        }
    }
}

/// A frame of each kind is lost again and again, and nothing grows.
#[test]
fn a_frame_that_is_lost_a_thousand_times_ends_in_an_exchange() {
    for lost in [0x15, 0x16, 0x17] {
        let (mut sides, mut now) = paired::<DefaultSuite<Toy>>();
        for _ in 0..1_000 {
            now = now.plus_ms(70_000);
            let _ = sides[0].give(PeerInput::Rekey, now);
            crate::stage::run(&mut sides, now, 4_000, |_, frame| kind_of(frame) != Some(lost));
        }
        let bytes = sides.each_ref().map(|side| side.peer.snapshot().len());
        assert!(bytes.iter().all(|bytes| *bytes < 2_048), "{bytes:?}");
        assert!(crate::stage::exchange(&mut sides, now.plus_ms(70_000)), "{lost:x}");
    }
    assert_eq!(Ke1::BYTES, 88);
}

/// No attempt leaves in two forms, whatever crashes: the tags of suite `paper` need that.
#[test]
fn slow_no_attempt_leaves_in_two_forms() {
    for_each_seed(1_000, |seed| {
        let (mut world, ids) = world::<PaperSuite<Toy>>(seed);
        for place in ids {
            world.cache_writes(place);
            world.set_crash_rate(place, CrashRate { permille: 100, down_ms: (10, 500) });
        }
        for at in 0..8 {
            world.schedule_order(ids[0], at * 2_500, Order::Rekey);
        }
        let mut watch = Watch::default();
        let end = world.now().plus_ms(25_000);
        while world.now() < end {
            // What a host is about to send, before it is sent.
            for place in ids {
                let frames: Vec<Vec<u8>> = world.host(place).map_or_else(Vec::new, |host| {
                    host.outputs
                        .iter()
                        .take(1)
                        .filter_map(|effect| match effect {
                            Effect::Send { packet, .. } => Some(packet.clone()),
                            _ => None,
                        })
                        .collect()
                });
                for frame in &frames {
                    watch.see(place, frame);
                }
            }
            if world.step_until(end).is_none() {
                break;
            }
        }
    });
}
