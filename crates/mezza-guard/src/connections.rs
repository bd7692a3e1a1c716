//! The connections of a machine by their numbers, each with the time that its handshake may take.

use alloc::collections::BTreeMap;

use mezza_core::{Time, Timers};

use crate::guard::{GuardConnection, HANDSHAKE_MS_MAX};

/// The state of each connection; bounded.
pub(crate) struct Connections<T> {
    open: BTreeMap<GuardConnection, T>,
    timers: Timers<GuardConnection>,
    most: usize,
}

/// Why a connection is not taken.
pub(crate) enum NoRoom {
    /// The number stands for a connection already.
    Twice,
    /// There are too many.
    Full,
}

impl<T> Connections<T> {
    /// None yet, and never more than `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self { open: BTreeMap::new(), timers: Timers::default(), most }
    }

    /// Checks that there is room for a connection.
    pub(crate) fn check_room(&self, conn: GuardConnection) -> Result<(), NoRoom> {
        // Replacing a connection would drop its state without counting its end (GUARD-35).
        if self.open.contains_key(&conn) {
            Err(NoRoom::Twice)
        } else if self.open.len() >= self.most {
            Err(NoRoom::Full)
        } else {
            Ok(())
        }
    }

    /// Takes a connection for which there is room; its handshake may last so long from now on.
    pub(crate) fn insert(&mut self, conn: GuardConnection, state: T, now: Time) {
        self.open.insert(conn, state);
        // A handshake in progress holds keys and up to 512 bytes, so its time is bounded
        // (GUARD-36).
        self.timers.set_deadline(conn, Some(now.plus_ms(HANDSHAKE_MS_MAX)));
    }

    pub(crate) fn get(&self, conn: GuardConnection) -> Option<&T> {
        self.open.get(&conn)
    }

    /// Takes the state out, to be put back: a machine that works on it may look at all others.
    pub(crate) fn take_out(&mut self, conn: GuardConnection) -> Option<T> {
        self.open.remove(&conn)
    }

    pub(crate) fn put_back(&mut self, conn: GuardConnection, state: T) {
        self.open.insert(conn, state);
    }

    /// The handshake is over: the connection may stand as long as it likes.
    pub(crate) fn clear_deadline(&mut self, conn: GuardConnection) {
        self.timers.set_deadline(conn, None);
    }

    /// The connection is gone.
    pub(crate) fn remove(&mut self, conn: GuardConnection) -> Option<T> {
        // Timer first, or it would fire for a connection that reuses the number.
        self.timers.set_deadline(conn, None);
        self.open.remove(&conn)
    }

    /// The next connection whose handshake took too long; its deadline is taken away.
    pub(crate) fn take_overdue(&mut self, now: Time) -> Option<GuardConnection> {
        self.timers.take_first(now)
    }

    /// When the next one will have.
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
