//! The trait that every part with a life cycle or timers implements.

use alloc::vec::Vec;

use crate::{Time, Wiping};
use rand_core::CryptoRng;

/// A protocol as a value. Sockets, the clock and the random source belong to the driver.
///
/// A driver does the following, in the simulated world and in the real one:
///
/// 1. call [`handle`](Machine::handle) with an input, or [`wake`](Machine::wake) once the
///    [`deadline`](Machine::deadline) has come;
/// 2. then drain [`poll`](Machine::poll) to `None` and carry out the outputs in their order;
/// 3. then wait for the next input or the deadline, whichever comes first.
///
/// A refused input leaves the machine unchanged. Every queue in a machine is bounded. A machine has
/// no callbacks and no locks, and its methods never wait.
pub trait Machine {
    /// Events that the machine handles.
    type Input;
    /// Effects that the machine requests.
    type Output;
    /// The reason why an input is refused.
    type Error;

    /// Handles one input at time `now`; `rng` is the only source of randomness.
    fn handle(
        &mut self,
        input: Self::Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Self::Error>;

    /// Runs all work that is due at `now`. An early or repeated call has no effect.
    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng);

    /// Returns the next output, in order, or `None` if there is none.
    fn poll(&mut self) -> Option<Self::Output>;

    /// Returns the latest time for the next [`wake`](Machine::wake), or `None` if no timer is set.
    fn deadline(&self) -> Option<Time>;

    /// Returns the whole state as bytes, queues and timers included. Tests compare it before and
    /// after a refused input. See [`snapshot!`](crate::snapshot!).
    fn snapshot(&self) -> Wiping<Vec<u8>>;
}
