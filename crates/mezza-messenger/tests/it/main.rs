//! The device and its codecs, seen from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod card;
mod case;
mod envelope;
mod model;
mod note;
mod receipt;
mod rules;
mod silence;
mod stage;
mod uri;
mod world;
