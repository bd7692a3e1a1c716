//! The model is put to the test itself: each clause of the definition, each flaw of a driver and each weak
//! suite has to be found.

use std::marker::PhantomData;

use mezza_core::{CryptoRng, Secret};
use mezza_seka::keys::{CanonicalPoint, LinkId, LinkPair, LinkState};
use mezza_seka::session::NoncePrefixes;
use mezza_seka::suite::{ExchangeKeys, ExchangeView, LinkMac, LinkSuite, TagPlace};

use super::fresh::Clause;
use super::oracles::{Driver, nobodys_state};
use super::search::{Game, Suite};
use super::start::{Start, secret};
use crate::stage::id;

/// Schedules by chance, at most, until something has to be found.
const SEEDS: u64 = 20_000;
const QUESTIONS: u64 = 30;

/// Every clause of Definition 3 is needed. The last of them is that of the text and not of the definition:
/// read literally, corruption counts from the completion of the clean session on, and a session is called
/// fresh whose state was read out of the responder's pending slot before.
#[test]
fn without_any_clause_of_the_definition_a_fresh_key_is_known() {
    let start = Start::of::<Suite>();
    for clause in Clause::ALL {
        let watched = matches!(clause, Clause::CleanTape).then_some(0);
        let game = Game { without: Some(clause), watched, ..Game::of(&start) };
        let found = game.finds::<Suite>(SEEDS, QUESTIONS);
        assert_eq!(
            found.map(|found| found.0),
            Some("the key of a fresh session is known"),
            "{clause:?}"
        );
    }
}

#[test]
fn each_flaw_of_a_driver_is_found() {
    let start = Start::of::<Suite>();
    let (fails, known) =
        ("an exchange that is left alone fails", "the key of a fresh session is known");
    for (driver, expected) in [
        // A write that was lost also brings an old state back.
        (Driver::SaysStoredTooEarly, &[fails, known][..]),
        (Driver::RestoresOldRecords, &[fails, known]),
        (Driver::LeavesTheOldSlot, &[known]),
        (Driver::RepeatsTapes, &[known]),
    ] {
        let game = Game { driver, ..Game::of(&start) };
        let found = game.finds::<Suite>(SEEDS, QUESTIONS);
        assert!(
            found.as_ref().is_some_and(|(what, _)| expected.contains(what)),
            "{driver:?}: {found:?}"
        );
    }
}

/// A flaw of a suite.
trait Flaw: Send + 'static {
    /// Tags leave out what they are about.
    const DEAF: bool = false;
    /// Tags leave out the state.
    const KEYLESS: bool = false;
    /// The next state is the one before.
    const STANDS_STILL: bool = false;
}

macro_rules! flaw {
    ($name:ident, $what:ident) => {
        struct $name;
        impl Flaw for $name {
            const $what: bool = true;
        }
    };
}

flaw!(Deaf, DEAF);
flaw!(Keyless, KEYLESS);
flaw!(StandsStill, STANDS_STILL);

/// Suite `default` with a flaw.
struct Weak<F>(PhantomData<F>);

struct WeakTags<F>(<Suite as LinkSuite>::Mac, PhantomData<F>);

impl<F: Flaw> LinkMac for WeakTags<F> {
    fn new(state: &LinkState, prefixes: &NoncePrefixes) -> Self {
        let nobody = nobodys_state::<Suite>();
        Self(LinkMac::new(if F::KEYLESS { &nobody } else { state }, prefixes), PhantomData)
    }

    fn compute_tag(&self, place: &TagPlace, parts: &[&[u8]]) -> [u8; 16] {
        self.0.compute_tag(place, if F::DEAF { &parts[..1] } else { parts })
    }
}

impl<F: Flaw> LinkSuite for Weak<F> {
    type Backend = <Suite as LinkSuite>::Backend;
    type Mac = WeakTags<F>;
    type Frames = <Suite as LinkSuite>::Frames;

    const NUMBER: u8 = Suite::NUMBER;
    const NAME: &'static str = "weak";
    const COMPLETE: bool = true;
    const ATTEMPTS_MAX: Option<i64> = None;

    fn session_id(initiator: &LinkId, m1: &CanonicalPoint, rng: &mut dyn CryptoRng) -> [u8; 16] {
        Suite::session_id(initiator, m1, rng)
    }

    fn is_session_id(id: &[u8; 16], initiator: &LinkId, m1: &CanonicalPoint) -> bool {
        Suite::is_session_id(id, initiator, m1)
    }

    fn derive_first_state(shared: &Secret<32>, view: &ExchangeView<'_>) -> LinkState {
        Suite::derive_first_state(shared, view)
    }

    fn derive_exchange_keys(
        shared: &Secret<32>,
        state: &LinkState,
        view: &ExchangeView<'_>,
    ) -> ExchangeKeys {
        let ExchangeKeys { state: next, session } =
            Suite::derive_exchange_keys(shared, state, view);
        ExchangeKeys { state: if F::STANDS_STILL { state.duplicate() } else { next }, session }
    }
}

#[test]
fn each_weak_suite_is_found() {
    fn found<F: Flaw>() -> Option<&'static str> {
        let start = Start::of::<Weak<F>>();
        Game::of(&start).finds::<Weak<F>>(SEEDS, QUESTIONS).map(|(what, _)| what)
    }
    let alone = "a session without a partner is accepted";
    assert_eq!([found::<Deaf>(), found::<Keyless>()], [Some(alone); 2]);
    assert_eq!(found::<StandsStill>(), Some("the key of a fresh session is known"));
}

/// State and key of an exchange change with each thing that both sides have seen or known.
#[test]
fn nothing_that_was_seen_is_left_out_of_the_keys() {
    let point = |byte: u8| CanonicalPoint::from_canonical([byte; 32]).expect("canonical");
    let pair = |one, two| LinkPair { initiator: id(one), responder: id(two) };
    let keys = |dh: u8, state: u8, (one, two): (u8, u8), s: u8, (m1, m2): (u8, u8)| {
        let pair = pair(one, two);
        let m1 = point(m1);
        let m2 = point(m2);
        let view = ExchangeView { pair: &pair, session_id: &[s; 16], m1: &m1, m2: &m2 };
        let nobody = LinkPair { initiator: id(7), responder: id(8) };
        let nowhere = point(7);
        let before =
            ExchangeView { pair: &nobody, session_id: &[7; 16], m1: &nowhere, m2: &nowhere };
        let state = Suite::derive_first_state(&secret(&[state; 32]), &before);
        let ExchangeKeys { state, session } =
            Suite::derive_exchange_keys(&secret(&[dh; 32]), &state, &view);
        (*state.expose(), *session.expose())
    };
    let base = keys(1, 2, (1, 2), 3, (4, 5));
    for other in [
        keys(9, 2, (1, 2), 3, (4, 5)),
        keys(1, 9, (1, 2), 3, (4, 5)),
        keys(1, 2, (9, 2), 3, (4, 5)),
        keys(1, 2, (1, 9), 3, (4, 5)),
        keys(1, 2, (2, 1), 3, (4, 5)),
        keys(1, 2, (1, 2), 9, (4, 5)),
        keys(1, 2, (1, 2), 3, (9, 5)),
        keys(1, 2, (1, 2), 3, (4, 9)),
        keys(1, 2, (1, 2), 3, (5, 4)),
    ] {
        assert!(other.0 != base.0 && other.1 != base.1);
    }
    assert_ne!(base.0, base.1);
}
