//! Datagrams lose, repeat and reorder; streams do not, but break and say so.

use mezza_sim::{CryptoRng, Effect, Host, HostId, LinkModel, Time, World, WorldStep};
use std::collections::VecDeque;

/// Sends what it is told and remembers what came.
#[derive(Default)]
struct Talker {
    out: VecDeque<Effect<Self>>,
    heard: Vec<u32>,
    lost: Vec<HostId>,
    stuck: bool,
}

enum Order {
    Say(HostId, std::ops::Range<u32>),
    HangUp(HostId),
}

impl Host for Talker {
    type Disk = ();
    type Write = ();
    type Packet = u32;
    type Order = Order;
    type News = ();

    fn boot((): &(), _: Time, _: &mut dyn CryptoRng) -> Self {
        Self::default()
    }

    fn apply_order(&mut self, order: Order, _: Time, _: &mut dyn CryptoRng) {
        match order {
            Order::Say(to, words) => {
                self.out.extend(words.map(|packet| Effect::Send { to, packet }));
            }
            Order::HangUp(peer) => self.out.push_back(Effect::HangUp(peer)),
        }
    }

    fn deliver_packet(&mut self, _: HostId, packet: u32, _: Time, _: &mut dyn CryptoRng) {
        self.heard.push(packet);
    }

    fn stream_lost(&mut self, peer: HostId, _: Time, _: &mut dyn CryptoRng) {
        self.lost.push(peer);
    }

    fn wake(&mut self, _: Time, _: &mut dyn CryptoRng) {}

    fn deadline(&self) -> Option<Time> {
        self.stuck.then_some(Time::from_ms(0))
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        self.out.pop_front()
    }

    fn apply_write((): &mut (), (): ()) {}
}

fn pair(link: LinkModel) -> (World<Talker>, HostId, HostId) {
    let mut world = World::<Talker>::new(11);
    let alice = world.add_host(());
    let bob = world.add_host(());
    world.set_link(alice, bob, link);
    (world, alice, bob)
}

fn heard(world: &World<Talker>, place: HostId) -> &[u32] {
    world.host(place).map_or(&[], |talker| &talker.heard)
}

fn lost(world: &World<Talker>, place: HostId) -> &[HostId] {
    world.host(place).map_or(&[], |talker| &talker.lost)
}

#[test]
fn lossy_links_lose_repeat_and_reorder() {
    let (mut world, alice, bob) = pair(LinkModel::lossy());
    world.schedule_order(alice, 0, Order::Say(bob, 0..1_000));
    world.run_for(60_000, |_, _| {});
    let mut words = heard(&world, bob).to_vec();
    assert!(!words.is_sorted());
    words.sort_unstable();
    let all = words.len();
    words.dedup();
    assert!((850..950).contains(&words.len()), "a tenth is lost: {}", words.len());
    assert!((25..75).contains(&(all - words.len())), "a twentieth comes twice");
}

#[test]
fn streams_keep_order_and_lose_nothing() {
    let (mut world, alice, bob) =
        pair(LinkModel { late_permille: 500, late_ms: 900, ..LinkModel::stream() });
    world.schedule_order(alice, 0, Order::Say(bob, 0..500));
    world.schedule_order(alice, 300, Order::Say(bob, 500..1_000));
    world.run_for(60_000, |_, _| {});
    assert!(heard(&world, bob).iter().copied().eq(0..1_000));
    assert!(lost(&world, alice).is_empty() && lost(&world, bob).is_empty());
}

#[test]
fn a_crash_breaks_streams_and_the_peer_is_told_once() {
    let (mut world, alice, bob) = pair(LinkModel::stream());
    world.schedule_order(alice, 0, Order::Say(bob, 0..10));
    world.run_for(0, |_, _| {});
    world.crash_host(bob, 0);
    // Said before she knows: gone with the old stream.
    world.schedule_order(alice, 0, Order::Say(bob, 10..20));
    world.run_for(1_000, |_, _| {});
    assert_eq!(lost(&world, alice), [bob]);
    assert!(heard(&world, bob).is_empty());
    world.schedule_order(alice, 0, Order::Say(bob, 20..30));
    world.run_for(1_000, |_, _| {});
    assert!(heard(&world, bob).iter().copied().eq(20..30), "the next send opens a new stream");
    assert_eq!((lost(&world, alice).len(), lost(&world, bob).len()), (1, 0));
}

#[test]
fn nobody_answers_is_told_to_the_caller() {
    let (mut world, alice, bob) = pair(LinkModel::stream());
    world.crash_host(bob, 5_000);
    world.schedule_order(alice, 0, Order::Say(bob, 0..3));
    world.run_for(1_000, |_, _| {});
    assert_eq!(lost(&world, alice), [bob]);
    world.run_for(5_000, |_, _| {});
    assert!(heard(&world, bob).is_empty() && lost(&world, bob).is_empty());
}

#[test]
fn cut_and_hang_up_tell_those_who_do_not_know() {
    let (mut world, alice, bob) = pair(LinkModel::stream());
    world.schedule_order(alice, 0, Order::Say(bob, 0..1));
    world.run_for(100, |_, _| {});
    world.schedule_order(alice, 0, Order::HangUp(bob));
    world.run_for(100, |_, _| {});
    assert_eq!((lost(&world, alice), lost(&world, bob)), ([].as_slice(), [alice].as_slice()));

    world.schedule_order(alice, 0, Order::Say(bob, 1..2));
    world.run_for(100, |_, _| {});
    world.cut_link(alice, bob);
    world.run_for(100, |_, _| {});
    assert_eq!((lost(&world, alice).len(), lost(&world, bob).len()), (1, 2));
    world.schedule_order(alice, 0, Order::Say(bob, 2..3));
    world.run_for(100, |_, _| {});
    assert_eq!(lost(&world, alice).len(), 2, "a cut link answers nobody");
    world.heal_link(alice, bob);
    world.schedule_order(alice, 0, Order::Say(bob, 3..4));
    world.run_for(100, |_, _| {});
    assert_eq!(heard(&world, bob), [0, 1, 3]);
}

#[test]
fn partitions_stop_datagrams_both_ways() {
    let (mut world, alice, bob) = pair(LinkModel::datagram());
    let carol = world.add_host(());
    world.partition(&[alice]);
    world.schedule_order(alice, 0, Order::Say(bob, 0..5));
    world.schedule_order(bob, 0, Order::Say(alice, 0..5));
    world.schedule_order(bob, 0, Order::Say(carol, 0..5));
    let mut vanished = 0;
    world.run_for(1_000, |_, step| {
        vanished += u32::from(matches!(step, WorldStep::PacketLost { .. }));
    });
    assert_eq!((vanished, heard(&world, carol).len()), (10, 5));
}

#[test]
#[should_panic(expected = "its deadline does not move")]
fn a_host_that_never_sleeps_is_found() {
    let (mut world, alice, _) = pair(LinkModel::datagram());
    world.host_mut(alice).expect("up").stuck = true;
    world.run_for(1, |_, _| {});
}
