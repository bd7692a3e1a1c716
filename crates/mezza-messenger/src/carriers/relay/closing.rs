//! Mailboxes that are given up: the token is stored until the relay has confirmed CLOSE (MSG-125).
//!
//! ```text
//! contact removed, mailbox replaced -close-> row stays, marked -Up-> CLOSE -0 or 1-> row goes
//!                                                 90 days without a relay -----------> row goes
//! ```

use alloc::vec::Vec;

use mezza_core::{Backend, Time};

use super::requests::Request;
use super::{MAILBOX, OwnMailbox, Relay, RelayOutput, timer};
use crate::io::{Ctx, Effects, MailboxId, RecordKind, RelayConnectionId, key32};

/// Most mailboxes that wait for CLOSE. Above this number the oldest one is dropped.
const CLOSING_MAX: usize = 1_024;

impl<B: Backend> Relay<B> {
    /// Gives a mailbox up: its mail is not read any more, and CLOSE is sent to its relay.
    pub(super) fn close_mailbox(&mut self, id: MailboxId, ctx: &mut Ctx<'_>) {
        let Some(mut mailbox) = self.mailboxes.remove(&id) else { return };
        // A contact whose mailbox could not be replaced, because there was no relay then, gets
        // another one later.
        if let Some(owner) = mailbox.contact.take()
            && self.peer(owner).is_some_and(|peer| peer.ours == Some(id))
        {
            self.update_peer(owner, ctx.effects, |peer| peer.ours = None);
        }
        // OPEN was never sent, so the relay has nothing to close.
        if !mailbox.opened && !self.requests.is_in_flight(Request::Open(id)) {
            return Self::drop_mailbox(id, ctx.effects);
        }
        // The oldest token is dropped, because relays delete unused mailboxes themselves.
        if self.closing.len() >= CLOSING_MAX
            && let Some((oldest, _)) = self.closing.pop_first()
        {
            Self::drop_mailbox(oldest, ctx.effects);
        }
        mailbox.give_up(ctx.now);
        ctx.effects.put(RecordKind::Mailbox, key32(id.0), mailbox.write());
        ctx.effects.set_timer(timer(MAILBOX | u64::from(id.0)), mailbox.due());
        self.closing.insert(id, mailbox);
        self.ask_close(id);
    }

    /// Sends CLOSE if the relay is up.
    fn ask_close(&mut self, id: MailboxId) {
        let Some(mailbox) = self.closing.get(&id) else { return };
        let connection = mailbox.relay.connection_id();
        // The request is sent once the relay is up.
        if !self.connections.is_up(connection) || self.requests.is_in_flight(Request::Close(id)) {
            return;
        }
        let ticket = self.requests.issue_ticket(connection, Request::Close(id));
        let token = mailbox.token.duplicate();
        self.outputs.push_back(RelayOutput::Close { ticket, connection, token });
    }

    /// Sends CLOSE for each mailbox that was given up, at one relay or at all relays.
    pub(super) fn ask_closes(&mut self, connection: Option<RelayConnectionId>) {
        let there = |own: &OwnMailbox| connection.is_none_or(|at| own.relay.connection_id() == at);
        let all = self.closing.iter().filter(|(_, own)| there(own)).map(|(id, _)| *id);
        for id in all.collect::<Vec<_>>() {
            self.ask_close(id);
        }
    }

    /// Drops a mailbox that its relay has closed, does not know, or did not answer for 90 days.
    pub(super) fn on_closed(&mut self, id: MailboxId, effects: &mut Effects) {
        let Some(mailbox) = self.closing.remove(&id) else { return };
        Self::drop_mailbox(id, effects);
        self.leave_relay(&mailbox.relay);
    }

    /// Returns true if a mailbox that was given up has waited 90 days for its relay.
    pub(super) fn has_waited(&self, id: MailboxId, now: Time) -> bool {
        let closing = self.closing.get(&id);
        closing.and_then(OwnMailbox::due).is_some_and(|due| due <= now)
    }

    fn drop_mailbox(id: MailboxId, effects: &mut Effects) {
        effects.drop_row(RecordKind::Mailbox, key32(id.0));
        effects.set_timer(timer(MAILBOX | u64::from(id.0)), None);
    }
}
