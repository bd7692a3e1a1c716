//! The servers: a guard, a mesh node, the relay, the three roles of a mixnet, and the daemon of
//! links. Floor 3.
//!
//! This crate has no command line: the program `mezza` runs the servers, and the lab measures them.

// `pub(crate)` is the default: only what a crate above uses is `pub`, and the compiler finds unused
// items.
#![warn(unreachable_pub)]
#![allow(rustdoc::private_intra_doc_links, reason = "this crate is read with its private items")]

pub mod guard;
pub mod mesh;
pub mod mixnet;
pub mod relay;
pub mod tunnel;
