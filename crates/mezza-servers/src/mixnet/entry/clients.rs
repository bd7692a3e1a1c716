//! Accepts clients: limits per address and site (MIX-28; loopback counts like any address), and the
//! task of each client.

use std::sync::Arc;

use mezza_mixnet::coordinator::ConnectionId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::Event;
use crate::mixnet::server::{HANDSHAKE, HANDSHAKES_MAX};
use mezza_host::connection::link::{
    self, CLIENT_FRAMES_MAX, FrameSizeClass, LinkEvent, carry_frames,
};
use mezza_host::process::limiter::{self, Bounds, ConnectionLimiter, ConnectionPermit};
use mezza_host::process::metrics::{Metric, Metrics};

/// The bounds for `per_site` connections of one IPv4 /24 or IPv6 /48 (0: any number) and
/// `connections` in all. A single address gets a quarter of its site's limit (MIX-28).
pub(super) fn client_bounds(per_site: u32, connections: usize) -> Bounds {
    let (per_site, per_address) = match per_site {
        0 => (u32::MAX, u32::MAX),
        per_site => (per_site, per_site.div_ceil(4)),
    };
    Bounds { connections, handshakes: HANDSHAKES_MAX, per_address, per_site }
}

/// Accepts clients until the machine has ended.
pub(super) async fn accept_clients(
    listener: TcpListener,
    tls: TlsAcceptor,
    limiter: Arc<ConnectionLimiter>,
    events: mpsc::Sender<Event>,
    metrics: Arc<Metrics>,
) {
    loop {
        let (socket, _, permit) = tokio::select! {
            () = events.closed() => return,
            accepted = limiter.accept(&listener) => accepted,
        };
        let Some(permit) = permit else {
            metrics.count(Metric::TurnedAway);
            continue;
        };
        let tls = tls.clone();
        let events = events.clone();
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            let client = link::next_link_number();
            let served = serve_client(client, tls, socket, &permit, &events, &metrics);
            if permit.run_while_held(served).await.is_none() {
                metrics.count(Metric::TurnedAway);
                let _ = events.send(Event::Client(client, LinkEvent::Down)).await;
            }
        });
    }
}

/// Serves one client until it disconnects. The handshake counts until the first frame, so a silent
/// client is evicted before and after TLS alike.
async fn serve_client(
    client: ConnectionId,
    tls: TlsAcceptor,
    socket: TcpStream,
    permit: &ConnectionPermit,
    events: &mpsc::Sender<Event>,
    metrics: &Metrics,
) {
    let Some(stream) = limiter::secure_socket(&tls, socket, HANDSHAKE).await else { return };
    if stream.get_ref().1.alpn_protocol() != Some(link::CLIENT) {
        return;
    }
    let (outbox, parcels) = mpsc::channel(CLIENT_FRAMES_MAX);
    if events.send(Event::Client(client, LinkEvent::Up(outbox))).await.is_err() {
        return;
    }
    let frame = |frame| {
        permit.end_handshake();
        Event::Client(client, LinkEvent::Frame(frame))
    };
    let end = carry_frames(stream, FrameSizeClass::Short, parcels, events, frame).await;
    if end.is_mischief() {
        metrics.count(Metric::Malformed);
        tracing::warn!(%end, "a client was hung up on");
    }
    let _ = events.send(Event::Client(client, LinkEvent::Down)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_28_an_address_has_a_quarter_of_its_site_and_zero_is_no_limit() {
        let all = |per_site| {
            let Bounds { connections, per_address, per_site, .. } = client_bounds(per_site, 300);
            (connections, per_address, per_site)
        };
        assert_eq!(all(256), (300, 64, 256));
        assert_eq!(all(1), (300, 1, 1));
        assert_eq!(all(0), (300, u32::MAX, u32::MAX));
    }
}
