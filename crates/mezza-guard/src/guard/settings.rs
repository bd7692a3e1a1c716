//! Settings of the owner.

use alloc::collections::BTreeMap;

use crate::coin::CoinEncoding;
use crate::keys::{GuardClientId, PairingKey};
use crate::rule::{Pins, RuleTable};
use crate::wire::control::GuardMode;

/// How long a handshake may take, ms: slow links have time, and dead sessions go.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// The most sessions at once.
pub const SESSIONS_MAX: usize = 10_000;
/// Inbound connections of one client at once: each has a slot of its own.
pub const INBOUND_LANES: u16 = 8;
/// Lanes of one address.
pub(crate) const LANES_OF_ONE: usize = 2;
/// The lanes' destination numbers.
pub(crate) const LANES: core::ops::Range<u16> = 0xfff0..0xfff0 + INBOUND_LANES;

/// The treatment of frames that no rule covers (GUARD-31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictPolicy {
    /// The connection closes.
    Strict,
    /// They pass, and the owner is told.
    Report,
}

/// One destination.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The owner's pins for its link; `None`: the first use is trusted, and counted.
    pub pins: Option<Pins>,
    /// The counter to begin with, if the owner has said one.
    pub counter: Option<u32>,
}

/// One client.
#[derive(Debug)]
pub struct GuardClientSettings {
    /// Its pairing key.
    pub key: PairingKey,
    /// How its inbound connections work.
    pub inbound: GuardMode,
}

/// All of it.
#[derive(Debug)]
pub struct GuardSettings {
    /// The treatment of uncovered frames.
    pub policy: StrictPolicy,
    /// The rules of a handshake with coins.
    pub table: RuleTable,
    /// How its keys are encoded.
    pub encoding: CoinEncoding,
    /// The lengths that a record's body may have.
    pub record_lengths: &'static [u16],
    /// Clients by name.
    pub clients: BTreeMap<GuardClientId, GuardClientSettings>,
    /// Destinations by number.
    pub destinations: BTreeMap<u16, Destination>,
}

impl GuardSettings {
    pub(crate) fn is_known(&self, client: GuardClientId) -> bool {
        self.clients.contains_key(&client)
    }

    pub(crate) fn find_client(&self, client: GuardClientId) -> Option<&GuardClientSettings> {
        self.clients.get(&client)
    }

    pub(crate) fn find_destination(&self, dest: u16) -> Option<&Destination> {
        self.destinations.get(&dest)
    }
}
