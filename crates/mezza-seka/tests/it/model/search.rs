//! Schedules of questions: all short ones, and many long ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use mezza_core::{EphemeralKey, Machine};
use mezza_seka::suite::LinkSuite;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::{PeerInput, PeerOutput};
use mezza_sim::{SimRng, for_each_seed};

use super::fresh::Clause;
use super::oracles::{Driver, INITIATOR, Model, Oracle, RESPONDER};
use super::session::{Phase, Session, Status};
use super::start::Start;
use crate::toy::Toy;

pub type Suite = DefaultSuite<Toy>;

/// A fault, and the questions that led to it.
pub type Found = (&'static str, Vec<Oracle>);

/// A game to be searched.
#[derive(Clone, Copy)]
pub struct Game<'a> {
    pub start: &'a Start,
    pub driver: Driver,
    /// A clause of the definition that is left out.
    pub without: Option<Clause>,
    /// Whose tape of Bootstrap was read.
    pub watched: Option<usize>,
}

impl<'a> Game<'a> {
    pub fn of(start: &'a Start) -> Self {
        Self { start, driver: Driver::Sound, without: None, watched: None }
    }

    fn play<S: LinkSuite>(&self, questions: &[Oracle]) -> Model<S> {
        let mut model = Model::new(self.start, self.driver, self.watched);
        for oracle in questions {
            model.ask(*oracle);
        }
        model
    }

    /// Returns the fault of a state of the game. Consumes the model, because an exchange runs in it.
    fn wrong<S: LinkSuite>(&self, model: Model<S>) -> Option<&'static str> {
        broken(&model, self.without).or_else(|| {
            let gave = |session: &Session| session.tape_asked;
            let passive = model.stolen.is_empty() && !model.sessions.iter().any(gave);
            (passive && !heals(model)).then_some("an exchange that is left alone fails")
        })
    }

    /// One long schedule by chance.
    pub fn by_chance<S: LinkSuite>(&self, seed: u64, questions: u64) -> Result<(), Found> {
        let mut dice = SimRng::new(seed, 4);
        let mut model: Model<S> = self.play(&[]);
        let mut asked = Vec::new();
        for _ in 0..dice.between(3, questions) {
            let Some(oracle) = pick(&model, &mut dice) else { break };
            asked.push(oracle);
            model.ask(oracle);
            if let Some(what) = broken(&model, self.without) {
                return Err((what, asked));
            }
        }
        self.wrong(model).map_or(Ok(()), |what| Err((what, asked)))
    }

    /// The first of these seeds whose schedule goes wrong.
    pub fn finds<S: LinkSuite>(&self, seeds: u64, questions: u64) -> Option<Found> {
        (0..seeds).find_map(|seed| self.by_chance::<S>(seed, questions).err())
    }

    /// All schedules of so many questions, each state once; how many states there are.
    fn exhaust<S: LinkSuite>(&self, depth: usize) -> Result<usize, Found> {
        let mut seen = BTreeSet::new();
        let mut queue = VecDeque::from([Vec::new()]);
        while let Some(asked) = queue.pop_front() {
            let model: Model<S> = self.play(&asked);
            if !seen.insert(name(&model)) {
                continue;
            }
            if asked.len() < depth {
                let questions =
                    model.questions().into_iter().filter(|next| has_room(&asked, *next));
                queue.extend(questions.map(|next| [asked.as_slice(), &[next]].concat()));
            }
            if let Some(what) = self.wrong(model) {
                return Err((what, asked));
            }
        }
        Ok(seen.len())
    }
}

/// A short path has a bound for each kind of question.
fn has_room(asked: &[Oracle], next: Oracle) -> bool {
    let class = |oracle: &Oracle| match oracle {
        Oracle::Create | Oracle::CrCreate(_) | Oracle::Watch => 0,
        Oracle::Send(_) => 1,
        Oracle::Alter(_) | Oracle::Forge(..) => 2,
        Oracle::Corrupt(_) | Oracle::Randomness(_) | Oracle::SessionKey(_) => 3,
        Oracle::Expire | Oracle::Crash(_) => 4,
    };
    let most = [2, 3, 1, 2, 1];
    let own = class(&next);
    asked.iter().filter(|oracle| class(oracle) == own).count() < most[own]
}

/// Returns a digest that distinguishes states of the game, apart from the clock.
fn name<S: LinkSuite>(model: &Model<S>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for party in &model.parties {
        party.peer.snapshot().hash(&mut hasher);
    }
    model.air.hash(&mut hasher);
    (&model.corrupted, &model.stolen).hash(&mut hasher);
    for session in &model.sessions {
        let asked = (session.tape_asked, session.key_asked, session.talk.len());
        (asked, session.created, session.ended, session.status as u8).hash(&mut hasher);
    }
    hasher.finish()
}

/// The next question: mostly what carries exchanges on.
fn pick<S: LinkSuite>(model: &Model<S>, dice: &mut SimRng) -> Option<Oracle> {
    let all = model.questions();
    let newest = Oracle::Send(model.air.len().saturating_sub(1));
    match dice.between(0, 99) {
        0..40 => Some(newest),
        40..55 => Some(if all.contains(&Oracle::Create) { Oracle::Create } else { newest }),
        55..62 => Some(Oracle::Watch),
        _ => dice.pick(&all).copied(),
    }
}

/// The first three promises.
fn broken<S: LinkSuite>(model: &Model<S>, without: Option<Clause>) -> Option<&'static str> {
    let known = model.known();
    let accepted =
        || model.sessions.iter().filter(|s| s.status == Status::Accepted && s.key.is_some());
    for session in accepted() {
        if model.knows_key(session, &known) && model.is_fresh(session, without) {
            return Some("the key of a fresh session is known");
        }
        let equal = |other: &&Session| other.key == session.key && !std::ptr::eq(*other, session);
        if accepted().filter(equal).any(|other| !session.matches(other)) {
            return Some("equal keys without matching messages");
        }
        if session.phase == Phase::Exchange && session.blind && model.partners(session).count() != 1
        {
            return Some("a session without a partner is accepted");
        }
    }
    None
}

/// Returns true if an exchange that nobody disturbs is accepted by both, from memory as it is, and again
/// from the disks as they are.
fn heals<S: LinkSuite>(mut model: Model<S>) -> bool {
    let from_memory = exchange(&mut model);
    model.ask(Oracle::Crash(INITIATOR));
    model.ask(Oracle::Crash(RESPONDER));
    from_memory && exchange(&mut model)
}

fn exchange<S: LinkSuite>(model: &mut Model<S>) -> bool {
    let before = model.parties[RESPONDER].peer.record().rekeys;
    model.ask(Oracle::Expire);
    model.ask(Oracle::Watch);
    let states = model.parties.each_ref().map(|party| {
        let (current, pending) = party.peer.stolen_states();
        (*current, pending.is_none())
    });
    let settled = states[0] == states[1] && states[0].1;
    settled && model.parties[RESPONDER].peer.record().rekeys > before
}

/// How often each oracle had an effect, and how many sessions were fresh, and how many keys known.
#[derive(Default)]
struct Reach(BTreeMap<&'static str, u32>);

impl Reach {
    fn count(&mut self, what: &'static str, is_so: bool) {
        *self.0.entry(what).or_default() += u32::from(is_so);
    }
}

#[test]
fn slow_every_short_schedule_keeps_the_promises() {
    let start = Start::of::<Suite>();
    for (watched, depth) in [(None, 4), (Some(INITIATOR), 3), (Some(RESPONDER), 3)] {
        let game = Game { watched, ..Game::of(&start) };
        let states = game.exhaust::<Suite>(depth);
        let states = states.unwrap_or_else(|(what, asked)| panic!("{what} after {asked:?}"));
        println!("{states} states of at most {depth} questions");
        assert!(states > 1_000, "{states}");
    }
}

#[test]
fn slow_long_schedules_by_chance_keep_the_promises() {
    let start = Start::of::<Suite>();
    for_each_seed(10_000, |seed| {
        let watched = [None, None, Some(INITIATOR), Some(RESPONDER)][seed as usize % 4];
        let game = Game { watched, ..Game::of(&start) };
        if let Err((what, asked)) = game.by_chance::<Suite>(seed, 30) {
            panic!("{what} after {asked:?}");
        }
    });
}

/// The promises are not empty: schedules by chance reach fresh sessions and known keys, and both together
/// with every kind of theft.
#[test]
fn schedules_by_chance_reach_what_the_promises_are_about() {
    let start = Start::of::<Suite>();
    let game = Game::of(&start);
    let mut reach = Reach::default();
    for seed in 0..2_000 {
        let mut dice = SimRng::new(seed, 4);
        let mut model: Model<Suite> = game.play(&[]);
        for _ in 0..30 {
            let Some(oracle) = pick(&model, &mut dice) else { break };
            model.ask(oracle);
        }
        let known = model.known();
        for session in model.sessions.iter().filter(|session| session.key.is_some()) {
            let fresh = model.is_fresh(session, None);
            let open = model.knows_key(session, &known);
            let stolen = !model.corrupted.is_empty();
            reach.count("fresh", fresh);
            reach.count("fresh, a state stolen", fresh && stolen);
            reach.count("fresh, its tape read", fresh && session.tape_asked);
            reach.count("known", open);
            reach.count("accepted with his share", session.share.is_none());
        }
    }
    assert!(reach.0.values().all(|count| *count > 20), "{:?}", reach.0);
}

/// The machine takes the tapes that the model gives, and no others.
#[test]
fn a_machine_waits_for_its_tape() {
    let start = Start::of::<Suite>();
    let mut model: Model<Suite> = Game::of(&start).play(&[]);
    let peer = &mut model.parties[INITIATOR].peer;
    let now = mezza_core::Time::from_ms(20_000);
    let mut dice = SimRng::new(1, 1);
    peer.handle(PeerInput::Rekey, now, dice.rng()).expect("owed");
    assert!(peer.poll().is_none());
    let key = EphemeralKey::random::<Toy>(dice.rng());
    peer.handle(PeerInput::Give(key), now, dice.rng()).expect("taken");
    assert!(matches!(peer.poll(), Some(PeerOutput::Store { .. })));
}
