//! The tests of the crate that need more than one of its modules.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod conformance;
mod courier;
mod crowd;
mod floods;
mod lives;
mod lone;
mod neighbours;
mod operations;
mod oracle;
mod pairs;
mod regressions;
mod spins;
mod streams;
mod town;
mod vectors;
