//! The tests of pairing, exchange and session.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod attacker;
mod checker;
mod forgery;
mod model;
mod offload;
mod pair;
mod rules;
mod stage;
mod stream;
mod thief;
mod toy;
mod vectors;
mod worlds;
