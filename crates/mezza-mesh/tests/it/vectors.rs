//! Walks `vectors/mesh/*.txt`, right and wrong cases, which a second implementation made.

use mezza_core::{DecodeError, Secret, labelled_hash};
use mezza_mesh::cell::{self, CellError};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::wire::sketch::make_symbols;
use mezza_mesh::{MeshCell, MeshNetwork};
use mezza_testing::{Case, read_cases};

fn cell(case: &Case) {
    let mut bytes = case.bytes("cell");
    bytes.resize(case.parse_value("bytes"), case.bytes("fill")[0]);
    let decoded = MeshCell::decode(&bytes);
    if let Some(error) = case.texts("error").next() {
        let expected = match error {
            "size" => CellError::Size,
            "head" => CellError::Head,
            _ => CellError::Payload,
        };
        assert_eq!(decoded, Err(expected), "{}", case.name());
        return;
    }
    let id = decoded.unwrap().id();
    assert_eq!(id.to_vec(), case.bytes("id"), "{}", case.name());
    assert_eq!(cell::short_id(&id).to_be_bytes().to_vec(), case.bytes("short"), "{}", case.name());
    assert_eq!(cell::sum_part(&id).to_be_bytes().to_vec(), case.bytes("sum"), "{}", case.name());
}

fn net(case: &Case) {
    let key = case.has_key("key").then(|| Secret::copy_from(&case.array("key")));
    let mut network = MeshNetwork::new(case.text("name"), key);
    let noon = (case.number("day") * 86_400 + 43_200) * 1_000_000;
    network.follow_clock(noon);
    assert_eq!(network.net().to_vec(), case.bytes("net"), "{}", case.name());
    if case.has_key("frame") {
        let mut frame = case.bytes("frame");
        network.append_mac(&mut frame);
        assert_eq!(frame, case.bytes("closed"), "{}", case.name());
        assert!(network.check_mac(&frame, noon).is_some());
    }
}

fn frame(case: &Case) {
    let bytes = case.bytes("frame");
    match (WireFrame::decode(&bytes), case.texts("error").next()) {
        (Ok(frame), None) => assert_eq!(frame.encode(), bytes, "{}", case.name()),
        (Err(DecodeError::Truncated), Some("truncated"))
        | (Err(DecodeError::Trailing), Some("trailing"))
        | (Err(DecodeError::Value), Some("value")) => (),
        (decoded, _) => panic!("{}: {decoded:?}", case.name()),
    }
}

fn sync(case: &Case) {
    let bytes = case.bytes("frame");
    let decoded = WireFrame::decode(&bytes);
    if case.has_key("error") {
        assert!(decoded.is_err(), "{}", case.name());
        return;
    }
    let Ok(WireFrame::Sync { key, from, symbols, .. }) = decoded else {
        panic!("{}: {decoded:?}", case.name());
    };
    let count: u32 = case.parse_value("count");
    let id = |n: u32| labelled_hash::<16>("test", &[&n.to_be_bytes()]);
    let ids: Vec<_> = (0..count).map(id).collect();
    let from = usize::from(from);
    let made = make_symbols(key, &ids, from, from + symbols.len());
    assert_eq!(made, symbols, "{}", case.name());
}

#[test]
fn every_case_is_as_the_second_implementation_has_it() {
    for case in read_cases("mesh", 40) {
        match case.text("kind") {
            "cell" => cell(&case),
            "net" => net(&case),
            "frame" => frame(&case),
            "sync" => sync(&case),
            other => panic!("{}: {other}", case.name()),
        }
    }
}
