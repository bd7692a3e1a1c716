//! `mezza ratchet`: the conversation's cryptography for experts, scripts and tests of others.

mod device;
mod given;
mod number;
mod peer;
mod refusal;
mod state;

use mezza_core::{Suite as _, SuiteId, Time};
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3, V4};

use super::Desk;
use super::args::{Ratchet, RatchetPeer, RatchetSuite};
use crate::exit::{Exit, Fault};

use device::Given;
use given::{Chance, Clock};

/// `mezza ratchet ..`
///
/// # Errors
/// Input that is malformed; no node, where one is needed.
pub fn ratchet(desk: &Desk, what: &Ratchet) -> Result<Exit, Fault> {
    match what {
        Ratchet::Peer(asked) => {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
            peer::serve(given(asked), input, output)
        }
        Ratchet::Number(asked) => number::number(desk.out, asked),
        Ratchet::Sessions { name } => state::sessions(desk, name.as_deref()),
        Ratchet::Reset { name, yes } => state::reset(desk, name, *yes),
        Ratchet::Keys { rotate, refill } => state::keys(desk, *rotate, *refill),
        Ratchet::Suites { name } => state::suites(desk, name.as_deref()),
    }
}

fn given(asked: &RatchetPeer) -> Given {
    Given {
        suite: id(asked.suite),
        one_time: asked.one_time.into(),
        chance: Chance::of(asked.seed.as_ref()),
        clock: asked.now.map_or(Clock::System, |ms| Clock::At(Time::from_ms(ms))),
    }
}

fn id(suite: RatchetSuite) -> SuiteId {
    match suite {
        RatchetSuite::B2c20 => B2c20::ID,
        RatchetSuite::B2c20Pq => B2c20Pq::ID,
        RatchetSuite::SignalV3 => V3::ID,
        RatchetSuite::SignalV4 => V4::ID,
    }
}

/// Whether a suite is one of ours, with bundles in a wire form of their own.
fn is_container(suite: SuiteId) -> bool {
    [B2c20::ID, B2c20Pq::ID].contains(&suite)
}
