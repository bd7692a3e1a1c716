//! Events for listeners: a ring to catch up from, a channel to follow.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mezza_core::Time;
use tokio::sync::broadcast;

use mezza_host::api::json::{EventJson, EventKind};

/// Events stored for returning listeners; a listener that lags by more must reload.
pub(crate) const EVENTS_MAX: usize = 1_000;

/// The log of events. Cursors begin at the milliseconds of the start, so that a cursor of an
/// earlier run is always older than the ring.
pub struct EventLog {
    ring: Mutex<Ring>,
    live: broadcast::Sender<EventJson>,
}

struct Ring {
    next: u64,
    events: VecDeque<EventJson>,
}

/// The events for a new listener.
pub struct Listener {
    /// The missed events, or one `reload` if they are no longer stored.
    pub missed: Vec<EventJson>,
    /// A receiver of all later events.
    pub live: broadcast::Receiver<EventJson>,
}

impl EventLog {
    /// Makes an empty log.
    pub fn new(start: Time) -> Self {
        let ring = Ring { next: start.as_ms(), events: VecDeque::new() };
        Self { ring: Mutex::new(ring), live: broadcast::channel(EVENTS_MAX).0 }
    }

    /// Publishes an event of committed data; it gets a cursor.
    pub fn push_event(&self, mut event: EventJson) {
        let mut ring = self.lock_ring();
        event.cursor = Some(ring.next);
        ring.next += 1;
        if ring.events.len() == EVENTS_MAX {
            ring.events.pop_front();
        }
        ring.events.push_back(event.clone());
        let _ = self.live.send(event);
    }

    /// Publishes an event ahead of its commit, without a cursor; the ring does not store it.
    pub fn tell_early(&self, event: EventJson) {
        let _ = self.live.send(event);
    }

    /// Subscribes a listener. `since` is the last cursor that it has seen.
    pub fn listen(&self, since: Option<u64>) -> Listener {
        let ring = self.lock_ring();
        let live = self.live.subscribe();
        let missed = since.map_or_else(Vec::new, |since| ring.events_since(since));
        Listener { missed, live }
    }

    /// Empties the ring, so that events of an unlocked node are not repeated after a lock.
    pub fn clear(&self) {
        self.lock_ring().events.clear();
    }

    fn lock_ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn events_since(&self, since: u64) -> Vec<EventJson> {
        let first = self.next - self.events.len() as u64;
        if since.saturating_add(1) < first || since >= self.next {
            return vec![EventJson {
                cursor: Some(self.next - 1),
                ..plain_event(EventKind::Reload)
            }];
        }
        let skip = (since + 1 - first) as usize;
        self.events.iter().skip(skip).cloned().collect()
    }
}

/// Makes an event without contact, note or text.
pub(crate) fn plain_event(kind: EventKind) -> EventJson {
    EventJson { cursor: None, kind, contact: None, note: None, text: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_catches_up_or_reloads() {
        let log = EventLog::new(Time::from_ms(1_000));
        for _ in 0..3 {
            log.push_event(plain_event(EventKind::Card));
        }
        let cursors = |since| {
            let missed = log.listen(Some(since)).missed;
            missed.iter().map(|e| (e.kind, e.cursor)).collect::<Vec<_>>()
        };
        assert_eq!(cursors(1_002), vec![]);
        assert_eq!(cursors(1_001), vec![(EventKind::Card, Some(1_002))]);
        assert_eq!(cursors(999).len(), 3);
        assert_eq!(cursors(7), vec![(EventKind::Reload, Some(1_002))]);
        assert_eq!(cursors(1_003), vec![(EventKind::Reload, Some(1_002))]);
        assert!(log.listen(None).missed.is_empty());
    }

    #[test]
    fn the_ring_is_bounded() {
        let log = EventLog::new(Time::from_ms(0));
        for _ in 0..EVENTS_MAX + 5 {
            log.push_event(plain_event(EventKind::Card));
        }
        assert_eq!(log.lock_ring().events.len(), EVENTS_MAX);
        assert_eq!(log.listen(Some(4)).missed.len(), EVENTS_MAX);
        assert_eq!(log.listen(Some(3)).missed[0].kind, EventKind::Reload);
    }
}
