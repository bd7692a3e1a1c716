//! The daemon of a guard: a reverse firewall between the devices of a user and the network.
//!
//! ```text
//! client --inside--> reader --frame--> driver: Guard --ledger, durable--> writer --tick--> destination
//!        <--writer--                   |      ^                           reader <--wire--
//!                                      control socket
//! ```
//!
//! The machine `mezza_guard::Guard` has all sessions. The driver hands it one frame of a side at a
//! time, and carries out its outputs in order: a record is durable before the frame that it covers.

pub mod audit;
pub mod control;
pub(crate) mod dial;
pub(crate) mod driver;
pub mod folder;
pub(crate) mod frames;
pub mod ledger;
pub mod peers;
pub mod routes;
pub mod server;
pub mod settings;
pub(crate) mod side;
pub mod table;
pub mod watch;

use mezza_guard::keys::GuardClientId;

/// Returns the short name of a client for people: the first 4 bytes of its id, as 8 hex digits.
pub fn short_id(client: GuardClientId) -> String {
    data_encoding::HEXLOWER.encode(&client.0[..4])
}
