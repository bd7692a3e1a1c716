//! The fields of a handshake that a device can embed in, and how an observer of the wire finds them.

use mezza_guard::coins::CoinRole;
use mezza_guard::{Group, Message, ViewDependent, commit};

use super::sampling::Target;
use crate::variant::Variant;

/// A field of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The name on the command line.
    pub name: &'static str,
    /// The variant of the handshake that has the field.
    pub variant: Variant,
    /// The coin that determines the field, and the field's index in the view of that coin.
    pub target: Target,
    place: Place,
}

/// The place at which an observer of the wire finds the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A field of the outgoing message of this kind: kind, index.
    Field(u8, usize),
    /// The element that the opening reveals: C2 h^-s.
    Opened,
}

/// The kinds of messages by their first byte, as `mezza_guard::message` has them.
const KEY: u8 = 1;
const COMMITMENT: u8 = 2;
const OPENING: u8 = 3;
const CIPHERTEXT: u8 = 6;

const fn coin(role: CoinRole, field: usize) -> Target {
    Target { role, field }
}

const fn field(name: &'static str, variant: Variant, target: Target, place: Place) -> Element {
    Element { name, variant, target, place }
}

/// All elements. The first element of each variant is the one that most firewalls leave open.
pub const ELEMENTS: [Element; 8] = [
    field("A", Variant::Dh, coin(CoinRole::Exponent, 0), Place::Field(KEY, 0)),
    field("X", Variant::DhComm, coin(CoinRole::Exponent, 0), Place::Opened),
    field("C1", Variant::DhComm, coin(CoinRole::CommitmentS, 0), Place::Field(COMMITMENT, 0)),
    field("C2", Variant::DhComm, coin(CoinRole::CommitmentS, 1), Place::Field(COMMITMENT, 1)),
    field("r", Variant::DhComm, coin(CoinRole::CommitmentR, 0), Place::Field(OPENING, 0)),
    field("s", Variant::DhComm, coin(CoinRole::CommitmentS, 2), Place::Field(OPENING, 1)),
    field("c1", Variant::Eg, coin(CoinRole::Encryption, 1), Place::Field(CIPHERTEXT, 1)),
    field("c0", Variant::Eg, coin(CoinRole::Encryption, 0), Place::Field(CIPHERTEXT, 0)),
];

/// The elements of a variant.
pub fn elements_of_variant(variant: Variant) -> impl Iterator<Item = &'static Element> {
    ELEMENTS.iter().filter(move |element| element.variant == variant)
}

impl Element {
    /// Returns the part that an observer sees in the outgoing messages of one handshake.
    pub fn find_observed<G: Group>(&self, group: &G, went_out: &[Message<G>]) -> Option<Vec<u8>> {
        let of_kind = |kind: u8| went_out.iter().find(|message| message.kind() == kind);
        match self.place {
            Place::Field(kind, at) => of_kind(kind)?.encode_fields(group).into_iter().nth(at),
            Place::Opened => {
                let (Message::Commitment(both), Message::Opening(opening)) =
                    (of_kind(COMMITMENT)?, of_kind(OPENING)?)
                else {
                    return None;
                };
                let commitment = both.each_ref().map(ViewDependent::seen);
                let opening = opening.each_ref().map(ViewDependent::seen);
                commit::open_commitment(group, commitment, opening).ok().map(|x| group.encode(&x))
            }
        }
    }

    /// Returns true if a firewall of the variant leaves the element under the device's control.
    pub fn is_open_behind(&self, firewall: &str) -> bool {
        matches!((firewall, self.name), ("none", _) | ("basic", "X") | ("maul", "c1"))
    }
}
