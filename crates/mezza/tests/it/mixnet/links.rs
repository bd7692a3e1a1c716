//! Links: who gets in, and what ends them.

use std::sync::Arc;

use mezza::testing::connection::link::{CLIENT, CONTROL, DATA, STORE, dial};
use mezza::testing::servers::mixnet::demo::{self, DemoFiles};
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::{client, network};
use mezza::testing::tls::Pin;
use mezza_mixnet::wire::filter::Filter;
use mezza_mixnet::wire::frame::VERSION;
use mezza_mixnet::wire::{Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};
use tokio::io::AsyncReadExt as _;

use super::guest::Guest;

/// Returns true if a connection is closed without a byte.
async fn is_closed(mut stream: impl tokio::io::AsyncRead + Unpin) -> bool {
    let reading = stream.read_u8();
    let read = tokio::time::timeout(std::time::Duration::from_secs(10), reading).await;
    read.expect("a strange link is closed at once").is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn mix_1_only_the_keys_of_the_config_have_links() {
    let folder = tempfile::tempdir().unwrap();
    let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
    let running = demo::start_from_files(&files).await.unwrap();
    let signed = network::read_config(&files.config_path()).unwrap();
    let config = signed.config();
    let identity =
        |name: &str| Arc::new(ServerKey::load(&files.key_path(name)).unwrap().identity().unwrap());
    let mix = &config.mixes[1].server;
    let bucket = &config.bucket;
    let strangers = [
        (mix, CONTROL, "guardian"),
        (mix, CONTROL, "mix0"),
        (mix, DATA, "entry"),
        (mix, DATA, "mix2"),
        (bucket, STORE, "mix0"),
    ];
    for (server, protocol, name) in strangers {
        let own = identity(name);
        let stream = dial(&server.address, protocol, Pin::new(server.key), Some(&own)).await;
        // TLS 1.3 tells a client only after its own handshake that its key is not taken.
        let refused = match stream {
            Err(_) => true,
            Ok(stream) => is_closed(stream).await,
        };
        assert!(refused, "{name}");
    }
    // Without a key of one's own, with another protocol, with another key pinned.
    let key = mix.key;
    let address = &mix.address;
    let anonymous = dial(address, CONTROL, Pin::new(key), None).await;
    assert!(match anonymous {
        Err(_) => true,
        Ok(stream) => is_closed(stream).await,
    });
    let own = identity("entry");
    assert!(dial(address, CLIENT, Pin::new(key), Some(&own)).await.is_err());
    assert!(dial(address, CONTROL, Pin::new(bucket.key), Some(&own)).await.is_err());
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_joins_by_the_link_and_bad_bytes_end_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
    let running = demo::start_from_files(&files).await.unwrap();
    let chain = client::join_network(&running.uri).await.unwrap();
    let mut other = running.uri.clone();
    other.genesis[0] ^= 1;
    let refused = client::join_network(&other).await.unwrap_err();
    assert!(refused.text.contains("differs from the link you opened"), "{refused}");

    let hello = Frame::Hello { version: VERSION, config: chain.head_hash() }.encode().unwrap();
    // A type that no frame has; a frame longer than a client's may be; a frame of a server; twice.
    let mut unknown = hello.clone();
    unknown[4] = 0x77;
    let long = [0, 0, 0x10, 0x01];
    let servers =
        Frame::Welcome { head: [0; 32], now: mezza::testing::clock::now() }.encode().unwrap();
    let twice = [hello.clone(), hello.clone()].concat();
    for bad in [&unknown[..], &long, &servers, &twice] {
        let mut guest = Guest::connect(&chain).await;
        guest.say_bytes(bad).await;
        while guest.next().await.is_some() {}
    }
    Guest::welcomed(&chain).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_come_from_the_store_signed_once_a_round() {
    let folder = tempfile::tempdir().unwrap();
    let files = DemoFiles::load_or_make(&folder.path().join("mixnet")).unwrap();
    let running = demo::start_from_files(&files).await.unwrap();
    let chain = client::join_network(&running.uri).await.unwrap();
    let mut guest = Guest::welcomed(&chain).await;
    let told = guest.settings(Service::Call).await;
    let id = told.settings.id;
    // A message that no mix can open is counted, too; the round is returned all the same.
    guest.say(&Frame::Round(id, FrameBody::Submit(vec![7; 164]))).await;
    let of_round = |its: RoundId, body| (its == id).then_some(body);
    assert_eq!(guest.body(of_round).await, FrameBody::Return { users: 1, replies: Vec::new() });
    guest.say(&Frame::Round(id, FrameBody::Fetch { bucket: 1 })).await;
    let FrameBody::Object(Some((manifest, signature))) = guest.body(of_round).await else {
        panic!("the bucket is not there");
    };
    let FrameBody::Chunk { bucket: 1, offset: 0, bytes } = guest.body(of_round).await else {
        panic!("the bucket is not in one piece");
    };
    let last = chain.head_config().mix_keys().last().unwrap();
    assert!(manifest.signed_by(last, &chain.head_hash(), &signature));
    assert!(manifest.holds_object(1, &bytes));
    // Noise of three mixes: 40 each, sigma 6.
    assert!((60..=180).contains(&Filter::decode(&bytes).unwrap().count()));
    guest.say(&Frame::Round(id, FrameBody::Fetch { bucket: 1 })).await;
    while guest.next().await.is_some() {}
    running.stop().await.unwrap();
}
