//! The side of a link that dials: TLS 1.3 with the pinned key (MIX-1), again every 500 ms.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza_mixnet::config::Server;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{LinkEvent, run_server_link};
use crate::process::metrics::Metrics;
use crate::process::socket::set_lasting_options;
use crate::tls::{Pin, TlsIdentity, link_client_config};

/// Time for TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(10);
/// Between two tries.
const REDIAL: Duration = Duration::from_millis(500);
/// How long a peer may be away before the log says so.
const AWAY: Duration = Duration::from_secs(10);

/// Whom to dial.
#[derive(Clone, Debug)]
pub struct DialTarget {
    /// Its name in texts: `mix 1`, `entry`.
    pub name: String,
    /// Where it listens, and the key it must prove.
    pub server: Server,
    /// The protocol to speak.
    pub protocol: &'static [u8],
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nothing answers at the address.
    #[error("nobody answers: {0}")]
    Unreachable(#[from] io::Error),
    /// It proved another key, or does not let us in.
    #[error("it is somebody else, or does not let us in")]
    Refused,
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// One connection, boxed as those that come in are. `pin` says which key must be proved, `own` which
/// one we prove.
///
/// # Errors
/// [`DialError`].
pub async fn dial(
    address: &str,
    protocol: &[u8],
    pin: Arc<Pin>,
    own: Option<&TlsIdentity>,
) -> Result<Box<TlsStream<TcpStream>>, DialError> {
    dial_with(address, protocol, link_client_config(pin, protocol, own).map_err(DialError::Tls)?)
        .await
}

/// The same with settings that many connections share: they hold nothing to resume with.
///
/// # Errors
/// [`DialError`].
pub async fn dial_with(
    address: &str,
    protocol: &[u8],
    config: Arc<ClientConfig>,
) -> Result<Box<TlsStream<TcpStream>>, DialError> {
    let connecting = async {
        let socket = TcpStream::connect(address).await?;
        set_lasting_options(&socket);
        // Never sent (no SNI) and never checked (the key is): rustls wants some name.
        let name = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
        TlsConnector::from(config).connect(name, socket).await
    };
    let late = |_| Err(io::ErrorKind::TimedOut.into());
    let stream =
        Box::pin(timeout(CONNECT, connecting)).await.unwrap_or_else(late).map_err(|error| {
            let tls = error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>);
            if tls { DialError::Refused } else { DialError::Unreachable(error) }
        })?;
    let spoken = stream.get_ref().1.alpn_protocol() == Some(protocol);
    if spoken { Ok(Box::new(stream)) } else { Err(DialError::Refused) }
}

/// Keeps a link up until the machine is gone: dials, carries, tells, dials again.
pub async fn keep_link_up<E: Send>(
    target: DialTarget,
    own: Arc<TlsIdentity>,
    events: mpsc::Sender<E>,
    metrics: Arc<Metrics>,
    event: impl Fn(u64, LinkEvent) -> E + Send + Sync,
) {
    // Since when it is away, until the log has said so.
    let mut away = Some(Instant::now());
    while !events.is_closed() {
        let pin = Pin::new(target.server.key);
        match dial(&target.server.address, target.protocol, pin, Some(&own)).await {
            Ok(stream) => {
                let link = run_server_link(
                    stream,
                    target.protocol,
                    &target.name,
                    &events,
                    &metrics,
                    &event,
                );
                if link.await.is_none() {
                    return;
                }
                away = Some(Instant::now());
            }
            Err(error) => {
                if away.is_some_and(|since| since.elapsed() >= AWAY) {
                    away = None;
                    let DialTarget { name, server, .. } = &target;
                    let address = &server.address;
                    tracing::error!(
                        "{name} ({address}) did not answer in 10 s: {error}; check its log, rounds \
                         wait until it is back"
                    );
                }
            }
        }
        sleep(REDIAL).await;
    }
}
