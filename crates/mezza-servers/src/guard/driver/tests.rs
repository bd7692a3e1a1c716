//! The driver with a disk that refuses, on the thread of the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use mezza_core::{Machine as _, Secret};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::CoinEncoding;
use mezza_guard::guard::GuardConnection;
use mezza_guard::keys::PairingKey;
use mezza_guard::wire::control::GuardMode;
use mezza_host::clock::Clock;
use mezza_host::process::home::failing::{Failing, WriteStep};
use mezza_host::process::limiter::{Bounds, ConnectionLimiter};
use nix::errno::Errno;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::ledger::load_ledger;
use super::super::peers::{ClientEntry, DestEntry};
use super::super::server::StartedGuard;
use super::*;

/// Silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_millis(400);

/// A driver whose events the test hands over itself, and a client.
struct Bench {
    folder: GuardFolder,
    shell: GuardShell,
    events: mpsc::Receiver<ShellEvent>,
    limiter: Arc<ConnectionLimiter>,
    listener: TcpListener,
    client: GuardClient,
    rows: BTreeMap<[u8; 32], Vec<u8>>,
    last: u64,
    _home: tempfile::TempDir,
    _destination: TcpListener,
}

impl Bench {
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let folder = GuardFolder::at(&home.path().join("guard"));
        assert!(folder.make_files(&mut OsRng).expect("made"));
        let pairing = folder.store_pairing(&Secret::random(&mut OsRng)).expect("stored");
        let destination = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = destination.local_addr().expect("an address").port();
        let host = "127.0.0.1".to_owned();
        let dest = DestEntry { number: 0, host, port, blocked: false, counter: None, pins: None };
        folder
            .change_peers(|peers| {
                peers.put_client(pairing.client_id(), ClientEntry::default())?;
                peers.add_dest("bob", dest)
            })
            .expect("changed");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = GuardConfig { listen, tick_ms: 0, ..GuardConfig::default() };
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let context = SideContext { events: sender, clock: Clock::system(), tick_ms: 0 };
        let shell =
            StartedGuard::open(folder.clone(), config).expect("a guard").into_shell(context);
        let most = u32::MAX;
        let bounds = Bounds { connections: 9, handshakes: 9, per_address: most, per_site: most };
        Self {
            folder,
            shell,
            events,
            limiter: ConnectionLimiter::new(bounds),
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
            client: make_client(&pairing),
            rows: BTreeMap::new(),
            last: 0,
            _home: home,
            _destination: destination,
        }
    }

    async fn handle(&mut self, event: ShellEvent) {
        self.shell.handle_event(event);
        self.shell.settle_outputs().await.expect("settled");
    }

    /// Dials destination 1. Returns the key that client and guard made.
    async fn dial(&mut self) -> Option<[u8; 32]> {
        self.last += 1;
        let conn = GuardConnection(self.last);
        let at = self.listener.local_addr().expect("an address");
        let mut socket = TcpStream::connect(at).await.expect("connected");
        let (accepted, address, permit) = self.limiter.accept(&self.listener).await;
        let permit = permit.expect("room");
        let from = AcceptedFrom::Inside;
        self.handle(ShellEvent::Accepted { from, socket: accepted, address, permit }).await;
        let now = self.shell.boot();
        let input = client::Input::Dial(conn, GuardMode::Coins, 1);
        self.client.handle(input, now, &mut OsRng).expect("a new connection");
        let mut key = None;
        let mut cutter = super::super::frames::FrameCutter::default();
        loop {
            while let Some(output) = self.client.poll() {
                match output {
                    client::Output::Send(_, frame) => drop(socket.write_all(&frame).await),
                    client::Output::Store(coin) => {
                        self.rows.insert(*coin.commitment(), coin.encode().to_vec());
                    }
                    client::Output::Key(_, pair) => {
                        key = Some(pair.public_key(CoinEncoding::X25519));
                    }
                    _ => {}
                }
            }
            let mut buffer = [0; 512];
            tokio::select! {
                event = self.events.recv() => self.handle(event.expect("an event")).await,
                read = socket.read(&mut buffer) => {
                    let count = read.unwrap_or(0);
                    let mut input = &buffer[..count];
                    while let Ok(Some(frame)) = cutter.next_frame(&mut input) {
                        let input = client::Input::Frame(conn, frame);
                        let _ = self.client.handle(input, now, &mut OsRng);
                    }
                    if count == 0 {
                        break;
                    }
                }
                () = sleep(SILENCE) => break,
            }
        }
        let _ = self.client.handle(client::Input::Closed(conn), now, &mut OsRng);
        while self.client.poll().is_some() {}
        self.handle(ShellEvent::Side(SideEvent::Ended { conn, side: GuardSide::Inside })).await;
        key
    }

    fn open_slots(&self) -> usize {
        load_ledger(&self.folder.ledger_path()).expect("a ledger").open_slots().count()
    }
}

fn make_client(pairing: &PairingKey) -> GuardClient {
    GuardClient::new(pairing.duplicate(), CoinEncoding::X25519)
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_50_no_coin_is_shown_while_its_point_is_not_on_the_disk() {
    for step in [WriteStep::Write, WriteStep::Sync] {
        let mut bench = Bench::new().await;
        let failing = Failing::after(0, step, Errno::ENOSPC);
        assert_eq!(bench.dial().await, None, "the point could not be stored");
        // Memory has the point now. The disk does not, so the same point gets no coin either.
        assert_eq!(bench.dial().await, None);
        assert!(bench.shell.ledger.is_stale());
        drop(failing);
        // After a failed sync the bytes may be there; after a failed write they are not.
        assert!(step == WriteStep::Sync || bench.open_slots() == 0);
        let key = bench.dial().await;
        assert!(key.is_some());
        assert_eq!(bench.open_slots(), 1, "the point is durable");
        assert_eq!(bench.dial().await, key, "the coin of a stored point comes back");
    }
}

#[tokio::test]
async fn an_inbound_address_that_is_taken_closes_the_guard_for_nobody_else() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = GuardFolder::at(&home.path().join("guard"));
    assert!(folder.make_files(&mut OsRng).expect("made"));
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let inbound = Some(taken.local_addr().expect("an address"));
    let pairing = folder.store_pairing(&Secret::random(&mut OsRng)).expect("stored");
    let entry = ClientEntry { inbound, ..ClientEntry::default() };
    folder.change_peers(|peers| peers.put_client(pairing.client_id(), entry)).expect("changed");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = GuardConfig { listen, ..GuardConfig::default() };
    let started = StartedGuard::open(folder, config).expect("it serves the others");
    assert!(TcpStream::connect(started.address).await.is_ok());
}
