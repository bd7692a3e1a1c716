//! The one shape of everything that lives on or has timers.

use alloc::vec::Vec;

use crate::{Time, Wiping};
use rand_core::CryptoRng;

/// A protocol as a value: sockets, clocks and dice are somebody else's.
///
/// The driver's contract, the same for the simulated world and the real one:
///
/// 1. call [`handle`](Machine::handle) with an input, or [`wake`](Machine::wake) once the
///    [`deadline`](Machine::deadline) has come;
/// 2. then drain [`poll`](Machine::poll) to `None` and carry out the outputs in their order;
/// 3. then wait for the next input or the deadline, whichever comes first.
///
/// A refused input leaves the machine exactly as it was. Every queue inside is bounded. A machine
/// calls nobody back, locks nothing and never waits.
pub trait Machine {
    /// Events that the machine handles.
    type Input;
    /// Effects that the machine requests.
    type Output;
    /// Why an input was refused.
    type Error;

    /// Takes one input at time `now`; `rng` is the only source of chance.
    fn handle(
        &mut self,
        input: Self::Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Self::Error>;

    /// Does what is due at `now`. Calling it early or twice does no harm.
    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng);

    /// The next output, in order, until `None`.
    fn poll(&mut self) -> Option<Self::Output>;

    /// When [`wake`](Machine::wake) wants to be called at the latest; `None`: never.
    fn deadline(&self) -> Option<Time>;

    /// The whole state as bytes, queues and timers included: for tests, which compare it before and
    /// after a refusal. See [`snapshot!`](crate::snapshot!).
    fn snapshot(&self) -> Wiping<Vec<u8>>;
}
