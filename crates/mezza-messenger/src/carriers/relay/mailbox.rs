//! The stored state of one of our mailboxes.

use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, DecodeError, PublicKey, Reader, Secret, StaticKey, Time, Wiping, Writer,
    snapshot,
};

use crate::card::RelayEntry;
use crate::io::{ContactId, DateStep, read_flag};
use crate::relay_wire::MailboxAddress;

/// Version of the stored form.
const VERSION: u8 = 1;
/// Milliseconds after which a conversation mailbox is replaced. It is closed after the same time
/// again.
const LIFE_MS: u64 = 30 * Time::DAY_MS;
/// Milliseconds that a mailbox that was given up waits for its relay. By then relays delete unused
/// mailboxes themselves.
const CLOSING_MS: u64 = 90 * Time::DAY_MS;
/// Version of the stored form of a mailbox that was given up.
const CLOSING: u8 = 2;
/// Shortest time in milliseconds between two reopenings of a mailbox that its relay keeps losing.
const REOPEN_EVERY_MS: u64 = Time::MINUTE_MS;

/// One of our mailboxes at a relay.
pub(crate) struct OwnMailbox {
    /// The contact who writes here; `None` for unknown senders (the intro mailbox).
    pub contact: Option<ContactId>,
    /// The relay, with the address of this mailbox.
    pub relay: RelayEntry,
    pub token: Secret<32>,
    /// The key of the envelopes; the intro mailbox uses the signed prekeys instead.
    pub seal: StaticKey,
    pub made: Time,
    /// True if the relay confirmed the mailbox.
    pub opened: bool,
    /// Time of its replacement by another mailbox.
    pub retired: Option<Time>,
    /// True if the mailbox was given up and waits for CLOSE.
    pub closing: bool,
    // Not stored: after a restart the mailbox is watched again.
    /// The reader of the mailbox.
    pub watch: WatchState,
    /// Time of the last reopening after the relay had lost the mailbox.
    pub reopened: Option<Time>,
}

snapshot!(struct OwnMailbox {
    contact, relay, token, seal, made, opened, retired, closing, watch, reopened,
});

/// The device that reads a mailbox, as the relay reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// No device, because WATCH was not sent or not answered.
    #[default]
    Nobody,
    /// This device.
    Here,
    /// Another device with the same vault.
    Elsewhere,
}

snapshot!(enum WatchState [Nobody, Here, Elsewhere]);

impl OwnMailbox {
    /// Creates a mailbox at `relay` with fresh secrets; it is not opened yet.
    pub fn draw<B: Backend>(
        contact: Option<ContactId>,
        relay: &RelayEntry,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let token = Secret::random(rng);
        let relay = RelayEntry { address: MailboxAddress::from_token(&token), ..relay.clone() };
        let seal = StaticKey::random::<B>(rng);
        Self {
            contact,
            relay,
            token,
            seal,
            made: now,
            opened: false,
            retired: None,
            closing: false,
            watch: WatchState::Nobody,
            reopened: None,
        }
    }

    /// Returns true if unknown senders write to this mailbox, and no other one has replaced it.
    pub fn is_intro(&self) -> bool {
        self.contact.is_none() && self.retired.is_none()
    }

    /// Returns the time at which the mailbox is replaced or closed, or `None` for the intro mailbox
    /// on the card.
    pub fn due(&self) -> Option<Time> {
        let since = self.retired.or_else(|| self.contact.map(|_| self.made));
        since.map(|since| since.plus_ms(if self.closing { CLOSING_MS } else { LIFE_MS }))
    }

    /// Gives the mailbox up: its mail is not read any more, and CLOSE is sent when the relay is up.
    pub fn give_up(&mut self, now: Time) {
        (self.closing, self.retired, self.watch) = (true, Some(now), WatchState::Nobody);
    }

    /// Handles the report that the relay lost the mailbox. Returns true if it is opened again at
    /// once.
    pub fn is_reopened(&mut self, now: Time) -> bool {
        self.opened = false;
        // A time in the future comes from a clock that was ahead, and delays nothing.
        let rests = |at: Time| now >= at && now.since_ms(at) < REOPEN_EVERY_MS;
        let again = !self.reopened.is_some_and(rests);
        if again {
            self.reopened = Some(now);
        }
        again
    }

    /// Moves the stored times after a correction of the date. Returns true if the row changes.
    pub fn apply_date_step(&mut self, date: &DateStep, now: Time) -> bool {
        let before = (self.made, self.retired);
        self.made = date.shift_moment(self.made, now);
        self.retired = self.retired.map(|retired| date.shift_moment(retired, now));
        self.reopened = self.reopened.map(|reopened| date.shift_running(reopened));
        before != (self.made, self.retired)
    }

    /// The stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(224 + self.relay.host.len());
        let version = if self.closing { CLOSING } else { VERSION };
        w.put_u8(version).put_u32(self.contact.map_or(0, |contact| contact.0));
        self.relay.write(&mut w);
        w.put_bytes(self.token.expose())
            .put_bytes(self.seal.scalar().expose())
            .put_bytes(&self.seal.public_key().0);
        w.put_u64(self.made.as_ms())
            .put_u8(u8::from(self.opened))
            .put_u64(self.retired.map_or(0, Time::as_ms));
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            let closing = match r.read_u8()? {
                VERSION => false,
                CLOSING => true,
                _ => return Err(DecodeError::Value),
            };
            let contact = Some(r.read_u32()?).filter(|id| *id != 0).map(ContactId);
            let relay = RelayEntry::read(r)?;
            let token = Secret::read_from(r)?;
            let scalar = Secret::read_from(r)?;
            let seal = StaticKey::from_stored(scalar, PublicKey::read_from(r)?);
            let made = Time::from_ms(r.read_u64()?);
            let opened = read_flag(r)?;
            let retired = Some(r.read_u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            let watch = WatchState::Nobody;
            let reopened = None;
            Ok(Self {
                contact,
                relay,
                token,
                seal,
                made,
                opened,
                retired,
                closing,
                watch,
                reopened,
            })
        })
    }
}
