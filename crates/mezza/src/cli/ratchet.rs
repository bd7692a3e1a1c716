//! `mezza ratchet`: the conversation's cryptography for experts, scripts and tests of others.

mod device;
mod number;
mod peer;
mod state;

use mezza_core::{Suite as _, SuiteId};
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3, V4};

use super::Desk;
use super::args::{Ratchet, RatchetSuite};
use crate::exit::{Exit, Fault};

/// `mezza ratchet ..`
///
/// # Errors
/// Input that is malformed; no node, where one is needed.
pub fn ratchet(desk: &Desk, what: &Ratchet) -> Result<Exit, Fault> {
    match what {
        Ratchet::Peer { suite } => {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
            peer::serve(id(*suite), input, output)
        }
        Ratchet::Number(asked) => number::number(desk.out, asked),
        Ratchet::Sessions { name } => state::sessions(desk, name.as_deref()),
        Ratchet::Reset { name, yes } => state::reset(desk, name, *yes),
        Ratchet::Keys { rotate, refill } => state::keys(desk, *rotate, *refill),
        Ratchet::Suites { name } => state::suites(desk, name.as_deref()),
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
