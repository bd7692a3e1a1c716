//! The tap shows what passes: beside a proxy that records the wire, and from both ends.
//!
//! ```text
//!  client [tap] ---- proxy (records) ---- [tap] relay
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mezza::testing::connection::tap::{Direction, Side, Tap, TapEvent};
use mezza_messenger::relay_wire::MailboxKind::Conversation;
use mezza_messenger::relay_wire::{ClientFrame, RelayDeframer, RelayFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::fixture::*;

#[derive(Default)]
struct Recorder(Mutex<BTreeMap<(bool, bool), Vec<u8>>>);

impl Recorder {
    fn bytes(&self, side: Side, direction: Direction) -> Vec<u8> {
        self.0.lock().unwrap().get(&key(side, direction)).cloned().unwrap_or_default()
    }
}

fn key(side: Side, direction: Direction) -> (bool, bool) {
    (side == Side::Wire, direction == Direction::ToRelay)
}

impl Tap for Recorder {
    fn record(&self, event: TapEvent<'_>) {
        let mut bytes = self.0.lock().unwrap();
        bytes.entry(key(event.side, event.direction)).or_default().extend_from_slice(event.bytes);
    }
}

/// Copies one way until the end, and gives what passed.
fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        let mut seen = Vec::new();
        let mut buffer = [0; 3_000];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        let _gone = to.shutdown().await;
        seen
    })
}

#[tokio::test]
async fn the_tap_shows_what_the_wire_carries() {
    let ours = Arc::new(Recorder::default());
    let theirs = Arc::new(Recorder::default());
    let place = Place::sqlite();
    let mut config = place.config();
    config.tap = Some(theirs.clone());
    let relay = place.start_with(config).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port();
    let target = relay.handle.address();
    let proxied = tokio::spawn(async move {
        let (client, _) = proxy.accept().await.unwrap();
        let (from_client, to_client) = client.into_split();
        let (from_relay, to_relay) = TcpStream::connect(target).await.unwrap().into_split();
        let up = copy(from_client, to_relay);
        let down = copy(from_relay, to_client);
        (up.await.unwrap(), down.await.unwrap())
    });
    let mut alice = Peer::connect(relay.handle.key(), port, &place.clock, Some(ours.clone())).await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    assert_eq!(alice.watch(1, 1).await, DONE);
    for (nr, bytes) in [512, 16_384, 1_024].into_iter().enumerate() {
        alice.put_unanswered(1, 9, sized(nr as u32, bytes)).await;
    }
    for _ in 0..6 {
        alice.recv().await.unwrap();
    }
    alice.connection.close().await.unwrap();
    let (up, down) = proxied.await.unwrap();
    relay.stop().await;
    assert!(up.len() > 18_000 && down.len() > 18_000);
    for tap in [&ours, &theirs] {
        assert_eq!(tap.bytes(Side::Wire, Direction::ToRelay), up);
    }
    assert_eq!(theirs.bytes(Side::Wire, Direction::ToClient), down);
    // The client hung up without reading the relay's last bytes: those it read are the first.
    let read = ours.bytes(Side::Wire, Direction::ToClient);
    assert_eq!(read[..], down[..read.len()]);
    let sent = ours.bytes(Side::Frame, Direction::ToRelay);
    assert_eq!(sent, theirs.bytes(Side::Frame, Direction::ToRelay));
    let frames = split(&sent);
    assert_eq!(frames.len(), 5);
    for frame in frames {
        ClientFrame::decode(&frame).unwrap();
    }
    let got = ours.bytes(Side::Frame, Direction::ToClient);
    assert_eq!(got, theirs.bytes(Side::Frame, Direction::ToClient));
    let frames = split(&got);
    assert_eq!(frames.len(), 9);
    assert!(matches!(RelayFrame::decode(&frames[0]), Ok(RelayFrame::Hello { .. })));
}

fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut splitter = RelayDeframer::default();
    let mut frames = Vec::new();
    while let Some(frame) = splitter.next_frame(&mut bytes).unwrap() {
        frames.push(frame);
    }
    frames
}
