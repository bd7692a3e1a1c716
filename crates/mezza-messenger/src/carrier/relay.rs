//! The relay as the device sees it: own mailboxes, connections, requests in flight.

use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, DecodeError, PublicKey, Reader, Secret, StaticKey, Time, Wiping, Writer,
};
use mezza_ratchet::OneTimePrekey;

use crate::card::RelayEntry;
use crate::carrier::CarrierCaps;
use crate::contact::flag;
use crate::io::{ContactId, MailboxId};
use crate::relay_wire::MailboxAddress;

/// Version of the stored form.
const VERSION: u8 = 1;
/// A conversation mailbox is replaced after this time, and closed as much later.
pub(crate) const SLOT_LIFE_MS: u64 = 30 * Time::DAY_MS;

/// One of our own mailboxes.
pub(crate) struct Mailbox {
    /// Who writes here; `None`: strangers (the intro mailbox).
    pub contact: Option<ContactId>,
    /// The relay, with the address of this mailbox.
    pub relay: RelayEntry,
    pub token: Secret<32>,
    /// The key of the envelopes; the intro mailbox uses the signed prekeys instead.
    pub seal: StaticKey,
    pub made: Time,
    /// Whether the relay said that it exists.
    pub opened: bool,
    /// When another mailbox took its place.
    pub retired: Option<Time>,
}

impl Mailbox {
    /// A fresh mailbox at `relay`, not opened yet.
    pub fn draw<B: Backend>(
        contact: Option<ContactId>,
        relay: &RelayEntry,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let token = Secret::random(rng);
        let relay = RelayEntry { address: MailboxAddress::of(&token), ..relay.clone() };
        let seal = StaticKey::random::<B>(rng);
        Self { contact, relay, token, seal, made: now, opened: false, retired: None }
    }

    /// The stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(224 + self.relay.host.len());
        w.u8(VERSION).u32(self.contact.map_or(0, |contact| contact.0));
        self.relay.write(&mut w);
        w.bytes(self.token.expose())
            .bytes(self.seal.scalar().expose())
            .bytes(&self.seal.public().0);
        w.u64(self.made.ms()).u8(u8::from(self.opened)).u64(self.retired.map_or(0, Time::ms));
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let contact = Some(r.u32()?).filter(|id| *id != 0).map(ContactId);
            let relay = RelayEntry::read(r)?;
            let token = Secret::read(r)?;
            let scalar = Secret::read(r)?;
            let seal = StaticKey::from_stored(scalar, PublicKey::read(r)?);
            let (made, opened) = (Time::from_ms(r.u64()?), flag(r)?);
            let retired = Some(r.u64()?).filter(|ms| *ms != 0).map(Time::from_ms);
            Ok(Self { contact, relay, token, seal, made, opened, retired })
        })
    }
}

/// A bundle and one-time keys on their way to the relay; stored until the relay has them.
#[derive(Debug)]
pub(crate) struct PrekeyUpload {
    pub bundle: Vec<u8>,
    pub one_time: Vec<OneTimePrekey>,
    /// Whether the old stock goes first. Said once and not stored: were it repeated after a crash,
    /// the relay would give out again what it gave out in between.
    pub replace: bool,
}

impl PrekeyUpload {
    /// Joins a newer announcement: the newer bundle counts; keys that a replacement drops go.
    pub fn join(&mut self, newer: Self) {
        self.bundle = newer.bundle;
        if newer.replace {
            self.replace = true;
            self.one_time.clear();
        }
        self.one_time.extend(newer.one_time);
    }

    /// The stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(8 + self.bundle.len() + 36 * self.one_time.len());
        w.u8(VERSION).var16(&self.bundle);
        w.u16(self.one_time.len() as u16);
        for one_time in &self.one_time {
            w.bytes(&one_time.encode());
        }
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let bundle = r.var16()?.to_vec();
            let mut one_time = Vec::new();
            for _ in 0..r.u16()? {
                one_time.push(OneTimePrekey::decode(r.bytes(36)?)?);
            }
            Ok(Self { bundle, one_time, replace: false })
        })
    }
}

/// A relay that we use, ours or a contact's.
pub(crate) struct RelayState {
    pub entry: RelayEntry,
    /// What it can do; `None` while no connection stands.
    pub up: Option<CarrierCaps>,
    /// Parcels out on this connection.
    pub in_flight: usize,
    /// When it was needed last.
    pub used: Time,
}

/// What a ticket stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingRequest {
    Parcel(u64),
    Open(MailboxId),
    Close(MailboxId),
    Watch(MailboxId),
    Publish,
    /// A bundle, to begin a session.
    Fetch(ContactId),
    /// A bundle, for an invitation.
    Hold(ContactId),
}

impl PendingRequest {
    /// Whose bundle it asks for, and whether for later.
    pub const fn bundle(self) -> Option<(ContactId, bool)> {
        match self {
            Self::Fetch(contact) => Some((contact, false)),
            Self::Hold(contact) => Some((contact, true)),
            _ => None,
        }
    }
}
