//! What all three roles share: a listener for links of other servers, and the wait for what is due.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mezza_core::Time;
use mezza_mixnet::RoundId;
use mezza_mixnet::config::{Chain, SignedConfig};
use mezza_mixnet::sign::PublicKey;
use mezza_mixnet::wire::AbortReason;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::busy::Phase;
use super::link::{self, News, SERVER_FRAMES_MAX, Size, carry};
use super::metrics::Metrics;
use crate::exit::{Exit, Fault};
use crate::node::now;
use crate::tls::peer_key;

/// Events that may wait for a machine; whoever has one more waits. Frames of batches are long.
pub const EVENTS_MAX: usize = 256;
/// Time for TLS to be set up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Pause after the system refused a connection (too many files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections of servers at a time; there are three at most, and strangers.
const CONNECTIONS_MAX: usize = 128;
/// The longest sleep of a machine's task: a clock that jumped is noticed after this time.
const NAP_MAX: Duration = Duration::from_secs(1);
/// How long a server that ends waits for its last frames to leave.
pub const LEAVE: Duration = Duration::from_millis(300);

/// Tells a machine of a config that may be new to it.
pub type Learn = Box<dyn Fn(SignedConfig) + Send + Sync>;

/// A server that runs.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its public key.
    pub key: PublicKey,
    /// Tells it of a later config; links stay those of the config that it began with.
    pub learn: Learn,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// The task that owns its machine.
    pub task: JoinHandle<Result<Exit, Fault>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({})", self.address)
    }
}

impl Running {
    /// Waits for its end: once it was told to stop, or what it cannot go on without.
    ///
    /// # Errors
    /// Why it cannot go on.
    pub async fn wait(self) -> Result<Exit, Fault> {
        end(self.task.await)
    }
}

/// How the task of a server ended.
///
/// # Errors
/// Why it could not go on.
pub fn end(task: Result<Result<Exit, Fault>, JoinError>) -> Result<Exit, Fault> {
    task.unwrap_or_else(|_| Err(Fault::bug("the task of a server panicked")))
}

/// What hands configs to the task behind `events`. A task that has too much to do is told at the next
/// request.
pub fn learn<E: Send + 'static>(
    events: &mpsc::Sender<E>,
    event: impl Fn(SignedConfig) -> E + Send + Sync + 'static,
) -> Learn {
    let events = events.clone();
    Box::new(move |config| {
        if events.try_send(event(config)).is_err() {
            tracing::warn!("a config could not be taken now; send SIGHUP again");
        }
    })
}

/// Whether a chain has to look at a config: those before its head it has seen, and forgotten.
pub fn is_news(config: &SignedConfig, chain: &Chain) -> bool {
    config.config().seq >= chain.head().seq
}

/// Listens on an address.
///
/// # Errors
/// 78 if it cannot be had.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).await.map_err(|error| {
        let text = format!("cannot listen on {address}: {error}");
        Fault::new(Exit::Config, text, "choose another address with `--listen`")
    })
}

/// The next connection. A system that refuses one is asked again after a pause.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // Small frames wait for nothing; where the system refuses this, only speed is lost.
                drop(socket.set_nodelay(true));
                return (socket, peer);
            }
            Err(error) => {
                tracing::warn!(kind = ?error.kind(), "the system refused a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// TLS on a fresh connection. In boxes: what the handshake takes is free again afterwards, and no
/// task keeps a place for the stream in each of its steps.
pub async fn secure(tls: &TlsAcceptor, socket: TcpStream) -> Option<Box<TlsStream<TcpStream>>> {
    let accepted = Box::pin(timeout(HANDSHAKE, tls.accept(socket))).await;
    accepted.ok()?.ok().map(Box::new)
}

/// Takes in links of other servers until the machine is gone. `who` says whom a key and a protocol
/// make; anybody else is closed before a frame is read (MIX-1).
pub async fn take_in<P, E>(
    (listener, tls): (TcpListener, TlsAcceptor),
    events: mpsc::Sender<E>,
    metrics: Arc<Metrics>,
    who: impl Fn(&PublicKey, &[u8]) -> Option<P> + Clone + Send + 'static,
    event: impl Fn(P, u64, News) -> E + Clone + Send + Sync + 'static,
) where
    P: Copy + std::fmt::Debug + Send + Sync + 'static,
    E: Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (socket, _) = tokio::select! {
            () = events.closed() => return,
            accepted = accept(&listener) => accepted,
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (tls, who, event) = (tls.clone(), who.clone(), event.clone());
        let (events, metrics) = (events.clone(), Arc::clone(&metrics));
        tokio::spawn(async move {
            let _permit = permit;
            let Some(stream) = secure(&tls, socket).await else {
                tracing::warn!("a stranger got no further than TLS");
                return;
            };
            let connection = stream.get_ref().1;
            let protocol = connection.alpn_protocol().unwrap_or_default().to_vec();
            let peer = peer_key(connection).and_then(|key| who(&key, &protocol));
            let Some(peer) = peer else {
                tracing::warn!("a server asked for a link that is not its own");
                return;
            };
            let link = link::number();
            let (outbox, parcels) = mpsc::channel(SERVER_FRAMES_MAX);
            if events.send(event(peer, link, News::Up(outbox))).await.is_err() {
                return;
            }
            tracing::info!(?peer, "a link is up");
            let size = if protocol == link::CONTROL { Size::Short } else { Size::Long };
            let frame = |frame| event(peer, link, News::Frame(frame));
            let carried = carry(stream, size, parcels, &events, frame);
            let end = metrics.busy.task(Phase::Link, carried).await;
            end.tell(&format!("{peer:?}"), &metrics);
            let _ = events.send(event(peer, link, News::Down)).await;
        });
    }
}

/// What a machine's task waits for.
#[derive(Debug)]
pub enum Next<E> {
    /// Something happened.
    Event(E),
    /// It is time to wake the machine.
    Due,
    /// The program ends.
    Stop,
}

/// Waits for an event, the deadline of a machine, or the end.
pub async fn next<E>(
    events: &mut mpsc::Receiver<E>,
    deadline: Option<Time>,
    stop: &mut watch::Receiver<bool>,
) -> Next<E> {
    let nap = deadline.map(|due| Duration::from_millis(due.since_ms(now())));
    let nap = nap.map_or(NAP_MAX, |nap| nap.min(NAP_MAX));
    if nap.is_zero() {
        // What is due goes before what comes, however much comes.
        return if *stop.borrow() { Next::Stop } else { Next::Due };
    }
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => Next::Stop,
        event = events.recv() => event.map_or(Next::Stop, Next::Event),
        () = sleep(nap) => Next::Due,
    }
}

/// Says in the log that a round ended before its time; one that a server took along when it was
/// stopped is no trouble.
pub fn ended_early(id: Option<RoundId>, reason: AbortReason) {
    let (service, round) = (id.map(|id| id.service.number()), id.map(|id| id.round));
    if reason == AbortReason::Shutdown {
        tracing::info!(service, round, ?reason, "a round ended early");
    } else {
        tracing::warn!(service, round, ?reason, "a round ended early");
    }
}
