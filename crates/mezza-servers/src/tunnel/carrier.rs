//! Carriers of frames: UDP, or bare Ethernet. Plain blocking calls, on data threads.

mod ether;
mod udp;

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ether::EtherCarrier;
use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, RecvMsg, SockaddrLike, recvmmsg, sendmmsg, sendmsg,
};
use udp::UdpCarrier;

use super::address::Endpoint;
use super::config::CarrierKind;
use super::netlink;
use mezza_host::api::{Exit, Fault};

/// Room for frames in the queue of a socket while a thread is not scheduled, bytes.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of messages that one call sends (`UIO_MAXIOV` of Linux allows 1,024).
const CALL_MESSAGES_MAX: usize = 64;
/// Maximum time of a read; between reads the thread wipes keys of ended sessions.
const READ_WAIT: Duration = Duration::from_secs(1);
/// The MTU assumed if the interface reports none.
const MTU: usize = 1_500;

/// One carrier of one interface.
#[derive(Debug)]
pub(crate) struct Carrier {
    socket: CarrierSocket,
    /// The name of the interface.
    on: String,
    /// True if the interface is gone and the reading thread must end.
    closed: AtomicBool,
    /// True while the kernel splits rows of frames. Turns false for good when the kernel refuses or
    /// damages rows.
    joins: AtomicBool,
}

#[derive(Debug)]
enum CarrierSocket {
    /// UDP: each datagram is one frame.
    Udp(UdpCarrier),
    /// Ethernet: each Ethernet frame is one frame.
    Ether(EtherCarrier),
}

/// The frames of one read.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The frames, in the order of their arrival.
    pub frames: Vec<ArrivedFrame>,
    /// True if the last message was a row of datagrams joined by the kernel.
    is_joined: bool,
}

/// A frame that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrivedFrame {
    /// The range of the frame in the buffer.
    pub range: Range<usize>,
    /// The source of the frame.
    pub from: Endpoint,
}

impl Carrier {
    /// Opens a socket on an interface; `port` is used for UDP only.
    ///
    /// # Errors
    /// 77 without the right to bind to an interface, 75 for a port that is taken, 78 for an interface
    /// that is not there.
    pub(crate) fn open(on: &str, kind: CarrierKind, port: u16) -> Result<Self, Fault> {
        let socket = match kind {
            CarrierKind::Udp => CarrierSocket::Udp(UdpCarrier::open(on, port)?),
            CarrierKind::Ether => CarrierSocket::Ether(EtherCarrier::open(on)?),
        };
        let closed = AtomicBool::new(false);
        let joins = AtomicBool::new(true);
        Ok(Self { socket, on: on.to_owned(), closed, joins })
    }

    /// Returns the size in bytes of a buffer for [`Carrier::read`].
    pub(crate) fn read_bytes(&self) -> usize {
        match self.socket {
            CarrierSocket::Udp(_) => udp::READ_BYTES,
            CarrierSocket::Ether(_) => ether::READ_BYTES,
        }
    }

    /// Reads the available frames, as many as fit one call and a buffer of [`Carrier::read_bytes`]
    /// bytes. Without any, waits for [`READ_WAIT`] at most.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came in time; all others are those of the socket.
    pub(crate) fn read(&self, buffer: &mut [u8], batch: &mut Batch) -> io::Result<()> {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.read(buffer, batch),
            CarrierSocket::Ether(carrier) => carrier.read(buffer, batch),
        }
    }

    /// Sends one frame; the system drops it if its queue is full.
    pub(crate) fn send(&self, to: &Endpoint, frame: &[u8]) -> io::Result<()> {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.send(to, frame),
            CarrierSocket::Ether(carrier) => carrier.send(to, frame),
        }
    }

    /// Sends consecutive frames of `frame_bytes` each; the last one may be shorter.
    ///
    /// With UDP offload the kernel splits them. Otherwise each is a separate message, and one call
    /// sends many messages.
    pub(crate) fn send_row(&self, to: &Endpoint, row: &[u8], frame_bytes: usize) -> io::Result<()> {
        match &self.socket {
            CarrierSocket::Udp(carrier) if self.joins() => {
                match carrier.send_row(to, row, frame_bytes) {
                    Err(error) if udp::lacks_offload(&error) => {
                        self.stop_joining("the kernel refuses many datagrams in one call");
                        carrier.send_apart(to, row, frame_bytes)
                    }
                    done => done,
                }
            }
            CarrierSocket::Udp(carrier) => carrier.send_apart(to, row, frame_bytes),
            CarrierSocket::Ether(carrier) => carrier.send_row(to, row, frame_bytes),
        }
    }

    /// Returns true if the kernel splits rows of frames.
    pub(crate) fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// Sends each frame as a separate message from now on. Logs the reason once.
    pub(crate) fn stop_joining(&self, why: &str) {
        if self.joins.swap(false, Ordering::Relaxed) {
            tracing::warn!(on = self.on, why, "offload of UDP is off for this carrier");
        }
    }

    /// Returns the address of all devices on the link, or `None` if the kernel has no IPv6 and so
    /// no such group.
    pub(crate) fn all_nodes(&self) -> Option<Endpoint> {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.all_nodes(),
            CarrierSocket::Ether(_) => Some(Endpoint::Ether([0xff; 6])),
        }
    }

    /// Returns the number of the interface.
    pub(crate) fn interface(&self) -> u32 {
        match &self.socket {
            CarrierSocket::Udp(carrier) => carrier.interface(),
            CarrierSocket::Ether(carrier) => carrier.interface(),
        }
    }

    /// Returns true if the interface of this name is still the one that the carrier was opened on.
    pub(crate) fn is_there(&self) -> bool {
        nix::net::if_::if_nametoindex(self.on.as_str()).is_ok_and(|now| now == self.interface())
    }

    /// Makes the reading thread end.
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

    /// Returns the maximum size in bytes of one frame on the path to an address. It is the MTU of
    /// the interface or, if smaller, of the route, minus the headers of the carrier. A jumbo or
    /// loopback interface is used up to the size of a datagram.
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

    /// Returns the bytes that the carrier adds to an Ethernet frame on the wire, with its largest
    /// headers.
    fn overhead_bytes(&self) -> usize {
        match self.socket {
            // Headers of IPv6 (40 bytes) and UDP (8 bytes).
            CarrierSocket::Udp(_) => 48,
            // The length field of this carrier.
            CarrierSocket::Ether(_) => 2,
        }
    }
}

/// Sends messages in their order, each of `N` parts, in as few calls as the kernel takes. All
/// messages share the address and the control messages, at most one of two bytes.
///
/// # Errors
/// The error of the first message that was not sent. No later message is sent.
fn send_messages<'a, S: SockaddrLike + Copy + 'a, const N: usize>(
    socket: RawFd,
    mut messages: &'a [[IoSlice<'a>; N]],
    to: Option<S>,
    control: &'a [ControlMessage<'a>],
) -> io::Result<()> {
    if let [message] = messages {
        return Ok(sendmsg(socket, message, control, MsgFlags::empty(), to.as_ref()).map(drop)?);
    }
    while !messages.is_empty() {
        let part = &messages[..messages.len().min(CALL_MESSAGES_MAX)];
        let room = (!control.is_empty()).then(|| cmsg_space!(u16));
        let mut headers = MultiHeaders::preallocate(part.len(), room);
        let to = vec![to; part.len()];
        let sent = sendmmsg(socket, &mut headers, part, to, control, MsgFlags::empty())?.count();
        messages = &messages[sent.max(1)..];
    }
    Ok(())
}

/// Reads messages into slots of `slot_bytes` of a buffer, as many as are available; waits only for
/// the first. `headers` has one entry per slot. `each` is called with the number of the slot and
/// the message.
fn read_messages<S: SockaddrLike + Copy>(
    socket: RawFd,
    headers: &mut MultiHeaders<S>,
    buffer: &mut [u8],
    slot_bytes: usize,
    each: impl FnMut((usize, RecvMsg<'_, '_, S>)),
) -> io::Result<()> {
    let mut slots: Vec<_> =
        buffer.chunks_exact_mut(slot_bytes).map(|slot| [IoSliceMut::new(slot)]).collect();
    let read = recvmmsg(socket, headers, &mut slots, MsgFlags::MSG_WAITFORONE, None)?;
    read.enumerate().for_each(each);
    Ok(())
}

/// The smallest MTU of a route that is accepted: below it IPv4 fragments datagrams itself (RFC
/// 791).
const MTU_MIN: usize = 576;
/// The largest MTU that is used.
const MTU_MAX: usize = 9_216;

/// Returns the fault for a socket that the system refuses.
fn describe_refusal(what: &str, error: &io::Error) -> Fault {
    let (code, next) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Denied, "run it as root or by its unit"),
        io::ErrorKind::AddrInUse => (Exit::Busy, "stop what uses the port, or set `listen`"),
        _ => (Exit::Config, "look at `ip link`"),
    };
    Fault::new(code, format!("{what}: {error}"), next)
}

/// Returns the fault for a missing interface.
pub(crate) fn no_interface(name: &str) -> Fault {
    let text = format!("there is no interface {name}");
    Fault::new(Exit::Config, text, "look at `ip link`, and name one that is there")
}
