//! One binary for every test that looks from outside.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod alone;
mod client;
mod coordinator;
mod desk;
mod intersection;
mod keyed;
mod liar;
mod mix;
mod month;
mod talk;
mod times;
mod town;
mod toy;
mod two_of_three;
mod vectors;
mod worlds;

use mezza_mixnet_testing::{city, fixture};
