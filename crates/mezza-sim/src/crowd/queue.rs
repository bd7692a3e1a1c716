//! Events in order of time: a wheel of short buckets, and a heap for distant events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{DeviceId, Event};

/// Bits of a time within one bucket: 512 µs.
const BUCKET_BITS: u32 = 9;
/// Buckets of the wheel: 4.2 s.
const BUCKETS: u64 = 8_192;

/// Time, order of pushing, event and device: simultaneous events come in the order of pushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u64,
    /// The push number shifted by one, and in the lowest bit 1 for the end of a transmission.
    order: u64,
    device: DeviceId,
}

/// A queue of events.
#[derive(Debug)]
pub struct Queue {
    /// The bucket from which `current` was filled.
    bucket: u64,
    /// The remaining events of that bucket, in reverse order of time.
    current: Vec<Entry>,
    wheel: Vec<Vec<Entry>>,
    /// One bit for each bucket that is not empty.
    filled: Vec<u64>,
    far: BinaryHeap<Reverse<Entry>>,
    pushed: u64,
}

impl Queue {
    /// Makes an empty queue; no event before `now` may be pushed.
    pub fn new(now: u64) -> Self {
        Self {
            bucket: now >> BUCKET_BITS,
            current: Vec::new(),
            wheel: (0..BUCKETS).map(|_| Vec::new()).collect(),
            filled: vec![0; BUCKETS as usize / 64],
            far: BinaryHeap::new(),
            pushed: 0,
        }
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push_event(&mut self, at: u64, event: Event, device: DeviceId) {
        let order = self.pushed << 1 | u64::from(matches!(event, Event::Sent));
        self.pushed += 1;
        let entry = Entry { at, order, device };
        let bucket = at >> BUCKET_BITS;
        if bucket <= self.bucket {
            let place = self.current.partition_point(|held| *held > entry);
            self.current.insert(place, entry);
        } else if bucket - self.bucket < BUCKETS {
            let place = (bucket % BUCKETS) as usize;
            self.wheel[place].push(entry);
            self.filled[place / 64] |= 1 << (place % 64);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Removes the first event if its time is `end` or earlier.
    #[inline]
    pub(super) fn pop_until(&mut self, end: u64) -> Option<(u64, Event, DeviceId)> {
        loop {
            if let Some(entry) = self.current.last().copied() {
                if entry.at > end {
                    return None;
                }
                self.current.pop();
                let event = if entry.order & 1 == 1 { Event::Sent } else { Event::Wake };
                return Some((entry.at, event, entry.device));
            }
            if !self.next_bucket(end >> BUCKET_BITS) {
                return None;
            }
        }
    }

    /// Advances to the next bucket with events, if there is one up to `last`.
    fn next_bucket(&mut self, last: u64) -> bool {
        let far = self.far.peek().map(|Reverse(entry)| entry.at >> BUCKET_BITS);
        let near = self.next_filled();
        let Some(next) = [far, near].into_iter().flatten().min().filter(|next| *next <= last)
        else {
            return false;
        };
        self.bucket = next;
        let place = (next % BUCKETS) as usize;
        if near == Some(next) {
            std::mem::swap(&mut self.current, &mut self.wheel[place]);
            self.filled[place / 64] &= !(1 << (place % 64));
        }
        while let Some(Reverse(entry)) = self.far.peek().copied()
            && entry.at >> BUCKET_BITS == next
        {
            self.far.pop();
            self.current.push(entry);
        }
        self.current.sort_unstable_by_key(|entry| Reverse(*entry));
        true
    }

    /// Returns the next bucket of the wheel that is not empty.
    fn next_filled(&self) -> Option<u64> {
        let groups = self.filled.len();
        let start = ((self.bucket + 1) % BUCKETS) as usize;
        for step in 0..=groups {
            let group = (start / 64 + step) % groups;
            let mut bits = self.filled[group];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == groups {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let place = (64 * group) as u64 + u64::from(bits.trailing_zeros());
                let ahead = (place + BUCKETS - start as u64) % BUCKETS;
                return Some(self.bucket + 1 + ahead);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimRng;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_pushing() {
        let mut dice = SimRng::new(4, 0);
        let mut queue = Queue::new(1_000);
        let mut now = 1_000;
        let mut popped = Vec::new();
        let mut pushed = Vec::new();
        for round in 0..2_000_u32 {
            for _ in 0..dice.between(0, 3) {
                let reach = [30, 3_000, 900_000, 30_000_000][dice.between(0, 3) as usize];
                let at = now + dice.between(0, reach);
                pushed.push((at, pushed.len() as u32));
                queue.push_event(at, Event::Wake, pushed.len() as u32 - 1);
            }
            let end = now + dice.between(0, 40_000);
            while let Some((at, _, device)) = queue.pop_until(end) {
                assert!(at >= now && at <= end, "round {round}");
                now = at;
                popped.push((at, device));
            }
            now = end;
        }
        while let Some((at, _, device)) = queue.pop_until(u64::MAX) {
            popped.push((at, device));
        }
        pushed.sort_unstable();
        assert_eq!(popped, pushed);
    }
}
