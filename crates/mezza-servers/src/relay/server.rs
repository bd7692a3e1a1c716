//! The relay's listener: accepts, counts, stops.

use mezza_messenger::card::RelayKey;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::connection::{self, Shared};
use super::date::RelayDate;
use super::error::RelayError;
use super::limits::Limits;
use super::store::{self, StoreSpec};
use super::usage::Usage;
use super::writer::{self, Ended};
use mezza_host::clock::Clock;
use mezza_host::connection::tap::Tap;
use mezza_host::process::limiter::{ClientSource, ConnectionLimiter, ConnectionPermit};
use mezza_host::process::lock::Lock;
use mezza_host::tls::{self, TlsIdentity, fingerprint};

/// Connections beyond the limits that get a refusal at the same time; more are closed at once,
/// because each refusal costs a handshake.
const REFUSALS_MAX: usize = 16;
/// How long a stopping relay waits for its connections.
const STOP: Duration = Duration::from_millis(1_500);

/// Time limit for the writer after [`STOP`], to finish its queue and close the store. Both limits
/// together are below two seconds (NODE-2).
const LAST: Duration = Duration::from_millis(350);

/// Options of a relay.
#[derive(Clone)]
pub struct RelayConfig {
    /// The folder of key, lock and SQLite file; made with mode 0700 at the first start.
    pub dir: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The store of the mail.
    pub store: StoreSpec,
    /// Limits for clients.
    pub limits: Limits,
    /// The clock.
    pub clock: Clock,
    /// A tap for the observer.
    pub tap: Option<Arc<dyn Tap>>,
}

impl RelayConfig {
    /// A relay in `dir` with SQLite and the protocol's limits.
    pub fn new(dir: impl Into<PathBuf>, listen: SocketAddr) -> Self {
        Self {
            dir: dir.into(),
            listen,
            store: StoreSpec::default(),
            limits: Limits::default(),
            clock: Clock::default(),
            tap: None,
        }
    }
}

impl fmt::Debug for RelayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelayConfig({})", self.dir.display())
    }
}

/// A running relay.
#[derive(Debug)]
pub struct RelayHandle {
    address: SocketAddr,
    key: RelayKey,
    task: JoinHandle<Result<(), RelayError>>,
}

impl RelayHandle {
    /// Returns the address that the relay listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the relay's public key, as cards carry it.
    pub fn key(&self) -> &RelayKey {
        &self.key
    }

    /// Waits until the relay has stopped and everything it confirmed is durable.
    pub async fn wait(self) -> Result<(), RelayError> {
        self.task.await.unwrap_or(Err(RelayError::WriterGone))
    }
}

/// Starts a relay. It runs until `stop` turns true or its sender is dropped, and then ends within
/// two seconds with every accepted mail committed.
///
/// # Errors
/// [`RelayError`] if the key or store cannot be opened or the port cannot be bound.
pub async fn start_relay(
    config: RelayConfig,
    stop: watch::Receiver<bool>,
) -> Result<RelayHandle, RelayError> {
    let identity = TlsIdentity::load_or_make(&config.dir)?;
    let lock = super::lock_dir(&config.dir)?;
    let tls = TlsAcceptor::from(tls::server_config(&identity)?);
    let store = store::open(&config.store, &config.dir).await?;
    let listen = |source| RelayError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    super::tell_address(&config.dir, address);
    let date = RelayDate::open(&config.dir, config.clock.read());
    let (jobs, ended) =
        writer::spawn_writer(store, config.limits.clone(), config.clock.clone(), date)
            .map_err(|source| RelayError::Io { what: "a thread", source })?;
    let shared = Arc::new(Shared {
        limits: config.limits,
        clock: config.clock,
        usage: Usage::default(),
        jobs,
        tls,
        tap: config.tap,
    });
    let key = RelayKey(*identity.public());
    tracing::info!(key = %fingerprint(&key.0), port = address.port(), "relay listens");
    let limiter = ConnectionLimiter::new(shared.limits.connection_bounds());
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let relay = Relay { listener, limiter, refusals, shared, stop, _lock: lock };
    Ok(RelayHandle { address, key, task: tokio::spawn(relay.run(ended)) })
}

struct Relay {
    listener: TcpListener,
    limiter: Arc<ConnectionLimiter>,
    refusals: Arc<Semaphore>,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    _lock: Lock,
}

impl Relay {
    async fn run(self, mut ended: Ended) -> Result<(), RelayError> {
        let mut stop = self.stop.clone();
        let mut connections = JoinSet::new();
        // The future is kept when another branch ends first: a connection may be waiting for a slot
        // inside it.
        let accepting = self.limiter.accept(&self.listener);
        tokio::pin!(accepting);
        let early = loop {
            tokio::select! {
                () = wait_stopped(&mut stop) => break false,
                _ = &mut ended => break true,
                Some(_) = connections.join_next() => (),
                (socket, peer, permit) = &mut accepting => {
                    accepting.set(self.limiter.accept(&self.listener));
                    match permit {
                        Some(permit) => self.accept_client(&mut connections, socket, permit),
                        None => self.refuse_client(&mut connections, socket, peer),
                    }
                }
            }
        };
        if early {
            return Err(RelayError::WriterGone);
        }
        let end = Instant::now() + STOP + LAST;
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(STOP, all).await.is_err() {
            connections.shutdown().await;
        }
        // The last sender of jobs is dropped with `shared`; the writer then finishes its queue and
        // closes.
        drop(self.shared);
        let Ok(result) = timeout_at(end, ended).await else {
            // No confirmed mail is lost: the response is sent after the commit.
            tracing::warn!("the relay's store does not answer; the relay ends without it");
            return Ok(());
        };
        let result = result.map_err(|_| RelayError::WriterGone)?;
        tracing::info!("relay stopped");
        Ok(result?)
    }

    fn accept_client(
        &self,
        connections: &mut JoinSet<()>,
        socket: TcpStream,
        permit: ConnectionPermit,
    ) {
        let shared = self.shared.clone();
        let stop = self.stop.clone();
        connections.spawn(async move {
            let account = shared.usage.account(permit.source());
            connection::serve_client(shared, socket, account, &permit, stop).await;
        });
    }

    /// Refuses a client whose address has too many connections already.
    fn refuse_client(&self, connections: &mut JoinSet<()>, socket: TcpStream, peer: IpAddr) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let shared = self.shared.clone();
        let stop = self.stop.clone();
        connections.spawn(async move {
            let _permit = permit;
            let account = shared.usage.account(ClientSource::from_address(peer));
            connection::refuse_client(shared, socket, account, stop).await;
        });
    }
}

/// Waits until `stop` turns true or its sender is dropped.
pub(super) async fn wait_stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}
