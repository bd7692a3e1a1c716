//! Errors: the reasons why the device refuses an input or the content of a vault.

use mezza_core::DecodeError;
use mezza_mixnet::client::ClientError;

/// A refused input, by its cause. The device is unchanged (MSG-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The user's request cannot be carried out.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// A carrier, or the server behind it, sent an invalid input.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The calling program used an unknown number.
    #[error(transparent)]
    Caller(#[from] CallerError),
}

/// Errors of a user's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonError {
    /// The note has no text.
    #[error("the text is empty")]
    EmptyText,
    /// The text is longer than a note allows.
    #[error("the text has {bytes} bytes, a note holds {max}")]
    TextTooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Most bytes of text in a note.
        max: usize,
    },
    /// The parcel is too big for every carrier that the conversation allows (MSG-25).
    #[error("no carrier of the conversation takes {bytes} bytes")]
    TooBig {
        /// Size of the parcel in bytes.
        bytes: usize,
        /// Maximum size in bytes that a carrier of the conversation accepts.
        max: usize,
    },
    /// Too many notes already wait for this contact (MSG-35).
    #[error("the outbox for this contact is full")]
    OutboxFull,
    /// The command does not fit the present state of the contact or note.
    #[error("not possible in this state")]
    NotNow,
    /// The user has blocked the contact (MSG-26).
    #[error("the contact is blocked")]
    Blocked,
    /// The inviter has not sent a card yet.
    #[error("who it is, is not known yet")]
    NoCard,
    /// The card is older than the stored one (MSG-6).
    #[error("the card is older than the one held")]
    CardOlder,
    /// The card has the serial of the stored one but different content (MSG-6).
    #[error("two cards with one serial")]
    CardClash,
    /// The card is our own.
    #[error("the own card")]
    OwnCard,
    /// The policy has an empty list, a repeated carrier, or a level outside 1 to 4.
    #[error("not a policy")]
    BadPolicy,
    /// The name is empty, too long or not clean.
    #[error("not a name")]
    BadName,
    /// The stored network does not load, so no other network may replace it.
    #[error("what is stored of the mixnet could not be read")]
    SetAside,
    /// The address in the network link is longer than a row can store.
    #[error("the address of the network is too long")]
    BadAddress,
    /// A mixnet is already joined.
    #[error("a mixnet was joined already")]
    Joined,
    /// No mixnet is joined.
    #[error("no mixnet was joined")]
    NoNetwork,
    /// The limit of remembered networks is reached, so no further one can be joined (MSG-97).
    #[error("too many mixnets were left")]
    TooManyNetworks,
    /// No trusted source has confirmed the clock on which the keys depend.
    #[error("nobody vouches for this clock")]
    NoClock,
    /// There are more relays than a card of this version may name.
    #[error("too many relays")]
    TooManyRelays,
    /// The contact's device is not paired.
    #[error("the contact's device is not paired")]
    NotPaired,
    /// The contact's device connects to this one, so its address is not used.
    #[error("the contact's device connects to this one")]
    NeverDialled,
    /// The address of a paired device is empty or longer than a row can store.
    #[error("not an address of a device")]
    BadDeviceAddress,
    /// Another pairing is in progress.
    #[error("another pairing is in progress")]
    PairingBusy,
    /// No digits wait for a decision.
    #[error("no digits wait for a decision")]
    NoDigits,
    /// No guard is joined, or its stored pairing does not load.
    #[error("no guard is joined")]
    NoGuard,
    /// The contact's device is reached through a guard, which a pairing would go around.
    #[error("the contact's device is reached through a guard")]
    Guarded,
    /// The address of a guard is empty or longer than a row can store.
    #[error("not an address of a guard")]
    BadGuardAddress,
    /// The number is not one of a guard's destinations, which are 1 to 65,519.
    #[error("not a number of a destination")]
    BadGuardDest,
}

/// Errors of a carrier's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarrierError {
    /// A carrier answered a request that was never made or was already answered.
    #[error("no such request")]
    NoSuchTicket,
    /// The mixnet client refused an input, because it came too late or the entry server sent an
    /// invalid frame.
    #[error("the mixnet's client refuses it: {0}")]
    Network(ClientError),
}

/// The caller named an object that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    /// There is no contact with this number.
    #[error("no such contact")]
    NoSuchContact,
    /// There is no note with this number.
    #[error("no such note")]
    NoSuchNote,
    /// There is no mailbox with this number.
    #[error("no such mailbox")]
    NoSuchMailbox,
}

/// The reason why stored rows cannot be loaded as a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The profile is damaged or of another version. It holds the identity, without which nothing
    /// else can be used; every other record that does not load is quarantined.
    #[error("the identity in it cannot be read ({0})")]
    Profile(DecodeError),
    /// There is no profile row, so this is not the vault of a device.
    #[error("no identity is stored in it")]
    Empty,
}
