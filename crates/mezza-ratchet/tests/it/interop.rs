//! Against implementations that nobody here wrote: each is a program of its own, spoken to by
//! lines. `cargo xtask interop` fetches them and names their folder in `MEZZA_TEST_PEERS`; without
//! it these tests are skipped, and say so.

mod device;
mod matrix;
mod peer;

mod axolotl;
mod java;
mod native;
mod xeddsa;

/// What every two implementations must do with each other, in both roles.
const CELLS: [matrix::Cell; 5] =
    [matrix::first_messages, matrix::turns, matrix::random, matrix::flips, matrix::simultaneous];
