//! One binary for every test that looks from outside.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod attacks;
mod bench;
mod coin;
mod control;
mod gkx;
mod liar;
mod link;
mod machine;
mod rules;
mod session;
mod silence;
mod toy;
mod variants;
mod vectors;
mod worlds;
