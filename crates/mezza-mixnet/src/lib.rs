//! Onions, dead drops, noise and rounds after Vuvuzela (SOSP 2015): a carrier that hides who
//! converses with whom.
//!
//! The promise: with one honest mix of n, the actions of one user in a stated number of rounds are
//! (eps, delta)-differentially private towards every observer. The set of users who are online is
//! not hidden.
//!
//! | module | noun |
//! |---|---|
//! | [`service`], [`limits`] | the three services, their sizes; limits and constants |
//! | [`wire`] | every message between clients, entry, mixes and bucket store |
//! | [`config`], [`sign`] | a network's config and its chain of guardians; signatures |
//! | [`contact`] | chains of drops, cell keys and call tokens |
//! | [`stream`] | messages in cells: each once and in order, whatever is lost |
//! | [`onion`], [`keys`] | layers and replies, many at once, over a [`Kernel`](mezza_lanes::Kernel) |
//! | [`batch`] | doubles, permutations, dead drops |
//! | [`client`] | what a client does in one round, step by step; the machine that does it |
//! | [`coordinator`] | the machine of the entry: clock, announcer, concentrator |
//! | [`mix`], [`job`] | the machine of a mix; heavy work that leaves it as values |
//! | [`noise`], [`privacy`] | samplers of both laws; the calculator and the ledger |
//!
//! ```
//! use mezza_mixnet::Service;
//! use mezza_mixnet::service::reply_bytes;
//!
//! assert_eq!(Service::Conversation.onion_bytes(3), 416); // up, through three mixes
//! assert_eq!(reply_bytes(3), 304); // down
//! ```
#![no_std]

extern crate alloc;

pub mod batch;
pub mod client;
pub mod config;
pub mod contact;
pub mod coordinator;
pub mod job;
pub mod keys;
pub mod limits;
pub mod mix;
pub mod noise;
pub mod onion;
pub mod privacy;
pub mod service;
pub mod sign;
pub mod stream;
pub mod wire;

pub use service::{RoundId, Service};
