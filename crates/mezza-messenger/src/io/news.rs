//! Events that carriers report to the device.

use alloc::vec::Vec;

use mezza_core::{Time, Wiping, snapshot};
use mezza_ratchet::OneTimePrekey;

use super::{CarrierId, ContactId, ParcelId};
use crate::evidence::WaitReason;

/// An event that a carrier reports to the device.
pub enum News {
    /// A parcel arrived.
    Arrived(Arrival),
    /// The carrier took a parcel. `again` is set for an invitation.
    Handed {
        /// Number of the parcel.
        parcel: ParcelId,
        /// Time of the next repetition.
        again: Option<Time>,
    },
    /// Other devices announce a parcel (mesh).
    Carried {
        /// Number of the parcel.
        parcel: ParcelId,
        /// Number of announcing devices.
        others: u16,
    },
    /// The carrier no longer transports a parcel, so its content goes to the next listed carrier.
    Expired(ParcelId),
    /// The carrier refused a parcel.
    Refused {
        /// Number of the parcel.
        parcel: ParcelId,
        /// The reason of the refusal.
        why: WaitReason,
        /// Time of the next attempt.
        after: Time,
    },
    /// A carrier was removed, with all state that it shared with these contacts.
    Left(CarrierId, Vec<ContactId>),
    /// The carrier no longer has these parcels, and it is unknown whether they were sent.
    Returned(Vec<ParcelId>),
    /// The level of a carrier changed.
    Level(CarrierId, u8),
    /// The contact may have lost the state that it shares with a carrier, so other carriers are
    /// used.
    Apart(CarrierId, ContactId),
    /// A contact has received notes that this device never sent; another copy of the vault sent
    /// them.
    Twice(ContactId),
    /// An address of the contact no longer exists.
    Lost {
        /// The contact with the lost address.
        contact: ContactId,
        /// The kind of the lost address.
        place: LostPlace,
    },
    /// The bundle of a contact arrived.
    Bundle {
        /// The owner of the bundle.
        contact: ContactId,
        /// The purpose of the fetch.
        purpose: FetchPurpose,
        /// The bundle as received, unchecked.
        bytes: Vec<u8>,
        /// A one-time key, or `None` if there was none left.
        one_time: Option<OneTimePrekey>,
    },
    /// Number of our one-time keys that contacts can still fetch.
    Stock(u32),
    /// Our bundle is not published anywhere.
    Unpublished,
    /// Another copy of this vault may have published a bundle.
    Foreign,
    /// The contact must learn our address.
    Greet(ContactId),
    /// An invited contact called for our identity.
    Called(ContactId),
    /// Our card lacks the current part of a carrier.
    CardPart,
    /// An invitation expired without an answer of ours.
    InviterGone(ContactId),
    /// A new key tree replaces the one that did not load.
    KeysReplaced,
}

snapshot!(enum News [
    Arrived(a), Handed { parcel, again }, Carried { parcel, others }, Expired(a), Refused { parcel, why, after }, Left(a, b),
    Returned(a), Level(a, b), Apart(a, b), Twice(a), Lost { contact, place }, Bundle { contact, purpose, bytes,
    one_time }, Stock(a), Unpublished, Foreign, Greet(a), Called(a), CardPart, InviterGone(a), KeysReplaced,
]);

/// A parcel that arrived over a carrier.
pub struct Arrival {
    /// The carrier of the parcel.
    pub carrier: CarrierId,
    /// Level of the carrier at the arrival, 1 to 4.
    pub level: u8,
    /// The sender, as the carrier knows it.
    pub from: ArrivalOrigin,
    /// The parcel: `kind u8 | content`.
    pub parcel: Wiping<Vec<u8>>,
    /// The outer binding of the message in the parcel, at most 64 bytes.
    pub outer: Vec<u8>,
    /// Data for acknowledging the arrival to the carrier after it was handled.
    pub ack: Option<Receiving>,
}

snapshot!(struct Arrival { carrier, level, from, parcel, outer, ack });

/// A ratchet message as a carrier delivered it.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    /// Bytes of the message.
    pub bytes: &'a [u8],
    /// Outer binding of the message.
    pub outer: &'a [u8],
}

/// Carrier and level of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    /// The carrier that delivered the message.
    pub carrier: CarrierId,
    /// Level of the carrier at the arrival, 1 to 4.
    pub level: u8,
}

snapshot!(struct By { carrier, level });

/// The sender of a parcel, as the carrier knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalOrigin {
    /// This contact, or the inviter with this number.
    Contact(ContactId),
    /// An unknown sender.
    Stranger,
    /// An unknown sender of an invitation; the number is the bucket in which the sender waits for a
    /// call.
    Invitation(u32),
}

snapshot!(enum ArrivalOrigin [Contact(a), Stranger, Invitation(a)]);

/// Identifies an arrival to the carrier that delivered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The carrier to acknowledge to.
    pub carrier: CarrierId,
    /// The mailbox or other place of the arrival.
    pub place: u32,
    /// The number of the arrival in that place.
    pub number: u64,
}

snapshot!(struct Receiving { carrier, place, number });

/// The purpose of a fetched bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchPurpose {
    /// Begin a session at once.
    Begin,
    /// Keep the bundle for an invitation.
    Hold,
}

snapshot!(enum FetchPurpose [Begin, Hold]);

/// The kind of an address of a contact that no longer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostPlace {
    /// The intro mailbox, for unknown senders.
    Intro,
    /// The mailbox that the contact gave us.
    Current,
}

snapshot!(enum LostPlace [Intro, Current]);
