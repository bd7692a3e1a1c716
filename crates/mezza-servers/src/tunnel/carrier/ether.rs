//! One frame an Ethernet frame of type 0x88B5, without IP: `length u16 | frame | zeros`. Real cards fill
//! short frames up to 46 bytes, so the length is said.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;

use mezza_seka::wire::ETHER_TYPE;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, MsgFlags, bind, recvmsg, sendmsg};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Batch, READ_WAIT, no_interface, refused};
use crate::tunnel::address::Endpoint;
use mezza_host::api::Fault;

/// Bytes of an Ethernet header, and of the length behind it.
const HEADER_BYTES: usize = 14;
const LENGTH_BYTES: usize = 2;
/// Ethernet's shortest payload.
const PAYLOAD_BYTES_MIN: usize = 46;

/// A packet socket on one interface.
#[derive(Debug)]
pub(crate) struct EtherCarrier {
    socket: Socket,
    interface: u32,
    own: [u8; 6],
}

impl EtherCarrier {
    /// A socket for frames of our type on `interface`.
    ///
    /// # Errors
    /// 77 without the right to raw sockets, 78 for an interface that is not there.
    pub(crate) fn open(interface: &str) -> Result<Self, Fault> {
        let what = format!("no Ethernet socket on {interface}");
        let found = link_address(interface).ok_or_else(|| no_interface(interface))?;
        Self::bind(&found).map_err(|error| refused(&what, &error))
    }

    fn bind(address: &LinkAddr) -> io::Result<Self> {
        let protocol = Protocol::from(i32::from(ETHER_TYPE.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
        // The protocol 0 of the address makes the kernel keep that of the socket.
        bind(socket.as_raw_fd(), address)?;
        socket.set_read_timeout(Some(READ_WAIT))?;
        let own = address.addr().unwrap_or_default();
        Ok(Self { socket, interface: address.ifindex() as u32, own })
    }

    pub(super) fn interface(&self) -> u32 {
        self.interface
    }

    pub(super) fn read(&self, buffer: &mut [u8], batch: &mut Batch) -> io::Result<()> {
        batch.frames.clear();
        batch.from = None;
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        let read = recvmsg::<LinkAddr>(fd, &mut slices, None, MsgFlags::empty())?;
        let bytes = read.bytes;
        let start = HEADER_BYTES + LENGTH_BYTES;
        if bytes < start {
            return Ok(());
        }
        let length =
            usize::from(u16::from_be_bytes([buffer[HEADER_BYTES], buffer[HEADER_BYTES + 1]]));
        let source: [u8; 6] = buffer[6..12].try_into().unwrap_or_default();
        if length <= bytes - start && source != self.own {
            batch.frames.push(start..start + length);
            batch.from = Some(Endpoint::Ether(source));
        }
        Ok(())
    }

    pub(super) fn send(&self, to: &Endpoint, frame: &[u8]) -> io::Result<()> {
        let (Endpoint::Ether(to), Ok(length)) = (to, u16::try_from(frame.len())) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut head = [0; HEADER_BYTES + LENGTH_BYTES];
        head[..6].copy_from_slice(to);
        head[6..12].copy_from_slice(&self.own);
        head[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        head[14..].copy_from_slice(&length.to_be_bytes());
        let zeros = [0; PAYLOAD_BYTES_MIN];
        let fill = PAYLOAD_BYTES_MIN.saturating_sub(LENGTH_BYTES + frame.len());
        let slices = [IoSlice::new(&head), IoSlice::new(frame), IoSlice::new(&zeros[..fill])];
        sendmsg::<()>(self.socket.as_raw_fd(), &slices, &[], MsgFlags::empty(), None)?;
        Ok(())
    }
}

/// Name, number and address of an interface as the kernel lists it.
fn link_address(interface: &str) -> Option<LinkAddr> {
    let mut all = getifaddrs().ok()?;
    all.find_map(|found| {
        let address = found.address.filter(|_| found.interface_name == interface)?;
        address.as_link_addr().copied()
    })
}
