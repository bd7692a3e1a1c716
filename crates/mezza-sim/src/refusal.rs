//! A refused input changes nothing.

use core::fmt::Debug;

use mezza_core::{CryptoRng, Machine, Time};

/// Gives `machine` one input, as [`Machine::handle`] does, and holds it to the contract: what it
/// refuses leaves its snapshot as it was.
///
/// # Errors
/// Whatever the machine answers.
///
/// # Panics
/// If a refusal changed something.
pub fn handle_checked<M: Machine<Error: Debug>>(
    machine: &mut M,
    input: M::Input,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<(), M::Error> {
    let before = machine.snapshot();
    let outcome = machine.handle(input, now, rng);
    if let Err(error) = &outcome {
        assert!(before == machine.snapshot(), "{error:?} changed the state");
    }
    outcome
}
