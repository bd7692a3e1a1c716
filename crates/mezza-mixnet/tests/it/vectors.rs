//! Walks `vectors/mixnet/*.txt`, right and wrong cases.

use std::collections::BTreeMap;

use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Secret, Time, Wiping};
use mezza_mixnet::Service;
use mezza_mixnet::batch::Permutation;
use mezza_mixnet::config::{Chain, ChainError, Mode, NetworkId, SignedConfig};
use mezza_mixnet::contact::{self, CallKeywheel, ConversationKeywheel, Intent, Role};
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::{self, RoundsSpent};
use mezza_mixnet::wire::cell::Piece;
use mezza_mixnet::wire::frame::LENGTH_BYTES;
use mezza_mixnet::wire::invitation::Invitation;
use mezza_mixnet::wire::{Cell, Frame, LinkDeframer, Settings, SignedSettings, filter};

use mezza_testing::{Case, read_cases};

mod onion;

/// Returns the secret of a field.
fn secret(case: &Case, key: &str) -> Secret<32> {
    Secret::copy_from(&case.array(key))
}

#[test]
fn every_vector_comes_out() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for case in read_cases("mixnet", 140) {
        let kind = case.text("kind").to_owned();
        match kind.as_str() {
            "onion" => onion::opens(&case),
            "onion-known" => onion::known(&case),
            "contact" => contact_chain(&case),
            "bucket" => bucket(&case),
            "invitation" => invitation(&case),
            "filter" => filter_set(&case),
            "cell" => cell(&case),
            "settings" => settings(&case),
            "config" => config(&case),
            "frame" => frame(&case),
            "permutation" => permutation(&case),
            "privacy" => privacy_row(&case),
            "tight" => tight_row(&case),
            other => panic!("{}: unknown kind {other}", case.name()),
        }
        *seen.entry(kind).or_default() += 1;
    }
    assert_eq!(seen.len(), 13, "kinds of cases: {seen:?}");
}

fn contact_chain(case: &Case) {
    let root = secret(case, "root");
    let steps = case.number("steps");
    let start = case.number("start");
    let call_start = case.number("call_start");
    let mut chain = ConversationKeywheel::begin(&root, Role::Initiator, start);
    case.assert_bytes("first_drop", &chain.meeting().drop);
    assert_eq!(chain.meeting().priority, case.number("first_turn"));
    assert_eq!(chain.advance_to(start + steps, steps), Ok(true));
    case.assert_bytes("drop", &chain.meeting().drop);
    assert_eq!(chain.meeting().priority, case.number("turn"));
    let taken = chain.take_round_keys();
    case.assert_bytes("initiator_seals", taken.seal.expose());
    case.assert_bytes("responder_seals", taken.open.expose());
    let mut calls = CallKeywheel::begin(&root, call_start);
    case.assert_bytes("first_token", &calls.token(Role::Initiator, Intent::Talk));
    assert_eq!(calls.advance_to(call_start + steps, steps), Ok(true));
    case.assert_bytes("token", &calls.token(Role::Responder, Intent::ReadSoon));
}

fn bucket(case: &Case) {
    let buckets = u32::try_from(case.number("buckets")).expect("a number of buckets");
    let found = contact::assign_bucket(
        &PublicKey(case.array("dialling")),
        &NetworkId(case.array("network")),
        buckets,
    );
    assert_eq!(u64::from(found), case.number("bucket"), "{}", case.name());
}

fn invitation(case: &Case) {
    let pair = |key: &str| EphemeralKey::from_scalar::<PortableBackend>(secret(case, key));
    let dialling = pair("dialling").into_static();
    let bucket = u32::try_from(case.number("bucket")).expect("a bucket");
    let said = Invitation { bucket, body: Wiping::new(case.array("body")) };
    let opened =
        Invitation::open::<PortableBackend>(&dialling, &case.array("sealed"), case.number("round"));
    match &opened {
        Some(invitation) => {
            let sealed = said.seal::<PortableBackend>(
                pair("own"),
                dialling.public_key(),
                case.number("round"),
            );
            case.assert_bytes("sealed", &sealed.expect("a good key"));
            assert_eq!(*invitation, said);
            case.assert_outcome("opens");
        }
        None => case.assert_outcome("bad"),
    }
}

fn filter_set(case: &Case) {
    let tokens = case.bytes("tokens");
    let (tokens, _) = tokens.as_chunks();
    case.assert_bytes("object", &filter::encode(tokens));
    let set = filter::Filter::decode(&case.bytes("object")).expect("a set");
    assert!(tokens.iter().all(|token| set.may_hold(token)));
}

fn cell(case: &Case) {
    let plain = case.array("plain");
    let Ok(cell) = Cell::decode(&plain) else { return case.assert_outcome("no cell") };
    case.assert_outcome("cell");
    let numbers = ["seq", "ack", "sack"].map(|key| case.number(key));
    assert_eq!([cell.seq, cell.ack, cell.sack].map(u64::from), numbers);
    let flags = u64::from(cell.piece.is_some()) + 4 * u64::from(cell.leaving);
    assert_eq!(flags, case.number("flags"));
    case.assert_bytes("piece", cell.piece.as_ref().map_or(&[], Piece::bytes));
    assert_eq!(cell.encode(), plain);
}

fn settings(case: &Case) {
    let Ok(settings) = Settings::decode(&case.bytes("settings")) else {
        return case.assert_outcome("malformed");
    };
    assert_eq!(settings.encode(), case.bytes("settings"));
    let mixes = case.bytes("mixes");
    let signatures = case.bytes("signatures");
    let signatures = signatures.as_chunks().0.to_vec();
    let announced = SignedSettings { settings, signatures, closes_in_ms: 0 };
    let all = announced.signed_by_all(mixes.as_chunks().0.iter());
    case.assert_outcome(if all { "signed" } else { "unsigned" });
}

fn config(case: &Case) {
    let genesis = SignedConfig::decode(&case.bytes("genesis")).expect("a genesis");
    assert_eq!(genesis.encode(), case.bytes("genesis"));
    let now = Time::from_ms(3_000_000);
    let taken = Chain::begin(&case.array("pin"), &genesis).and_then(|mut chain| {
        let Ok(next) = SignedConfig::decode(&case.bytes("next")) else { return Ok(None) };
        chain.accept_config(&next, now).map(|()| Some(chain.head_hash()))
    });
    case.assert_outcome(match taken {
        Ok(Some(head)) if head == chain_head(case) => "taken",
        Ok(Some(_)) => "not taken",
        Ok(None) => "malformed",
        Err(ChainError::NotPinned) => "not pinned",
        Err(ChainError::Foreign) => "foreign",
        Err(ChainError::Rollback) => "rollback",
        Err(ChainError::Gap) => "gap",
        Err(ChainError::Unsigned { .. }) => "unsigned",
        Err(_) => "rounds",
    });
}

fn chain_head(case: &Case) -> [u8; 32] {
    case.array("head")
}

fn frame(case: &Case) {
    let bytes = case.bytes("frame");
    let whole =
        LinkDeframer::default().next_frame(&mut &bytes[..]).expect("a length").expect("a frame");
    assert_eq!(whole, bytes[LENGTH_BYTES..]);
    let Ok(frame) = Frame::decode(&whole) else { return case.assert_outcome("malformed") };
    case.assert_outcome("frame");
    case.assert_bytes("frame", &frame.encode().expect("short enough"));
}

fn permutation(case: &Case) {
    let places = case.bytes("places");
    let places = places.as_chunks().0.iter().map(|place| u32::from_be_bytes(*place));
    let places = places.collect::<Vec<_>>();
    assert_eq!(Permutation::draw(&secret(case, "seed"), places.len()).sources(), places);
}

fn privacy_row(case: &Case) {
    let spent = case.text("spent").split(' ').map(spent_of).collect::<Vec<_>>();
    let epsilon = case.text("epsilon").parse().expect("a number");
    for (key, value) in [
        ("divergence", privacy::divergence_delta(&spent, epsilon).0),
        ("delta", privacy::delta(&spent, epsilon)),
    ] {
        let expected: f64 = case.text(key).parse().expect("a number");
        assert!((value / expected - 1.0).abs() < 1e-6, "{}: {key} {value}", case.name());
    }
}

/// Its figures have ten digits, and come from exact sums of integers.
fn tight_row(case: &Case) {
    let spent = spent_of(case.text("spent"));
    let epsilon = case.text("epsilon").parse().expect("a number");
    let expected: f64 = case.text("delta").parse().expect("a number");
    let found = privacy::tight_delta(&spent, epsilon).expect("a figure");
    let digits = 1e-9 * expected;
    assert!(found.low - digits <= expected && expected <= found.high + digits, "{}", case.name());
    assert!(found.high - found.low < digits, "{}: {found:?}", case.name());
}

/// `mode/service/mu/scale/slots/rounds`.
fn spent_of(text: &str) -> RoundsSpent {
    let fields = text.split('/').collect::<Vec<_>>();
    let number = |at: usize| fields[at].parse::<u32>().expect("a number");
    let mode = if fields[0] == "gauss" { Mode::Gauss } else { Mode::Paper };
    RoundsSpent {
        service: Service::from_number(number(1) as u8).expect("a service"),
        law: Law { mode, mu: number(2), scale: number(3) },
        slots: number(4) as u8,
        rounds: number(5).into(),
    }
}
