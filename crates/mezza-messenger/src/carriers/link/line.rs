//! A connection, and the session on it.

use alloc::collections::BTreeMap;

use mezza_core::{Time, snapshot};
use mezza_seka::limits::{REKEY_MS, SESSION_MS};
use mezza_seka::stream::Records;
use mezza_seka::wire::{Ke1, Ke3};
use mezza_seka::{LinkSession, SessionUsage};

use super::Frames;
use super::guard::GuardTalk;
use crate::io::{ContactId, ParcelId};

/// A connection.
pub(super) struct Line {
    /// The contact that was dialled, or whose name the first frame carries. Only an opened record
    /// proves it.
    pub contact: Option<ContactId>,
    /// True if the connection carries a pairing.
    pub is_pairing: bool,
    /// The time at which the connection is closed.
    pub ends: Time,
    /// The session, after the exchange.
    pub session: Option<LineSession>,
    /// The guard's part of the connection; `None` if it does not pass a guard.
    pub guard: Option<GuardTalk>,
    /// Frames of the exchange that were sent: bit 0 KE1, bit 1 KE2, bit 2 KE3.
    sent: u8,
}

snapshot!(struct Line { contact, is_pairing, ends, session, guard, sent });

impl Line {
    pub fn new(contact: Option<ContactId>, ends: Time) -> Self {
        Self { contact, is_pairing: false, ends, session: None, guard: None, sent: 0 }
    }

    /// Records that a frame of the exchange is sent. Returns false if it repeats one: a stream
    /// loses no frame, so repetitions are for datagrams only. Both users may take their time
    /// during a pairing, so an attempt may be repeated there.
    pub fn mark_sent(&mut self, kind: u8) -> bool {
        let bit = 1_u8.checked_shl(u32::from(kind.wrapping_sub(Ke1::KIND))).unwrap_or(0);
        let is_new = self.sent & bit == 0;
        self.sent |= bit;
        is_new || (self.is_pairing && kind != Ke3::KIND)
    }

    /// Returns true if a frame of this kind was sent.
    pub fn has_sent(&self, kind: u8) -> bool {
        self.sent & 1_u8.checked_shl(u32::from(kind.wrapping_sub(Ke1::KIND))).unwrap_or(0) != 0
    }
}

/// A session on a connection.
pub(super) struct LineSession {
    pub records: Records<Frames>,
    /// Boot time of the exchange.
    pub since: Time,
    /// True if a record of the other device has opened.
    pub is_fresh: bool,
    /// True if the other device has proven the identity keys of the pairing.
    pub is_proven: bool,
    /// Parcels that were sent and not acknowledged, by ticket.
    pub out: BTreeMap<u64, ParcelId>,
}

snapshot!(struct LineSession {
    records => used(records.session().usage()), since, is_fresh, is_proven, out,
});

fn used(usage: SessionUsage) -> (u32, u32, u32) {
    (usage.attempt, usage.sent, usage.received)
}

impl LineSession {
    pub fn new(session: LinkSession, since: Time) -> Self {
        let records = Records::new(session);
        Self { records, since, is_fresh: false, is_proven: false, out: BTreeMap::new() }
    }

    /// Returns the time at which an initiator begins the next session.
    pub fn renewal(&self) -> Time {
        self.since.plus_ms(REKEY_MS)
    }

    /// Returns the time at which the session ends in any case.
    pub fn end(&self) -> Time {
        self.since.plus_ms(SESSION_MS)
    }
}
