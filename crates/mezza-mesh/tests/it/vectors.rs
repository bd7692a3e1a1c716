//! Walks `vectors/mesh/*.txt`, right and wrong cases, which a second implementation made.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use mezza_core::{DecodeError, Secret, labelled_hash};
use mezza_mesh::cell::{self, CellError};
use mezza_mesh::wire::{WireFrame, filter};
use mezza_mesh::{MeshCell, MeshNetwork};

/// One case: `key: value` lines.
type Case = BTreeMap<String, String>;

fn cases() -> BTreeMap<String, Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/mesh");
    let mut cases = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "txt") {
            let text = fs::read_to_string(&path).unwrap();
            let fields = text.lines().filter_map(|line| line.split_once(": "));
            let fields = fields.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            cases.insert(path.file_stem().unwrap().to_string_lossy().into_owned(), fields);
        }
    }
    cases
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn cell(name: &str, case: &Case) {
    let mut bytes = hex(&case["cell"]);
    bytes.resize(case["bytes"].parse().unwrap(), hex(&case["fill"])[0]);
    let decoded = MeshCell::decode(&bytes);
    if let Some(error) = case.get("error") {
        let expected = match error.as_str() {
            "size" => CellError::Size,
            "head" => CellError::Head,
            _ => CellError::Payload,
        };
        assert_eq!(decoded, Err(expected), "{name}");
        return;
    }
    let id = decoded.unwrap().id();
    assert_eq!(id.to_vec(), hex(&case["id"]), "{name}");
    assert_eq!(cell::short(&id).to_be_bytes().to_vec(), hex(&case["short"]), "{name}");
    assert_eq!(cell::sum(&id).to_be_bytes().to_vec(), hex(&case["sum"]), "{name}");
}

fn net(name: &str, case: &Case) {
    let key = case.get("key").map(|key| Secret::copy_from(&hex(key).try_into().unwrap()));
    let mut network = MeshNetwork::new(&case["name"], key);
    let noon = (case["day"].parse::<u64>().unwrap() * 86_400 + 43_200) * 1_000_000;
    network.follow(noon);
    assert_eq!(network.net().to_vec(), hex(&case["net"]), "{name}");
    if let Some(frame) = case.get("frame") {
        let mut frame = hex(frame);
        network.close(&mut frame);
        assert_eq!(frame, hex(&case["closed"]), "{name}");
        assert!(network.open(&frame, noon).is_some());
    }
}

fn frame(name: &str, case: &Case) {
    let bytes = hex(&case["frame"]);
    match (WireFrame::decode(&bytes), case.get("error").map(String::as_str)) {
        (Ok(frame), None) => assert_eq!(frame.encode(), bytes, "{name}"),
        (Err(DecodeError::Truncated), Some("truncated"))
        | (Err(DecodeError::Trailing), Some("trailing"))
        | (Err(DecodeError::Value), Some("value")) => (),
        (decoded, _) => panic!("{name}: {decoded:?}"),
    }
}

fn sync(name: &str, case: &Case) {
    let bytes = hex(&case["frame"]);
    let values = WireFrame::decode(&bytes).and_then(|frame| match frame {
        WireFrame::Sync { filter, .. } => filter.values().map(|values| (filter, values)),
        other => panic!("{name}: {other:?}"),
    });
    if case.contains_key("error") {
        assert!(values.is_err(), "{name}");
        return;
    }
    let (filter, values) = values.unwrap();
    let count: u32 = case["count"].parse().unwrap();
    let id = |n: u32| labelled_hash::<16>("test", &[&n.to_be_bytes()]);
    let ids: Vec<_> = (0..count).map(id).collect();
    assert!(ids.iter().all(|id| values.binary_search(&filter.value(id)).is_ok()), "{name}");
    assert_eq!(filter::encode(99, filter.p, &ids), filter.bits, "{name}");
}

#[test]
fn every_case_is_as_the_second_implementation_has_it() {
    let cases = cases();
    for (name, case) in &cases {
        match case["kind"].as_str() {
            "cell" => cell(name, case),
            "net" => net(name, case),
            "frame" => frame(name, case),
            "sync" => sync(name, case),
            other => panic!("{name}: {other}"),
        }
    }
    assert!(cases.len() >= 40, "{} cases", cases.len());
}
