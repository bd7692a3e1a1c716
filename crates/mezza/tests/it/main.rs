//! The program's parts against real sockets, files and servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod backend;
mod backup;
mod cli;
mod config;
mod contacts;
mod copies;
mod cpu;
mod crowd;
mod damaged;
mod demonstration;
mod doors;
mod guard;
mod guide;
mod hibe;
mod home;
mod idle;
mod kill;
mod leak;
mod link;
mod logs;
mod memory;
mod mesh;
mod mixnet;
mod node;
mod observer;
mod older;
mod output;
mod postgres;
mod program;
mod purge;
mod ratchet;
mod relay;
mod silence;
mod stall;
mod troubled;
mod two_homes;
mod typed;
mod vault;
mod web;
