//! Texts for inputs that the device refuses, with the next step.

use mezza_messenger::{CallerError, CarrierError, DeviceError, PersonError};

use super::{group_digits, link, mesh, mixnet, relay};
use crate::api::refused::Refused;
use crate::api::{Exit, Fault};

impl From<DeviceError> for Refused {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Person(error) => of_person(error),
            DeviceError::Carrier(CarrierError::Network(error)) => {
                Self::new("network", mixnet::client_fault(error))
            }
            DeviceError::Caller(CallerError::NoSuchContact) => Self::no_contact(),
            DeviceError::Caller(CallerError::NoSuchNote) => Self::no_note(),
            DeviceError::Carrier(CarrierError::NoSuchTicket)
            | DeviceError::Caller(CallerError::NoSuchMailbox) => {
                Fault::bug("the device was asked something impossible").into()
            }
        }
    }
}

/// Converts a refused request of the user.
fn of_person(error: PersonError) -> Refused {
    let refused = |word, code, text, next| Refused::new(word, Fault::new(code, text, next));
    match error {
        PersonError::EmptyText => {
            refused("empty_text", Exit::Usage, "the text is empty", "write at least one letter")
        }
        PersonError::TextTooLong { bytes, max } => too_long(bytes, max),
        PersonError::TooBig { bytes, max } => too_big(bytes, max),
        PersonError::OutboxFull => outbox_full(),
        PersonError::NotNow => refused(
            "not_now",
            Exit::No,
            "that is not possible in this state",
            "look at it with `mezza contacts NAME` or `mezza outbox`",
        ),
        PersonError::Blocked => refused(
            "blocked",
            Exit::No,
            "you have blocked this contact",
            "`mezza set NAME --unblock` lets you write again",
        ),
        PersonError::NoCard => refused(
            "no_card",
            Exit::No,
            "who it is, is not known yet",
            "`mezza requests see N` asks them",
        ),
        PersonError::CardOlder => refused(
            "card_older",
            Exit::No,
            "this card is older than the one you hold; nothing was changed",
            "ask for the newest card if something does not work",
        ),
        PersonError::CardClash => refused(
            "card_clash",
            Exit::No,
            "this card has the number of the one you hold, but says something else",
            "compare numbers with `mezza verify NAME`",
        ),
        PersonError::OwnCard => {
            refused("own_card", Exit::Usage, "this is your own card", "scan theirs")
        }
        PersonError::BadPolicy => bad_policy(),
        PersonError::BadName => refused(
            "bad_name",
            Exit::Usage,
            "this name is empty, too long, begins with # or has unprintable characters",
            "use 1 to 24 bytes of ordinary letters",
        ),
        PersonError::TooManyRelays => Refused::new("relays", relay::too_many()),
        PersonError::Joined => Refused::new("joined", mixnet::already_joined()),
        PersonError::NoClock => Refused::new("no_clock", mesh::no_clock()),
        PersonError::NoNetwork => mixnet::not_joined(),
        PersonError::TooManyNetworks => {
            Refused::new("too_many_mixnets", mixnet::too_many_networks())
        }
        PersonError::SetAside => Refused::new("set_aside", mixnet::set_aside()),
        PersonError::BadAddress => Refused::new("bad_address", mixnet::bad_address()),
        PersonError::NotPaired
        | PersonError::NeverDialled
        | PersonError::BadDeviceAddress
        | PersonError::PairingBusy
        | PersonError::NoDigits
        | PersonError::NoGuard
        | PersonError::Guarded
        | PersonError::BadGuardAddress
        | PersonError::BadGuardDest => link::describe_refusal(error),
    }
}

/// Refuses rules of a conversation that contradict themselves.
fn bad_policy() -> Refused {
    let next = "name each carrier once, a level from 1 to 4, and a timer of 30 s, 5 min, 1 h, 8 h, 1 d, 7 d \
                or 28 d";
    let fault = Fault::new(Exit::Usage, "these rules contradict themselves", next);
    Refused::new("bad_policy", fault)
}

/// Refuses a note for a contact for whom the most notes wait.
fn outbox_full() -> Refused {
    let text = "1,000 notes wait for this contact already";
    let next = "wait until some are delivered, or `mezza outbox cancel ID`";
    Refused::new("outbox_full", Fault::new(Exit::Busy, text, next))
}

/// Refuses a parcel above the limits of the conversation's carriers.
fn too_big(bytes: usize, max: usize) -> Refused {
    let bytes = group_digits(bytes);
    let max = group_digits(max);
    let text = format!("this needs {bytes} bytes, the largest carrier takes {max}");
    let next = "split it, or allow another carrier with `mezza set NAME --carriers`";
    Refused::new("too_big", Fault::new(Exit::Malformed, text, next))
}

/// Refuses a text above the limit of a note.
pub fn too_long(bytes: usize, max: usize) -> Refused {
    let text =
        format!("text has {} bytes, a note holds {}", group_digits(bytes), group_digits(max));
    let next = "split it into several notes";
    Refused::new("text_too_long", Fault::new(Exit::Malformed, text, next))
}
