//! The device and its codecs, seen from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may panic, and say what they skip"
)]

mod card;
mod case;
mod envelope;
mod frames;
mod model;
mod note;
mod receipt;
mod rules;
mod silence;
mod stage;
mod uri;
mod world;
