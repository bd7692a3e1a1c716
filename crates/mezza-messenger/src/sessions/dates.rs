//! Sessions after a correction of the date (MSG-104).
//!
//! Prekeys, bundles and the keys of the ratchet keep their dates. Other devices use the dates that
//! they were given, so these keys must end at the same time.

use alloc::vec::Vec;

use mezza_core::{Backend, Time};

use super::Sessions;
use crate::io::{ContactId, DateStep, Due, Effects, RecordKind, key64};

impl<B: Backend> Sessions<B> {
    /// Moves waiting times and rate limits with the date, and the end of messages that no session
    /// opened.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time, effects: &mut Effects) {
        self.nameless.apply_date_step(date);
        self.offers.apply_date_step(date);
        for id in self.peers.keys().copied().collect::<Vec<ContactId>>() {
            self.set_renewal(id, effects, |renewal| {
                renewal.last_reset = date.shift_moment(renewal.last_reset, now);
            });
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.begins.apply_date_step(date);
            peer.own_begins.apply_date_step(date);
        }
        for (key, kept) in &mut self.undecrypted {
            let at = date.shift_moment(kept.at, now);
            if at != kept.at {
                kept.at = at;
                effects.put(RecordKind::Held, key64(*key), kept.write());
                effects.set_timer(Due::Undecrypted(*key), Some(kept.due()));
            }
        }
    }
}
