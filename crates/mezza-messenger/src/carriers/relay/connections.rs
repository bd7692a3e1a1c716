//! Connections to relays, identified by relay key, host and port.
//!
//! ```text
//! a note, a bundle, an own mailbox wants it -Connect-> kept -Up-> stands -Down-> kept
//!        idle for 10 minutes, or nobody is reached by it any more -Disconnect-> nothing
//! ```
//!
//! A contact may claim any host and port for a relay. Such a claim creates a separate connection,
//! so it cannot change the connection that other contacts use (MSG-50).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use mezza_core::{Time, snapshot};

use crate::card::RelayEntry;
use crate::io::{CarrierCaps, ContactId, DateStep, RelayConnectionId};

/// Milliseconds without use after which a foreign relay is disconnected.
const IDLE_MS: u64 = 10 * Time::MINUTE_MS;
/// Most parcels in flight on one connection (MSG-35).
const IN_FLIGHT_MAX: usize = 8;

/// A connection to a relay.
pub(crate) struct Connection {
    pub entry: RelayEntry,
    /// Abilities of the connection; `None` while it is down.
    pub up: Option<CarrierCaps>,
    /// Number of parcels in flight on the connection.
    pub in_flight: usize,
    /// Time of the last use.
    used: Time,
    /// Contacts that are reached over the connection.
    users: BTreeSet<ContactId>,
}

snapshot!(struct Connection { entry, up, in_flight, used, users });

impl Connection {
    /// Returns the abilities of the connection, or the default ones while it is down.
    pub fn caps(&self) -> CarrierCaps {
        self.up.unwrap_or(super::CAPS)
    }

    /// Returns true if one more parcel may be sent on the connection.
    pub fn has_room(&self) -> bool {
        self.up.is_some() && self.in_flight < IN_FLIGHT_MAX
    }
}

/// All connections.
#[derive(Default)]
pub(crate) struct Connections(BTreeMap<RelayConnectionId, Connection>);

snapshot!(struct Connections(all));

impl Connections {
    /// Returns one connection.
    pub fn get(&self, id: RelayConnectionId) -> Option<&Connection> {
        self.0.get(&id)
    }

    /// Returns one connection for changes.
    pub fn connection_mut(&mut self, id: RelayConnectionId) -> Option<&mut Connection> {
        self.0.get_mut(&id)
    }

    /// Returns all connections.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.0.values()
    }

    /// Returns true if the connection is up.
    pub fn is_up(&self, id: RelayConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.up.is_some())
    }

    /// Returns the level of the connection, 1 to 4; while it is down, the default level.
    pub fn level(&self, id: RelayConnectionId) -> u8 {
        self.get(id).map_or(super::CAPS.level, |connection| connection.caps().level)
    }

    /// Marks a relay as needed for the contact `by`, or for ourselves. Returns true if the
    /// connection is new.
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

    /// Keeps a contact only on the connections in `kept`. Returns the relays that no contact uses
    /// any more.
    pub fn keep_only(&mut self, user: ContactId, kept: &[RelayConnectionId]) -> Vec<RelayEntry> {
        let mut left = Vec::new();
        for (id, connection) in &mut self.0 {
            // A connection that loses its last contact is left, so a moving contact keeps only one
            // open (MSG-50).
            if !kept.contains(id) && connection.users.remove(&user) && connection.users.is_empty() {
                left.push(connection.entry.clone());
            }
        }
        left
    }

    /// Returns true if a contact is reached over the connection.
    pub fn is_used(&self, id: RelayConnectionId) -> bool {
        self.get(id).is_some_and(|connection| !connection.users.is_empty())
    }

    /// Counts a parcel that is no longer in flight.
    pub fn count_landed(&mut self, id: RelayConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.in_flight = connection.in_flight.saturating_sub(1);
        }
    }

    /// Marks a connection as down. Returns false if it is unknown.
    pub fn mark_down(&mut self, id: RelayConnectionId) -> bool {
        let Some(connection) = self.connection_mut(id) else { return false };
        // Requests on a lost connection are never answered, so none is in flight.
        (connection.up, connection.in_flight) = (None, 0);
        true
    }

    /// Removes a connection. Returns false if it is unknown.
    pub fn remove(&mut self, id: RelayConnectionId) -> bool {
        self.0.remove(&id).is_some()
    }

    /// Returns the time at which the first foreign relay has been idle for 10 minutes.
    pub fn next_idle(&self, own: impl Fn(&RelayEntry) -> bool) -> Option<Time> {
        let others = self.0.values().filter(|connection| !own(&connection.entry));
        others.map(|connection| connection.used.plus_ms(IDLE_MS)).min()
    }

    /// Moves the times of use after a correction of the date.
    pub fn apply_date_step(&mut self, date: &DateStep) {
        self.0.values_mut().for_each(|one| one.used = date.shift_running(one.used));
    }

    /// Returns the connections to foreign relays that were idle for 10 minutes. A connection counts
    /// as used while notes wait for one of its contacts.
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
