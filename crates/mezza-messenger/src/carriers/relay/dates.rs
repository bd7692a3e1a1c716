//! Relays after a correction of the date (MSG-104).

use alloc::vec::Vec;

use mezza_core::{Backend, Time};

use super::{FETCH, IDLE, MAILBOX, RETRY, Relay, timer};
use crate::io::{Ctx, DateStep, MailboxId, RecordKind, key32};

impl<B: Backend> Relay<B> {
    /// Moves the ages of our mailboxes and all waiting times with the date.
    pub(super) fn correct_dates(&mut self, date: &DateStep, ctx: &mut Ctx<'_>) {
        for id in self.mailboxes.keys().copied().collect::<Vec<MailboxId>>() {
            if self
                .mailboxes
                .get_mut(&id)
                .is_some_and(|mailbox| mailbox.apply_date_step(date, ctx.now))
            {
                self.store_mailbox(id, ctx.effects);
            }
        }
        for (id, own) in &mut self.closing {
            if own.apply_date_step(date, ctx.now) {
                ctx.effects.put(RecordKind::Mailbox, key32(id.0), own.write());
                ctx.effects.set_timer(timer(MAILBOX | u64::from(id.0)), own.due());
            }
        }
        self.retry_at = self.retry_at.map(|retry| date.shift_running(retry));
        ctx.effects.set_timer(timer(RETRY), self.retry_at);
        // A default time means "never" and does not move with the date.
        for (id, peer) in self.peers.iter_mut().filter(|(_, p)| p.fetch_after != Time::default()) {
            peer.fetch_after = date.shift_running(peer.fetch_after);
            ctx.effects.set_timer(timer(FETCH | u64::from(id.0)), Some(peer.fetch_after));
        }
        self.connections.apply_date_step(date);
        ctx.effects.set_timer(timer(IDLE), self.connections.next_idle(|relay| self.is_own(relay)));
    }
}
