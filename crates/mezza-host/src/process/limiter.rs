//! The limiter of a server's connections, which are counted when the system hands them over, before
//! TLS.
//!
//! ```text
//!  accept --as many from there as may be--> closed
//!    |
//!    +--> handshake ----> settled ----> gone
//!    no place for one more handshake: one that had its time makes room
//!    no place for one more connection: one of the source with most of them makes room
//! ```
//!
//! Relay, entry, mix and bucket store have one each (MSG-70, MSG-71, MIX-60). A source is an
//! address and its site: an address with many connections does not keep others out.

mod room;

pub use room::ClientSource;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::files::{self, Spare};
use super::socket::set_lasting_options;
use room::{Full, Leaves, Number, Room};

/// The minimum time of each handshake, even while others wait for its slot.
const GRACE: Duration = Duration::from_secs(1);
/// Pause after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of evicted connections that have not ended; new ones wait for these.
const LEAVING_MAX: usize = 16;

/// The limits of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections in all.
    pub connections: usize,
    /// Connections with an unfinished handshake.
    pub handshakes: usize,
    /// Connections of an IPv4 address or an IPv6 /64.
    pub per_address: u32,
    /// Connections of an IPv4 /24 or an IPv6 /48.
    pub per_site: u32,
}

/// The limiter for the connections of one server.
#[derive(Debug)]
pub struct ConnectionLimiter {
    bounds: Bounds,
    inner: Mutex<Inner>,
    /// Notified when a handshake or an evicted connection ends.
    room: Notify,
}

#[derive(Debug)]
struct Inner {
    all: Room,
    handshakes: Room,
    members: HashMap<Number, Member>,
    next: Number,
    /// Number of evicted connections that have not ended.
    leaving: usize,
    spare: Spare,
}

#[derive(Debug)]
struct Member {
    source: ClientSource,
    since: Instant,
    hang_up: Arc<Notify>,
}

/// The slot of a connection; dropping the permit frees it.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    number: Number,
    source: ClientSource,
    settled: AtomicBool,
    hang_up: Arc<Notify>,
}

/// The decision about a new connection.
enum Answer {
    In(ConnectionPermit),
    Not(Why),
}

/// Why a connection is not admitted.
enum Why {
    TooMany,
    /// All slots for handshakes are taken. From this time on the handshake that is next to be
    /// evicted may be evicted for a newcomer.
    Later(Instant),
}

impl ConnectionLimiter {
    /// Makes a limiter with these bounds, and with no more connections than this process has
    /// descriptors; the soft limit is raised.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        let files = files::connection_room().unwrap_or_else(|error| {
            tracing::warn!(kind = ?error.kind(), "the limit of open files is not known");
            bounds.connections
        });
        Self::with_bounds(Bounds { connections: bounds.connections.min(files), ..bounds })
    }

    fn with_bounds(bounds: Bounds) -> Arc<Self> {
        let mut spare = Spare::default();
        spare.fill();
        let inner = Inner {
            all: Room::new(bounds.connections, Leaves::Newest),
            handshakes: Room::new(bounds.handshakes, Leaves::Oldest),
            members: HashMap::new(),
            next: 0,
            leaving: 0,
            spare,
        };
        Arc::new(Self { bounds, inner: Mutex::new(inner), room: Notify::new() })
    }

    /// Accepts the next connection. Without a permit, its source is at its limit and the connection
    /// must be closed. Dropping the future loses no connection with a permit.
    pub async fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
    ) -> (TcpStream, IpAddr, Option<ConnectionPermit>) {
        loop {
            while self.lock_inner().leaving >= LEAVING_MAX {
                self.room.notified().await;
            }
            match listener.accept().await {
                Ok((socket, peer)) => {
                    set_lasting_options(&socket);
                    let permit = self.await_place(peer.ip()).await;
                    return (socket, peer.ip(), permit);
                }
                Err(error) => {
                    tracing::warn!(kind = ?error.kind(), "the system refused a connection");
                    if files::are_gone(&error) {
                        self.shed_connection(listener).await;
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits until there is room for one more handshake. Returns `None` if the source is at its
    /// limit.
    async fn await_place(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let source = ClientSource::from_address(address);
        loop {
            match self.try_enter(source, Instant::now()) {
                Answer::In(permit) => return Some(permit),
                Answer::Not(Why::TooMany) => return None,
                Answer::Not(Why::Later(due)) => {
                    let left = due.saturating_duration_since(Instant::now());
                    drop(timeout(left, self.room.notified()).await);
                }
            }
        }
    }

    fn try_enter(self: &Arc<Self>, source: ClientSource, now: Instant) -> Answer {
        let mut inner = self.lock_inner();
        inner.spare.fill();
        match inner.room_for(&source, &self.bounds, now) {
            Ok(leaving) => {
                leaving.into_iter().flatten().for_each(|number| inner.hang_up(number));
                Answer::In(inner.make_permit(self, source, now))
            }
            Err(why) => Answer::Not(why),
        }
    }

    /// The process has no file descriptor left, so a connection cannot even be refused. The spare
    /// descriptor accepts it, and the source with the most connections loses one.
    async fn shed_connection(&self, listener: &TcpListener) {
        self.lock_inner().spare.spend();
        if let Ok(Ok((socket, peer))) = timeout(ACCEPT_PAUSE, listener.accept()).await {
            drop(socket);
            let mut inner = self.lock_inner();
            if let Ok(worst) = inner.all.choose_yielding(&ClientSource::from_address(peer.ip())) {
                inner.hang_up(worst);
            }
        }
        self.lock_inner().spare.fill();
    }

    fn lock_inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns the connections to close to admit one more of `source`.
    fn room_for(
        &self,
        source: &ClientSource,
        bounds: &Bounds,
        now: Instant,
    ) -> Result<[Option<Number>; 2], Why> {
        let (of_address, of_site) = self.all.count_places(source);
        let crowded = of_address >= bounds.per_address as usize;
        let leaving = if crowded || of_site >= bounds.per_site as usize {
            // The addresses of a site share its slots. An address at its limit can only replace one
            // of its own connections, if that was silent for long.
            let other = (!crowded).then(|| self.all.yielding_inside(source).ok()).flatten();
            let own = self.handshakes.first_of(source);
            let own = own.filter(|own| self.had_its_time(*own, now));
            Some(own.or(other).ok_or(Why::TooMany)?)
        } else if self.all.is_full() {
            Some(self.all.choose_yielding(source).map_err(|Full| Why::TooMany)?)
        } else {
            None
        };
        if !self.handshakes.is_full() || leaving.is_some_and(|number| self.is_fresh(number)) {
            return Ok([leaving, None]);
        }
        let silent = self.handshakes.choose_yielding(source).map_err(|Full| Why::TooMany)?;
        if self.had_its_time(silent, now) {
            return Ok([leaving, Some(silent)]);
        }
        Err(self.too_early(silent, source, bounds))
    }

    /// Returns the refusal of a newcomer for which only `silent` could be evicted, and not yet.
    /// Later newcomers queue after a waiting one, so a newcomer of the site that occupies the slots
    /// is refused at once.
    fn too_early(&self, silent: Number, source: &ClientSource, bounds: &Bounds) -> Why {
        // If the number of connections per site is unlimited, one site may use all connections.
        let shared = bounds.per_site < u32::MAX;
        match self.members.get(&silent) {
            Some(member) if !(shared && member.source.site() == source.site()) => {
                Why::Later(member.since + GRACE)
            }
            _ => Why::TooMany,
        }
    }

    /// Returns true if the handshake of a connection is unfinished.
    fn is_fresh(&self, number: Number) -> bool {
        let member = self.members.get(&number);
        member.is_some_and(|member| self.handshakes.has_place(number, &member.source))
    }

    fn make_permit(
        &mut self,
        limiter: &Arc<ConnectionLimiter>,
        source: ClientSource,
        since: Instant,
    ) -> ConnectionPermit {
        let number = self.next;
        let hang_up = Arc::new(Notify::new());
        self.next += 1;
        self.all.insert(number, &source);
        self.handshakes.insert(number, &source);
        let member = Member { source, since, hang_up: Arc::clone(&hang_up) };
        self.members.insert(number, member);
        let settled = AtomicBool::new(false);
        ConnectionPermit { limiter: Arc::clone(limiter), number, source, settled, hang_up }
    }

    fn had_its_time(&self, number: Number, now: Instant) -> bool {
        self.members.get(&number).is_some_and(|member| now.duration_since(member.since) >= GRACE)
    }

    /// Evicts a connection: takes its slot and notifies its holder.
    fn hang_up(&mut self, number: Number) {
        if let Some(member) = self.members.remove(&number) {
            self.all.remove(number, &member.source);
            self.handshakes.remove(number, &member.source);
            self.leaving += 1;
            member.hang_up.notify_one();
        }
    }
}

impl ConnectionPermit {
    /// Ends the handshake, and frees its slot for others.
    pub fn end_handshake(&self) {
        if !self.settled.swap(true, Ordering::Relaxed) {
            self.limiter.lock_inner().handshakes.remove(self.number, &self.source);
            self.limiter.room.notify_one();
        }
    }

    /// Returns the source of the connection.
    pub fn source(&self) -> ClientSource {
        self.source
    }

    /// Runs the work of the connection until it is done or the connection is evicted.
    pub async fn run_while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.hang_up.notified() => None,
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut inner = self.limiter.lock_inner();
        if inner.members.remove(&self.number).is_some() {
            inner.all.remove(self.number, &self.source);
            inner.handshakes.remove(self.number, &self.source);
        } else {
            inner.leaving = inner.leaving.saturating_sub(1);
        }
        drop(inner);
        self.limiter.room.notify_one();
    }
}

/// Runs TLS on a fresh connection within a time limit. The result is boxed, so that memory of the
/// handshake is freed and the task does not hold a stream-sized slot per step.
pub async fn secure_socket<S>(
    tls: &tokio_rustls::TlsAcceptor,
    socket: S,
    patience: Duration,
) -> Option<Box<tokio_rustls::server::TlsStream<S>>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let accepted: Result<io::Result<_>, _> = Box::pin(timeout(patience, tls.accept(socket))).await;
    accepted.ok()?.ok().map(Box::new)
}

#[cfg(test)]
mod tests;
