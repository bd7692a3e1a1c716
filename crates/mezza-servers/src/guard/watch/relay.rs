//! The two hops of a watchdog: frames pass unchanged, and each is compared on its way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mezza_guard::guard::GuardSide;
use mezza_guard::keys::PairingKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use mezza_host::api::{Exit, Fault};

use super::super::dial;
use super::super::frames::FrameCutter;
use super::{Finding, GuardWatch, InsideWatch};

/// Maximum number of connections of a hop.
const CONNECTIONS_MAX: usize = 1_024;
/// Bytes of a buffer.
const BUFFER_BYTES: usize = 2_048;
/// Time without bytes after which a direction ends.
const IDLE: Duration = Duration::from_secs(3_600);

/// A hop: where it listens, and where its connections go.
#[derive(Clone, Debug)]
pub struct WatchHop {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Name or address of the next machine.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// The work of a watchdog.
pub struct WatchOptions {
    /// From clients to the guard.
    pub inside: WatchHop,
    /// From the guard to a destination.
    pub wire: WatchHop,
    /// The pairing keys of the clients.
    pub pairings: Vec<PairingKey>,
    /// Reports a finding.
    pub report: Arc<dyn Fn(Finding) + Send + Sync>,
}

/// The results of a watchdog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Handshake frames that were compared.
    pub compared: u64,
    /// Findings against the guard.
    pub findings: u64,
}

/// The state that all connections share.
struct Shared {
    watch: GuardWatch,
    findings: u64,
    report: Arc<dyn Fn(Finding) + Send + Sync>,
}

type SharedWatch = Arc<Mutex<Shared>>;

/// One direction of a connection.
struct Direction {
    hop: GuardSide,
    from: GuardSide,
    shared: SharedWatch,
    inside: Arc<Mutex<InsideWatch>>,
}

impl Direction {
    fn compare_frame(&self, frame: &[u8]) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match (self.hop, self.from) {
            (GuardSide::Inside, from) => inside.read_frame(&mut shared.watch, from, frame),
            // Frames of the guard towards the network; those of the peer are not its outputs.
            (GuardSide::Wire, GuardSide::Inside) => shared.watch.read_wire(frame),
            (GuardSide::Wire, GuardSide::Wire) => Ok(()),
        };
        if let Err(finding) = done {
            shared.findings += 1;
            (shared.report)(finding);
        }
    }
}

/// A watchdog that listens on both sides of a guard.
pub struct ListeningWatch {
    inside: (TcpListener, WatchHop),
    wire: (TcpListener, WatchHop),
    shared: SharedWatch,
}

impl ListeningWatch {
    /// Listens on both sides. Connections wait until [`ListeningWatch::run`].
    ///
    /// # Errors
    /// Exit code 69 if an address cannot be listened on.
    pub async fn listen(options: WatchOptions) -> Result<Self, Fault> {
        let WatchOptions { inside, wire, pairings, report } = options;
        let watch = GuardWatch::new(pairings);
        let shared = Arc::new(Mutex::new(Shared { watch, findings: 0, report }));
        let inside = (bind(&inside).await?, inside);
        let wire = (bind(&wire).await?, wire);
        Ok(Self { inside, wire, shared })
    }

    /// Relays both sides until `stop` turns true. Returns the counts.
    pub async fn run(self, mut stop: watch::Receiver<bool>) -> WatchCounts {
        let Self { inside, wire, shared } = self;
        let serve = |(listener, hop), side| {
            tokio::spawn(serve_hop(listener, hop, side, Arc::clone(&shared)))
        };
        let tasks = [serve(inside, GuardSide::Inside), serve(wire, GuardSide::Wire)];
        let _ = stop.wait_for(|stop| *stop).await;
        for task in tasks {
            task.abort();
        }
        let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        WatchCounts { compared: shared.watch.compared, findings: shared.findings }
    }
}

async fn bind(hop: &WatchHop) -> Result<TcpListener, Fault> {
    TcpListener::bind(hop.listen).await.map_err(|_| {
        let text = format!("the watchdog cannot listen on {}", hop.listen);
        Fault::new(Exit::Unreachable, text, "name a free address of this machine")
    })
}

async fn serve_hop(listener: TcpListener, hop: WatchHop, side: GuardSide, shared: SharedWatch) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((socket, _)) = listener.accept().await else {
            // Out of file descriptors: try again soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let hop = hop.clone();
        let shared = shared.clone();
        tokio::spawn(async move {
            relay_connection(socket, &hop, side, shared).await;
            drop(place);
        });
    }
}

async fn relay_connection(socket: TcpStream, hop: &WatchHop, side: GuardSide, shared: SharedWatch) {
    let Ok(next) = dial::connect(&hop.host, hop.port).await else { return };
    let _ = socket.set_nodelay(true);
    let (from, back) = socket.into_split();
    let (next, to) = next.into_split();
    let inside = Arc::new(Mutex::new(InsideWatch::default()));
    let direction = |from| Direction {
        hop: side,
        from,
        shared: Arc::clone(&shared),
        inside: Arc::clone(&inside),
    };
    let out = copy_frames(from, to, direction(GuardSide::Inside));
    let in_again = copy_frames(next, back, direction(GuardSide::Wire));
    tokio::join!(out, in_again);
}

/// Copies frames of one direction. The end is passed on; bytes that are no frame end the direction.
async fn copy_frames(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, direction: Direction) {
    let mut cutter = FrameCutter::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(Ok(count @ 1..)) = timeout(IDLE, from.read(&mut buffer)).await {
        let mut input = buffer.get(..count).unwrap_or_default();
        loop {
            let Ok(next) = cutter.next_frame(&mut input) else { return };
            let Some(frame) = next else { break };
            // Before the frame goes on, so that a coin is known before its key can come.
            direction.compare_frame(&frame);
            if to.write_all(&frame).await.is_err() {
                return;
            }
        }
    }
    let _ = to.shutdown().await;
}
