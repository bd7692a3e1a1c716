//! The dialling side of a link: TLS 1.3 with the pinned key (MIX-1), a new attempt every 500 ms.

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

/// Time limit for TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const REDIAL: Duration = Duration::from_millis(500);
/// Time without a link before it is logged.
const AWAY: Duration = Duration::from_secs(10);

/// The server to dial.
#[derive(Clone, Debug)]
pub struct DialTarget {
    /// The name of the server in texts: `mix 1`, `entry`.
    pub name: String,
    /// The address of the server, and the key it must prove.
    pub server: Server,
    /// The ALPN protocol.
    pub protocol: &'static [u8],
}

/// Why no link could be opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address does not respond.
    #[error("nobody answers: {0}")]
    Unreachable(#[from] io::Error),
    /// The server proved another key, or refused us.
    #[error("it is somebody else, or does not let us in")]
    Refused,
    /// TLS refused our own settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// Opens a connection, boxed like accepted ones. `pin` is the key that the server must prove, `own`
/// the identity that we prove.
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

/// Opens a connection with settings shared by many connections; they contain no resumption state.
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
        // The name is never sent (no SNI) and never checked (the key is), but rustls requires one.
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

/// Keeps a link up until the machine has ended: dials, carries frames, reports, dials again.
pub async fn keep_link_up<E: Send>(
    target: DialTarget,
    own: Arc<TlsIdentity>,
    events: mpsc::Sender<E>,
    metrics: Arc<Metrics>,
    event: impl Fn(u64, LinkEvent) -> E + Send + Sync,
) {
    // The time since when the peer is unreachable, until that was logged.
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
