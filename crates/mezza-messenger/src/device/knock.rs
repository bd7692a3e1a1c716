//! The knock: a first note to a contact of whom only the card is known, without a server
//! (messenger 4.5).
//!
//! ```text
//! knock = 02 | note | mac[32]         note: hello with our card, tag, our bundle, text
//! mac = MAC(k, "mezza/knock" | note)  k = H_32("mezza/knock key", X25519(IK_a, IK_b), IK_a, IK_b, binding)
//! ```
//!
//! Each side can compute the MAC, so a knock proves its writer to the reader alone.
//! The reader answers by an ordinary X3DH with the bundle inside.

use mezza_core::{Backend, PublicKey, StaticKey, Wiping, blake2b, labelled_hash};
use mezza_ratchet::IdentityKey;
use subtle::ConstantTimeEq;

use super::Components;
use crate::card::Card;
use crate::carriers::Port;
use crate::io::Incoming;
use crate::note::{Item, Note};

/// Bytes of the MAC of a knock.
pub(super) const MAC_BYTES: usize = 32;
/// Bytes of the binding of an envelope, which a knock authenticates.
const BINDING_BYTES: usize = 32;

/// The two sides of a knock.
pub(super) struct KnockSides<'a> {
    pub own: &'a StaticKey,
    pub other: &'a IdentityKey,
    pub writer: &'a IdentityKey,
    pub reader: &'a IdentityKey,
}

/// Returns the MAC of a note for these two sides and this envelope, or `None` if the keys have no
/// common secret.
pub(super) fn compute_mac<B: Backend>(
    sides: &KnockSides<'_>,
    binding: &[u8],
    note: &[u8],
) -> Option<[u8; MAC_BYTES]> {
    let other: &PublicKey = sides.other.public_key();
    let shared = sides.own.diffie_hellman::<B>(other).ok()?;
    let parts: [&[u8]; 4] =
        [shared.expose(), sides.writer.as_bytes(), sides.reader.as_bytes(), binding];
    let key = Wiping::new(labelled_hash::<32>("mezza/knock key", &parts));
    let mut mac = [0; MAC_BYTES];
    blake2b(&mut mac, &key[..], "", &[b"mezza/knock", note]);
    Some(mac)
}

/// A knock. Its MAC is unchecked before [`Components::is_genuine`].
pub(super) struct Knock<'a> {
    pub note: Note,
    /// The identity key of the writer, from its card.
    pub ik: IdentityKey,
    pub card: Card,
    body: &'a [u8],
    mac: &'a [u8; MAC_BYTES],
    binding: &'a [u8],
}

impl<P: Port> Components<P> {
    /// Returns the knock in these bytes, or `None` if it is malformed or contains our own card.
    pub(super) fn read_knock<'a>(&self, incoming: Incoming<'a>) -> Option<Knock<'a>> {
        let (body, mac) = incoming.bytes.split_last_chunk::<MAC_BYTES>()?;
        let binding = incoming.outer;
        // Without a binding a knock could be moved to another envelope (HIBE-54).
        if binding.len() != BINDING_BYTES {
            return None;
        }
        let note = Note::decode(body).ok()?;
        let card = card_in(&note)?;
        let ik = *card.ik();
        if ik == self.profile.identity().public_key() {
            return None;
        }
        Some(Knock { note, ik, card, body, mac, binding })
    }

    /// Returns true if the owner of the card has written the knock for us and for its envelope.
    pub(super) fn is_genuine(&self, knock: &Knock<'_>) -> bool {
        let own = self.profile.identity();
        let reader = own.public_key();
        let writer = &knock.ik;
        let sides = KnockSides { own: own.pair(), other: writer, writer, reader: &reader };
        let expected = compute_mac::<P::Backend>(&sides, knock.binding, knock.body);
        expected.is_some_and(|expected| bool::from(expected.ct_eq(knock.mac)))
    }
}

/// Returns the card in the hello of a note, or `None` if there is none or the card is malformed.
pub(super) fn card_in(note: &Note) -> Option<Card> {
    note.items.iter().find_map(|item| match item {
        Item::Hello { card, .. } => Card::decode(card).ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use mezza_core::{PortableBackend, Secret};
    use mezza_ratchet::IdentityKeyPair;

    use super::*;

    fn identity(scalar: u8) -> IdentityKeyPair {
        let scalar = Secret::init_with(|s| s.fill(scalar));
        IdentityKeyPair::new(StaticKey::from_scalar::<PortableBackend>(scalar))
    }

    #[test]
    fn msg_134_a_knock_is_of_one_writer_for_one_reader_in_one_envelope() {
        let pairs = [3, 4, 5].map(identity);
        let keys = pairs.each_ref().map(IdentityKeyPair::public_key);
        let mac = |own: usize,
                   other: usize,
                   writer: usize,
                   reader: usize,
                   binding: &[u8],
                   note: &[u8]| {
            let sides = KnockSides {
                own: pairs[own].pair(),
                other: &keys[other],
                writer: &keys[writer],
                reader: &keys[reader],
            };
            compute_mac::<PortableBackend>(&sides, binding, note).unwrap()
        };
        let binding = [7; BINDING_BYTES];
        let right = mac(0, 1, 0, 1, &binding, b"note");
        assert_eq!(mac(1, 0, 0, 1, &binding, b"note"), right, "the reader computes it too");
        assert_ne!(mac(1, 0, 1, 0, &binding, b"note"), right, "the other way");
        assert_ne!(mac(0, 2, 0, 2, &binding, b"note"), right, "another reader");
        assert_ne!(mac(0, 1, 0, 1, &[8; BINDING_BYTES], b"note"), right, "another envelope");
        assert_ne!(mac(0, 1, 0, 1, &binding, b"nota"), right, "another note");
    }
}
