//! One cast link: UDP multicast on one interface, over IPv6 link-local and IPv4, whichever the
//! interface has.
//!
//! Each socket is bound to its group's address. A group of IPv6 has a scope, so that it is received
//! on its interface alone; for IPv4 the option `IP_MULTICAST_ALL` is turned off. Frames leave with
//! hop limit 1. They are looped back for other programs of this machine (MESH-79); the node
//! recognises its own frames by their name and refuses them. They are sent over IPv6, and over IPv4
//! as well if a frame of another device came over IPv4 in the last minute.
//!
//! The source of a datagram is not proved. A datagram is dropped unread unless it comes from an
//! address of this link and from the port of the mesh: a distant host cannot be named as the source
//! (MESH-67).

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mezza_mesh::limits::CAST_BYTES_MAX;
use mezza_mesh::node::{LinkKind, LinkNumber};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::{SockaddrIn, SockaddrStorage};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::link::{FrameLink, FramePeer, LinkSender, MeshLinkEvent};

/// The port of the mesh.
pub const PORT: u16 = 7_106;
/// The multicast groups of the mesh, for IPv6 and IPv4.
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0, 0x6d7a);
const GROUP4: Ipv4Addr = Ipv4Addr::new(239, 77, 90, 1);
/// Size of the receive buffer of the system in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Frames that a link accepts at once. Each time it is asked, it has the same room again.
const ROOM: usize = 128;
/// How long frames are also sent over IPv4 after a device was received there, ms.
const V4_MS: u64 = 60_000;
/// How old a frame usually is when it arrives on a LAN, µs.
const DELAY_US: u64 = 1_000;

/// An interface that can multicast.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CastInterface {
    pub name: String,
    index: NonZeroU32,
    /// True if the interface has a link-local IPv6 address.
    v6: bool,
    /// The first IPv4 address of the interface.
    v4: Option<Subnet>,
}

/// An IPv4 address and the prefix length of its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subnet {
    address: Ipv4Addr,
    mask: Ipv4Addr,
}

impl Subnet {
    fn contains(self, other: Ipv4Addr) -> bool {
        let mask = self.mask.to_bits();
        mask != 0 && other.to_bits() & mask == self.address.to_bits() & mask
    }
}

/// Lists the interfaces that are up and can multicast; with `named`, only the named ones. The
/// loopback interface joins the programs of one machine, and is listed only if it is named
/// (MESH-79). Interfaces with a carrier come first, and bridges last: a machine with containers
/// has many (MESH-70).
///
/// # Errors
/// If the system cannot list interfaces.
pub(crate) fn find_interfaces(named: &[String]) -> io::Result<Vec<CastInterface>> {
    let wanted = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_MULTICAST;
    let mut found: Vec<CastInterface> = Vec::new();
    let mut without_carrier = BTreeSet::new();
    for address in getifaddrs()? {
        let name = address.interface_name;
        let flags = address.flags;
        let is_named = named.contains(&name);
        // The kernel multicasts on the loopback interface without announcing that it can.
        let is_usable = if flags.contains(InterfaceFlags::IFF_LOOPBACK) {
            is_named && flags.contains(InterfaceFlags::IFF_UP)
        } else {
            (is_named || named.is_empty()) && flags.contains(wanted)
        };
        if !is_usable {
            continue;
        }
        if !flags.contains(InterfaceFlags::IFF_RUNNING) {
            without_carrier.insert(name.clone());
        }
        let Some(storage) = address.address else { continue };
        let v6 = storage.as_sockaddr_in6().is_some_and(|v6| v6.ip().is_unicast_link_local());
        let mask = address.netmask.as_ref().and_then(SockaddrStorage::as_sockaddr_in);
        let mask = mask.map_or(Ipv4Addr::BROADCAST, SockaddrIn::ip);
        let v4 = storage.as_sockaddr_in().map(|v4| Subnet { address: v4.ip(), mask });
        if !v6 && v4.is_none() {
            continue;
        }
        let index = NonZeroU32::new(if_nametoindex(name.as_str())?);
        let Some(index) = index else { continue };
        match found.iter_mut().find(|other| other.name == name) {
            Some(other) => {
                other.v6 |= v6;
                other.v4 = other.v4.or(v4);
            }
            None => found.push(CastInterface { name, index, v6, v4 }),
        }
    }
    found.sort();
    // The sort is stable: within a rank the names decide.
    found.sort_by_key(|interface| {
        (without_carrier.contains(&interface.name), interface.is_bridge())
    });
    Ok(found)
}

/// Returns the names of all interfaces, for the error about an interface that does not exist.
pub(crate) fn interface_names() -> Vec<String> {
    let mut names: Vec<String> =
        getifaddrs().into_iter().flatten().map(|address| address.interface_name).collect();
    names.sort();
    names.dedup();
    names
}

impl CastInterface {
    /// Creates an IPv6 interface that does not exist, for tests.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), index: NonZeroU32::MIN, v6: true, v4: None }
    }

    /// Returns true if the interface is a bridge.
    fn is_bridge(&self) -> bool {
        Path::new("/sys/class/net").join(&self.name).join("bridge").exists()
    }

    /// Opens the socket of one group on this interface.
    fn open(&self, family: CastFamily, port: u16) -> io::Result<CastSocket> {
        let index = self.index.get();
        let (domain, group): (Domain, SocketAddr) = match family {
            CastFamily::V6 => (Domain::IPV6, SocketAddrV6::new(GROUP6, port, 0, index).into()),
            CastFamily::V4(_) => (Domain::IPV4, SocketAddrV4::new(GROUP4, port).into()),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        // A smaller buffer is acceptable.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        match family {
            CastFamily::V6 => {
                socket.set_only_v6(true)?;
                socket.bind(&group.into())?;
                socket.join_multicast_v6(&GROUP6, index)?;
                socket.set_multicast_if_v6(index)?;
                socket.set_multicast_hops_v6(1)?;
                socket.set_multicast_loop_v6(true)?;
            }
            CastFamily::V4(own) => {
                socket.bind(&group.into())?;
                // Without this option a socket receives all groups that any socket of this machine
                // joined, on any interface.
                #[cfg(target_os = "linux")]
                socket.set_multicast_all_v4(false)?;
                socket.join_multicast_v4_n(&GROUP4, &InterfaceIndexOrAddress::Index(index))?;
                socket.set_multicast_if_v4(&own)?;
                socket.set_multicast_ttl_v4(1)?;
                socket.set_multicast_loop_v4(true)?;
            }
        }
        Ok(CastSocket { socket: Arc::new(UdpSocket::from_std(socket.into())?), group })
    }

    /// Returns the address families of the interface.
    fn families(&self) -> impl Iterator<Item = CastFamily> + use<> {
        let v4 = self.v4.map(|subnet| CastFamily::V4(subnet.address));
        self.v6.then_some(CastFamily::V6).into_iter().chain(v4)
    }

    /// Returns the address families of the interface: true for IPv6, false for IPv4.
    pub(crate) fn families_v6(&self) -> impl Iterator<Item = bool> + use<> {
        self.families().map(|family| family == CastFamily::V6)
    }

    /// Returns true if an address can only be that of a device on this link.
    pub(crate) fn has_neighbour(&self, address: SocketAddr) -> bool {
        match address {
            SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
                Some(v4) => self.v4.is_some_and(|subnet| subnet.contains(v4)),
                None => v6.ip().is_unicast_link_local() && v6.scope_id() == self.index.get(),
            },
            SocketAddr::V4(v4) => self.v4.is_some_and(|subnet| subnet.contains(*v4.ip())),
        }
    }

    /// Returns true if this is the IPv4 address of the interface.
    fn is_own(&self, address: SocketAddr) -> bool {
        self.v4.is_some_and(|subnet| address.ip() == subnet.address)
    }

    /// Returns name and families, for example `eth0 (IPv6, IPv4)`.
    pub(crate) fn display_name(&self) -> String {
        let families = match (self.v6, self.v4.is_some()) {
            (true, true) => "IPv6, IPv4",
            (true, false) => "IPv6",
            _ => "IPv4",
        };
        format!("{} ({families})", self.name)
    }
}

/// An address family; for IPv4 with the address of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CastFamily {
    V6,
    V4(Ipv4Addr),
}

/// A group of one family.
#[derive(Clone)]
struct CastSocket {
    socket: Arc<UdpSocket>,
    group: SocketAddr,
}

/// The time of the last frame over IPv4.
#[derive(Clone)]
struct HeardV4 {
    opened: Instant,
    /// Milliseconds from the opening of the link to that frame; 0 for none.
    at_ms: Arc<AtomicU64>,
}

impl HeardV4 {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn note_arrival(&self) {
        self.at_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn is_recent(&self) -> bool {
        let at_ms = self.at_ms.load(Ordering::Relaxed);
        at_ms > 0 && self.now_ms().saturating_sub(at_ms) < V4_MS
    }
}

/// The link over the multicast groups of one interface.
pub(super) struct CastLink {
    pub interface: CastInterface,
    /// The sockets; the one of IPv6 first, if the interface has IPv6.
    sockets: Vec<CastSocket>,
    heard_v4: HeardV4,
    tasks: Vec<JoinHandle<()>>,
    spent: usize,
}

impl CastLink {
    /// Opens the groups on an interface. Received frames are reported with the number `link`.
    ///
    /// # Errors
    /// If the system refuses all groups.
    pub(super) fn open(
        interface: CastInterface,
        port: u16,
        link: LinkNumber,
        sender: &LinkSender,
    ) -> io::Result<Self> {
        let mut sockets = Vec::new();
        let mut refused = None;
        for family in interface.families() {
            match interface.open(family, port) {
                Ok(socket) => sockets.push(socket),
                // If the system refuses one family, the other is used alone.
                Err(error) => refused = Some(error),
            }
        }
        if let (true, Some(error)) = (sockets.is_empty(), refused) {
            return Err(error);
        }
        let heard_v4 = HeardV4 { opened: Instant::now(), at_ms: Arc::new(AtomicU64::new(0)) };
        let listen = |socket: &CastSocket| {
            let socket = socket.clone();
            let interface = interface.clone();
            let ears = CastEars { socket, interface, port, heard_v4: heard_v4.clone() };
            tokio::spawn(ears.receive_frames(link, sender.clone()))
        };
        let tasks = sockets.iter().map(listen).collect();
        Ok(Self { interface, sockets, heard_v4, tasks, spent: 0 })
    }
}

/// The receiving side of the socket of one group.
struct CastEars {
    socket: CastSocket,
    interface: CastInterface,
    port: u16,
    heard_v4: HeardV4,
}

impl CastEars {
    /// Reports each datagram. A datagram longer than a frame is cut to one byte too many, which the
    /// node rejects.
    async fn receive_frames(self, link: LinkNumber, sender: LinkSender) {
        let mut buffer = vec![0; CAST_BYTES_MAX + 1];
        loop {
            match self.socket.socket.recv_from(&mut buffer).await {
                // Honest devices send from the port of the mesh. Refusing other ports keeps a
                // device from posing as many sources.
                Ok((_, from))
                    if from.port() != self.port || !self.interface.has_neighbour(from) => {}
                Ok((size, from)) => {
                    // A frame from this machine's own address reached IPv6 too, so it does not
                    // prove a device with IPv4 alone.
                    if from.is_ipv4() && !self.interface.is_own(from) {
                        self.heard_v4.note_arrival();
                    }
                    let from = FramePeer::Ip(from);
                    let bytes = buffer[..size].to_vec();
                    if !sender.send_event(MeshLinkEvent::Frame { link, from, bytes }).await {
                        return;
                    }
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
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

    fn send_frame(&mut self, frame: Vec<u8>) {
        // Frames go out over IPv4 for devices without IPv6. If no such device was received, this
        // would only send each frame twice.
        let on_both = self.heard_v4.is_recent();
        for (at, CastSocket { socket, group }) in self.sockets.iter().enumerate() {
            if at == 0 || on_both {
                // A frame that the system does not accept now is lost, as on the air.
                let _ = socket.try_send_to(&frame, *group);
            }
        }
        self.spent += 1;
    }

    fn take_sent_count(&mut self) -> usize {
        std::mem::take(&mut self.spent)
    }

    fn is_over(&self) -> bool {
        self.tasks.iter().all(JoinHandle::is_finished)
    }

    fn describe_state(&self) -> String {
        self.interface.display_name()
    }
}

impl Drop for CastLink {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> CastInterface {
        let v4 =
            Subnet { address: Ipv4Addr::new(10, 1, 2, 3), mask: Ipv4Addr::new(255, 255, 255, 0) };
        let index = NonZeroU32::new(7).unwrap();
        CastInterface { name: "eth0".into(), index, v6: true, v4: Some(v4) }
    }

    #[test]
    fn mesh_67_only_addresses_of_the_link_are_neighbours() {
        let is_neighbour = |address: &str, scope: u32| {
            let mut address: SocketAddr = format!("{address}:7106").parse().unwrap();
            if let SocketAddr::V6(v6) = &mut address {
                v6.set_scope_id(scope);
            }
            interface().has_neighbour(address)
        };
        assert!(is_neighbour("[fe80::1]", 7) && is_neighbour("10.1.2.200", 0));
        assert!(is_neighbour("[::ffff:10.1.2.9]", 0));
        for (address, scope) in [
            ("[fe80::1]", 8),
            ("[2001:db8::9]", 0),
            ("[2001:db8::9]", 7),
            ("[::1]", 0),
            ("10.1.3.1", 0),
            ("127.0.0.1", 0),
            ("[::ffff:192.0.2.1]", 0),
        ] {
            assert!(!is_neighbour(address, scope), "{address}");
        }
        let alone = CastInterface { v4: None, v6: false, ..interface() };
        assert!(!alone.has_neighbour("0.0.0.0:7106".parse().unwrap()));
        assert_eq!(interface().display_name(), "eth0 (IPv6, IPv4)");
    }
}
