//! One person's device as one machine: identity, contacts, conversations, outbox. Floor 2: no
//! socket, file, thread, clock or random source.
#![no_std]

extern crate alloc;

pub mod digest;
pub mod relay_wire;
