//! The mixnet's servers: every socket, file, clock and thread around the machines of
//! `mezza-mixnet`.
//!
//! | module | noun |
//! |---|---|
//! | [`mix`], [`entry`], [`bucket`] | the three roles: one task owns one machine |
//! | [`server`] | what they share: listener, waiting, the end |
//! | [`link`] | frames over TLS with raw public keys; who dials whom |
//! | [`kernel`](mod@kernel), [`pool`] | whose arithmetic; where heavy work runs |
//! | [`client`], [`uri`] | how a client gets to an entry; the link to a network |
//! | [`load`] | simulated users |
//! | [`demo`] | a whole network in one process |
//! | [`key`], [`signed`] | the key file of a server; the highest round that a mix signed |
//! | [`shelves`] | buckets as files |
//! | [`network`], [`written`] | the config of a network as a file, and as people write it |
//! | [`figures`] | what a config costs its clients and promises them |
//! | [`metrics`], [`process`] | counts for operators; what a server asks of the system |
//! | [`busy`] | CPU time by phase, for who measures |

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
