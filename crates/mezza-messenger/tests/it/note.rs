//! Notes: the files, any note, any bytes.

use mezza_core::{PublicKey, Time, Wiping};
use mezza_messenger::note::{
    Era, ITEMS_MAX, Item, Kept, MixnetStart, Note, NoteDigest, Receipt, RemoteMailbox,
};
use mezza_mixnet::config::NetworkId;
use proptest::prelude::*;

use crate::card::relay;
use crate::case::{reason, walk};

#[test]
fn right_notes_are_the_ones_of_the_files() {
    for case in walk("notes", 30).iter().filter(|case| case.text("expect") == "ok") {
        let bytes = case.bytes("note");
        let note = Note::decode(&bytes).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        let holds: Vec<_> = note.items.iter().map(reason).collect();
        assert_eq!(holds.join(" "), case.text("holds"), "{}", case.name());
        if !case.has_key("again") {
            assert_eq!(*note.encode(), bytes, "{}", case.name());
            assert_eq!(note.wire_bytes(), bytes.len(), "{}", case.name());
        }
    }
}

#[test]
fn wrong_notes_are_refused() {
    for case in walk("notes", 30).iter().filter(|case| case.text("expect") != "ok") {
        assert!(Note::decode(&case.bytes("note")).is_err(), "{}", case.name());
    }
}

/// The fields of the files, one by one, as this side names them.
#[test]
fn fields_stand_where_the_specification_says() {
    let find = |name: &str| {
        let cases = walk("notes", 30);
        let case = cases.iter().find(|case| case.name() == name).unwrap();
        Note::decode(&case.bytes("note")).unwrap()
    };
    let note = find("text_longest");
    assert_eq!(
        (note.era, note.seq, note.timer_s),
        (Era([0xe0, 0xe1, 0xe2, 0xe3]), u32::MAX, 86_400)
    );
    assert_eq!(note.sent, Time::from_ms(1_795_266_000_123));
    assert_eq!(note.items, [Item::Text("x".repeat(8_192))]);

    let slot =
        RemoteMailbox { relay: relay(1, "relay-one.example.or"), seal: PublicKey([0x5e; 32]) };
    let hello = |slot, tag, card: &[u8]| Item::Hello { slot, tag, card: card.into() };
    assert_eq!(find("first").items[0], hello(Some(slot), None, b"card"));
    assert_eq!(find("hello_tag").items, [hello(None, Some(*b"tag-of-8"), b"card")]);
    assert_eq!(find("hello_nothing").items, [hello(None, None, b"")]);

    let era = note.era;
    let receipt = |what, base, bits| Item::Receipt(Receipt { what, era, floor: 7, base, bits });
    assert_eq!(find("receipts").items, [receipt(1, 9, 5), receipt(2, 0, 0)]);
    assert_eq!(find("reset_retry").items, [Item::Reset(2), Item::Retry]);
    let void = |from, to| Item::Void { era, from, to };
    assert_eq!(find("void").items, [void(3, 3), void(5, u32::MAX)]);
    let notes = vec![
        (7, NoteDigest::from_text(note.sent, "hello there")),
        (8, NoteDigest::from_text(Time::from_ms(0), "")),
    ];
    assert_eq!(find("kept").items, [Item::Kept(Kept { era, notes })]);
    assert_eq!(find("bundle").items, [Item::Bundle(vec![0xb5; 300])]);
    let network = std::array::from_fn(|i| i as u8);
    let root = Some(Wiping::new([7; 32]));
    let meet = MixnetStart { network: NetworkId(network), conversation: 70_000, call: 300, root };
    assert_eq!(find("meet").items, [Item::Meet(meet.clone())]);
    assert_eq!(find("meet_no_root").items[0], Item::Meet(MixnetStart { root: None, ..meet }));
    let unknown = [Item::Unknown(0x1f), Item::Text("hello there".into()), Item::Unknown(0x20)];
    assert_eq!(find("unknown").items, unknown);
}

/// A slot with a 20-byte host has 103 B, and a first note with a foundation card fits one KiB.
#[test]
fn sizes_are_those_of_the_specification() {
    let slot =
        RemoteMailbox { relay: relay(1, "relay-one.example.or"), seal: PublicKey([0x5e; 32]) };
    let mut w = mezza_core::Writer::new();
    slot.write(&mut w);
    assert_eq!(w.len(), 103);
    let hello = Item::Hello { slot: Some(slot), tag: None, card: vec![0; 207] };
    let items = vec![hello, Item::Text("hello there".into())];
    let note = Note { era: Era([0; 4]), seq: 1, sent: Time::from_ms(0), timer_s: 0, items };
    assert_eq!(note.wire_bytes(), 19 + 3 + 4 + 103 + 207 + 3 + 11);
}

#[test]
fn a_time_above_six_bytes_is_cut() {
    let sent = Time::from_ms(u64::MAX);
    let note = Note { era: Era([0; 4]), seq: 0, sent, timer_s: 0, items: vec![] };
    let read = Note::decode(&note.encode()).unwrap();
    assert_eq!(read.sent, Time::from_ms((1 << 48) - 1));
}

fn slot() -> impl Strategy<Value = RemoteMailbox> {
    (any::<u8>(), "[a-z]{1,20}", any::<[u8; 32]>()).prop_map(|(n, host, seal)| RemoteMailbox {
        relay: relay(n & 0x5f, &host),
        seal: PublicKey(seal),
    })
}

fn item() -> impl Strategy<Value = Item> {
    let bytes = |range| proptest::collection::vec(any::<u8>(), range);
    let place = prop_oneof![
        Just((None, None)),
        slot().prop_map(|slot| (Some(slot), None)),
        any::<[u8; 8]>().prop_map(|tag| (None, Some(tag))),
    ];
    prop_oneof![
        "\\PC{1,50}".prop_map(Item::Text),
        (place, bytes(0..300)).prop_map(|((slot, tag), card)| Item::Hello { slot, tag, card }),
        (1..=2u8, any::<[u8; 4]>(), any::<u32>(), any::<u32>(), any::<u64>()).prop_map(
            |(what, era, floor, base, bits)| Item::Receipt(Receipt {
                what,
                era: Era(era),
                floor,
                base,
                bits
            })
        ),
        any::<u32>().prop_map(Item::Timer),
        bytes(1..300).prop_map(Item::Card),
        (1..=3u8).prop_map(Item::Reset),
        Just(Item::Retry),
        (any::<[u8; 4]>(), 1u32.., any::<u32>()).prop_map(|(era, from, more)| Item::Void {
            era: Era(era),
            from,
            to: u32::saturating_add(from, more),
        }),
        (any::<[u8; 16]>(), any::<u64>(), any::<u64>(), any::<Option<[u8; 32]>>()).prop_map(
            |(network, conversation, call, root)| {
                let root = root.map(Wiping::new);
                let network = NetworkId(network);
                Item::Meet(MixnetStart { network, conversation, call, root })
            }
        ),
        (any::<[u8; 4]>(), proptest::collection::vec((any::<u32>(), any::<[u8; 4]>()), 1..=64))
            .prop_map(|(era, notes)| {
                let notes = notes.into_iter().map(|(seq, digest)| (seq, NoteDigest(digest)));
                Item::Kept(Kept { era: Era(era), notes: notes.collect() })
            }),
        bytes(1..300).prop_map(Item::Bundle),
        any::<[u8; 8]>().prop_filter("of a contact", |tag| *tag != [0; 8]).prop_map(Item::Tag),
        (14u8..).prop_map(Item::Unknown),
    ]
}

prop_compose! {
    fn any_note()(
        era: [u8; 4], seq: u32, sent in 0u64..1 << 48, timer_s: u32,
        items in proptest::collection::vec(item(), 0..8),
    ) -> Note {
        Note { era: Era(era), seq, sent: Time::from_ms(sent), timer_s, items }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(note in any_note(), zeros in 1usize..400) {
        let mut bytes = note.encode().to_vec();
        prop_assert_eq!(bytes.len(), note.wire_bytes());
        prop_assert_eq!(Note::decode(&bytes), Ok(note.clone()));
        bytes.resize(bytes.len() + zeros, 0);
        prop_assert_eq!(Note::decode(&bytes), Ok(note));
    }

    /// A decoded note encodes to bytes that decode to the same note, except bodies of unknown items.
    #[test]
    fn any_bytes_do_no_harm(
        head in proptest::option::of(Just([1u8; 19])),
        bytes in proptest::collection::vec(prop_oneof![0..12u8, any::<u8>()], 0..300),
    ) {
        let bytes = [head.map_or(vec![], Vec::from), bytes].concat();
        if let Ok(note) = Note::decode(&bytes) {
            prop_assert!(note.items.len() <= ITEMS_MAX);
            prop_assert_eq!(Note::decode(&note.encode()), Ok(note));
        }
    }

    #[test]
    fn a_cut_note_is_refused_or_lacks_items(note in any_note(), cut: proptest::sample::Index) {
        let bytes = note.encode();
        if let Ok(part) = Note::decode(&bytes[..cut.index(bytes.len())]) {
            prop_assert!(note.items.starts_with(&part.items));
        }
    }
}
