//! Connections to relays: each goes by relay key, host and port.
//!
//! ```text
//! a note, a bundle, an own mailbox wants it -Connect-> kept -Up-> stands -Down-> kept
//!        idle for 10 minutes, or nobody is reached by it any more -Disconnect-> nothing
//! ```
//!
//! A contact says what it likes about where a relay is. That makes a connection of its own, so that
//! it changes nothing about how anybody else is reached (MSG-50).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use crate::card::RelayEntry;
use crate::io::{CarrierCaps, ContactId, DateStep, RelayConnectionId};

/// A relay that is not ours is left this long after it was needed last.
const IDLE_MS: u64 = 10 * Time::MINUTE_MS;
/// Parcels out on one connection at once (MSG-35).
const IN_FLIGHT_MAX: usize = 8;

/// A connection.
pub(crate) struct Connection {
    pub entry: RelayEntry,
    /// Its abilities; `None` while it is down.
    pub up: Option<CarrierCaps>,
    /// Parcels out on it.
    pub in_flight: usize,
    /// When it was needed last.
    used: Time,
    /// Contacts that are reached over it.
    users: BTreeSet<ContactId>,
}

snapshot!(struct Connection { entry, up, in_flight, used, users });

impl Connection {
    /// Returns its abilities, also those that it would have if it were up.
    pub fn caps(&self) -> CarrierCaps {
        self.up.unwrap_or(super::CAPS)
    }

    /// Returns true if one more parcel may leave by it.
    pub fn has_room(&self) -> bool {
        self.up.is_some() && self.in_flight < IN_FLIGHT_MAX
    }
}

/// All connections.
#[derive(Default)]
pub(crate) struct Connections(BTreeMap<RelayConnectionId, Connection>);

snapshot!(struct Connections(all));

impl Connections {
    /// One of them.
    pub fn get(&self, id: RelayConnectionId) -> Option<&Connection> {
        self.0.get(&id)
    }

    /// One of them, to be changed.
    pub fn connection_mut(&mut self, id: RelayConnectionId) -> Option<&mut Connection> {
        self.0.get_mut(&id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.0.values()
    }

    /// Returns true if it stands.
    pub fn is_up(&self, id: RelayConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.up.is_some())
    }

    /// Its level now.
    pub fn level(&self, id: RelayConnectionId) -> u8 {
        self.get(id).map_or(super::CAPS.level, |connection| connection.caps().level)
    }

    /// A relay is needed; whether a connection to it is new. It is needed `by` a contact, or for
    /// ourselves.
    pub fn mark_needed(&mut self, relay: &RelayEntry, by: Option<ContactId>, now: Time) -> bool {
        let fresh = !self.0.contains_key(&relay.connection_id());
        let connection = self.0.entry(relay.connection_id()).or_insert_with(|| Connection {
            entry: relay.clone(),
            up: None,
            in_flight: 0,
            used: now,
            users: BTreeSet::new(),
        });
        connection.used = now;
        connection.users.extend(by);
        fresh
    }

    /// A contact is reached by these alone from now on; those by which nobody is reached any more.
    pub fn keep_only(&mut self, user: ContactId, kept: &[RelayConnectionId]) -> Vec<RelayEntry> {
        let mut left = Vec::new();
        for (id, connection) in &mut self.0 {
            // The last contact on a connection leaves it: a moving contact keeps one open only
            // (MSG-50).
            if !kept.contains(id) && connection.users.remove(&user) && connection.users.is_empty() {
                left.push(connection.entry.clone());
            }
        }
        left
    }

    /// Returns true if anybody is reached by it.
    pub fn is_used(&self, id: RelayConnectionId) -> bool {
        self.get(id).is_some_and(|connection| !connection.users.is_empty())
    }

    /// One parcel less is out.
    pub fn count_landed(&mut self, id: RelayConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.in_flight = connection.in_flight.saturating_sub(1);
        }
    }

    /// It does not stand any more.
    pub fn mark_down(&mut self, id: RelayConnectionId) -> bool {
        let Some(connection) = self.connection_mut(id) else { return false };
        // Requests on a lost connection are never answered, so none is in flight.
        (connection.up, connection.in_flight) = (None, 0);
        true
    }

    /// It is not kept any more.
    pub fn remove(&mut self, id: RelayConnectionId) -> bool {
        self.0.remove(&id).is_some()
    }

    /// When the first one of others was idle for long enough.
    pub fn next_idle(&self, own: impl Fn(&RelayEntry) -> bool) -> Option<Time> {
        let others = self.0.values().filter(|connection| !own(&connection.entry));
        others.map(|connection| connection.used.plus_ms(IDLE_MS)).min()
    }

    /// The date was corrected.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.0.values_mut().for_each(|one| one.used = date.shift_running(one.used));
    }

    /// Those of others that were idle for long enough; what somebody waits for counts as use.
    pub fn find_idle(
        &mut self,
        own: impl Fn(&RelayEntry) -> bool,
        busy: &dyn Fn(ContactId) -> bool,
        now: Time,
    ) -> Vec<RelayConnectionId> {
        let mut idle = Vec::new();
        for (id, connection) in &mut self.0 {
            // Connections with own mailboxes stay open for incoming mail.
            if own(&connection.entry) || now.since_ms(connection.used) < IDLE_MS {
                continue;
            }
            if connection.users.iter().any(|user| busy(*user)) {
                connection.used = now;
            } else {
                idle.push(*id);
            }
        }
        idle
    }
}
