//! Carriers of frames: UDP, or bare Ethernet. Plain blocking calls, on data threads.

mod ether;
mod udp;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ether::EtherCarrier;
use udp::UdpCarrier;

use super::address::Endpoint;
use super::config::CarrierKind;
use super::netlink;
use mezza_host::api::{Exit, Fault};

/// Bytes of a read, at most: a datagram, or as many in a row as the kernel has joined.
pub(crate) const READ_BYTES: usize = 66 * 1024;
/// Frames of a read, at most.
pub(crate) const READ_FRAMES: usize = 128;
/// How long a read waits: the thread that reads wipes keys of sessions that ended.
const READ_WAIT: Duration = Duration::from_secs(1);
/// The usual MTU of a carrier whose interface does not say.
const MTU: usize = 1_500;

/// One carrier of one interface.
#[derive(Debug)]
pub(crate) struct Carrier {
    socket: CarrierSocket,
    /// The interface, by name.
    on: String,
    /// Its interface is gone, and the thread that reads must end.
    closed: AtomicBool,
    /// Many frames go in one call. Ends once, when the kernel refuses or damages them.
    joins: AtomicBool,
}

#[derive(Debug)]
enum CarrierSocket {
    /// One frame a datagram.
    Udp(UdpCarrier),
    /// One frame an Ethernet frame.
    Ether(EtherCarrier),
}

/// The frames of one read.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Where the frames lie in the buffer.
    pub frames: Vec<Range<usize>>,
    /// Where they came from.
    pub from: Option<Endpoint>,
}

impl Carrier {
    /// A socket on an interface; `port` is that of UDP.
    ///
    /// # Errors
    /// 77 without the right to bind to an interface, 75 for a port that is taken, 78 for an interface
    /// that is not there.
    pub(crate) fn open(on: &str, kind: CarrierKind, port: u16) -> Result<Self, Fault> {
        let socket = match kind {
            CarrierKind::Udp => CarrierSocket::Udp(UdpCarrier::open(on, port)?),
            CarrierKind::Ether => CarrierSocket::Ether(EtherCarrier::open(on)?),
        };
        let (closed, joins) = (AtomicBool::new(false), AtomicBool::new(true));
        Ok(Self { socket, on: on.to_owned(), closed, joins })
    }

    /// Reads what is there. If nothing is, waits for [`READ_WAIT`] at most.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came in time; all others are those of the socket.
    pub(crate) fn read(&self, buffer: &mut [u8], batch: &mut Batch) -> io::Result<()> {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.read(buffer, batch),
            CarrierSocket::Ether(carrier) => carrier.read(buffer, batch),
        }
    }

    /// Sends one frame; a full queue of the system drops it.
    pub(crate) fn send(&self, to: &Endpoint, frame: &[u8]) -> io::Result<()> {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.send(to, frame),
            CarrierSocket::Ether(carrier) => carrier.send(to, frame),
        }
    }

    /// Sends frames of `frame_bytes` that lie one behind the other; the last one may be shorter.
    pub(crate) fn send_row(&self, to: &Endpoint, row: &[u8], frame_bytes: usize) -> io::Result<()> {
        let alone = || row.chunks(frame_bytes.max(1)).try_for_each(|frame| self.send(to, frame));
        match &self.socket {
            CarrierSocket::Udp(carrier) if self.joins() => {
                match carrier.send_row(to, row, frame_bytes) {
                    Err(error) if udp::lacks_offload(&error) => {
                        self.stop_joining("the kernel refuses many datagrams in one call");
                        alone()
                    }
                    done => done,
                }
            }
            _ => alone(),
        }
    }

    /// Returns true if many frames go in one call.
    pub(crate) fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// From now on each frame has a call of its own. Logs the reason once.
    pub(crate) fn stop_joining(&self, why: &str) {
        if self.joins.swap(false, Ordering::Relaxed) {
            tracing::warn!(on = self.on, why, "offload of UDP is off for this carrier");
        }
    }

    /// Frames of so many bytes that go out in one call; `None`: each has its own.
    pub(crate) fn row_frames_max(&self, frame_bytes: usize) -> Option<usize> {
        match self.socket {
            CarrierSocket::Udp(_) => Some(UdpCarrier::row_frames_max(frame_bytes)),
            CarrierSocket::Ether(_) => None,
        }
    }

    /// Everybody on the link; `None` where the kernel has no IPv6 and so no group of all devices.
    pub(crate) fn everybody(&self) -> Option<Endpoint> {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.everybody(),
            CarrierSocket::Ether(_) => Some(Endpoint::Ether([0xff; 6])),
        }
    }

    /// The number of its interface.
    pub(crate) fn interface(&self) -> u32 {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.interface(),
            CarrierSocket::Ether(carrier) => carrier.interface(),
        }
    }

    /// Returns true if the interface of its name is still the one that it was opened on.
    pub(crate) fn is_there(&self) -> bool {
        nix::net::if_::if_nametoindex(self.on.as_str()).is_ok_and(|now| now == self.interface())
    }

    /// Ends the thread that reads from it.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let CarrierSocket::Udp(carrier) = &self.socket {
            carrier.shut_down();
        }
    }

    /// Returns true if [`Carrier::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Bytes of one frame of ours on the way to an address: the MTU of the interface, or that of the
    /// route if it is smaller, without the headers of the carrier. A jumbo interface, or loopback, is
    /// used up to what a datagram may have.
    pub(crate) fn frame_bytes(&self, to: Option<&Endpoint>) -> usize {
        let path = Path::new("/sys/class/net").join(&self.on).join("mtu");
        let text = std::fs::read_to_string(path).ok();
        let mtu = text.and_then(|text| text.trim().parse().ok()).unwrap_or(MTU);
        let route = match to {
            Some(Endpoint::Udp(to)) => netlink::route_mtu(*to.ip(), self.interface()),
            _ => None,
        };
        let mtu: usize = route.map_or(mtu, |route| route.min(mtu));
        mtu.clamp(MTU_MIN, MTU_MAX) - self.overhead_bytes()
    }

    /// Bytes that it adds to an Ethernet frame on the wire, the largest headers counted.
    fn overhead_bytes(&self) -> usize {
        match self.socket {
            // IPv6 and UDP.
            CarrierSocket::Udp(_) => 48,
            // Our own length.
            CarrierSocket::Ether(_) => 2,
        }
    }
}

/// The smallest MTU that is believed: below it IPv4 cuts datagrams by itself (RFC 791).
const MTU_MIN: usize = 576;
/// The largest one that is used.
const MTU_MAX: usize = 9_216;

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
