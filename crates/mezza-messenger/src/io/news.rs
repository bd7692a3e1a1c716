//! Events of a carrier for the device.

use alloc::vec::Vec;

use mezza_core::{Time, Wiping, snapshot};
use mezza_ratchet::OneTimePrekey;

use super::{CarrierId, ContactId, ParcelId};
use crate::evidence::WaitReason;

/// Events of a carrier for the device.
pub enum News {
    /// A parcel came.
    Arrived(Arrival),
    /// The carrier took a parcel; `again`: it is an invitation, and goes again then.
    Handed {
        /// Which.
        parcel: ParcelId,
        /// When it goes again.
        again: Option<Time>,
    },
    /// The medium of the carrier has a parcel, and so many others announce it.
    Carried {
        /// Which.
        parcel: ParcelId,
        /// How many.
        others: u16,
    },
    /// Nobody carries it any more: the next carrier of the list takes what is in it.
    Expired(ParcelId),
    /// The carrier did not take it.
    Refused {
        /// Which.
        parcel: ParcelId,
        /// Why.
        why: WaitReason,
        /// When to try again.
        after: Time,
    },
    /// A carrier is gone from here, with all that it shared with these contacts.
    Left(CarrierId, Vec<ContactId>),
    /// These are not out any more, and nobody knows what became of them.
    Returned(Vec<ParcelId>),
    /// A carrier hides what leaves at this level now.
    Level(CarrierId, u8),
    /// The contact may have lost what it shares with a carrier: parcels that wait there go by another one.
    Apart(CarrierId, ContactId),
    /// A contact has what this device never sent: another life of the vault did.
    Twice(ContactId),
    /// A place of the contact is gone.
    Lost {
        /// Whose.
        contact: ContactId,
        /// Which.
        place: LostPlace,
    },
    /// A contact's bundle.
    Bundle {
        /// Whose.
        contact: ContactId,
        /// The purpose.
        purpose: FetchPurpose,
        /// The bundle as it came.
        bytes: Vec<u8>,
        /// A one-time key, if one was left.
        one_time: Option<OneTimePrekey>,
    },
    /// One-time keys that others can still get.
    Stock(u32),
    /// The own bundle is nowhere any more.
    Unpublished,
    /// Another life of this vault may have put up a bundle of its own.
    Foreign,
    /// The contact is to be told where we are reached.
    Greet(ContactId),
    /// A contact that was invited wants to know who it was.
    Called(ContactId),
    /// The own card lacks a part.
    CardPart,
    /// Nobody waits any more for an answer to this invitation.
    InviterGone(ContactId),
}

snapshot!(enum News [
    Arrived(a), Handed { parcel, again }, Carried { parcel, others }, Expired(a), Refused { parcel, why, after }, Left(a, b),
    Returned(a), Level(a, b), Apart(a, b), Twice(a), Lost { contact, place }, Bundle { contact, purpose, bytes,
    one_time }, Stock(a), Unpublished, Foreign, Greet(a), Called(a), CardPart, InviterGone(a),
]);

/// An arrival over a carrier.
pub struct Arrival {
    /// By which.
    pub carrier: CarrierId,
    /// At which level.
    pub level: u8,
    /// From whom, as far as the carrier knows.
    pub from: ArrivalOrigin,
    /// `kind u8 | content`.
    pub parcel: Wiping<Vec<u8>>,
    /// The outer binding of the message inside, at most 64 bytes.
    pub outer: Vec<u8>,
    /// The acknowledgement that the carrier gets once the arrival is handled.
    pub ack: Option<Receiving>,
}

snapshot!(struct Arrival { carrier, level, from, parcel, outer, ack });

/// A message of the ratchet as a carrier brought it.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    /// The message.
    pub bytes: &'a [u8],
    /// Its outer binding.
    pub outer: &'a [u8],
}

/// How something came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    /// By which carrier.
    pub carrier: CarrierId,
    /// At which level it was hidden, 1 to 4.
    pub level: u8,
}

snapshot!(struct By { carrier, level });

/// From whom a parcel came, as far as the carrier knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalOrigin {
    /// From this contact, or from whoever invites under this number.
    Contact(ContactId),
    /// From anybody.
    Stranger,
    /// An invitation; the number says where its writer waits for an answer.
    Invitation(u32),
}

snapshot!(enum ArrivalOrigin [Contact(a), Stranger, Invitation(a)]);

/// Names what came in, for the carrier that brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// Which carrier.
    pub carrier: CarrierId,
    /// Where it lay.
    pub place: u32,
    /// Its number there.
    pub number: u64,
}

snapshot!(struct Receiving { carrier, place, number });

/// The purpose of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchPurpose {
    /// To begin a session with it at once.
    Begin,
    /// To be held for an invitation.
    Hold,
}

snapshot!(enum FetchPurpose [Begin, Hold]);

/// Which place of a contact does not exist any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostPlace {
    /// Where strangers write.
    Intro,
    /// Where we write.
    Current,
}

snapshot!(enum LostPlace [Intro, Current]);
