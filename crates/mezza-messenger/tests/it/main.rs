//! The device and its codecs, seen from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may panic, and say what they skip"
)]

mod aside;
mod card;
mod case;
mod envelope;
mod frames;
mod invite;
mod keyed_peer;
mod link;
mod mesh;
mod model;
mod note;
mod peer;
mod port;
mod receipt;
mod rules;
mod saved;
mod silence;
mod stage;
mod talk;
mod town;
mod uri;
mod world;

use mezza_mixnet_testing::{city, fixture};
use mezza_sim::operations;
