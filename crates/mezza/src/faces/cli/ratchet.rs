//! `mezza ratchet`: the conversation's cryptography for experts, scripts and tests of other
//! implementations.

mod device;
mod given;
mod number;
mod peer;
mod refusal;
mod state;

use mezza_core::{Suite as _, SuiteId, Time};
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3, V4};

use super::CliContext;
use super::args::{PeerArgs, RatchetCommand, SuiteName};
use mezza_host::api::{Exit, Fault};

use device::Given;
use given::{Chance, Clock};

/// Runs `mezza ratchet ..`.
///
/// # Errors
/// Input that is malformed; no node, where one is needed.
pub(crate) fn run_ratchet(context: &CliContext, what: &RatchetCommand) -> Result<Exit, Fault> {
    match what {
        RatchetCommand::Peer(asked) => {
            let input = std::io::stdin().lock();
            let output = std::io::stdout().lock();
            peer::serve_lines(read_given(asked), input, output)
        }
        RatchetCommand::Number(asked) => number::print_number(context.out, asked),
        RatchetCommand::Sessions { name } => state::show_sessions(context, name.as_deref()),
        RatchetCommand::Reset { name, yes } => state::reset_session(context, name, *yes),
        RatchetCommand::Keys { rotate, refill } => state::show_keys(context, *rotate, *refill),
        RatchetCommand::Suites { name } => state::show_suites(context, name.as_deref()),
    }
}

fn read_given(asked: &PeerArgs) -> Given {
    Given {
        suite: suite_id(asked.suite),
        one_time: asked.one_time.into(),
        chance: Chance::from_seed(asked.seed.as_ref()),
        clock: asked.now.map_or(Clock::System, |ms| Clock::At(Time::from_ms(ms))),
    }
}

fn suite_id(suite: SuiteName) -> SuiteId {
    match suite {
        SuiteName::B2c20 => B2c20::ID,
        SuiteName::B2c20Pq => B2c20Pq::ID,
        SuiteName::SignalV3 => V3::ID,
        SuiteName::SignalV4 => V4::ID,
    }
}

/// Returns true if a suite is one of Mezzavoce's, whose bundles have their own wire form.
fn is_container(suite: SuiteId) -> bool {
    [B2c20::ID, B2c20Pq::ID].contains(&suite)
}
