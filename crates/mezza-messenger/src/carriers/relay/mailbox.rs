//! One of our own mailboxes.

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
/// A conversation mailbox is replaced after this time, and closed as much later.
const LIFE_MS: u64 = 30 * Time::DAY_MS;
/// A mailbox that was given up waits so long for its relay, which loses unused ones by then itself.
const CLOSING_MS: u64 = 90 * Time::DAY_MS;
/// Version of the stored form of one that was given up.
const CLOSING: u8 = 2;
/// A relay that loses a mailbox again and again has it opened anew this often, at most.
const REOPEN_EVERY_MS: u64 = Time::MINUTE_MS;

/// One of our own mailboxes.
pub(crate) struct OwnMailbox {
    /// The contact who writes here; `None` for unknown senders (the intro mailbox).
    pub contact: Option<ContactId>,
    /// The relay, with the address of this mailbox.
    pub relay: RelayEntry,
    pub token: Secret<32>,
    /// The key of the envelopes; the intro mailbox uses the signed prekeys instead.
    pub seal: StaticKey,
    pub made: Time,
    /// True if the relay said that it exists.
    pub opened: bool,
    /// When another mailbox took its place.
    pub retired: Option<Time>,
    /// True if it was given up, and its relay has to close it.
    pub closing: bool,
    // Not stored: a restart watches anew.
    /// Whose connection its mail comes to.
    pub watch: WatchState,
    /// When it was opened anew last because its relay had lost it.
    pub reopened: Option<Time>,
}

snapshot!(struct OwnMailbox {
    contact, relay, token, seal, made, opened, retired, closing, watch, reopened,
});

/// Whose connection the mail of a mailbox comes to, by the word of its relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// Nobody's: it was not asked for, or not answered yet.
    #[default]
    Nobody,
    /// Ours.
    Here,
    /// Watched by another device with the same vault.
    Elsewhere,
}

snapshot!(enum WatchState [Nobody, Here, Elsewhere]);

impl OwnMailbox {
    /// A fresh mailbox at `relay`, not opened yet.
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

    /// Returns true if strangers write here, and no other one took its place.
    pub fn is_intro(&self) -> bool {
        self.contact.is_none() && self.retired.is_none()
    }

    /// When it is replaced, or closed; the intro mailbox stays as long as it is on the card.
    pub fn due(&self) -> Option<Time> {
        let since = self.retired.or_else(|| self.contact.map(|_| self.made));
        since.map(|since| since.plus_ms(if self.closing { CLOSING_MS } else { LIFE_MS }))
    }

    /// Nothing is read from it any more.
    pub fn give_up(&mut self, now: Time) {
        (self.closing, self.retired, self.watch) = (true, Some(now), WatchState::Nobody);
    }

    /// Its relay has lost it; whether it is opened anew at once.
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

    /// The date was corrected; whether its row changes.
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
