//! One binary for every test that looks from outside.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod attacks;
mod fixture;
mod interop;
mod pairs;
mod people;
mod prekeys;
mod primitives;
mod props;
mod proto;
mod rules;
mod silence;
mod vectors;
mod world;
