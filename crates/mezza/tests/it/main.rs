//! The program's parts against real sockets, files and servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod backend;
mod cli;
mod config;
mod cpu;
mod crowd;
mod damaged;
mod hibe;
mod home;
mod idle;
mod kill;
mod link;
mod logs;
mod memory;
mod mesh;
mod mixnet;
mod node;
mod observer;
mod older;
mod postgres;
mod program;
mod ratchet;
mod relay;
mod silence;
mod stall;
mod troubled;
mod twins;
mod two_homes;
mod vault;
mod web;
