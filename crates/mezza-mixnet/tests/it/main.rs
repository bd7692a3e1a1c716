//! One binary for every test that looks from outside.
#![allow(clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod city;
mod coordinator;
mod fixture;
mod intersection;
mod mix;
mod talk;
mod vectors;
