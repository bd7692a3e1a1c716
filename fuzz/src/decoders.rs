//! The decoders of the messenger and of the ratchet's small forms.

use mezza_core::{EphemeralKey, PortableBackend, Reader, Secret, StaticKey, Time, Writer};
use mezza_messenger::card::{Card, CardDraft, CardForm, RelayEntry, RelayKey};
use mezza_messenger::note::{Era, Item, Kept, MixnetStart, Note, NoteDigest};
use mezza_messenger::receipt::{Receipt, Window};
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{envelope as wrap, uri as address};
use mezza_mixnet::config::NetworkId;
use mezza_ratchet::{IdentityKeyPair, SuiteList};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

const ADDRESS: MailboxAddress = MailboxAddress([7; 16]);

fn make_pair(byte: u8) -> StaticKey {
    StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|scalar| scalar.fill(byte)))
}

fn make_relay() -> RelayEntry {
    RelayEntry {
        key: RelayKey([9; 32]),
        address: ADDRESS,
        port: 7101,
        host: "relay.example.org".into(),
    }
}

fn issue_card(further: Vec<(u8, Vec<u8>)>) -> Card {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let draft = CardDraft {
        serial: 5_000_000,
        issued_days: 20_000,
        suites: SuiteList::our_suites(),
        name: "alice",
        relays: vec![make_relay()],
    };
    let card = Card::issue_with(&IdentityKeyPair::new(make_pair(1)), draft, further, &mut rng);
    card.expect("a card of legal parts")
}

/// Checks that a decoded card encodes to the same bytes, in all its forms.
pub fn check_card(data: &[u8]) {
    let Ok(card) = Card::decode(data) else { return };
    assert_eq!(card.encode(), data);
    for form in [CardForm::Full, CardForm::Poster, CardForm::Offline] {
        if let Ok(smaller) = card.to_form(form) {
            assert_eq!(Card::decode(&smaller.encode()).as_ref(), Ok(&smaller));
        }
    }
}

/// Returns a card with its relay part, and one with every part.
pub fn card_seeds() -> Vec<Vec<u8>> {
    let full = issue_card(vec![(2, vec![2; 64]), (3, vec![3; 630]), (9, vec![9; 3])]);
    vec![issue_card(Vec::new()).encode(), full.encode()]
}

/// Checks that a decoded address keeps its meaning when it is encoded again.
pub fn check_uri(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(found) = address::decode(&text) else { return };
    let again = match &found {
        address::Uri::Card(card) => address::encode_card(card, true),
        address::Uri::Block(bytes) => address::encode_block(bytes, true),
        address::Uri::Relay { key, port, host } => {
            address::encode_relay(key, *port, host, true).expect("what was read can be written")
        }
    };
    assert_eq!(address::decode(&again), Ok(found));
}

/// Returns the addresses of a card and a relay, in both cases.
pub fn uri_seeds() -> Vec<Vec<u8>> {
    let card = issue_card(Vec::new());
    let relay = |upper| address::encode_relay(&RelayKey([9; 32]), 7101, "relay.example.org", upper);
    let texts = [
        Ok(address::encode_card(&card, true)),
        Ok(address::encode_card(&card, false)),
        relay(true),
        relay(false),
        Ok(address::encode_block(&[0x11; 630], true)),
    ];
    texts.into_iter().flatten().map(String::into_bytes).collect()
}

/// Checks that a decoded note keeps its meaning. (Not its bytes: padding of later versions and
/// bodies of unknown items are dropped.)
pub fn check_note(data: &[u8]) {
    let Ok(note) = Note::decode(data) else { return };
    let bytes = note.encode();
    assert_eq!(bytes.len(), note.wire_bytes());
    assert!(Note::decode(&bytes).is_ok_and(|again| again == note));
}

/// Returns one note with an item of each kind.
pub fn note_seeds() -> Vec<Vec<u8>> {
    let sent = Time::from_ms(1_800_000_000_000);
    let receipt = Receipt { what: 1, era: Era([1; 4]), floor: 3, base: 4, bits: 0b101 };
    let items = vec![
        Item::Text("hello there".into()),
        Item::Hello { slot: None, tag: Some([3; 8]), card: issue_card(Vec::new()).encode() },
        Item::Receipt(receipt),
        Item::Timer(3_600),
        Item::Card(issue_card(Vec::new()).encode()),
        Item::Reset(1),
        Item::Retry,
        Item::Meet(MixnetStart {
            network: NetworkId([1; 16]),
            conversation: 7,
            call: 8,
            root: None,
        }),
        Item::Void { era: Era([1; 4]), from: 2, to: 9 },
        Item::Kept(Kept {
            era: Era([1; 4]),
            notes: vec![(3, NoteDigest::from_text(sent, "here"))],
        }),
        Item::Bundle(vec![5; 200]),
    ];
    vec![Note { era: Era([1; 4]), seq: 7, sent, timer_s: 60, items }.encode().to_vec()]
}

/// Checks that only the sealed envelope opens.
pub fn check_envelope(data: &[u8]) {
    let own = make_pair(5);
    if let Some(parcel) = wrap::open::<PortableBackend>(&ADDRESS, &own, data) {
        assert_eq!(parcel, PARCEL, "opened what nobody sealed");
    }
}

const PARCEL: &[u8] = b"\x01parcel";

/// Returns one valid envelope.
pub fn envelope_seeds() -> Vec<Vec<u8>> {
    let sealed = wrap::seal::<PortableBackend>(
        &ADDRESS,
        make_pair(5).public_key(),
        PARCEL,
        EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|scalar| scalar.fill(6))),
    );
    vec![sealed.expect("a short parcel fits")]
}

/// Checks that a stored window encodes to the same bytes, and can be queried and changed.
pub fn check_window(data: &[u8]) {
    let mut reader = Reader::new(data);
    let Ok(mut window) = Window::read(&mut reader) else { return };
    let mut writer = Writer::new();
    window.write(&mut writer);
    assert_eq!(writer.as_slice(), &data[..data.len() - reader.len()]);
    let seqs =
        reader.read_rest().chunks_exact(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    for seq in seqs {
        window.insert(seq);
        window.void_range(seq, seq.saturating_add(5));
        window.check_seq(seq);
        let floor = window.floor();
        assert!(window.list_receipts(Receipt::DELIVERED).iter().all(|r| r.floor <= floor));
    }
}

/// Returns a window with gaps, and numbers to insert.
pub fn window_seeds() -> Vec<Vec<u8>> {
    let mut window = Window::new(Era([1; 4]));
    for seq in [1, 2, 5, 900] {
        window.insert(seq);
    }
    let mut writer = Writer::new();
    window.write(&mut writer);
    for seq in [3, 4, 5, 1_024, 1_025, u32::MAX] {
        writer.put_u32(seq);
    }
    vec![writer.finish()]
}

/// Checks that a decoded suite list encodes to the same bytes.
pub fn check_list(data: &[u8]) {
    if let Ok(list) = SuiteList::decode(data) {
        assert_eq!(list.encode(), data);
    }
}

/// Returns our list, and one with unknown suites.
pub fn list_seeds() -> Vec<Vec<u8>> {
    vec![SuiteList::our_suites().encode(), vec![3, 1, 9, 1, 2, 1, 1]]
}
