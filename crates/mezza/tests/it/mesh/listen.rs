//! Messages of a listener to the node, which here is the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use data_encoding::BASE64;
use mezza::testing::process::home::private;
use serde_json::json;

use super::node::{FirstClock, MeshNode};

/// Trials run in a process of their own, which says nothing back: after its one request it does not send a
/// byte, whether a cell opens or not, so that nothing it learns can change a frame.
#[test]
fn mesh_33_a_listener_says_nothing_after_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let node = MeshNode::alone(folder.path(), "n", FirstClock::GOOD);
    let (_, card) = node.keygen();
    let cur = mezza::testing::clock::now().as_ms() / 30_000;
    let envelope = folder.path().join("envelope");
    let [card, out] = [&card, &envelope].map(|path| path.to_str().unwrap());
    let at = format!("tick:{cur}");
    let text = std::fs::File::open(node.home.join("pass")).unwrap();
    let words = ["hibe", "seal", "--card", card, "--at", &at, "--out", out];
    assert!(node.command(&words).stdin(text).output().unwrap().status.success());
    let ours = std::fs::read(&envelope).unwrap();
    let mut others = ours.clone();
    *others.last_mut().unwrap() ^= 1;

    private::make_folder(&node.home.join("run")).unwrap();
    let socket = UnixListener::bind(node.home.join("run/mesh.sock")).unwrap();
    let listener = node.listen();
    let (mut stream, _) = socket.accept().unwrap();
    let mut reads = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    reads.read_line(&mut request).unwrap();
    assert!(request.contains("listen"), "{request}");
    let mut tell = |value: serde_json::Value| writeln!(stream, "{value}").unwrap();
    tell(json!({
        "event": "clock", "cur": cur, "anchor_tick": cur, "state": "agreed", "grade": "good",
        "within_ms": 2_500,
    }));
    for envelope in [&others, &ours, &others] {
        let envelope = BASE64.encode(envelope);
        tell(json!({ "event": "cell", "tick": cur, "life": 0, "envelope": envelope }));
    }
    listener.prints("correct horse battery staple");
    let said = reads.buffer().len();
    let mut byte = [0];
    reads.get_ref().set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let more = reads.get_mut().read(&mut byte);
    assert!(said == 0 && more.is_err(), "it said something: {more:?}");
}
