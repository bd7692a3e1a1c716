//! How many connections the page's port holds: any local user can open some and say nothing (WEB-9).
//!
//! When all seats are taken, a connection that has not shown a bearer makes room, of those the one that
//! was silent longest (WEB-18). A WebSocket that has shown its bearer keeps its seat: it is silent as long
//! as nothing happens. The owner's Unix socket has seats of its own, which no other user can take.

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

/// Connections that are held at once.
const SEATS: usize = 256;

/// All seats.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    /// Grows with each sign of life of any connection.
    ticks: u64,
    last: u64,
    connections: BTreeMap<u64, Sitting>,
}

/// The claim of a connection to its seat; a smaller one makes room first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// Any user of the machine may hold it.
    Unknown,
    /// It has shown a bearer.
    Known,
    /// It stays however silent it is.
    Stays,
}

/// One connection.
struct Sitting {
    claim: Claim,
    /// When it was last heard, in ticks.
    heard: u64,
    /// Ends it when it is dropped.
    _end: oneshot::Sender<()>,
}

/// The seat of a connection, which is free again when this is dropped.
struct Seat {
    id: u64,
    seats: Seats,
}

/// The right of a connection to stay.
#[derive(Clone)]
pub(crate) struct SeatHandle(Arc<Seat>);

impl Seats {
    fn lock_taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat, and what becomes ready when it has to be left; `None`: all are taken by those who stay.
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
    /// Lets this connection be silent from now on: it has shown its bearer.
    pub(crate) fn allow_silence(&self) {
        self.raise_claim(Claim::Stays);
    }

    /// Prefers this connection to those that have not shown a bearer.
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

/// The other end of a connection.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The seat of the connection.
    pub seat: SeatHandle,
    /// True if the kernel says that it is a process of our own user, on the socket in `run/`.
    pub is_owner: bool,
}

/// A listener whose connections take their places among all `seats`.
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
            // Small frames wait for nothing; where the system refuses this, only speed is lost.
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
            // The mode of the folder keeps others out; the kernel's word makes sure of it (NODE-20).
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
        // Each of them says a byte now and then, so that the owner's is the one that was silent longest.
        let mut flood: Vec<_> = (0..4 * SEATS)
            .map(|_| {
                let seat = seats.take_seat().expect("one of the flood makes room");
                seat.0.mark_heard();
                seat
            })
            .collect();
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        // Those with a bearer make room for each other where nobody else is left.
        for (seat, _) in &flood {
            seat.prefer_known();
        }
        flood.push(seats.take_seat().expect("the owner's was silent longest"));
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
