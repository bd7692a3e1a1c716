//! All integration tests of the crate.

mod fixture;
mod known;
