//! The relay as the device sees it: own mailboxes, connections, requests in flight.

use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, DecodeError, PublicKey, Reader, Secret, StaticKey, Time, Wiping, Writer,
};
use mezza_ratchet::OneTimePrekey;

use crate::card::RelayEntry;
use crate::carriers::CarrierCaps;
use crate::contact::flag;
use crate::io::{ContactId, LineId, MailboxId, RequestId};
use crate::relay_wire::{MailboxAddress, MailboxKind};

/// What the driver tells the device of its relays.
pub enum RelayInput {
    /// Mail lies in one of our mailboxes. `mail` is the driver's own number, given back in
    /// [`RelayOutput::Acknowledge`].
    Mail {
        /// The mailbox.
        mailbox: MailboxId,
        /// The driver's number of this mail.
        mail: u64,
        /// The envelope.
        envelope: Vec<u8>,
    },
    /// A relay connection stands.
    Up {
        /// Which connection.
        line: LineId,
        /// Its protection level, 1 to 4.
        level: u8,
        /// Whether it runs as a demonstration on one machine and so protects nothing.
        demo: bool,
    },
    /// A relay connection is gone; tickets in flight on it are void.
    Down {
        /// Which connection.
        line: LineId,
    },
    /// The carrier took it: relay DONE 0.
    Done {
        /// Of which request.
        ticket: RequestId,
    },
    /// The carrier did not take it: relay DONE with another code.
    Refused {
        /// Of which request.
        ticket: RequestId,
        /// The relay's code, 1 to 5.
        code: u8,
        /// When to try again, seconds (codes 2 and 4).
        retry_s: u16,
    },
    /// The answer to [`RelayOutput::Fetch`].
    Bundle {
        /// Of which request.
        ticket: RequestId,
        /// The bundle as the relay gave it.
        bytes: Vec<u8>,
        /// A one-time key, if one was left.
        one_time: Option<OneTimePrekey>,
    },
    /// One-time keys left at the relay.
    Stock {
        /// Which connection.
        line: LineId,
        /// How many.
        left: u16,
    },
}

/// What the device asks of a relay.
pub enum RelayOutput {
    /// Keep a connection to this relay from now on, at this host and port alone.
    Connect {
        /// Which (its `address` is not used here).
        relay: RelayEntry,
    },
    /// This relay is not needed any more.
    Disconnect {
        /// Which connection.
        line: LineId,
    },
    /// Put an envelope into somebody's mailbox; answered by `Done` or `Refused`.
    Put {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The mailbox.
        address: MailboxAddress,
        /// How long the relay shall keep it.
        ttl_h: u16,
        /// The envelope, one of the six sizes.
        envelope: Vec<u8>,
    },
    /// Open an own mailbox; answered by `Done` or `Refused`.
    Open {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The mailbox's secret.
        token: Secret<32>,
        /// What it is for.
        kind: MailboxKind,
    },
    /// Close an own mailbox; answered by `Done` or `Refused`.
    Close {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The mailbox's secret.
        token: Secret<32>,
    },
    /// Have mail of an own mailbox delivered as `Mail`; not answered unless refused.
    Watch {
        /// Names the request.
        ticket: RequestId,
        /// The mailbox's number here.
        mailbox: MailboxId,
        /// Which connection.
        line: LineId,
        /// The mailbox's secret.
        token: Secret<32>,
    },
    /// Put the own prekey bundle up; answered by `Done` or `Refused`.
    Publish {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The intro mailbox's secret.
        token: Secret<32>,
        /// The bundle.
        bundle: Vec<u8>,
        /// One-time keys beside it.
        one_time: Vec<OneTimePrekey>,
        /// Whether the old stock goes first.
        replace: bool,
    },
    /// Get a contact's bundle; answered by `Bundle` or `Refused`.
    Fetch {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The contact's intro mailbox.
        address: MailboxAddress,
    },
    /// The mail is dealt with: the relay may forget it.
    Acknowledge {
        /// The mailbox it came from.
        mailbox: MailboxId,
        /// The driver's number of the mail.
        mail: u64,
    },
}

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
