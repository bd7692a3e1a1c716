//! Alarms: what the honest mix tells when the mix behind it garbles replies, beyond the counts that
//! this one saw anyhow.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::take;
use std::rc::Rc;

use mezza_mixnet::config::Traps;
use mezza_mixnet::job::{Job, JobOutput, Noise, TrapJob};
use mezza_mixnet::mix::Neighbour;
use mezza_mixnet::service::DROP_BYTES;
use mezza_mixnet::wire::{Frame, FrameBody};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::{
    Guess, Harness, NOISE, NoiseLaw, advantage, bound, error, mean, out_salt, visits, with,
};
use crate::fixture::Breakage;
use crate::toy::TOY;

/// The drop of each place in which a message leaves the honest mix.
type Out = [[u8; DROP_BYTES]];

/// Noise so small that one message of it is a good part, with traps that are few beside it.
const FEW: NoiseLaw = NoiseLaw { mu: 8, scale: 2 };
const FEW_TRAPS: Traps = Traps { singles: 2, pairs: 1 };

/// How the honest mix was built.
#[derive(Clone, Copy, PartialEq)]
enum Built {
    /// By the rules.
    Well,
    /// With as many traps of a sort as the noise has messages of it, which is the share that traps
    /// had until they became a constant where there are fewer than 1,024.
    Proportional,
    /// The same, and its ALARM counts those that failed.
    Counting,
}

/// The jobs of a network in which the adversary's mixes make no noise, and the honest one is built
/// like this. What its ALARM counts goes to `told`.
fn breakage(honest: usize, built: Built, told: Rc<Cell<u32>>) -> Breakage {
    Box::new(move |at, job| match job {
        Job::Noise(_) if at != honest => Some(JobOutput::Noise(Noise::default())),
        Job::Noise(noise) if built != Built::Well => {
            noise.traps = noise.kind.message_count();
            None
        }
        Job::Trap(check) if at == honest && built == Built::Counting => {
            let id = check.id;
            let config = check.config;
            let position = check.position;
            let one = |trap| Job::Trap(TrapJob { id, config, position, traps: vec![trap] });
            let failed = take(&mut check.traps).into_iter().map(one);
            let failed =
                failed.filter(|check| matches!(check.run(&TOY), JobOutput::Trap(true))).count();
            told.set(failed as u32);
            Some(JobOutput::Trap(failed > 0))
        }
        _ => None,
    })
}

/// Lets the mix behind the honest one garble the replies in the places that `choose` names.
fn garble(harness: &mut Harness, mut choose: impl FnMut(&Out) -> Vec<usize> + 'static) {
    let view = Rc::clone(&harness.view);
    let honest = harness.honest;
    harness.garbles = true;
    harness.net.meddler = Some(Box::new(move |at, to, frame| match frame {
        Frame::Round(id, FrameBody::Replies(mut items))
            if at == honest + 1 && to == Neighbour::Previous =>
        {
            let (out, _) = view.borrow().around(honest);
            assert_eq!(out.len(), usize::from(items.count), "all in one frame");
            let size = items.item_bytes();
            for place in choose(&out) {
                items.bytes[place * size] ^= 1;
            }
            Some(Frame::Round(id, FrameBody::Replies(items)))
        }
        other => Some(other),
    }));
}

/// The places of each drop that is not the adversary's own and has so many visitors: of noise, and
/// of the two people in question.
fn strange(out: &Out, visitors: usize) -> Vec<Vec<usize>> {
    let salt = out_salt(out);
    let mut places = BTreeMap::<_, Vec<usize>>::new();
    for (place, drop) in out.iter().enumerate() {
        let own = drop[1..] == salt[1..] && [20, 40, 150, 151].contains(&drop[0]);
        if !own {
            places.entry(drop).or_default().push(place);
        }
    }
    places.into_values().filter(|places| places.len() == visitors).collect()
}

/// The advantage of an adversary that garbles the replies of all singles. An ALARM that counts says
/// how many of these were noise; one that does not leaves it with what it saw before.
fn by_counted_alarms(honest: usize, rounds: u32, built: Built) -> f64 {
    let told = Rc::new(Cell::new(0));
    let broken = breakage(honest, built, Rc::clone(&told));
    let mut harness = Harness::on(with(NOISE, 1), honest, 13, Some(broken));
    let singles = Rc::new(Cell::new(0));
    let seen = Rc::clone(&singles);
    garble(&mut harness, move |out| {
        let places = strange(out, 1).concat();
        seen.set(places.len() as u32);
        places
    });
    let guess = Guess { honest, rounds, law: NOISE, slots: 1, expected: mean(NOISE.mu) };
    let hits = (0..rounds).filter(|round| {
        let talks = round % 2 == 0;
        let view = harness.run(&visits(1, talks));
        assert!(view.alarm, "all traps of one sort were hit");
        let says = match told.get() {
            0 => guess.says_talks(view.counts()),
            noise => noise == singles.get(),
        };
        says == talks
    });
    advantage(hits.count(), rounds)
}

/// By how much more often an adversary that garbles one drop with so many visitors raises an alarm
/// when the two in question talk than when they idle, each beyond what the number of such drops, which
/// it sees anyhow, says: one of them is chosen, and a constant number of them are traps.
fn beyond_what_was_visible(honest: usize, visitors: usize, rounds: u32, built: Built) -> f64 {
    let mut config = with(FEW, 1);
    config.services[0].traps = FEW_TRAPS;
    let traps = [FEW_TRAPS.singles, FEW_TRAPS.pairs][visitors - 1];
    let broken = breakage(honest, built, Rc::default());
    let mut harness = Harness::on(config, honest, 14, Some(broken));
    let drops = Rc::new(Cell::new(0));
    let seen = Rc::clone(&drops);
    let mut chance = ChaCha20Rng::seed_from_u64(15);
    garble(&mut harness, move |out| {
        let mut all = strange(out, visitors);
        seen.set(all.len() as u32);
        let chosen = chance.next_u64() % all.len() as u64;
        all.swap_remove(chosen as usize)
    });
    let mut beyond = [0.0; 2];
    for round in 0..rounds {
        let talks = round % 2 == 0;
        let alarm = harness.run(&visits(1, talks)).alarm;
        let expected = f64::from(traps) / f64::from(drops.get());
        beyond[usize::from(talks)] += f64::from(u8::from(alarm)) - expected;
    }
    (beyond[1] - beyond[0]) / f64::from(rounds / 2)
}

#[test]
fn mix_46_slow_an_alarm_tells_no_more_than_the_counts_and_one_that_counts_is_found_out() {
    const MANY: u32 = 4_000;
    for honest in [0, 1] {
        let found = by_counted_alarms(honest, MANY, Built::Well);
        assert!((found - bound()).abs() < error(MANY), "mix {honest}: {found} of {}", bound());
        let found = by_counted_alarms(honest, 60, Built::Counting);
        assert!(found > 0.99, "mix {honest} counts what failed: {found}");
    }
}

#[test]
fn mix_45_slow_which_messages_are_traps_follows_from_what_was_visible_alone() {
    const SOME: u32 = 2_000;
    for (honest, visitors) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        let of = |built| beyond_what_was_visible(honest, visitors, SOME, built).abs();
        let found = of(Built::Well);
        assert!(found < error(SOME), "mix {honest}, drops of {visitors}: {found}");
        let found = of(Built::Proportional);
        assert!(found > error(SOME), "traps that follow the noise are found out: {found}");
    }
}
