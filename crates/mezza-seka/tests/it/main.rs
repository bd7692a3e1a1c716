//! The tests of pairing, exchange and session.

mod pair;
mod stage;
