//! All integration tests of the crate.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod fixture;
mod known;
mod reference;
mod rules;
mod thief;
mod tree;
mod world;
