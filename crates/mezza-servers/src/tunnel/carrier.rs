//! What carries frames: UDP, or bare Ethernet. Plain blocking calls, on data threads.

mod ether;
mod udp;

use std::io;
use std::ops::Range;

pub(crate) use ether::EtherCarrier;
pub(crate) use udp::UdpCarrier;

use super::address::Endpoint;
use mezza_host::api::{Exit, Fault};

/// Bytes of a read, at most: a datagram, or as many in a row as the kernel has joined.
pub(crate) const READ_BYTES: usize = 66 * 1024;
/// Frames of a read, at most.
pub(crate) const READ_FRAMES: usize = 128;

/// One carrier of one interface.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// One frame a datagram.
    Udp(UdpCarrier),
    /// One frame an Ethernet frame.
    Ether(EtherCarrier),
}

/// What one read delivered.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Where the frames lie in the buffer.
    pub frames: Vec<Range<usize>>,
    /// Where they came from.
    pub from: Option<Endpoint>,
}

impl Carrier {
    /// Reads what is there, and waits if nothing is.
    pub(crate) fn read(&self, buffer: &mut [u8], batch: &mut Batch) -> io::Result<()> {
        match self {
            Self::Udp(carrier) => carrier.read(buffer, batch),
            Self::Ether(carrier) => carrier.read(buffer, batch),
        }
    }

    /// Sends one frame; a full queue of the system drops it.
    pub(crate) fn send(&self, to: &Endpoint, frame: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(carrier) => carrier.send(to, frame),
            Self::Ether(carrier) => carrier.send(to, frame),
        }
    }

    /// Sends frames of `frame_bytes` that lie one behind the other; the last one may be shorter.
    pub(crate) fn send_row(&self, to: &Endpoint, row: &[u8], frame_bytes: usize) -> io::Result<()> {
        match self {
            Self::Udp(carrier) => carrier.send_row(to, row, frame_bytes),
            Self::Ether(carrier) => {
                row.chunks(frame_bytes).try_for_each(|frame| carrier.send(to, frame))
            }
        }
    }

    /// Frames of so many bytes that go out in one call; `None`: each has its own.
    pub(crate) fn row_frames_max(&self, frame_bytes: usize) -> Option<usize> {
        match self {
            Self::Udp(_) => Some(UdpCarrier::row_frames_max(frame_bytes)),
            Self::Ether(_) => None,
        }
    }

    /// Everybody on the link.
    pub(crate) fn everybody(&self) -> Endpoint {
        match self {
            Self::Udp(carrier) => carrier.everybody(),
            Self::Ether(_) => Endpoint::Ether([0xff; 6]),
        }
    }

    /// The number of its interface.
    pub(crate) fn interface(&self) -> u32 {
        match self {
            Self::Udp(carrier) => carrier.interface(),
            Self::Ether(carrier) => carrier.interface(),
        }
    }

    /// Bytes that it adds to an Ethernet frame on the wire, the largest headers counted.
    pub(crate) fn overhead_bytes(&self) -> usize {
        match self {
            // IPv6 and UDP.
            Self::Udp(_) => 48,
            // Our own length.
            Self::Ether(_) => 2,
        }
    }
}

/// The fault of a system that refuses a socket.
fn refused(what: &str, error: &io::Error) -> Fault {
    let (code, next) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Denied, "run it as root or by its unit"),
        io::ErrorKind::AddrInUse => (Exit::Busy, "stop what uses the port, or set `listen`"),
        _ => (Exit::Config, "look at `ip link`"),
    };
    Fault::new(code, format!("{what}: {error}"), next)
}

/// The fault of an interface that is not there.
pub(crate) fn no_interface(name: &str) -> Fault {
    let text = format!("there is no interface {name}");
    Fault::new(Exit::Config, text, "look at `ip link`, and name one that is there")
}
