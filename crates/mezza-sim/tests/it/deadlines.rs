//! How often a world asks hosts for their deadlines: those that something happened to, and no other.

use mezza_sim::{CryptoRng, Effect, Host, Time, World};
use std::cell::Cell;
use std::rc::Rc;

/// A clock that ticks every second and counts how often somebody asks when it will.
struct Clock {
    asked: Rc<Cell<u64>>,
    tick_at: Time,
}

impl Host for Clock {
    type Disk = Rc<Cell<u64>>;
    type Write = ();
    type Packet = ();
    type Order = ();
    type News = ();

    fn boot(asked: &Rc<Cell<u64>>, now: Time, _: &mut dyn CryptoRng) -> Self {
        Self { asked: Rc::clone(asked), tick_at: now.plus_ms(1_000) }
    }

    fn apply_order(&mut self, (): (), now: Time, _: &mut dyn CryptoRng) {
        self.tick_at = now.plus_ms(1);
    }

    fn deliver_packet(&mut self, _: mezza_sim::HostId, (): (), _: Time, _: &mut dyn CryptoRng) {}

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        self.tick_at = now.plus_ms(1_000);
    }

    fn deadline(&self) -> Option<Time> {
        self.asked.set(self.asked.get() + 1);
        Some(self.tick_at)
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        None
    }

    fn apply_write(_: &mut Rc<Cell<u64>>, (): ()) {}
}

/// The steps of ten seconds in which each of so many clocks ticks, and how often one was asked.
fn ten_seconds(clocks: u32) -> (u64, u64) {
    let asked = Rc::default();
    let mut world = World::<Clock>::new(1);
    for _ in 0..clocks {
        world.add_host(Rc::clone(&asked));
    }
    let mut steps = 0;
    world.run_for(10_000, |_, _| steps += 1);
    (steps, asked.get())
}

#[test]
fn a_step_asks_one_host_however_many_there_are() {
    for clocks in [1, 10, 1_000] {
        let (steps, asked) = ten_seconds(clocks);
        assert_eq!(steps, 10 * u64::from(clocks), "each of {clocks} ticks every second");
        // Once after the boot, and once after each tick.
        assert_eq!(asked, steps + u64::from(clocks), "{clocks} clocks");
    }
}

#[test]
fn a_deadline_moves_with_the_clock_and_with_what_happens() {
    let mut world = World::<Clock>::new(2);
    let clock = world.add_host(Rc::default());
    world.schedule_order(clock, 500, ());
    world.run_for(500, |_, _| {});
    let mut ticks = 0;
    world.run_for(1, |_, _| ticks += 1);
    assert_eq!(ticks, 1, "the order made it tick a millisecond later");
    world.shift_clock(clock, 400);
    world.run_for(599, |_, _| ticks += 1);
    assert_eq!(ticks, 1, "it is 599 ms later");
    world.run_for(1, |_, _| ticks += 1);
    assert_eq!(ticks, 2, "600 ms, and 400 by which its clock was put ahead");
    world.crash_host(clock, 5_000);
    world.run_for(4_999, |_, _| ticks += 1);
    assert_eq!(ticks, 2, "a host that is down does not wake");
}
