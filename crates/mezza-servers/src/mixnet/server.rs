//! The parts shared by entry, mix and bucket store: a listener for links of other servers, TLS, the
//! task's end.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mezza_mixnet::RoundId;
use mezza_mixnet::config::{Chain, SignedConfig};
use mezza_mixnet::sign::VerifyKey;
use mezza_mixnet::wire::AbortReason;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use mezza_host::api::{Exit, Fault};
use mezza_host::connection::link::{self, LinkEvent};
use mezza_host::process::drive::{self, Shell};
use mezza_host::process::limiter::{self, Bounds, ConnectionLimiter, ConnectionPermit};
use mezza_host::process::metrics::{Metric, Metrics};
use mezza_host::tls::{AllowedClientKeys, TlsIdentity, link_server_config, peer_key};

/// Maximum number of events that wait for a machine; a sender waits beyond that. Frames of batches
/// are long.
pub(crate) const EVENTS_MAX: usize = 256;
/// Time limit for the TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of simultaneous handshakes of clients.
pub(crate) const HANDSHAKES_MAX: usize = 256;
/// Limits for connections from other servers (three at most) and from unknown peers, which fail at
/// the handshake. A site has no separate limit: the entry may share its site with unknown peers.
const BOUNDS: Bounds = Bounds { connections: 128, handshakes: 64, per_address: 16, per_site: 128 };
/// Maximum number of simultaneous links of one server of the config. Only the newest one is used;
/// the others are about to end. Unknown peers cannot take these slots.
const LINKS_MAX: usize = 4;
/// The longest time between two wake-ups of a machine: a clock that jumped is noticed within it.
const NAP_MAX: Duration = Duration::from_secs(1);
/// How long a server that ends waits until its last frames are sent.
pub(crate) const LEAVE: Duration = Duration::from_millis(300);

/// Passes a config that may be new to a machine.
pub type Learn = Box<dyn Fn(SignedConfig) + Send + Sync>;

/// A running server.
pub struct ServerHandle {
    /// The address that the server listens on.
    pub address: SocketAddr,
    /// The public key of the server.
    pub key: VerifyKey,
    /// Passes a later config to the server. Existing links keep the config that was in force when
    /// the server started.
    pub learn: Learn,
    /// The counters of the server.
    pub metrics: Arc<Metrics>,
    /// The task that owns the server's machine.
    pub task: JoinHandle<Result<Exit, Fault>>,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerHandle({})", self.address)
    }
}

impl ServerHandle {
    /// Waits until the server has stopped.
    ///
    /// # Errors
    /// The fault that ended the server.
    pub async fn wait(self) -> Result<Exit, Fault> {
        task_outcome(self.task.await)
    }
}

/// Returns the result of a server's task.
///
/// # Errors
/// The fault that ended it, or a bug if the task panicked.
pub fn task_outcome(task: Result<Result<Exit, Fault>, JoinError>) -> Result<Exit, Fault> {
    task.unwrap_or_else(|_| Err(Fault::bug("the task of a server panicked")))
}

/// Returns a function that passes configs to the task that reads `events`. If the task is busy, the
/// config is dropped and read again at the next SIGHUP.
pub(crate) fn config_sender<E: Send + 'static>(
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

/// Returns true if the chain must check a config. The chain has already checked configs before its
/// head.
pub(crate) fn is_news(config: &SignedConfig, chain: &Chain) -> bool {
    config.config().seq >= chain.head_config().seq
}

/// Listens on an address. Returns the listener and its address with the actual port.
///
/// # Errors
/// Exit code 78 if the address cannot be bound.
pub(crate) async fn bind_listener(wanted: SocketAddr) -> Result<(TcpListener, SocketAddr), Fault> {
    let listener = TcpListener::bind(wanted).await.map_err(|error| {
        let text = format!("cannot listen on {wanted}: {error}");
        Fault::new(Exit::Config, text, "choose another address with `--listen`")
    })?;
    let address = listener.local_addr().map_err(|_| Fault::bug("a socket without address"))?;
    Ok((listener, address))
}

/// Makes the TLS acceptor for these protocols; with `peers` it accepts only clients with these
/// keys.
pub(crate) fn make_acceptor(
    identity: &TlsIdentity,
    protocols: &[&[u8]],
    peers: Option<Arc<AllowedClientKeys>>,
) -> Result<TlsAcceptor, Fault> {
    let config = link_server_config(identity, protocols, peers);
    config.map(TlsAcceptor::from).map_err(|_| Fault::bug("TLS refuses our settings"))
}

/// Number of links that each server of the config has here.
struct Held<P>(Mutex<BTreeMap<P, usize>>);

impl<P: Ord + Copy> Held<P> {
    /// Returns true and counts a link if `peer` may have one more.
    fn take_place(&self, peer: P) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(peer).or_default();
        let fits = *count < LINKS_MAX;
        *count += usize::from(fits);
        fits
    }

    fn give_back(&self, peer: P) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&peer) {
            *count = count.saturating_sub(1);
        }
    }
}

/// The state that connections of servers share. `W` finds the peer of a key and a protocol, `V`
/// makes an event of a link's event.
struct Gate<P, E, W, V> {
    tls: TlsAcceptor,
    held: Held<P>,
    events: mpsc::Sender<E>,
    metrics: Arc<Metrics>,
    who: W,
    event: V,
}

/// Accepts links of other servers until the machine has ended. `who` maps a key and a protocol to a
/// peer; all others are closed before a frame is read (MIX-1).
pub(crate) async fn accept_links<P, E>(
    listener: TcpListener,
    tls: TlsAcceptor,
    events: mpsc::Sender<E>,
    metrics: Arc<Metrics>,
    who: impl Fn(&VerifyKey, &[u8]) -> Option<P> + Send + Sync + 'static,
    event: impl Fn(P, u64, LinkEvent) -> E + Send + Sync + 'static,
) where
    P: Copy + Ord + fmt::Debug + Send + Sync + 'static,
    E: Send + 'static,
{
    let limiter = ConnectionLimiter::new(BOUNDS);
    let held = Held(Mutex::default());
    let gate = Arc::new(Gate { tls, held, events, metrics, who, event });
    loop {
        let (socket, _, permit) = tokio::select! {
            () = gate.events.closed() => return,
            accepted = limiter.accept(&listener) => accepted,
        };
        let Some(permit) = permit else {
            gate.metrics.count(Metric::TurnedAway);
            continue;
        };
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            // An evicted handshake was an unknown peer's, or its server connects again.
            let Some(Some((stream, protocol, peer))) =
                permit.run_while_held(gate.authenticate_peer(socket)).await
            else {
                return;
            };
            if gate.held.take_place(peer) {
                gate.run_link(stream, &protocol, peer, permit).await;
                gate.held.give_back(peer);
            }
        });
    }
}

impl<P, E, W, V> Gate<P, E, W, V>
where
    P: Copy + Ord + fmt::Debug + Send + Sync,
    E: Send,
    W: Fn(&VerifyKey, &[u8]) -> Option<P> + Send + Sync,
    V: Fn(P, u64, LinkEvent) -> E + Send + Sync,
{
    /// Runs TLS. Returns the stream, its protocol and the authenticated peer.
    async fn authenticate_peer(
        &self,
        socket: TcpStream,
    ) -> Option<(Box<TlsStream<TcpStream>>, Vec<u8>, P)> {
        let Some(stream) = limiter::secure_socket(&self.tls, socket, HANDSHAKE).await else {
            tracing::debug!("a stranger got no further than TLS");
            return None;
        };
        let connection = stream.get_ref().1;
        let protocol = connection.alpn_protocol().unwrap_or_default().to_vec();
        let Some(peer) = peer_key(connection).and_then(|key| (self.who)(&key, &protocol)) else {
            tracing::warn!("a server asked for a link that is not its own");
            return None;
        };
        Some((stream, protocol, peer))
    }

    /// Runs a link with a server of the config until it ends. The permit is returned at once: the
    /// link has a slot that unknown peers cannot take.
    async fn run_link(
        &self,
        stream: Box<TlsStream<TcpStream>>,
        protocol: &[u8],
        peer: P,
        permit: ConnectionPermit,
    ) {
        drop(permit);
        let (name, event) = (format!("{peer:?}"), |link, news| (self.event)(peer, link, news));
        // If the machine's task has ended, the listener ends as well.
        let _ = link::run_server_link(stream, protocol, &name, &self.events, &self.metrics, event)
            .await;
    }
}

/// Drives the machine of a server until it stops, and lets links send their last frames.
///
/// # Errors
/// A fault after which the server cannot go on.
pub(crate) async fn drive_server<S: Shell>(
    shell: S,
    events: mpsc::Receiver<S::Event>,
    stop: watch::Receiver<bool>,
) -> Result<Exit, Fault> {
    let end = drive::run_shell(shell, events, stop, NAP_MAX).await;
    sleep(LEAVE).await;
    end
}

/// Logs that a round ended early, with the cause if known. A round ended by a shutdown is logged as
/// information, others as warnings.
pub(crate) fn ended_early(id: RoundId, reason: AbortReason, cause: Option<&str>) {
    let service = id.service.number();
    let round = id.round;
    if reason == AbortReason::Shutdown {
        tracing::info!(service, round, ?reason, cause, "a round ended early");
    } else {
        tracing::warn!(service, round, ?reason, cause, "a round ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_61_each_server_of_the_config_has_links_of_its_own() {
        let held = Held(Mutex::default());
        assert!((0..LINKS_MAX).all(|_| held.take_place('a')));
        assert!(!held.take_place('a') && held.take_place('b'));
        held.give_back('a');
        assert!(held.take_place('a') && !held.take_place('a'));
    }
}
