//! Decodes the addresses that users paste: of a card, a relay, or a card block.

use mezza_messenger::card::{Card, CardError, RelayEntry};
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::uri::{self, Uri, UriError};

use super::words::relay;
use super::{Exit, Fault};

/// Decodes a card from pasted text; spaces and line breaks are ignored.
///
/// # Errors
/// A typing error, a forged card, or text that is no card.
pub fn read_card(text: &str) -> Result<Card, Fault> {
    match uri::decode(text).map_err(|error| uri_fault(error, "card"))? {
        Uri::Card(card) => Ok(card),
        Uri::Relay { .. } => Err(relay::no_card()),
        Uri::Block(_) => Err(is_block("a card")),
    }
}

/// Decodes the address of a relay. A card gives the relay that its owner uses.
///
/// # Errors
/// A typing error, or an address of something else.
pub fn relay_of(text: &str) -> Result<RelayEntry, Fault> {
    match uri::decode(text).map_err(|error| uri_fault(error, "address"))? {
        Uri::Relay { key, port, host } => {
            Ok(RelayEntry { key, address: MailboxAddress([0; 16]), port, host })
        }
        // A card stands for its owner's relay, which the new user then shares with the contact who
        // invited them.
        Uri::Card(card) => {
            card.relays().first().map(unassigned).ok_or_else(relay::no_relay_on_card)
        }
        Uri::Block(_) => Err(is_block("the address of a relay")),
    }
}

/// Returns the relay of an entry, without the owner's mailbox.
fn unassigned(entry: &RelayEntry) -> RelayEntry {
    RelayEntry { address: MailboxAddress([0; 16]), ..entry.clone() }
}

/// Decodes the address of a card block. Returns its bytes, which are not checked yet.
///
/// # Errors
/// A typing error, or an address of something else.
pub fn read_block(text: &str) -> Result<Vec<u8>, Fault> {
    match uri::decode(text).map_err(|error| uri_fault(error, "card block"))? {
        Uri::Block(bytes) => Ok(bytes),
        Uri::Card(_) => Err(Fault::new(
            Exit::Malformed,
            "this is the card of a contact, not of the mesh",
            "add it with `mezza add`; for the mesh ask for the card of their key tree",
        )),
        Uri::Relay { .. } => Err(Fault::new(
            Exit::Malformed,
            "this is no card block",
            "its owner shows it with `mezza hibe card DIR/card --qr`",
        )),
    }
}

/// Returns the fault for a card block that was given in place of `noun`.
fn is_block(noun: &str) -> Fault {
    let text = format!("this is a card of the mesh, which names nobody, not {noun}");
    let next = "ask for the whole card, which its owner shows with `mezza card --mesh --qr`; or \
                write to its owner with `mezza mesh send --card FILE`";
    Fault::new(Exit::Malformed, text, next)
}

/// Returns the fault for a malformed address of a card or relay (`noun`).
fn uri_fault(error: UriError, noun: &str) -> Fault {
    let fault = |text: &str, next: &str| Fault::new(Exit::Malformed, text, next);
    let typing = |what: &str| {
        fault(&format!("this {noun} has a typing error{what}"), "scan it again, or copy it anew")
    };
    match error {
        UriError::Letter => typing(": a letter that cannot stand there, or one too few"),
        UriError::MixedCase => typing(": upper and lower case are mixed"),
        UriError::Check => typing(""),
        UriError::Card(CardError::Forged) => fault(
            "the card is signed by nobody",
            "ask for it again over another way, somebody may have changed it",
        ),
        UriError::Card(CardError::PartChanged) => fault(
            "a part of the card was changed after it was signed",
            "ask for it again over another way",
        ),
        UriError::Scheme => {
            fault("this is no address of Mezzavoce", "it begins with `mezzavoce:`; copy all of it")
        }
        UriError::Kind => {
            fault("this kind of address is newer than this program", "update the program")
        }
        other @ (UriError::TooLong | UriError::Card(_) | UriError::Relay) => {
            fault(&other.to_string(), "ask for it again")
        }
    }
}
