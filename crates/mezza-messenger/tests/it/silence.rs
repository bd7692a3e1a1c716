//! The printed forms of the device's formats show nothing of their content.

use mezza_core::PublicKey;
use mezza_core::Time;
use mezza_messenger::note::{Era, Item, Note, RemoteMailbox};
use mezza_messenger::uri::Uri;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::card::{foundation, relay};

#[test]
fn msg_37_debug_of_formats_shows_types_alone() {
    let card = foundation(&mut ChaCha20Rng::from_seed([7; 32]));
    let relay = relay(1, "relay.example");
    let slot = RemoteMailbox { relay: relay.clone(), seal: PublicKey([9; 32]) };
    assert_eq!(format!("{card:?} {relay:?} {slot:?}"), "Card RelayEntry RemoteMailbox");
    assert_eq!(format!("{:?}", Uri::Card(card.clone())), "Card");
    let hello = Item::Hello { slot: Some(slot), tag: Some([7; 8]), card: card.encode() };
    let items =
        vec![hello, Item::Text("planted".into()), Item::Card(card.encode()), Item::Unknown(9)];
    let note = Note { era: Era([1; 4]), seq: 1, sent: Time::from_ms(5), timer_s: 0, items };
    assert_eq!(format!("{note:?}"), "Note([Hello, Text, Card, Unknown(9)])");
}
