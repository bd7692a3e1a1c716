//! Why the device refuses an input, or a vault's content.

use mezza_core::DecodeError;
use mezza_mixnet::client::ClientError;

/// A refused input, and whose fault it is. The device is as it was (MSG-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The person's.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// A carrier's, or that of whoever answers there.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// Our caller's.
    #[error(transparent)]
    Caller(#[from] CallerError),
}

/// Errors of a user's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonError {
    /// A note without text.
    #[error("the text is empty")]
    EmptyText,
    /// A text above the limit of a note.
    #[error("the text has {bytes} bytes, a note holds {max}")]
    TextTooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Bytes that a note holds.
        max: usize,
    },
    /// No carrier that the conversation may use can take so much (MSG-25).
    #[error("no carrier of the conversation takes {bytes} bytes")]
    TooBig {
        /// Bytes of the parcel.
        bytes: usize,
        /// Bytes that the largest of them takes.
        max: usize,
    },
    /// So many notes wait for this contact already (MSG-35).
    #[error("the outbox for this contact is full")]
    OutboxFull,
    /// Not in this state of the contact or of the note.
    #[error("not possible in this state")]
    NotNow,
    /// The user has blocked the contact (MSG-26).
    #[error("the contact is blocked")]
    Blocked,
    /// Somebody who invites and has shown no card yet.
    #[error("who it is, is not known yet")]
    NoCard,
    /// A card that is older than the one held (MSG-6).
    #[error("the card is older than the one held")]
    CardOlder,
    /// A card with the serial of the one held, but other content.
    #[error("two cards with one serial")]
    CardClash,
    /// Our own card.
    #[error("the own card")]
    OwnCard,
    /// A policy with an empty or doubled list, or a pin outside 1 to 4.
    #[error("not a policy")]
    BadPolicy,
    /// A name that is empty, too long or unclean.
    #[error("not a name")]
    BadName,
    /// The stored network does not load, so that no other one may replace it.
    #[error("what is stored of the mixnet could not be read")]
    SetAside,
    /// A network link whose address is longer than a record holds.
    #[error("the address of the network is too long")]
    BadAddress,
    /// A mixnet was joined already.
    #[error("a mixnet was joined already")]
    Joined,
    /// No mixnet was joined.
    #[error("no mixnet was joined")]
    NoNetwork,
    /// So many networks were left that no further one can be remembered (MSG-97).
    #[error("too many mixnets were left")]
    TooManyNetworks,
    /// More relays than a card of this version holds.
    #[error("too many relays")]
    TooManyRelays,
}

/// Errors of a carrier's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarrierError {
    /// A carrier answered a request that was never made, or was answered already.
    #[error("no such request")]
    NoSuchTicket,
    /// The network's client refuses it: it came too late, or the entry said something wrong.
    #[error("the mixnet's client refuses it: {0}")]
    Network(ClientError),
}

/// Our caller asks for what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    /// A contact.
    #[error("no such contact")]
    NoSuchContact,
    /// A note.
    #[error("no such note")]
    NoSuchNote,
    /// A mailbox.
    #[error("no such mailbox")]
    NoSuchMailbox,
}

/// Stored records that are not a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The profile is damaged or of another version. It holds the identity, without which nothing
    /// else can be used; every other record that does not load is quarantined.
    #[error("the identity in it cannot be read ({0})")]
    Profile(DecodeError),
    /// There is no profile record: this is not a vault of a device.
    #[error("no identity is stored in it")]
    Empty,
}
