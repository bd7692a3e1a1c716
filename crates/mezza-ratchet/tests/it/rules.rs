//! One test for each rule of `docs/protocols/ratchet.md` that is in force.

mod container;
mod handshake;
mod keys;
mod ratchet;
mod sessions;
mod signal;
mod suites;
