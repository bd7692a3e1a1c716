//! A carrier that sends each frame as a UDP datagram, and many datagrams with one system call:
//! segmentation offload of UDP in both directions.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::sockopt::{RcvBufForce, SndBufForce, UdpGroSegment};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MultiHeaders, RecvMsg, SockaddrIn, SockaddrIn6,
    SockaddrStorage, setsockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::{
    ArrivedFrame, Batch, QUEUE_BYTES, READ_WAIT, describe_refusal, no_interface, read_messages,
    send_messages,
};
use crate::tunnel::address::Endpoint;
use mezza_host::api::Fault;

/// All nodes of a link (RFC 4291, section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Maximum bytes of a message: a datagram, or a row of datagrams joined by the kernel.
const SLOT_BYTES: usize = 66 * 1024;
/// Maximum number of messages per read if the kernel joins none.
const READ_MESSAGES: usize = 32;
/// Maximum number of rows per read if the kernel joins datagrams. A super-frame of 64 KiB leaves in
/// two rows.
const READ_ROWS: usize = 4;
/// Frames of a message, at most.
const MESSAGE_FRAMES: usize = 128;
/// Bytes of a buffer for one read.
pub(super) const READ_BYTES: usize = READ_MESSAGES * SLOT_BYTES;
/// Maximum number of frames per call (`UDP_MAX_SEGMENTS` of Linux).
const SEGMENTS_MAX: usize = 64;
/// Maximum number of bytes per call.
const ROW_BYTES_MAX: usize = 65_000;

/// A UDP socket that is bound to one interface.
#[derive(Debug)]
pub(crate) struct UdpCarrier {
    socket: Socket,
    interface: u32,
    port: u16,
    /// True if the kernel has no IPv6 and the socket is an IPv4 socket.
    is_ip4: bool,
}

impl UdpCarrier {
    /// Opens a socket on `port` of `interface`, for IPv6 and IPv4.
    ///
    /// # Errors
    /// 77 without the right to bind to an interface, 75 for a port that is taken, 78 for an interface
    /// that is not there.
    pub(crate) fn open(interface: &str, port: u16) -> Result<Self, Fault> {
        let number = if_nametoindex(interface).map_err(|_| no_interface(interface))?;
        let what = format!("no UDP socket on {interface}, port {port}");
        Self::bind(interface, number, port).map_err(|error| describe_refusal(&what, &error))
    }

    fn bind(interface: &str, number: u32, port: u16) -> io::Result<Self> {
        let (socket, is_ip4) = match Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)) {
            // On a kernel without IPv6 links run over IPv4.
            Err(error) if lacks_family(&error) => {
                (Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?, true)
            }
            socket => (socket?, false),
        };
        socket.bind_device(Some(interface.as_bytes()))?;
        if is_ip4 {
            socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        } else {
            socket.set_only_v6(false)?;
            socket.set_multicast_if_v6(number)?;
            socket.set_multicast_loop_v6(false)?;
            socket.set_multicast_hops_v6(1)?;
            socket.bind(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0).into())?;
        }
        // Refusals are ignored: smaller buffers only lose frames under load, and offload is
        // optional.
        let _ = setsockopt(&socket, RcvBufForce, &QUEUE_BYTES);
        let _ = setsockopt(&socket, SndBufForce, &QUEUE_BYTES);
        let _ = setsockopt(&socket, UdpGroSegment, &true);
        socket.set_read_timeout(Some(READ_WAIT))?;
        Ok(Self { socket, interface: number, port, is_ip4 })
    }

    pub(super) fn interface(&self) -> u32 {
        self.interface
    }

    pub(super) fn all_nodes(&self) -> Option<Endpoint> {
        let all = SocketAddrV6::new(ALL_NODES, self.port, 0, self.interface);
        (!self.is_ip4).then_some(Endpoint::Udp(all))
    }

    /// Wakes the reading thread, which gets an empty datagram without source.
    pub(super) fn shut_down(&self) {
        // The kernel refuses this for a socket without a peer, but wakes its readers anyway.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn read(&self, buffer: &mut [u8], batch: &mut Batch) -> io::Result<()> {
        batch.frames.clear();
        // Datagrams that came one by one are read many at a time, so that their frames are joined
        // here. For rows joined by the kernel a few slots are enough, and fit into the CPU cache.
        let slots = if batch.is_joined { READ_ROWS } else { READ_MESSAGES };
        let buffer = &mut buffer[..slots * SLOT_BYTES];
        // Allocated for each call, because the kernel shortens the space for addresses and control
        // messages.
        let mut headers = MultiHeaders::preallocate(slots, Some(cmsg_space!(i32)));
        let fd = self.socket.as_raw_fd();
        batch.is_joined = false;
        read_messages(fd, &mut headers, buffer, SLOT_BYTES, |(slot, message)| {
            self.push_arrived(slot * SLOT_BYTES, &message, batch);
        })
    }

    /// Adds the frames of a message at `at` to the batch.
    fn push_arrived(
        &self,
        at: usize,
        message: &RecvMsg<'_, '_, SockaddrStorage>,
        batch: &mut Batch,
    ) {
        // A socket that was shut down delivers an empty message without source.
        let address = message.address.filter(|_| message.bytes > 0);
        let from = address.and_then(|address| {
            let ip6 = address.as_sockaddr_in6().map(|from| SocketAddr::V6((*from).into()));
            ip6.or_else(|| Some(SocketAddr::V4((*address.as_sockaddr_in()?).into())))
        });
        let Some(from) = from.map(|from| Endpoint::from_socket(from, self.interface)) else {
            return;
        };
        let row = message.cmsgs().ok().and_then(|mut messages| {
            messages.find_map(|message| match message {
                ControlMessageOwned::UdpGroSegments(bytes) => usize::try_from(bytes).ok(),
                _ => None,
            })
        });
        let frame_bytes = row.unwrap_or(message.bytes).max(1);
        batch.is_joined = frame_bytes < message.bytes;
        let end = at + message.bytes;
        let starts = (at..end).step_by(frame_bytes).take(MESSAGE_FRAMES);
        batch.frames.extend(
            starts.map(|start| ArrivedFrame { range: start..(start + frame_bytes).min(end), from }),
        );
    }

    pub(super) fn send(&self, to: &Endpoint, frame: &[u8]) -> io::Result<()> {
        self.send_all(to, &[[IoSlice::new(frame)]], &[])
    }

    pub(super) fn send_row(&self, to: &Endpoint, row: &[u8], frame_bytes: usize) -> io::Result<()> {
        let Ok(segment) = u16::try_from(frame_bytes) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // Messages of equal length, so that none of them is nearly empty.
        let frames = row.len().div_ceil(frame_bytes);
        let most = Self::row_frames_max(frame_bytes);
        let each = frames.div_ceil(frames.div_ceil(most));
        let parts: Vec<_> =
            row.chunks(each * frame_bytes).map(|part| [IoSlice::new(part)]).collect();
        match parts[..] {
            [_] if frames == 1 => self.send(to, row),
            _ => self.send_all(to, &parts, &[ControlMessage::UdpGsoSegments(&segment)]),
        }
    }

    /// Sends a row as [`UdpCarrier::send_row`] does, but each frame as its own datagram.
    pub(super) fn send_apart(
        &self,
        to: &Endpoint,
        row: &[u8],
        frame_bytes: usize,
    ) -> io::Result<()> {
        let frames = row.chunks(frame_bytes.max(1));
        let messages: Vec<_> = frames.map(|frame| [IoSlice::new(frame)]).collect();
        self.send_all(to, &messages, &[])
    }

    /// Sends messages in as few calls as the kernel takes, each with the same control messages.
    fn send_all(
        &self,
        to: &Endpoint,
        messages: &[[IoSlice<'_>; 1]],
        control: &[ControlMessage<'_>],
    ) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        match self.address_of(to)? {
            SocketAddr::V4(to) => send_messages(fd, messages, Some(SockaddrIn::from(to)), control),
            SocketAddr::V6(to) => send_messages(fd, messages, Some(SockaddrIn6::from(to)), control),
        }
    }

    /// Returns how many frames of this size the kernel splits out of one message.
    fn row_frames_max(frame_bytes: usize) -> usize {
        SEGMENTS_MAX.min(ROW_BYTES_MAX / frame_bytes.max(1)).max(1)
    }

    /// Returns an address in the family of the socket.
    fn address_of(&self, to: &Endpoint) -> io::Result<SocketAddr> {
        let Endpoint::Udp(to) = to else { return Err(io::ErrorKind::InvalidInput.into()) };
        match to.ip().to_ipv4_mapped() {
            Some(ip) if self.is_ip4 => Ok(SocketAddrV4::new(ip, to.port()).into()),
            // An IPv6 address, on a kernel without IPv6.
            None if self.is_ip4 => Err(io::ErrorKind::AddrNotAvailable.into()),
            _ => Ok((*to).into()),
        }
    }
}

/// Returns true if the kernel lacks this address family.
fn lacks_family(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EAFNOSUPPORT | Errno::EPROTONOSUPPORT))
}

/// Returns true if the error means that an interface cannot split datagrams.
pub(super) fn lacks_offload(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EIO | Errno::EINVAL | Errno::ENOPROTOOPT))
}
