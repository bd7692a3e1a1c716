//! The mixnet's servers: every socket, file, clock and thread around the machines of
//! `mezza-mixnet`.
//!
//! | module | noun |
//! |---|---|
//! | [`mix`], [`entry`], [`bucket`] | the three roles: one task owns one machine |
//! | [`server`] | their shared parts: listener, waiting, the end |
//! | [`pool`] | threads that run heavy work |
//! | [`client`] | how a client connects to an entry |
//! | [`load`] | simulated users |
//! | [`demo`] | a whole network in one process |
//! | [`key`], [`signed`] | the key file of a server; the highest round that a mix signed |
//! | [`shelves`] | buckets as files |
//! | [`network`], [`written`] | the config of a network as a file, and as TOML |
//!
//! `mezza-host` has the links between servers, the kernel of this CPU and the figures of a config.

pub mod bucket;
pub mod client;
pub mod demo;
pub mod entry;
pub mod key;
pub mod load;
pub mod mix;
pub mod network;
pub(crate) mod pool;
pub mod server;
pub(crate) mod shelves;
pub mod signed;
pub mod written;
