//! Limits the connections of the page's port: any local user can open some and send nothing
//! (WEB-9).
//!
//! When all seats are taken, the connection without a bearer that was silent longest is closed
//! (WEB-18). A WebSocket that has shown its bearer keeps its seat: it is silent as long as there is
//! no event. The owner's Unix socket has its own seats, which no other user can take.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use mezza_host::process::local_socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;

/// Maximum number of connections.
const SEATS: usize = 256;

/// All seats.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    /// Counts the reads and writes of all connections, as a clock of activity.
    ticks: u64,
    last: u64,
    connections: BTreeMap<u64, Sitting>,
}

/// The claim of a connection to its seat; connections with smaller claims are closed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// The connection may belong to any user of the machine.
    Unknown,
    /// The connection has shown a bearer.
    Known,
    /// The connection is never closed for silence.
    Stays,
}

/// A connection with a seat.
struct Sitting {
    claim: Claim,
    /// The tick of the last activity.
    heard: u64,
    /// Dropping this sender ends the connection.
    _end: oneshot::Sender<()>,
}

/// The seat of a connection; dropping it frees the seat.
struct Seat {
    id: u64,
    seats: Seats,
}

/// A handle to a connection's seat, which can raise its claim.
#[derive(Clone)]
pub(crate) struct SeatHandle(Arc<Seat>);

impl Seats {
    fn lock_taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a seat. Returns it with a channel that fires when the seat must be left, or `None` if
    /// all seats have the claim to stay.
    fn take_seat(&self) -> Option<(SeatHandle, oneshot::Receiver<()>)> {
        let mut taken = self.lock_taken();
        if taken.connections.len() >= SEATS {
            let leaves = taken.connections.iter().filter(|(_, one)| one.claim != Claim::Stays);
            let (id, _) = leaves.min_by_key(|(_, one)| (one.claim, one.heard))?;
            let id = *id;
            taken.connections.remove(&id);
        }
        let (end, ended) = oneshot::channel();
        taken.last += 1;
        taken.ticks += 1;
        let id = taken.last;
        let heard = taken.ticks;
        taken.connections.insert(id, Sitting { claim: Claim::Unknown, heard, _end: end });
        Some((SeatHandle(Arc::new(Seat { id, seats: self.clone() })), ended))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock_taken().connections.remove(&self.id);
    }
}

impl SeatHandle {
    /// Exempts this connection from closing for silence: it has shown its bearer.
    pub(crate) fn allow_silence(&self) {
        self.raise_claim(Claim::Stays);
    }

    /// Prefers this connection to those without a bearer.
    pub(crate) fn prefer_known(&self) {
        self.raise_claim(Claim::Known);
    }

    fn raise_claim(&self, claim: Claim) {
        if let Some(sitting) = self.0.seats.lock_taken().connections.get_mut(&self.0.id) {
            sitting.claim = sitting.claim.max(claim);
        }
    }

    fn mark_heard(&self) {
        let mut taken = self.0.seats.lock_taken();
        taken.ticks += 1;
        let now = taken.ticks;
        if let Some(sitting) = taken.connections.get_mut(&self.0.id) {
            sitting.heard = now;
        }
    }
}

/// The peer of a connection.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The seat of the connection.
    pub seat: SeatHandle,
    /// True if the kernel reports a process of our own user, on the socket in `run/`.
    pub is_owner: bool,
}

/// A listener whose connections each take one of the `seats`.
pub(crate) struct SeatedListener<L> {
    listener: L,
    seats: Seats,
}

impl<L> SeatedListener<L> {
    /// Seats the connections of `listener`.
    pub(crate) fn new(listener: L, seats: Seats) -> Self {
        Self { listener, seats }
    }
}

impl Listener for SeatedListener<TcpListener> {
    type Io = SeatedStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Send small frames at once; if the system refuses, only speed is lost.
            drop(stream.set_nodelay(true));
            if let Some((seat, ended)) = self.seats.take_seat() {
                return (SeatedStream { stream, seat, ended }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Listener for SeatedListener<UnixListener> {
    type Io = SeatedStream<UnixStream>;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // The mode of the folder keeps other users out; the kernel's report of the peer
            // confirms it (NODE-20).
            if !local_socket::is_own_user(&stream) {
                continue;
            }
            if let Some((seat, ended)) = self.seats.take_seat() {
                return (SeatedStream { stream, seat, ended }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that has a seat.
pub(crate) struct SeatedStream<S> {
    stream: S,
    seat: SeatHandle,
    ended: oneshot::Receiver<()>,
}

impl Connected<IncomingStream<'_, SeatedListener<TcpListener>>> for Caller {
    fn connect_info(stream: IncomingStream<'_, SeatedListener<TcpListener>>) -> Self {
        Self { seat: stream.io().seat.clone(), is_owner: false }
    }
}

impl Connected<IncomingStream<'_, SeatedListener<UnixListener>>> for Caller {
    fn connect_info(stream: IncomingStream<'_, SeatedListener<UnixListener>>) -> Self {
        Self { seat: stream.io().seat.clone(), is_owner: true }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SeatedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if Pin::new(&mut self.ended).poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.seat.mark_heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SeatedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_9_whoever_was_silent_longest_makes_room() {
        let seats = Seats::default();
        let mut held: Vec<_> = (0..SEATS).map(|_| seats.take_seat().expect("a seat")).collect();
        held[0].0.allow_silence();
        held[1].0.mark_heard();
        let (newest, _ended) = seats.take_seat().expect("the third one makes room");
        let ended = |held: &mut (SeatHandle, oneshot::Receiver<()>)| {
            held.1.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        let gone: Vec<_> = held.iter_mut().take(4).map(ended).collect();
        assert_eq!(gone, [false, false, true, false]);
        for (seat, _) in &held {
            seat.allow_silence();
        }
        newest.allow_silence();
        assert!(seats.take_seat().is_none(), "all of them stay");
        held.pop();
        assert!(seats.take_seat().is_some(), "a seat is free again");
    }

    #[test]
    fn web_18_connections_that_talk_and_show_no_bearer_end_no_request_of_the_owner() {
        let seats = Seats::default();
        let (owner, mut ended) = seats.take_seat().expect("a seat");
        owner.prefer_known();
        // Each flooding connection sends a byte now and then, so that the owner's is silent
        // longest.
        let mut flood: Vec<_> = (0..4 * SEATS)
            .map(|_| {
                let seat = seats.take_seat().expect("one of the flood makes room");
                seat.0.mark_heard();
                seat
            })
            .collect();
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        // Connections with a bearer replace each other if no other ones are left.
        for (seat, _) in &flood {
            seat.prefer_known();
        }
        flood.push(seats.take_seat().expect("the owner's was silent longest"));
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
