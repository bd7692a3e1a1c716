//! One table of deadlines for a machine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::{Snapshot, Time};

/// Deadlines by key. A key has at most one deadline, which a later
/// [`set_deadline`](Self::set_deadline) replaces.
#[derive(Debug)]
pub struct Timers<K> {
    deadlines: BTreeMap<K, Time>,
    order: BTreeSet<(Time, K)>,
}

crate::snapshot!(struct Timers<K: Snapshot> { deadlines, order });

impl<K: Ord + Clone> Timers<K> {
    /// Sets the deadline of a key; `None` removes it.
    pub fn set_deadline(&mut self, key: K, at: Option<Time>) {
        let before = match at {
            Some(at) => self.deadlines.insert(key.clone(), at),
            None => self.deadlines.remove(&key),
        };
        if let Some(before) = before {
            self.order.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.order.insert((at, key));
        }
    }

    /// Returns the earliest deadline, or `None` if no key has one.
    pub fn next_deadline(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes every key whose deadline is at or before `now`. Returns the keys in the order of
    /// deadline and key.
    pub fn take_due(&mut self, now: Time) -> Vec<K> {
        core::iter::from_fn(|| self.take_first(now)).collect()
    }

    /// Removes and returns the first key whose deadline is at or before `now`.
    pub fn take_first(&mut self, now: Time) -> Option<K> {
        self.next_deadline().filter(|at| *at <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.deadlines.remove(&key);
        Some(key)
    }
}

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self { deadlines: BTreeMap::new(), order: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_deadline_and_is_taken_once_in_order() {
        let mut timers = Timers::default();
        let at = Time::from_ms;
        for (key, ms) in [('c', 5), ('a', 7), ('b', 5), ('d', 9)] {
            timers.set_deadline(key, Some(at(ms)));
        }
        timers.set_deadline('a', Some(at(3)));
        timers.set_deadline('d', None);
        timers.set_deadline('e', None);
        assert_eq!(timers.next_deadline(), Some(at(3)));
        assert!(timers.take_due(at(2)).is_empty());
        assert_eq!(timers.take_due(at(5)), ['a', 'b', 'c']);
        assert_eq!((timers.next_deadline(), timers.take_due(at(100)).len()), (None, 0));
    }
}
