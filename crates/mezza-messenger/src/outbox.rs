//! What is on its way out: ratchet messages that no carrier has taken yet.
//!
//! ```text
//! note: queued -choose, Store-> parcel ready -Put-> out -Handed-> (parcel dropped, a fact kept)
//!                                   ^------- Down, Refused(2, 4) -----'
//! ```
//!
//! A parcel is stored before it leaves, and the same bytes leave again after a crash; the envelope
//! around them is made anew each time (MSG-16, MSG-17).

use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Time, Wiping, Writer};

use crate::card::RelayEntry;
use crate::carriers::CarrierId;
use crate::contact::flag;
use crate::evidence::WaitReason;
use crate::io::{ContactId, NoteId, RequestId};

/// Version of the stored form.
const VERSION: u8 = 2;
/// The ways in the stored form.
const RELAY: u8 = CarrierId::RELAY.number();
const MIXNET: u8 = CarrierId::MIXNET.number();
const INVITATION: u8 = 0x80;
/// The level stands in the same byte, in three bits from this one on.
const LEVEL_AT: u8 = 4;
const LEVEL_MAX: u8 = 7;
/// First byte of a parcel that holds a ratchet message (messenger 3.5).
pub(crate) const RATCHET_MESSAGE: u8 = 0x01;
/// Notes that wait for one contact (MSG-35).
pub(crate) const OUTBOX_MAX: usize = 1_000;
/// Parcels out on one relay connection at once (MSG-35).
pub(crate) const IN_FLIGHT_MAX: usize = 8;
/// Notes handed over before the first answer of a contact.
pub(crate) const UNANSWERED_MAX: usize = 8;
/// How long a relay keeps mail.
pub(crate) const RELAY_KEEPS_MS: u64 = 30 * Time::DAY_MS;

/// By which carrier a parcel goes, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Into a mailbox.
    Relay(Destination),
    /// Into cells.
    Mixnet,
    /// Into the bucket of somebody who can be reached in no other way, again and again until this
    /// time, when the prekey inside ends.
    Invitation(Time),
}

impl Route {
    pub const fn carrier(&self) -> CarrierId {
        match self {
            Self::Relay(_) => CarrierId::RELAY,
            Self::Mixnet | Self::Invitation(_) => CarrierId::MIXNET,
        }
    }

    /// Whether it is an invitation.
    pub const fn is_invitation(&self) -> bool {
        matches!(self, Self::Invitation(_))
    }

    /// The mailbox, if it is one.
    pub const fn place(&self) -> Option<&Destination> {
        match self {
            Self::Relay(place) => Some(place),
            Self::Mixnet | Self::Invitation(_) => None,
        }
    }

    /// Whether it goes by the connection to this relay.
    pub fn is_at(&self, relay: &RelayEntry) -> bool {
        self.place().is_some_and(|place| place.relay.shares_line(relay))
    }

    /// Until when the other side can open it; `None`: there is no end.
    pub fn until(&self) -> Option<Time> {
        match self {
            Self::Relay(place) => Some(place.until),
            Self::Invitation(until) => Some(*until),
            Self::Mixnet => None,
        }
    }
}

/// A mailbox of the contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub relay: RelayEntry,
    /// The key of the envelope.
    pub seal: PublicKey,
    /// Until when the other side can open it.
    pub until: Time,
    /// Whether it goes to the intro mailbox.
    pub intro: bool,
}

/// A ratchet message that no carrier has taken yet.
pub(crate) struct Parcel {
    pub contact: ContactId,
    /// The note inside, if a person wrote one.
    pub note: Option<NoteId>,
    pub way: Route,
    /// The level by which the cause came of what no person wrote; it leaves by none below. 0: it
    /// has no such cause.
    pub level: u8,
    /// `01 | ratchet message`.
    pub bytes: Vec<u8>,
    // Not stored: a restart begins with nothing out.
    pub ticket: Option<RequestId>,
    pub after: Time,
    pub why: WaitReason,
    /// How often the carrier took it.
    pub times: u8,
}

impl Parcel {
    /// A parcel that is ready to leave.
    pub fn new(contact: ContactId, note: Option<NoteId>, way: Route, bytes: Vec<u8>) -> Self {
        let (ticket, after, why) = (None, Time::default(), WaitReason::Sending);
        Self { contact, note, way, level: 0, bytes, ticket, after, why, times: 0 }
    }

    /// The stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let host = self.way.place().map_or(0, |place| place.relay.host.len());
        let mut w = Writer::with_capacity(160 + host + self.bytes.len());
        w.u8(VERSION).u32(self.contact.0).u64(self.note.map_or(0, |note| note.0));
        let level = self.level << LEVEL_AT;
        match &self.way {
            Route::Relay(place) => {
                w.u8(RELAY | level);
                place.relay.write(&mut w);
                w.bytes(&place.seal.0).u64(place.until.ms()).u8(u8::from(place.intro));
            }
            Route::Mixnet => {
                w.u8(MIXNET | level);
            }
            Route::Invitation(until) => {
                w.u8(INVITATION).u64(until.ms());
            }
        }
        w.var16(&self.bytes);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let contact = ContactId(r.u32()?);
            let note = Some(r.u64()?).filter(|note| *note != 0).map(NoteId);
            let number = r.u8()?;
            let level = number >> LEVEL_AT & LEVEL_MAX;
            let way = match number & !(LEVEL_MAX << LEVEL_AT) {
                RELAY => {
                    let relay = RelayEntry::read(r)?;
                    let (seal, until) = (PublicKey::read(r)?, Time::from_ms(r.u64()?));
                    Route::Relay(Destination { relay, seal, until, intro: flag(r)? })
                }
                MIXNET => Route::Mixnet,
                INVITATION => Route::Invitation(Time::from_ms(r.u64()?)),
                _ => return Err(DecodeError::Value),
            };
            Ok(Self { level, ..Self::new(contact, note, way, r.var16()?.to_vec()) })
        })
    }
}
