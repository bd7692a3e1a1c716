//! One cast link: UDP multicast on one interface, IPv6 link-local or, where there is none, IPv4.
//!
//! The socket is bound to the group's address, so that it hears this group on this interface alone.
//! Frames leave with hop limit 1 and are not looped back.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mezza_mesh::limits::CAST_BYTES_MAX;
use mezza_mesh::node::{LinkKind, LinkNumber};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::link::{FrameLink, FramePeer, LinkSender, MeshLinkEvent};

/// The port of the mesh.
pub const PORT: u16 = 7_106;
/// The groups.
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0, 0x6d7a);
const GROUP4: Ipv4Addr = Ipv4Addr::new(239, 77, 90, 1);
/// Bytes that the system keeps for us while we are busy.
const BUFFER_BYTES: usize = 1 << 20;
/// Frames that a link takes at once; so many again as soon as it is asked.
const ROOM: usize = 128;
/// How old a frame usually is when it arrives on a LAN, µs.
const DELAY_US: u64 = 1_000;

/// An interface that can multicast.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CastInterface {
    /// Its name.
    pub name: String,
    index: NonZeroU32,
    /// Its address, if it has no link-local one of IPv6.
    v4: Option<Ipv4Addr>,
}

/// The interfaces that are up and can multicast, loopback aside; of these, those that are named.
///
/// # Errors
/// If the system does not list them.
pub(crate) fn interfaces(named: &[String]) -> io::Result<Vec<CastInterface>> {
    let wanted = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_MULTICAST;
    let mut found: Vec<CastInterface> = Vec::new();
    for address in getifaddrs()? {
        let name = address.interface_name;
        let flags = address.flags;
        let named = named.is_empty() || named.contains(&name);
        if !named || !flags.contains(wanted) || flags.contains(InterfaceFlags::IFF_LOOPBACK) {
            continue;
        }
        let Some(storage) = address.address else { continue };
        let v6 = storage.as_sockaddr_in6().is_some_and(|v6| v6.ip().is_unicast_link_local());
        let v4 = storage.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::ip);
        if !v6 && v4.is_none() {
            continue;
        }
        let index = NonZeroU32::new(if_nametoindex(name.as_str())?);
        let Some(index) = index else { continue };
        match found.iter_mut().find(|other| other.name == name) {
            Some(other) if v6 => other.v4 = None,
            Some(_) => (),
            None => found.push(CastInterface { name, index, v4: v4.filter(|_| !v6) }),
        }
    }
    found.sort();
    Ok(found)
}

/// The names of all interfaces, for a person who named one that is not there.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> =
        getifaddrs().into_iter().flatten().map(|address| address.interface_name).collect();
    names.sort();
    names.dedup();
    names
}

impl CastInterface {
    /// The socket of the group on this interface, and the group's address.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn open(&self, port: u16) -> io::Result<(UdpSocket, SocketAddr)> {
        let index = self.index.get();
        let (domain, group): (Domain, SocketAddr) = match self.v4 {
            None => (Domain::IPV6, SocketAddrV6::new(GROUP6, port, 0, index).into()),
            Some(_) => (Domain::IPV4, SocketAddrV4::new(GROUP4, port).into()),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        // Smaller than wished is no reason to fail.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        match self.v4 {
            None => {
                socket.set_only_v6(true)?;
                socket.bind(&group.into())?;
                socket.join_multicast_v6(&GROUP6, index)?;
                socket.set_multicast_if_v6(index)?;
                socket.set_multicast_hops_v6(1)?;
                socket.set_multicast_loop_v6(false)?;
            }
            Some(own) => {
                socket.bind(&group.into())?;
                socket.join_multicast_v4_n(&GROUP4, &InterfaceIndexOrAddress::Index(index))?;
                socket.set_multicast_if_v4(&own)?;
                socket.set_multicast_ttl_v4(1)?;
                socket.set_multicast_loop_v4(false)?;
            }
        }
        Ok((UdpSocket::from_std(socket.into())?, group))
    }

    /// `eth0 (IPv6)`
    pub(crate) fn words(&self) -> String {
        let family = if self.v4.is_some() { "IPv4" } else { "IPv6" };
        format!("{} ({family})", self.name)
    }
}

/// A group that is heard on an interface.
pub(super) struct CastLink {
    pub interface: CastInterface,
    socket: Arc<UdpSocket>,
    group: SocketAddr,
    task: JoinHandle<()>,
    spent: usize,
}

impl CastLink {
    /// Opens the group on an interface; what comes is told under this number.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn open(
        interface: CastInterface,
        port: u16,
        link: LinkNumber,
        sender: LinkSender,
    ) -> io::Result<Self> {
        let (socket, group) = interface.open(port)?;
        let socket = Arc::new(socket);
        let task = tokio::spawn(hear(Arc::clone(&socket), link, sender));
        Ok(Self { interface, socket, group, task, spent: 0 })
    }
}

/// Tells each datagram; one that is longer than a frame is cut, and then it is none.
async fn hear(socket: Arc<UdpSocket>, link: LinkNumber, sender: LinkSender) {
    let mut buffer = vec![0; CAST_BYTES_MAX + 1];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((size, from)) => {
                let (from, bytes) = (FramePeer::Ip(from), buffer[..size].to_vec());
                if !sender.tell(MeshLinkEvent::Frame { link, from, bytes }).await {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

impl FrameLink for CastLink {
    fn kind(&self) -> LinkKind {
        LinkKind::Cast
    }

    fn delay_us(&self) -> u64 {
        DELAY_US
    }

    fn room(&self) -> usize {
        ROOM
    }

    fn send(&mut self, frame: Vec<u8>) {
        // What the system does not take now is lost, as on the air.
        let _ = self.socket.try_send_to(&frame, self.group);
        self.spent += 1;
    }

    fn left(&mut self) -> usize {
        std::mem::take(&mut self.spent)
    }

    fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    fn words(&self) -> String {
        self.interface.words()
    }
}

impl Drop for CastLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}
