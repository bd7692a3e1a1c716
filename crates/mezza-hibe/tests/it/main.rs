//! All integration tests of the crate.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod fixture;
mod heap;
mod known;
mod lives;
mod reference;
mod rules;
mod silence;
mod thief;
mod tree;
mod vectors;
mod world;
