//! The connections of a machine by number, each with the deadline of its handshake.

use alloc::collections::BTreeMap;

use mezza_core::{Time, Timers};

use crate::guard::{GuardConnection, HANDSHAKE_MS_MAX};

/// The state of each connection, up to a limit.
pub(crate) struct Connections<T> {
    open: BTreeMap<GuardConnection, T>,
    timers: Timers<GuardConnection>,
    most: usize,
}

/// The reason why a connection is refused.
pub(crate) enum NoRoom {
    /// The number is already in use.
    Twice,
    /// The limit of connections is reached.
    Full,
}

impl<T> Connections<T> {
    /// Creates an empty list for at most `most` connections.
    pub(crate) fn new(most: usize) -> Self {
        Self { open: BTreeMap::new(), timers: Timers::default(), most }
    }

    /// Checks that there is room for a connection.
    pub(crate) fn check_room(&self, conn: GuardConnection) -> Result<(), NoRoom> {
        // A replaced connection would lose its state without its end being counted (GUARD-35).
        if self.open.contains_key(&conn) {
            Err(NoRoom::Twice)
        } else if self.open.len() >= self.most {
            Err(NoRoom::Full)
        } else {
            Ok(())
        }
    }

    /// Adds a connection after [`check_room`](Self::check_room). Its handshake must end within
    /// [`HANDSHAKE_MS_MAX`] milliseconds.
    pub(crate) fn insert(&mut self, conn: GuardConnection, state: T, now: Time) {
        self.open.insert(conn, state);
        // A handshake in progress occupies keys and up to 512 bytes, so its time is bounded
        // (GUARD-36).
        self.timers.set_deadline(conn, Some(now.plus_ms(HANDSHAKE_MS_MAX)));
    }

    pub(crate) fn get(&self, conn: GuardConnection) -> Option<&T> {
        self.open.get(&conn)
    }

    /// Takes the state of a connection out, so that the machine can access all others. The state
    /// must be put back.
    pub(crate) fn take_out(&mut self, conn: GuardConnection) -> Option<T> {
        self.open.remove(&conn)
    }

    pub(crate) fn put_back(&mut self, conn: GuardConnection, state: T) {
        self.open.insert(conn, state);
    }

    /// Removes the deadline after the handshake.
    pub(crate) fn clear_deadline(&mut self, conn: GuardConnection) {
        self.timers.set_deadline(conn, None);
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, conn: GuardConnection) -> Option<T> {
        // The timer is removed first, because it would otherwise fire for a new connection with the
        // same number.
        self.timers.set_deadline(conn, None);
        self.open.remove(&conn)
    }

    /// Returns the next connection whose handshake took too long, and removes its deadline.
    pub(crate) fn take_overdue(&mut self, now: Time) -> Option<GuardConnection> {
        self.timers.take_first(now)
    }

    /// Returns the earliest deadline of a handshake.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&GuardConnection, &T)> + Clone {
        self.open.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.open.values()
    }
}
