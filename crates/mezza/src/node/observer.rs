//! Views of adversaries, from real bytes: a network provider below TLS, a relay above it, a thief
//! of the disk.
//!
//! A ring of 256 events of at most 4 KiB in memory. The observer is on in `up`, with `--observe`,
//! and if the user turns it on; nothing is written to disk. The vault reports the records for the
//! thief as it writes them: no database is opened for reading (module `disk`). Fields are named by
//! the decoders that the program itself uses. The page shows the recorded bytes and not a diagram,
//! so that users can check what is claimed.

mod disk;
mod fields;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;

use mezza_host::api::json::{self, ObserverField};
use mezza_host::clock::now;
use mezza_host::connection::tap::{Direction, Side, Tap, TapEvent};
use mezza_host::store::RecordHeader;

/// Maximum number of stored events.
pub(crate) const EVENTS_MAX: usize = 256;
/// Maximum stored bytes of an event.
pub(crate) const BYTES_MAX: usize = 4_096;

/// The adversary that sees an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vantage {
    /// A network provider that carries the packets.
    Provider,
    /// The operator of the relay.
    Relay,
    /// A thief of the disk.
    Thief,
}

impl Vantage {
    fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Relay => "relay",
            Self::Thief => "thief",
        }
    }
}

/// Collects what the network carries and the disk stores.
pub struct Observer {
    on: AtomicBool,
    ring: Mutex<Ring>,
    disk: Mutex<disk::Disk>,
}

struct Ring {
    next: u64,
    events: VecDeque<Seen>,
}

struct Seen {
    n: u64,
    at_ms: u64,
    who: Vantage,
    direction: &'static str,
    length: usize,
    head: Vec<u8>,
    fields: Vec<ObserverField>,
}

impl Observer {
    /// Makes an observer of these files and of the connections that report to it. The observer is
    /// on.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let ring = Ring { next: 1, events: VecDeque::new() };
        let disk = disk::Disk::new(files);
        Self { on: AtomicBool::new(true), ring: Mutex::new(ring), disk: Mutex::new(disk) }
    }

    /// Returns true if the observer records.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Turns the observer on or off; turning it off erases its events.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        if !on {
            self.lock_ring().events.clear();
        }
    }

    /// Returns the events from number `n` on. Reads the files first, so that a change shows.
    pub fn events_since(&self, n: u64) -> json::ObserverJson {
        let lying = self.disk.lock().unwrap_or_else(PoisonError::into_inner).take_changed();
        let mut ring = self.lock_ring();
        for (length, head, fields) in lying {
            ring.push_event(Vantage::Thief, "at rest", length, head, fields);
        }
        let events = ring.events.iter().filter(|seen| seen.n >= n).map(Seen::to_json).collect();
        json::ObserverJson { next: ring.next, events }
    }

    /// Records a record as the vault stores it (vault 1.4).
    pub fn record_disk_row(&self, place: RecordHeader, body: &[u8]) {
        if !self.is_on() {
            return;
        }
        let head = body[..body.len().min(BYTES_MAX)].to_vec();
        let fields = fields::split_record(place, &head);
        self.lock_ring().push_event(Vantage::Thief, "at rest", body.len(), head, fields);
    }

    fn lock_ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap for Observer {
    fn is_on(&self) -> bool {
        Self::is_on(self)
    }

    fn record(&self, event: TapEvent<'_>) {
        if !self.is_on() {
            return;
        }
        let (who, mut fields) = match event.side {
            Side::Wire => (Vantage::Provider, fields::split_tls(event.bytes)),
            Side::Frame => (Vantage::Relay, fields::split_frame(event.bytes, event.direction)),
        };
        let connection = event.connection.to_string();
        fields.insert(0, fields::make_field("connection", connection));
        let direction = match event.direction {
            Direction::ToRelay => "out",
            Direction::ToClient => "in",
        };
        let head = event.bytes[..event.bytes.len().min(BYTES_MAX)].to_vec();
        self.lock_ring().push_event(who, direction, event.bytes.len(), head, fields);
    }
}

impl Ring {
    fn push_event(
        &mut self,
        who: Vantage,
        direction: &'static str,
        length: usize,
        head: Vec<u8>,
        fields: Vec<ObserverField>,
    ) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let n = self.next;
        let at_ms = now().as_ms();
        self.next += 1;
        self.events.push_back(Seen { n, at_ms, who, direction, length, head, fields });
    }
}

impl Seen {
    fn to_json(&self) -> json::ObserverEvent {
        json::ObserverEvent {
            n: self.n,
            at_ms: self.at_ms,
            who: self.who.name().into(),
            direction: self.direction.into(),
            bytes: self.length,
            hex: HEXLOWER.encode(&self.head),
            fields: self.fields.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::relay_wire::{ClientFrame, MailboxAddress};

    fn event(bytes: &[u8], side: Side) -> TapEvent<'_> {
        TapEvent { connection: 3, side, direction: Direction::ToRelay, bytes }
    }

    #[test]
    fn a_put_is_taken_apart_where_it_stands() {
        let observer = Observer::new([]);
        let put = ClientFrame::Put {
            req: 7,
            address: MailboxAddress([0xab; 16]),
            ttl_h: 720,
            envelope: vec![1; 512],
        };
        let bytes = put.encode().unwrap();
        observer.record(event(&bytes, Side::Frame));
        let seen = observer.events_since(0);
        assert_eq!((seen.next, seen.events.len()), (2, 1));
        let event = &seen.events[0];
        assert_eq!((event.who.as_str(), event.direction.as_str()), ("relay", "out"));
        assert_eq!((event.bytes, event.hex.len()), (bytes.len(), 2 * bytes.len()));
        let address = event.fields.iter().find(|f| f.name == "address").unwrap();
        assert_eq!(address.value, "ab".repeat(16));
        assert_eq!(&bytes[address.offset..address.offset + address.len], [0xab; 16]);
        let end = event.fields.iter().map(|f| f.offset + f.len).max();
        assert_eq!(end, Some(bytes.len()));
    }

    #[test]
    fn web_10_an_observer_that_is_off_records_nothing_and_keeps_nothing() {
        let observer = Observer::new([]);
        observer.record(event(&[0x17; 9], Side::Wire));
        observer.set_on(false);
        observer.record(event(&[0x17; 9], Side::Wire));
        assert!(!observer.is_on() && observer.events_since(0).events.is_empty());
        observer.set_on(true);
        observer.record(event(&[0x17; 9], Side::Wire));
        assert_eq!(observer.events_since(0).events.len(), 1);
    }

    #[test]
    fn the_ring_is_bounded_in_events_and_bytes() {
        let observer = Observer::new([]);
        for _ in 0..300 {
            observer.record(event(&[0x17; 9_000], Side::Wire));
        }
        let seen = observer.events_since(0);
        assert_eq!((seen.next, seen.events.len()), (301, EVENTS_MAX));
        assert!(seen.events.iter().all(|e| e.bytes == 9_000 && e.hex.len() == 2 * BYTES_MAX));
        assert_eq!(observer.events_since(300).events.len(), 1);
    }
}
