//! Our mailboxes and published prekeys: open, watch, publish, close.

use alloc::vec::Vec;

use mezza_core::{Backend, Time};
use mezza_ratchet::prekeys::OPK_STOCK;

use super::mailbox::WatchState;
use super::requests::Request;
use super::{
    AGAIN_S, MAILBOX, NO_SUCH_BOX, OwnMailbox, RETRY, Relay, RelayOutput, SLOW_AGAIN_S, SLOW_DOWN,
    timer,
};
use crate::io::{
    CarrierId, ContactId, Ctx, Effects, Event, LeftRelay, MailboxId, News, Places, Publication,
    RecordKind, RelayConnectionId, key32,
};
use crate::relay_wire::MailboxKind;

impl<B: Backend> Relay<B> {
    /// Adds a mailbox. It is opened as soon as its relay is up.
    pub(super) fn add_mailbox(&mut self, mailbox: OwnMailbox, effects: &mut Effects) -> MailboxId {
        let id = MailboxId(self.next_mailbox);
        self.next_mailbox += 1;
        self.mailboxes.insert(id, mailbox);
        self.store_mailbox(id, effects);
        self.store_next(effects);
        self.ask_mailbox(id);
        id
    }

    /// Adds a mailbox for `contact` at our own relay, or returns `None` if we have no relay.
    pub(super) fn mailbox_for(
        &mut self,
        contact: ContactId,
        ctx: &mut Ctx<'_>,
    ) -> Option<MailboxId> {
        let relay = self.own_relay()?.clone();
        self.connect_relay(&relay, None, ctx);
        let mailbox = OwnMailbox::draw::<B>(Some(contact), &relay, ctx.now, ctx.rng);
        Some(self.add_mailbox(mailbox, ctx.effects))
    }

    /// Sends OPEN or WATCH for a mailbox if its relay is up.
    pub(super) fn ask_mailbox(&mut self, id: MailboxId) {
        let Some(mailbox) = self.mailboxes.get(&id) else { return };
        let connection = mailbox.relay.connection_id();
        let request = if mailbox.opened { Request::Watch(id) } else { Request::Open(id) };
        // One request of a kind at a time, so that an answer is never ambiguous.
        if !self.connections.is_up(connection) || self.requests.is_in_flight(request) {
            return;
        }
        let ticket = self.requests.issue_ticket(connection, request);
        let token = mailbox.token.duplicate();
        self.outputs.push_back(if mailbox.opened {
            RelayOutput::Watch { ticket, mailbox: id, connection, token }
        } else {
            let kind = match mailbox.contact {
                Some(_) => MailboxKind::Conversation,
                None => MailboxKind::Intro,
            };
            RelayOutput::Open { ticket, connection, token, kind }
        });
    }

    /// Handles a confirmed OPEN: sends WATCH, and schedules a hello if the contact does not know
    /// the mailbox yet.
    pub(super) fn on_opened(&mut self, id: MailboxId, effects: &mut Effects) {
        let Some(mailbox) = self.mailboxes.get_mut(&id) else { return };
        mailbox.opened = true;
        let contact = mailbox.contact;
        self.store_mailbox(id, effects);
        self.ask_mailbox(id);
        match contact {
            None => self.send_publication(),
            Some(contact) => self.announce_mailbox(contact, id),
        }
    }

    /// Sets the reader of a mailbox after WATCH, or after another connection took over (MSG-90).
    pub(super) fn set_watch(&mut self, id: MailboxId, watch: WatchState, effects: &mut Effects) {
        let Some(mailbox) = self.mailboxes.get_mut(&id) else { return };
        if core::mem::replace(&mut mailbox.watch, watch) != watch {
            effects.show_early(Event::Carrier(CarrierId::RELAY));
        }
        // The other device stopped reading this mailbox, so this device reads it again (MSG-90).
        if watch == WatchState::Nobody {
            self.ask_mailbox(id);
        }
    }

    /// Marks the mailboxes of a lost connection as not watched.
    pub(super) fn mark_unwatched(&mut self, connection: RelayConnectionId) {
        let gone =
            self.mailboxes.values_mut().filter(|own| own.relay.connection_id() == connection);
        gone.for_each(|mailbox| mailbox.watch = WatchState::Nobody);
    }

    /// Counts our mailboxes at a relay: all of them, those read here, and those read by another
    /// device.
    pub(super) fn count_places(&self, connection: RelayConnectionId) -> Places {
        let there = self.mailboxes.values().filter(|own| own.relay.connection_id() == connection);
        let mut places = Places::default();
        for mailbox in there {
            places.all += 1;
            places.here += u32::from(mailbox.watch == WatchState::Here);
            places.elsewhere += u32::from(mailbox.watch == WatchState::Elsewhere);
        }
        places
    }

    /// Returns our mailboxes that remain at a replaced relay. Returns `None` if the card names the
    /// relay, a mailbox there is still in use, or a contact is reached over it.
    pub(super) fn left_at(&self, connection: RelayConnectionId) -> Option<LeftRelay> {
        let there = |own: &&OwnMailbox| own.relay.connection_id() == connection;
        let mut read = 0;
        let mut closing = 0;
        let mut read_until = None;
        let mut closing_until = None;
        for mailbox in self.mailboxes.values().filter(there) {
            // A mailbox in use means that this relay was not left.
            mailbox.retired?;
            read += 1;
            read_until = read_until.max(mailbox.due());
        }
        for mailbox in self.closing.values().filter(there) {
            closing += 1;
            closing_until = closing_until.max(mailbox.due());
        }
        let until = read_until.or(closing_until)?;
        let is_left = !self.connections.is_used(connection);
        is_left.then_some(LeftRelay { read, closing, until })
    }

    /// Announces mailbox `id` to `contact` as its current one.
    pub(super) fn announce_mailbox(&mut self, contact: ContactId, id: MailboxId) {
        // Only the newest mailbox of a contact is named to it.
        if self.peer(contact).is_some_and(|peer| peer.ours == Some(id)) {
            self.news.push_back(News::Greet(contact));
        }
    }

    /// Handles a refused request about one of our mailboxes. Code 1 means that the relay has lost
    /// the mailbox.
    pub(super) fn mailbox_refused(
        &mut self,
        id: MailboxId,
        code: u8,
        retry_s: u16,
        ctx: &mut Ctx<'_>,
    ) {
        // The relay lost an existing mailbox. It is opened again, at a limited rate.
        if code == NO_SUCH_BOX
            && let Some(mailbox) = self.mailboxes.get_mut(&id)
            && mailbox.opened
        {
            let intro = mailbox.is_intro();
            let again = mailbox.is_reopened(ctx.now);
            self.store_mailbox(id, ctx.effects);
            if intro {
                self.report_unpublished();
            }
            if again {
                return self.ask_mailbox(id);
            }
        }
        // The relay is overloaded for a moment and names the time of the next attempt.
        if code == SLOW_DOWN && retry_s > 0 {
            return self.retry_in(u64::from(retry_s).max(SLOW_AGAIN_S), ctx);
        }
        self.try_later(retry_s, ctx);
    }

    /// Schedules a repetition of the requests about our own mailboxes.
    pub(super) fn try_later(&mut self, retry_s: u16, ctx: &mut Ctx<'_>) {
        self.retry_in(AGAIN_S.max(u64::from(retry_s)), ctx);
    }

    fn retry_in(&mut self, wait_s: u64, ctx: &mut Ctx<'_>) {
        let wait_ms = wait_s * Time::SECOND_MS;
        // One time for all mailboxes: the earliest.
        let due = ctx.now.plus_ms(wait_ms);
        self.retry_at = Some(self.retry_at.map_or(due, |earlier| earlier.min(due)));
        ctx.effects.set_timer(timer(RETRY), self.retry_at);
    }

    /// Repeats requests that were refused a while ago.
    pub(super) fn retry_requests(&mut self) {
        self.retry_at = None;
        let unwatched = |own: &OwnMailbox| own.watch == WatchState::Nobody;
        let unwatched = self.mailboxes.iter().filter(|(_, mailbox)| unwatched(mailbox));
        for id in unwatched.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.ask_mailbox(id);
        }
        self.ask_closes(None);
        self.send_publication();
    }

    /// Handles the timer of a mailbox: a contact's mailbox is replaced after 30 days and closed 30
    /// days later.
    pub(super) fn turn_mailbox(&mut self, id: MailboxId, ctx: &mut Ctx<'_>) {
        if self.has_waited(id, ctx.now) {
            return self.on_closed(id, ctx.effects);
        }
        let Some(mailbox) = self.mailboxes.get(&id).or_else(|| self.closing.get(&id)) else {
            return;
        };
        if mailbox.due().is_none_or(|due| due > ctx.now) {
            return ctx.effects.set_timer(timer(MAILBOX | u64::from(id.0)), mailbox.due());
        }
        if mailbox.retired.is_some() {
            return self.close_mailbox(id, ctx);
        }
        self.replace_mailbox(id, ctx);
    }

    /// Retires a mailbox and creates another one for its contact at our current relay.
    pub(super) fn replace_mailbox(&mut self, id: MailboxId, ctx: &mut Ctx<'_>) {
        let Some(mailbox) = self.mailboxes.get_mut(&id) else { return };
        mailbox.retired = Some(ctx.now);
        let contact = mailbox.contact;
        self.store_mailbox(id, ctx.effects);
        // The intro mailbox is named on the card and is replaced with the card only.
        let Some(contact) = contact else { return };
        if let Some(fresh) = self.mailbox_for(contact, ctx) {
            self.update_peer(contact, ctx.effects, |peer| peer.ours = Some(fresh));
        }
    }

    pub(super) fn store_mailbox(&self, id: MailboxId, effects: &mut Effects) {
        if let Some(mailbox) = self.mailboxes.get(&id) {
            effects.put(RecordKind::Mailbox, key32(id.0), mailbox.write());
            effects.set_timer(timer(MAILBOX | u64::from(id.0)), mailbox.due());
        }
    }

    /// Merges a publication into the one that the relay must store. It is kept in the vault until
    /// the relay confirms it.
    pub(super) fn queue_publication(&mut self, newer: Publication, effects: &mut Effects) {
        match &mut self.publication {
            // Several changes before an answer become one publication.
            Some(publication) => publication.merge_newer(newer),
            None => self.publication = Some(newer),
        }
        // A request in flight contains the older content, so its answer must not complete this
        // publication.
        self.requests.take_where(|_, request| *request == Request::Publish);
        if let Some(publication) = &self.publication {
            let value = publication.write();
            effects.put(RecordKind::Prekey, Publication::KEY.into(), value);
        }
        self.send_publication();
    }

    /// Publishes the bundle if there is a new one and the intro mailbox exists.
    pub(super) fn send_publication(&mut self) {
        let Some(publication) = &mut self.publication else { return };
        let intro = self.mailboxes.values().find(|own| {
            own.is_intro() && own.opened && self.connections.is_up(own.relay.connection_id())
        });
        let Some(intro) = intro.filter(|_| !self.requests.is_in_flight(Request::Publish)) else {
            return;
        };
        let connection = intro.relay.connection_id();
        let token = intro.token.duplicate();
        let bundle = publication.bundle.clone();
        let one_time = publication.one_time.clone();
        // Sent once and not stored: repeated later it would offer used keys again (section 8).
        let replace = core::mem::take(&mut publication.replace);
        if replace {
            // The relay deletes its old one-time keys before it stores these.
            self.stock = Some(0);
        }
        let ticket = self.requests.issue_ticket(connection, Request::Publish);
        let output = RelayOutput::Publish { ticket, connection, token, bundle, one_time, replace };
        self.outputs.push_back(output);
    }

    /// Handles a confirmed publication.
    pub(super) fn on_published(&mut self, effects: &mut Effects) {
        if let Some(publication) = self.publication.take() {
            let left = usize::from(self.stock.unwrap_or(0)) + publication.one_time.len();
            // The relay stores no more than a full stock.
            self.stock = Some(left.min(OPK_STOCK) as u16);
        }
        effects.drop_row(RecordKind::Prekey, Publication::KEY.into());
    }

    /// Handles a relay that has lost our bundle: the current prekeys are published again.
    pub(super) fn report_unpublished(&mut self) {
        self.news.push_back(News::Unpublished);
    }
}
