//! Settings of the guard's owner.

use alloc::collections::BTreeMap;

use crate::coin::CoinEncoding;
use crate::keys::{GuardClientId, PairingKey};
use crate::rule::{Pins, RuleTable};
use crate::wire::control::GuardMode;

/// Longest duration of a handshake in ms: long enough for slow links, short enough that dead
/// sessions end.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// Most sessions at once.
pub const SESSIONS_MAX: usize = 10_000;
/// Most inbound connections of one client at once; each has its own slot.
pub const INBOUND_LANES: u16 = 8;
/// Most lanes of one address.
pub(crate) const LANES_OF_ONE: usize = 2;
/// Destination numbers of the lanes.
pub(crate) const LANES: core::ops::Range<u16> = 0xfff0..0xfff0 + INBOUND_LANES;

/// The treatment of frames without a rule (GUARD-31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictPolicy {
    /// The connection is closed.
    Strict,
    /// The frames pass, and the owner is notified.
    Report,
}

/// Settings of one destination.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The owner's pins for the link; `None` to learn them from the first handshake, which the
    /// audit counts.
    pub pins: Option<Pins>,
    /// The first counter, if the owner has set one.
    pub counter: Option<u32>,
    /// True if the owner has blocked the destination for all clients (GUARD-49).
    pub is_blocked: bool,
}

/// Settings of one client.
#[derive(Debug)]
pub struct GuardClientSettings {
    /// The pairing key of the client.
    pub key: PairingKey,
    /// The mode of its inbound connections.
    pub inbound: GuardMode,
}

/// All settings of a guard.
#[derive(Debug)]
pub struct GuardSettings {
    /// The treatment of frames without a rule.
    pub policy: StrictPolicy,
    /// The rules of a handshake with coins.
    pub table: RuleTable,
    /// The encoding of keys in these handshakes.
    pub encoding: CoinEncoding,
    /// The allowed lengths of a record's body.
    pub record_lengths: &'static [u16],
    /// Clients by id.
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
