//! A relay of a test's own, and clients that speak with it frame by frame.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use mezza::testing::clock::{Clock, Moment};
use mezza::testing::connection::relay::{self, Connection, ConnectionError};
use mezza::testing::connection::tap::Tap;
use mezza::testing::servers::relay::{Limits, RelayConfig, RelayHandle, StoreSpec, start_relay};
use mezza::testing::tls::{Pin, client_config};
use mezza_core::{Secret, Time};
use mezza_messenger::card::RelayKey;
use mezza_messenger::relay_wire::{
    ClientFrame, DoneCode, MailboxAddress, MailboxKind, RawOneTimePrekey, RelayDeframer, RelayFrame,
};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::postgres;

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The first moment of a test's clock: noon of a day in 2026.
pub const NOON: u64 = 20_600 * Time::DAY_MS + 12 * Time::HOUR_MS;

/// A clock that moves when the test says so.
#[derive(Clone)]
pub struct TestClock(Arc<Mutex<Moment>>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Moment::even(Time::from_ms(NOON)))))
    }

    /// Time passes, by both clocks.
    pub fn pass(&self, ms: u64) {
        let mut at = self.0.lock().unwrap();
        *at = Moment { wall: at.wall.plus_ms(ms), boot: at.boot.plus_ms(ms) };
    }

    /// Somebody sets the clock on the wall to this long after the first noon.
    pub fn set(&self, ms: u64) {
        self.0.lock().unwrap().wall = Time::from_ms(NOON + ms);
    }

    pub fn clock(&self) -> Clock {
        let at = self.0.clone();
        Clock::from_fn(move || *at.lock().unwrap())
    }
}

/// A clock at which the relay's writer, and nobody else, waits while the gate is shut: in the midst
/// of its transaction.
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn before(clock: Clock) -> (Self, Clock) {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let writers = Arc::clone(&gate);
        let clock = Clock::from_fn(move || {
            if thread::current().name() == Some("relay-writer") {
                let (shut, opened) = &*writers;
                drop(opened.wait_while(shut.lock().unwrap(), |shut| *shut).unwrap());
            }
            clock.read()
        });
        (Self(gate), clock)
    }

    pub fn set(&self, shut: bool) {
        *self.0.0.lock().unwrap() = shut;
        self.0.1.notify_all();
    }
}

/// The state that outlives one run of a relay.
pub struct Place {
    pub dir: TempDir,
    pub store: StoreSpec,
    pub limits: Limits,
    pub clock: TestClock,
}

impl Place {
    pub fn sqlite() -> Self {
        Self::new(StoreSpec::Sqlite(None))
    }

    fn new(store: StoreSpec) -> Self {
        let dir = TempDir::new().unwrap();
        let limits = Limits { maintenance_ms: 20, ..Limits::default() };
        Self { dir, store, limits, clock: TestClock::new() }
    }

    /// A place on SQLite, and one on PostgreSQL where there is a server.
    pub async fn both() -> Vec<Self> {
        let database = postgres::database().await;
        let postgres = database.map(|url| Self::new(StoreSpec::Postgres(url)));
        [Some(Self::sqlite()), postgres].into_iter().flatten().collect()
    }

    pub fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub fn config(&self) -> RelayConfig {
        RelayConfig {
            dir: self.dir.path().join("relay"),
            listen: "127.0.0.1:0".parse().unwrap(),
            store: self.store.clone(),
            limits: self.limits.clone(),
            clock: self.clock.clock(),
            tap: None,
        }
    }

    pub async fn start(&self) -> Relay {
        self.start_with(self.config()).await
    }

    pub async fn start_with(&self, config: RelayConfig) -> Relay {
        let (stop, stopped) = watch::channel(false);
        let handle = start_relay(config, stopped).await.unwrap();
        Relay { handle, stop, clock: self.clock.clone() }
    }
}

/// A running relay.
pub struct Relay {
    pub handle: RelayHandle,
    pub stop: watch::Sender<bool>,
    clock: TestClock,
}

impl Relay {
    pub async fn connect(&self) -> Peer {
        self.connect_with(None).await
    }

    pub async fn connect_with(&self, tap: Option<Arc<dyn Tap>>) -> Peer {
        Peer::connect(self.handle.key(), self.handle.address().port(), &self.clock, tap).await
    }

    pub async fn stop(self) {
        self.stop_within(Duration::from_secs(2)).await;
    }

    pub async fn stop_within(self, limit: Duration) {
        self.stop.send(true).unwrap();
        timeout(limit, self.handle.wait()).await.expect("it stops in time").unwrap();
    }
}

/// A client.
pub struct Peer {
    pub connection: Connection,
    /// Frames that came while something else was awaited.
    waiting: VecDeque<RelayFrame>,
    req: u16,
}

impl Peer {
    pub async fn connect(
        key: &RelayKey,
        port: u16,
        clock: &TestClock,
        tap: Option<Arc<dyn Tap>>,
    ) -> Self {
        let clock = clock.clock();
        let connecting = relay::connect_relay(key, "127.0.0.1", port, &clock, tap);
        let connection = timeout(PATIENCE, connecting).await.unwrap().unwrap();
        Self { connection, waiting: VecDeque::new(), req: 0 }
    }

    pub fn next_req(&mut self) -> u16 {
        self.req += 1;
        self.req
    }

    pub async fn send(&mut self, frame: &ClientFrame) {
        self.connection.send(frame).await.unwrap();
    }

    /// The next frame in the order in which they came.
    pub async fn recv(&mut self) -> Result<RelayFrame, ConnectionError> {
        match self.waiting.pop_front() {
            Some(frame) => Ok(frame),
            None => timeout(PATIENCE, self.connection.recv()).await.expect("a frame in time"),
        }
    }

    /// The answer to request `req`; what else comes waits.
    pub async fn answer(&mut self, wanted: u16) -> RelayFrame {
        let mut others = VecDeque::new();
        loop {
            let frame = self.recv().await.unwrap();
            match &frame {
                RelayFrame::Done { req, .. } | RelayFrame::Bundle { req, .. } if *req == wanted => {
                    others.append(&mut self.waiting);
                    self.waiting = others;
                    return frame;
                }
                _ => others.push_back(frame),
            }
        }
    }

    async fn code(&mut self, req: u16) -> (DoneCode, u16) {
        match self.answer(req).await {
            RelayFrame::Done { code, retry_s, .. } => (code, retry_s),
            other => panic!("{other:?} in place of DONE"),
        }
    }

    pub async fn open(&mut self, token: u8, kind: MailboxKind) -> (DoneCode, u16) {
        let req = self.next_req();
        self.send(&ClientFrame::Open { req, token: secret(token), kind }).await;
        self.code(req).await
    }

    pub async fn close_box(&mut self, token: u8) -> (DoneCode, u16) {
        let req = self.next_req();
        self.send(&ClientFrame::Close { req, token: secret(token) }).await;
        self.code(req).await
    }

    pub async fn put(&mut self, token: u8, envelope: Vec<u8>) -> (DoneCode, u16) {
        self.put_for(token, 720, envelope).await
    }

    pub async fn put_for(&mut self, token: u8, ttl_h: u16, envelope: Vec<u8>) -> (DoneCode, u16) {
        let req = self.put_unanswered(token, ttl_h, envelope).await;
        self.code(req).await
    }

    pub async fn put_unanswered(&mut self, token: u8, ttl_h: u16, envelope: Vec<u8>) -> u16 {
        let req = self.next_req();
        self.send(&ClientFrame::Put { req, address: place(token), ttl_h, envelope }).await;
        req
    }

    pub async fn watch(&mut self, number: u16, token: u8) -> (DoneCode, u16) {
        let req = self.next_req();
        self.send(&ClientFrame::Watch { req, number, token: secret(token) }).await;
        self.code(req).await
    }

    /// The next MAIL: box number, mail number, envelope.
    pub async fn mail(&mut self) -> (u16, u32, Vec<u8>) {
        match self.recv().await.unwrap() {
            RelayFrame::Mail { number, nr, envelope } => (number, nr, envelope),
            other => panic!("{other:?} in place of MAIL"),
        }
    }

    /// The next STOCK.
    pub async fn stock(&mut self) -> (u16, u16) {
        match self.recv().await.unwrap() {
            RelayFrame::Stock { number, left } => (number, left),
            other => panic!("{other:?} in place of STOCK"),
        }
    }

    pub async fn taken(&mut self, number: u16, mails: &[u32]) {
        self.send(&ClientFrame::Taken { number, mails: mails.to_vec() }).await;
    }

    pub async fn bundle_set(
        &mut self,
        token: u8,
        fresh: bool,
        bundle: &[u8],
        ids: impl IntoIterator<Item = u32>,
    ) -> (DoneCode, u16) {
        let req = self.next_req();
        let keys = ids.into_iter().map(one_time).collect();
        let bundle = bundle.to_vec();
        self.send(&ClientFrame::BundleSet { req, token: secret(token), fresh, bundle, keys }).await;
        self.code(req).await
    }

    pub async fn bundle_get(&mut self, token: u8) -> RelayFrame {
        let req = self.next_req();
        self.send(&ClientFrame::BundleGet { req, address: place(token) }).await;
        self.answer(req).await
    }

    /// Waits until the relay has handled all that was sent, and says whether anything came.
    pub async fn is_silent(&mut self) -> bool {
        if !self.waiting.is_empty() {
            return false;
        }
        // Twice: the first answers may overtake what the writer still has to say.
        for _ in 0..2 {
            let req = self.next_req();
            self.send(&ClientFrame::Close { req, token: secret(0xee) }).await;
            let answer = RelayFrame::Done { req, code: DoneCode::NoBox, retry_s: 0 };
            if self.recv().await.unwrap() != answer {
                return false;
            }
        }
        true
    }

    /// Waits for the end of the connection.
    pub async fn ended(&mut self) -> bool {
        matches!(self.recv().await, Err(ConnectionError::Closed | ConnectionError::Io(_)))
    }
}

/// The token of a box: 32 times the same byte.
pub fn secret(token: u8) -> Secret<32> {
    Secret::init_with(|bytes| bytes.fill(token))
}

/// The address of that box.
pub fn place(token: u8) -> MailboxAddress {
    MailboxAddress::from_token(&secret(token))
}

/// A one-time key that tells its id.
pub fn one_time(id: u32) -> RawOneTimePrekey {
    let mut key = [0x77; 32];
    key[..4].copy_from_slice(&id.to_be_bytes());
    RawOneTimePrekey { id, key }
}

/// An envelope of the smallest size, told apart by its first bytes.
pub fn letter(nr: u32) -> Vec<u8> {
    sized(nr, 512)
}

/// An envelope of `bytes` bytes.
pub fn sized(nr: u32, bytes: usize) -> Vec<u8> {
    let mut envelope = vec![0x5a; bytes];
    envelope[..4].copy_from_slice(&nr.to_be_bytes());
    envelope
}

pub const DONE: (DoneCode, u16) = (DoneCode::Done, 0);
pub const NO_BOX: (DoneCode, u16) = (DoneCode::NoBox, 0);
pub const REFUSED: (DoneCode, u16) = (DoneCode::Refused, 0);

/// A client that writes bytes of its own instead of frames.
pub struct RawPeer {
    stream: TlsStream<TcpStream>,
    splitter: RelayDeframer,
}

impl RawPeer {
    pub async fn connect(relay: &Relay) -> Self {
        let socket = TcpStream::connect(relay.handle.address()).await.unwrap();
        let config = client_config(Pin::new(relay.handle.key().0)).unwrap();
        let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let stream = TlsConnector::from(config).connect(name, socket).await.unwrap();
        let mut peer = Self { stream, splitter: RelayDeframer::default() };
        let hello = peer.frame().await;
        assert!(matches!(hello, Some(RelayFrame::Hello { version: 1, .. })));
        peer
    }

    /// Writes; what the relay no longer reads is lost.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _gone = self.stream.write_all(bytes).await;
        let _gone = self.stream.flush().await;
    }

    async fn frame(&mut self) -> Option<RelayFrame> {
        loop {
            let mut byte = [0];
            match timeout(PATIENCE, self.stream.read(&mut byte)).await.unwrap() {
                Ok(1) => (),
                _ => return None,
            }
            if let Some(frame) = self.splitter.next_frame(&mut &byte[..]).unwrap() {
                return Some(RelayFrame::decode(&frame).unwrap());
            }
        }
    }

    /// All frames until the relay closes the connection.
    pub async fn frames_to_end(&mut self) -> Vec<RelayFrame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame().await {
            frames.push(frame);
        }
        frames
    }
}
