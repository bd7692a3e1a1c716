//! Replies: who gets one when, if the mix behind the honest one hands them over one frame at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use mezza_mixnet::job::Job;
use mezza_mixnet::mix::{Input, Neighbour};
use mezza_mixnet::service::{items_per_frame, reply_bytes};
use mezza_mixnet::wire::{Frame, FrameBody};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::{Harness, NOISE, NoiseLaw, advantage, error, out_salt, with};

/// Mean of the noise with which what leaves the first mix fills a frame and a half; behind the second
/// one half of it does.
const MUCH: u32 = 600;
const ROUNDS: u32 = 200;

/// In which step the honest mix let go of the reply for each onion that came in.
type Released = Rc<RefCell<BTreeMap<u32, u32>>>;

/// The adversary's mix behind the honest one, which holds its replies back.
pub(super) struct Holder {
    held: Rc<RefCell<Vec<Frame>>>,
    step: Rc<Cell<u32>>,
    released: Released,
}

impl Holder {
    /// Takes its place in a harness. A mix that is `hasty` lets each reply go as soon as it is sealed.
    fn join(harness: &mut Harness, hasty: bool) -> Self {
        let held = Rc::new(RefCell::new(Vec::new()));
        let step = Rc::new(Cell::new(0));
        let released = Released::default();
        let honest = harness.honest;
        let keeps = held.clone();
        let at_step = step.clone();
        let leaves = released.clone();
        harness.net.meddler = Some(Box::new(move |at, to, frame| {
            let Frame::Round(_, FrameBody::Replies(items)) = &frame else {
                let end = matches!(frame, Frame::Round(_, FrameBody::RepliesEnd { .. }));
                let hold = end && at == honest + 1;
                return if hold {
                    keeps.borrow_mut().push(frame);
                    None
                } else {
                    Some(frame)
                };
            };
            if at == honest + 1 {
                keeps.borrow_mut().push(frame);
                return None;
            }
            if at == honest && to == Neighbour::Previous {
                for place in (items.offset..).take(items.count.into()) {
                    leaves.borrow_mut().entry(place).or_insert(at_step.get());
                }
            }
            Some(frame)
        }));
        let at_step = step.clone();
        let leaves = released.clone();
        let mut eyes = harness.net.watch.take().expect("the harness looks");
        harness.net.watch = Some(Box::new(move |at, job, done| {
            eyes(at, job, done);
            if let (true, Job::Seal(seal)) = (hasty && at == honest, job) {
                for place in seal.targets.iter() {
                    leaves.borrow_mut().entry(*place).or_insert(at_step.get());
                }
            }
        }));
        Self { held, step, released }
    }

    /// Hands over what it held back, one frame in each step.
    pub(super) fn hand_over(&self, harness: &mut Harness) {
        self.released.borrow_mut().clear();
        for (step, frame) in (1..).zip(self.held.take()) {
            self.step.set(step);
            harness.net.input(harness.honest, Input::Frame(Neighbour::Next, frame));
        }
    }
}

/// How much better than a coin the adversary guesses whether the first client talks with the second
/// and the third with the fourth, or the first with the third: partners get the replies of one drop.
fn guessed(honest: usize, hasty: bool) -> f64 {
    let noise = NoiseLaw { mu: MUCH / (honest as u32 + 1), scale: NOISE.scale };
    let mut harness = Harness::on(with(noise, 1), honest, 11, None);
    harness.holder = Some(Holder::join(&mut harness, hasty));
    let released = Rc::clone(&harness.holder.as_ref().expect("it joined").released);
    let per_frame = items_per_frame(reply_bytes(2 - honest));
    let mut coin = ChaCha20Rng::seed_from_u64(12);
    let hits = (0..ROUNDS).filter(|round| {
        let talks = round % 2 == 0;
        let [second, third] = if talks { [1, 2] } else { [2, 1] };
        let view = harness.run(&[1, second, third, 2, 101, 102, 103, 104]);
        let (out, came) = view.around(honest);
        let salt = out_salt(&out);
        let handed_over = |drop: u8| {
            let places = out.iter().enumerate();
            let places = places.filter(|(_, id)| id[0] == drop && id[1..] == salt[1..]);
            places.map(|(place, _)| (place / per_frame) as u32 + 1).collect::<Vec<_>>()
        };
        let released = released.borrow();
        let fits = |pairs: [[usize; 2]; 2]| {
            pairs.iter().zip([1, 2]).all(|(pair, drop)| {
                let mut steps = pair.map(|client| released[&(came[client] as u32)]);
                steps.sort_unstable();
                steps[..] == handed_over(drop)
            })
        };
        let talk = fits([[0, 1], [2, 3]]);
        let swapped = fits([[0, 2], [1, 3]]);
        let says = if talk == swapped { coin.next_u32() & 1 == 0 } else { talk };
        says == talks
    });
    advantage(hits.count(), ROUNDS)
}

#[test]
fn mix_10_slow_the_time_of_a_reply_says_nothing_and_a_mix_that_lets_it_go_at_once_is_found_out() {
    for honest in [0, 1] {
        let found = guessed(honest, false);
        assert!(found.abs() < error(ROUNDS), "mix {honest}: {found}");
        let found = guessed(honest, true);
        assert!(found > 0.3, "mix {honest} hands replies on as they come: {found}");
    }
}
