//! Two devices without a relay, and a cable between them that the test holds in its hands.

pub mod cable;
mod guarded;
mod hostile;
mod kills;
mod pairs;
mod talk;
