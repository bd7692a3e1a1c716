//! Records of a connection for the observer: the bytes below TLS, and the frames above it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::{fmt, io};

use mezza_messenger::relay_wire::LENGTH_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The side of TLS on which bytes were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Below TLS: what an internet provider sees.
    Wire,
    /// Above TLS: frames with their length field, as the relay sees them.
    Frame,
}

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From client to relay.
    ToRelay,
    /// From relay to client.
    ToClient,
}

/// Recorded bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TapEvent<'a> {
    /// Distinguishes the connections of one process.
    pub connection: u64,
    /// Below or above TLS.
    pub side: Side,
    /// The direction.
    pub direction: Direction,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl fmt::Debug for TapEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, side, direction, bytes } = self;
        write!(f, "TapEvent({connection}, {side:?}, {direction:?}, {} bytes)", bytes.len())
    }
}

/// A receiver of recorded bytes. It is called on the connection's task, so it must be quick.
pub trait Tap: Send + Sync {
    /// Receives recorded bytes.
    fn record(&self, event: TapEvent<'_>);

    /// Returns true if bytes are recorded now; otherwise none are copied.
    fn is_on(&self) -> bool {
        true
    }
}

/// The tap of one connection, if any.
#[derive(Clone)]
pub struct TapPoint {
    tap: Option<Arc<dyn Tap>>,
    connection: u64,
}

impl TapPoint {
    /// Makes a tap point with its own connection number.
    pub fn new(tap: Option<Arc<dyn Tap>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let connection = if tap.is_some() { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
        Self { tap, connection }
    }

    /// Records a relay frame whose length field was removed.
    pub fn record_body(&self, direction: Direction, body: &[u8]) {
        if self.tap.as_ref().is_some_and(|tap| tap.is_on()) {
            let length = (body.len() as u32).to_be_bytes();
            let whole = [&length[4 - LENGTH_BYTES..], body].concat();
            self.record(Side::Frame, direction, &whole);
        }
    }

    /// Records `bytes` if there is a tap.
    pub fn record(&self, side: Side, direction: Direction, bytes: &[u8]) {
        if let Some(tap) = &self.tap {
            tap.record(TapEvent { connection: self.connection, side, direction, bytes });
        }
    }
}

/// A byte stream whose bytes are recorded by a [`Tap`].
pub struct Tapped<S> {
    inner: S,
    point: TapPoint,
    reads: Direction,
}

impl<S> Tapped<S> {
    /// Wraps `inner`; bytes read from it are recorded with the direction `reads`.
    pub fn new(inner: S, point: TapPoint, reads: Direction) -> Self {
        Self { inner, point, reads }
    }
}

impl<S> fmt::Debug for Tapped<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tapped({})", self.point.connection)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tapped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        let fresh = &buf.filled()[before..];
        if !fresh.is_empty() {
            self.point.record(Side::Wire, self.reads, fresh);
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tapped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = &result
            && *written > 0
        {
            let writes = match self.reads {
                Direction::ToRelay => Direction::ToClient,
                Direction::ToClient => Direction::ToRelay,
            };
            self.point.record(Side::Wire, writes, &buf[..*written]);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
