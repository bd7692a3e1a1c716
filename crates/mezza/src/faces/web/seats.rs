//! How many connections the page's port holds: any local user can open some and say nothing (WEB-9).
//!
//! When all seats are taken, whoever has been silent longest makes room. A WebSocket that has shown its
//! bearer keeps its seat: it is silent as long as nothing happens.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
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

/// One connection.
struct Sitting {
    /// When it was last heard, in ticks.
    heard: u64,
    /// Whether it stays however silent it is.
    stays: bool,
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
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat, and what becomes ready when it has to be left; `None`: all are taken by those who stay.
    fn sit(&self) -> Option<(SeatHandle, oneshot::Receiver<()>)> {
        let mut taken = self.taken();
        if taken.connections.len() >= SEATS {
            let silent = taken.connections.iter().filter(|(_, sitting)| !sitting.stays);
            let (id, _) = silent.min_by_key(|(_, sitting)| sitting.heard)?;
            let id = *id;
            taken.connections.remove(&id);
        }
        let (end, ended) = oneshot::channel();
        taken.last += 1;
        taken.ticks += 1;
        let (id, heard) = (taken.last, taken.ticks);
        taken.connections.insert(id, Sitting { heard, stays: false, _end: end });
        Some((SeatHandle(Arc::new(Seat { id, seats: self.clone() })), ended))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken().connections.remove(&self.id);
    }
}

impl SeatHandle {
    /// This connection has shown its bearer, and may be silent from now on.
    pub(crate) fn keep(&self) {
        if let Some(sitting) = self.0.seats.taken().connections.get_mut(&self.0.id) {
            sitting.stays = true;
        }
    }

    fn heard(&self) {
        let mut taken = self.0.seats.taken();
        taken.ticks += 1;
        let now = taken.ticks;
        if let Some(sitting) = taken.connections.get_mut(&self.0.id) {
            sitting.heard = now;
        }
    }
}

/// A port whose connections have seats.
pub(crate) struct SeatedListener {
    listener: TcpListener,
    seats: Seats,
}

impl SeatedListener {
    /// Connections of `listener` take their places among all `seats`.
    pub(crate) fn new(listener: TcpListener, seats: Seats) -> Self {
        Self { listener, seats }
    }
}

impl Listener for SeatedListener {
    type Io = SeatedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (SeatedStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Small frames wait for nothing; where the system refuses this, only speed is lost.
            drop(stream.set_nodelay(true));
            if let Some((seat, ended)) = self.seats.sit() {
                return (SeatedStream { stream, seat, ended }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that has a seat.
pub(crate) struct SeatedStream {
    stream: TcpStream,
    seat: SeatHandle,
    ended: oneshot::Receiver<()>,
}

impl Connected<IncomingStream<'_, SeatedListener>> for SeatHandle {
    fn connect_info(stream: IncomingStream<'_, SeatedListener>) -> Self {
        stream.io().seat.clone()
    }
}

impl AsyncRead for SeatedStream {
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
            self.seat.heard();
        }
        polled
    }
}

impl AsyncWrite for SeatedStream {
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
        let mut held: Vec<_> = (0..SEATS).map(|_| seats.sit().expect("a seat")).collect();
        held[0].0.keep();
        held[1].0.heard();
        let (newest, _ended) = seats.sit().expect("the third one makes room");
        let ended = |held: &mut (SeatHandle, oneshot::Receiver<()>)| {
            held.1.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        let gone: Vec<_> = held.iter_mut().take(4).map(ended).collect();
        assert_eq!(gone, [false, false, true, false]);
        for (seat, _) in &held {
            seat.keep();
        }
        newest.keep();
        assert!(seats.sit().is_none(), "all of them stay");
        held.pop();
        assert!(seats.sit().is_some(), "a seat is free again");
    }
}
