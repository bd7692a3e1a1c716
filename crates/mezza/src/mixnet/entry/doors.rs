//! Where clients come in: how many from one place (MIX-28; loopback counts like any address), and
//! the task that each of them has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::Event;
use crate::mixnet::link::{self, CLIENT_FRAMES_MAX, News, Size, carry};
use crate::mixnet::metrics::{Count, Metrics};
use crate::mixnet::server;

/// What counts as one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// One IPv4 address.
    Address([u8; 4]),
    /// The /24 of an IPv4 address.
    Block([u8; 3]),
    /// The /48 of an IPv6 address.
    Site([u8; 6]),
}

impl Place {
    /// The places of an address.
    fn of(address: IpAddr) -> Vec<Self> {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                vec![Self::Address([a, b, c, d]), Self::Block([a, b, c])]
            }
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, ..] = v6.octets();
                vec![Self::Site([a, b, c, d, e, f])]
            }
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_place: HashMap<Place, u32>,
}

/// The doors of an entry.
#[derive(Debug)]
pub struct Doors {
    /// Connections per block or site; 0: no limit. An address has a quarter.
    per_prefix: u32,
    /// Connections in all.
    most: usize,
    counts: Mutex<Counts>,
}

/// One connection; takes its count back when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    doors: Arc<Doors>,
    places: Vec<Place>,
}

impl Doors {
    /// Doors for so many from one prefix, and so many in all.
    pub fn new(per_prefix: u32, most: usize) -> Arc<Self> {
        Arc::new(Self { per_prefix, most, counts: Mutex::default() })
    }

    /// Lets one more in; `None` if there are too many.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Ticket> {
        let mut counts = self.lock();
        let places = if self.per_prefix == 0 { Vec::new() } else { Place::of(address) };
        let full = |place| {
            let most = match place {
                &Place::Address(_) => self.per_prefix.div_ceil(4),
                _ => self.per_prefix,
            };
            counts.by_place.get(place).is_some_and(|count| *count >= most)
        };
        if counts.all >= self.most || places.iter().any(full) {
            return None;
        }
        counts.all += 1;
        for place in &places {
            *counts.by_place.entry(*place).or_default() += 1;
        }
        Some(Ticket { doors: Arc::clone(self), places })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counts = self.doors.lock();
        counts.all = counts.all.saturating_sub(1);
        for place in &self.places {
            if let Some(count) = counts.by_place.get_mut(place) {
                *count -= 1;
                if *count == 0 {
                    counts.by_place.remove(place);
                }
            }
        }
    }
}

/// Takes in clients until the machine is gone.
pub(super) async fn let_in(
    (listener, tls): (TcpListener, TlsAcceptor),
    doors: Arc<Doors>,
    events: mpsc::Sender<Event>,
    metrics: Arc<Metrics>,
) {
    loop {
        let (socket, peer) = tokio::select! {
            () = events.closed() => return,
            accepted = server::accept(&listener) => accepted,
        };
        let Some(ticket) = doors.enter(peer.ip()) else {
            metrics.count(Count::TurnedAway);
            continue;
        };
        let (tls, events, metrics) = (tls.clone(), events.clone(), Arc::clone(&metrics));
        tokio::spawn(async move {
            let _ticket = ticket;
            let Some(stream) = server::secure(&tls, socket).await else { return };
            if stream.get_ref().1.alpn_protocol() != Some(link::CLIENT) {
                return;
            }
            let client = link::number();
            let (outbox, parcels) = mpsc::channel(CLIENT_FRAMES_MAX);
            if events.send(Event::Client(client, News::Up(outbox))).await.is_err() {
                return;
            }
            let frame = |frame| Event::Client(client, News::Frame(frame));
            let end = carry(stream, Size::Short, parcels, &events, frame).await;
            if end.is_mischief() {
                metrics.count(Count::Malformed);
                tracing::warn!(%end, "a client was hung up on");
            }
            let _ = events.send(Event::Client(client, News::Down)).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(doors: &Arc<Doors>, address: &str) -> Option<Ticket> {
        doors.enter(address.parse().unwrap())
    }

    #[test]
    fn mix_28_an_address_has_a_quarter_of_its_block() {
        let doors = Doors::new(8, 100);
        let inside: Vec<_> = (0..2).filter_map(|_| enter(&doors, "127.0.0.1")).collect();
        assert_eq!(inside.len(), 2);
        assert!(enter(&doors, "127.0.0.1").is_none());
        assert!(enter(&doors, "::ffff:127.0.0.1").is_none(), "the same address");
        let block: Vec<_> =
            (2..20).filter_map(|n| enter(&doors, &format!("127.0.0.{n}"))).collect();
        assert_eq!(block.len(), 6);
        assert!(enter(&doors, "127.0.1.1").is_some());
        drop(inside);
        assert!(enter(&doors, "127.0.0.1").is_some());
    }

    #[test]
    fn mix_28_a_site_of_ipv6_is_a_48_and_all_have_a_limit() {
        let doors = Doors::new(2, 3);
        let inside = [enter(&doors, "2001:db8:1::1"), enter(&doors, "2001:db8:1:ffff::1")];
        assert!(inside.iter().all(Option::is_some));
        assert!(enter(&doors, "2001:db8:1:2::3").is_none());
        let _third = enter(&doors, "2001:db8:2::1").unwrap();
        assert!(enter(&doors, "2001:db8:3::1").is_none(), "three in all");
    }

    #[test]
    fn mix_28_without_a_number_there_is_no_limit_but_that_of_all() {
        let doors = Doors::new(0, 300);
        let inside: Vec<_> = (0..400).filter_map(|_| enter(&doors, "127.0.0.1")).collect();
        assert_eq!(inside.len(), 300);
        drop(inside);
        assert!(doors.lock().by_place.is_empty() && doors.lock().all == 0);
    }
}
