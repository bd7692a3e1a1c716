//! The client's side of one relay connection.
//!
//! ```no_run
//! # async fn example(key: mezza_messenger::card::RelayKey) -> Result<(), Box<dyn std::error::Error>> {
//! use mezza_host::clock::Clock;
//! use mezza_host::connection::relay;
//! use mezza_messenger::relay_wire::{ClientFrame, MailboxAddress};
//!
//! let mut connection = relay::connect_relay(&key, "relay.example", 7101, &Clock::system(), None).await?;
//! let address = MailboxAddress([0x11; 16]);
//! connection.send(&ClientFrame::BundleGet { req: 1, address }).await?;
//! println!("{:?}", connection.recv().await?);
//! # Ok(())
//! # }
//! ```

mod error;

pub use error::{ConnectError, ConnectionError};

use mezza_core::Time;
use mezza_messenger::card::RelayKey;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use mezza_messenger::relay_wire::{
    ALPN, CLOCK_DIFFERENCE_MS_MAX, ClientFrame, RelayDeframer, RelayFrame, VERSION,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::clock::Clock;
use crate::connection::tap::{Direction, Side, Tap, TapPoint, Tapped};
use crate::tls::{Pin, client_config, fingerprint};

/// Time limit for TCP, TLS and HELLO together.
const CONNECT: Duration = Duration::from_secs(20);
/// Bytes per read.
const READ_BYTES: usize = 8_192;

type Stream = TlsStream<Tapped<TcpStream>>;

/// A connection after its HELLO.
pub struct Connection {
    sender: RelayWriteHalf,
    receiver: RelayReadHalf,
    time_elsewhere: Option<Time>,
}

/// The sending half.
pub struct RelayWriteHalf {
    stream: WriteHalf<Stream>,
    point: TapPoint,
}

/// The receiving half.
pub struct RelayReadHalf {
    stream: ReadHalf<Stream>,
    point: TapPoint,
    splitter: RelayDeframer,
    buffer: Vec<u8>,
    /// The offset of the unread bytes in `buffer`.
    begin: usize,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// Connects to the relay that holds `key`, and waits for its HELLO.
///
/// # Errors
/// [`ConnectError`] distinguishes a wrong key (with both keys), an unreachable relay, a server that
/// is no relay, and clocks more than a day apart.
pub async fn connect_relay(
    key: &RelayKey,
    host: &str,
    port: u16,
    clock: &Clock,
    tap: Option<Arc<dyn Tap>>,
) -> Result<Connection, ConnectError> {
    let target = Target { key, host, port };
    let connecting = target.connect(clock, TapPoint::new(tap));
    timeout(CONNECT, connecting)
        .await
        .unwrap_or_else(|_| Err(target.unreachable_error(io::ErrorKind::TimedOut.into())))
}

/// The relay to connect to.
struct Target<'a> {
    key: &'a RelayKey,
    host: &'a str,
    port: u16,
}

impl Target<'_> {
    async fn connect(&self, clock: &Clock, point: TapPoint) -> Result<Connection, ConnectError> {
        let socket = TcpStream::connect((self.host, self.port)).await;
        let socket = socket.map_err(|source| self.unreachable_error(source))?;
        let is_elsewhere = is_elsewhere(&socket);
        // Send small frames at once; if the system refuses, only speed is lost.
        drop(socket.set_nodelay(true));
        let stream =
            self.secure_socket(Tapped::new(socket, point.clone(), Direction::ToClient)).await?;
        let (reading, writing) = split(stream);
        let mut receiver = RelayReadHalf {
            stream: reading,
            point: point.clone(),
            splitter: RelayDeframer::default(),
            buffer: Vec::new(),
            begin: 0,
        };
        let time = self.await_hello(&mut receiver, clock).await?;
        let time_elsewhere = is_elsewhere.then_some(time);
        let sender = RelayWriteHalf { stream: writing, point };
        Ok(Connection { sender, receiver, time_elsewhere })
    }

    /// Runs TLS with the pinned key.
    async fn secure_socket(&self, socket: Tapped<TcpStream>) -> Result<Stream, ConnectError> {
        let pin = Pin::new(self.key.0);
        let config = client_config(pin.clone()).map_err(ConnectError::Tls)?;
        // The name is never sent (no SNI) and never checked (the key is), but rustls requires one.
        let name = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
        let stream = TlsConnector::from(config).connect(name, socket).await;
        let stream = stream.map_err(|source| match pin.other_key() {
            Some(shown) => ConnectError::WrongKey {
                relay: self.name(),
                shown: fingerprint(&shown),
                expected: fingerprint(&self.key.0),
            },
            None if is_tls(&source) => self.not_a_relay(),
            None => self.unreachable_error(source),
        })?;
        if stream.get_ref().1.alpn_protocol() == Some(ALPN) {
            Ok(stream)
        } else {
            Err(self.not_a_relay())
        }
    }

    /// Waits for HELLO as the first frame, and compares the relay's clock with ours.
    async fn await_hello(
        &self,
        receiver: &mut RelayReadHalf,
        clock: &Clock,
    ) -> Result<Time, ConnectError> {
        let first = receiver.recv().await.map_err(|error| match error {
            ConnectionError::Io(source) => self.unreachable_error(source),
            ConnectionError::Closed | ConnectionError::Malformed | ConnectionError::TooLong => {
                self.not_a_relay()
            }
        })?;
        let RelayFrame::Hello { version: VERSION, now_ms, .. } = first else {
            return Err(self.not_a_relay());
        };
        let time = Time::from_ms(now_ms);
        if clock.is_near(time, CLOCK_DIFFERENCE_MS_MAX) {
            Ok(time)
        } else {
            Err(ConnectError::Clock(self.name()))
        }
    }

    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn unreachable_error(&self, source: io::Error) -> ConnectError {
        ConnectError::Unreachable { relay: self.name(), source }
    }

    fn not_a_relay(&self) -> ConnectError {
        ConnectError::NotARelay(self.name())
    }
}

/// Returns true if the peer is on another machine, which has its own clock.
fn is_elsewhere(socket: &TcpStream) -> bool {
    let ends = socket.peer_addr().and_then(|peer| Ok((peer.ip(), socket.local_addr()?.ip())));
    ends.is_ok_and(|(there, here)| there != here && !there.is_loopback())
}

/// Returns true if TLS, and not the network, caused the error.
fn is_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
}

impl Connection {
    /// Sends a frame. The caller must keep receiving meanwhile, or both sides may deadlock.
    pub async fn send(&mut self, frame: &ClientFrame) -> Result<(), ConnectionError> {
        self.sender.send(frame).await
    }

    /// Receives the next frame. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Result<RelayFrame, ConnectionError> {
        self.receiver.recv().await
    }

    /// Returns the time in the relay's HELLO, if the relay is on another machine.
    pub const fn time_elsewhere(&self) -> Option<Time> {
        self.time_elsewhere
    }

    /// Splits the connection into halves for two tasks.
    pub fn split(self) -> (RelayWriteHalf, RelayReadHalf) {
        (self.sender, self.receiver)
    }

    /// Closes the connection in an orderly way.
    pub async fn close(self) -> Result<(), ConnectionError> {
        self.sender.close().await
    }
}

impl RelayWriteHalf {
    /// Sends a frame.
    pub async fn send(&mut self, frame: &ClientFrame) -> Result<(), ConnectionError> {
        let bytes = frame.encode().map_err(|_| ConnectionError::TooLong)?;
        self.point.record(Side::Frame, Direction::ToRelay, &bytes);
        self.stream.write_all(&bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Closes the connection in an orderly way.
    pub async fn close(mut self) -> Result<(), ConnectionError> {
        Ok(self.stream.shutdown().await?)
    }
}

impl RelayReadHalf {
    /// Receives the next frame. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ConnectionError::Closed`] at the orderly end of the connection.
    pub async fn recv(&mut self) -> Result<RelayFrame, ConnectionError> {
        loop {
            let mut input = &self.buffer[self.begin..];
            let found = self.splitter.next_frame(&mut input);
            self.begin = self.buffer.len() - input.len();
            if let Some(frame) = found.map_err(|_| ConnectionError::Malformed)? {
                self.point.record_body(Direction::ToClient, &frame);
                return RelayFrame::decode(&frame).map_err(|_| ConnectionError::Malformed);
            }
            self.buffer.clear();
            self.begin = 0;
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(ConnectionError::Closed);
            }
        }
    }
}
