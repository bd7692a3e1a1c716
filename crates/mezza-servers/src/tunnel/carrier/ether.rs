//! A carrier that sends each frame as an Ethernet frame of type 0x88B5, without IP:
//! `length u16 | frame | zeros`. Real cards fill short frames up to 46 bytes, hence the length
//! field.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

use mezza_seka::wire::ETHER_TYPE;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::sockopt::{RcvBufForce, SndBufForce};
use nix::sys::socket::{LinkAddr, MultiHeaders, bind, setsockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::{
    ArrivedFrame, Batch, MTU_MAX, QUEUE_BYTES, READ_WAIT, describe_refusal, no_interface,
    read_messages, send_messages,
};
use crate::tunnel::address::Endpoint;
use mezza_host::api::Fault;

/// Bytes of an Ethernet header, and of the length field after it.
const HEADER_BYTES: usize = 14;
const LENGTH_BYTES: usize = 2;
/// Ethernet's shortest payload.
const PAYLOAD_BYTES_MIN: usize = 46;
/// Maximum number of frames per read: a super-frame and part of the next.
const READ_FRAMES: usize = 64;
/// Bytes of the buffer for one frame of a read.
const SLOT_BYTES: usize = (HEADER_BYTES + MTU_MAX).next_multiple_of(64);
/// Bytes of the buffer for all frames of a read.
pub(super) const READ_BYTES: usize = READ_FRAMES * SLOT_BYTES;

/// A packet socket on one interface.
#[derive(Debug)]
pub(crate) struct EtherCarrier {
    socket: Socket,
    interface: u32,
    own: [u8; 6],
}

impl EtherCarrier {
    /// Opens a socket for frames of type 0x88B5 on `interface`.
    ///
    /// # Errors
    /// 77 without the right to raw sockets, 78 for an interface that is not there.
    pub(crate) fn open(interface: &str) -> Result<Self, Fault> {
        let what = format!("no Ethernet socket on {interface}");
        let found = link_address(interface).ok_or_else(|| no_interface(interface))?;
        Self::bind(&found).map_err(|error| describe_refusal(&what, &error))
    }

    fn bind(address: &LinkAddr) -> io::Result<Self> {
        let protocol = Protocol::from(i32::from(ETHER_TYPE.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
        // Protocol 0 in the address makes the kernel use the protocol of the socket.
        bind(socket.as_raw_fd(), address)?;
        // The usual queue of 200 KiB has room for 90 frames, and a super-frame is 46 of them. A
        // refusal is ignored: a smaller queue only loses frames under load.
        let _ = setsockopt(&socket, RcvBufForce, &QUEUE_BYTES);
        let _ = setsockopt(&socket, SndBufForce, &QUEUE_BYTES);
        socket.set_read_timeout(Some(READ_WAIT))?;
        let own = address.addr().unwrap_or_default();
        Ok(Self { socket, interface: address.ifindex() as u32, own })
    }

    pub(super) fn interface(&self) -> u32 {
        self.interface
    }

    pub(super) fn read(&self, buffer: &mut [u8], batch: &mut Batch) -> io::Result<()> {
        batch.frames.clear();
        let mut lengths = [0; READ_FRAMES];
        let mut headers = MultiHeaders::<()>::preallocate(READ_FRAMES, None);
        let fd = self.socket.as_raw_fd();
        read_messages(fd, &mut headers, buffer, SLOT_BYTES, |(slot, message)| {
            lengths[slot] = message.bytes;
        })?;
        let slots = buffer.chunks_exact(SLOT_BYTES).zip(lengths).enumerate();
        let frames = slots.filter_map(|(slot, (bytes, length))| {
            self.parse_arrived(slot * SLOT_BYTES, bytes.get(..length)?)
        });
        batch.frames.extend(frames);
        Ok(())
    }

    /// Returns the frame inside the Ethernet frame at `at`, or `None` if it is malformed or from
    /// this device.
    fn parse_arrived(&self, at: usize, ethernet: &[u8]) -> Option<ArrivedFrame> {
        let payload = ethernet.get(HEADER_BYTES + LENGTH_BYTES..)?;
        let length = ethernet.get(HEADER_BYTES..)?.first_chunk::<LENGTH_BYTES>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let source: [u8; 6] = ethernet.get(6..)?.first_chunk().copied()?;
        let start = at + HEADER_BYTES + LENGTH_BYTES;
        (length <= payload.len() && source != self.own)
            .then_some(ArrivedFrame { range: start..start + length, from: Endpoint::Ether(source) })
    }

    pub(super) fn send(&self, to: &Endpoint, frame: &[u8]) -> io::Result<()> {
        self.send_row(to, frame, frame.len())
    }

    /// Sends consecutive frames of `frame_bytes` each; the last one may be shorter.
    pub(super) fn send_row(&self, to: &Endpoint, row: &[u8], frame_bytes: usize) -> io::Result<()> {
        let (Endpoint::Ether(to), Ok(_)) = (to, u16::try_from(frame_bytes)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let frames = || row.chunks(frame_bytes.max(1));
        let heads: Vec<_> =
            frames().map(|frame| self.make_header(*to, frame.len() as u16)).collect();
        let zeros = [0; PAYLOAD_BYTES_MIN];
        let with_head = frames().zip(&heads).map(|(frame, head)| {
            let fill = PAYLOAD_BYTES_MIN.saturating_sub(LENGTH_BYTES + frame.len());
            [IoSlice::new(head), IoSlice::new(frame), IoSlice::new(&zeros[..fill])]
        });
        let messages: Vec<_> = with_head.collect();
        send_messages::<(), 3>(self.socket.as_raw_fd(), &messages, None, &[])
    }

    /// Returns the Ethernet header and length field of a frame of `length` bytes.
    fn make_header(&self, to: [u8; 6], length: u16) -> [u8; HEADER_BYTES + LENGTH_BYTES] {
        let mut head = [0; HEADER_BYTES + LENGTH_BYTES];
        head[..6].copy_from_slice(&to);
        head[6..12].copy_from_slice(&self.own);
        head[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        head[14..].copy_from_slice(&length.to_be_bytes());
        head
    }
}

/// Returns name, number and address of an interface.
fn link_address(interface: &str) -> Option<LinkAddr> {
    let mut all = getifaddrs().ok()?;
    all.find_map(|found| {
        let address = found.address.filter(|_| found.interface_name == interface)?;
        address.as_link_addr().copied()
    })
}
