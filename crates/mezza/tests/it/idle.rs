//! A node locks itself when nobody asks, and what a page asks by itself is nobody.

use std::time::{Duration, Instant};

use mezza::testing::api::json::{EventKind, NodeStateJson};
use mezza::testing::carriers::Dialer;
use mezza::testing::clock::Clock;
use mezza::testing::node::{self, NodeHandle, NodeOptions};

/// Seconds until the node of these tests locks itself.
const IDLE_S: u64 = 6;

async fn state(node: &NodeHandle) -> NodeStateJson {
    node.ask(|desk| Ok(desk.state())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_a_node_that_nobody_asks_locks_itself() {
    let folder = tempfile::tempdir().unwrap();
    let options = NodeOptions {
        vault: folder.path().join("vault"),
        witness: None,
        demo: true,
        idle_lock_s: IDLE_S,
        clock: Clock::system(),
        dialer: Dialer::default(),
        mesh: None,
        link: None,
        observer: None,
    };
    let running = node::start_node(options);
    let node = running.node.clone();
    let mut live = node.events().listen(None).live;
    node.ask(|desk| desk.create_identity("Nora", b"passphrase", &[])).await.unwrap();
    // Somebody is there: it stays open for longer than the time.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1_500 * IDLE_S) {
        node.touch();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(state(&node).await, NodeStateJson::Open);
    // Only polls arrive: the node locks itself, and says so.
    let last = Instant::now();
    let locked = async { while live.recv().await.unwrap().kind != EventKind::Locked {} };
    let looks = async {
        while state(&node).await == NodeStateJson::Open {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), async { tokio::join!(locked, looks) })
        .await
        .unwrap();
    assert!(last.elapsed() >= Duration::from_millis(IDLE_S * 900), "{:?}", last.elapsed());
    assert_eq!(state(&node).await, NodeStateJson::Locked);
    let refused = node.ask(|desk| desk.own_identity()).await.unwrap_err();
    assert_eq!(refused.word, "locked");
    let refused = node.ask(|desk| desk.unlock_vault(b"another one")).await.unwrap_err();
    assert_eq!((refused.word, refused.fault.code.number()), ("passphrase", 77));
    node.ask(|desk| desk.unlock_vault(b"passphrase")).await.unwrap();
    assert_eq!(node.ask(|desk| desk.own_identity()).await.unwrap().name, "Nora");
    running.stop(Duration::from_secs(5)).await;
}
