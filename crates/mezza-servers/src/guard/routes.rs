//! The routes of a device behind a guard: any route except the one to the guard goes around it.
//!
//! The kernel is asked for the routes of all tables, because `/proc/net/route` shows one table only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use nix::net::if_::{if_indextoname, if_nametoindex};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

use mezza_host::process::netlink::find_attribute;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Request, dump.
const FLAGS_DUMP: u16 = 0x01 | 0x300;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTN_UNICAST: u8 = 1;
const HEADER_BYTES: usize = 16;
/// Bytes of `rtmsg`.
const ROUTE_BYTES: usize = 12;
/// Maximum number of routes that are read.
const ROUTES_MAX: usize = 100_000;

/// A route of this machine that leads to other machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRoute {
    /// The first address of the destination.
    pub to: IpAddr,
    /// Bits of the destination's prefix.
    pub prefix: u8,
    /// The interface, if the route has one.
    pub interface: Option<u32>,
}

impl DeviceRoute {
    /// Returns true if the route leads to the guard and to no other machine: a prefix of the
    /// guard's address alone, or of two hosts, of which this machine is the other one.
    pub fn leads_only_to(&self, guard: IpAddr) -> bool {
        match (self.to, guard) {
            (IpAddr::V4(to), IpAddr::V4(guard)) => {
                let mask = u32::MAX << (32 - u32::from(self.prefix.clamp(1, 32)));
                self.prefix >= 30 && to.to_bits() & mask == guard.to_bits() & mask
            }
            (IpAddr::V6(to), IpAddr::V6(guard)) => {
                let mask = u128::MAX << (128 - u32::from(self.prefix.clamp(1, 128)));
                self.prefix >= 127 && to.to_bits() & mask == guard.to_bits() & mask
            }
            _ => false,
        }
    }

    /// Describes the route as `ip route` does.
    pub fn describe(&self) -> String {
        let name = self.interface.and_then(|index| if_indextoname(index).ok());
        let name = name.map(|name| format!(" dev {}", name.to_string_lossy()));
        format!("{}/{}{}", self.to, self.prefix, name.unwrap_or_default())
    }

    /// Returns true if the route is the kernel's own one of IPv6 on a cable.
    pub fn is_link_local(&self) -> bool {
        matches!(self.to, IpAddr::V6(to) if to.is_unicast_link_local())
    }
}

/// Reads all unicast routes of this machine, except those of the loopback interface.
///
/// # Errors
/// The error of the kernel, or a response that cannot be read.
pub fn list_routes() -> io::Result<Vec<DeviceRoute>> {
    let route = SockProtocol::NetlinkRoute;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, route)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut message = Vec::with_capacity(HEADER_BYTES + ROUTE_BYTES);
    message.extend_from_slice(&((HEADER_BYTES + ROUTE_BYTES) as u32).to_ne_bytes());
    message.extend_from_slice(&RTM_GETROUTE.to_ne_bytes());
    message.extend_from_slice(&FLAGS_DUMP.to_ne_bytes());
    // Sequence number, sender, and a route of any family in any table.
    message.resize(HEADER_BYTES + ROUTE_BYTES, 0);
    sendto(fd.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let loopback = if_nametoindex("lo").ok();
    let mut routes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let bytes = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let part = buffer.get(..bytes).unwrap_or_default();
        if read_part(part, &mut routes)? {
            break;
        }
        // A machine with more routes is a router, and not a device behind a guard.
        if routes.len() > ROUTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    routes.retain(|route: &DeviceRoute| route.interface.is_none() || route.interface != loopback);
    Ok(routes)
}

/// Reads the messages of one response. Returns true after the last one.
fn read_part(mut part: &[u8], routes: &mut Vec<DeviceRoute>) -> io::Result<bool> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    while !part.is_empty() {
        let head = part.first_chunk::<HEADER_BYTES>().ok_or_else(malformed)?;
        let len = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let body = part.get(HEADER_BYTES..len).ok_or_else(malformed)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            // An error means that the list is not complete, and a missing route is a way around.
            NLMSG_ERROR => return Err(malformed()),
            RTM_NEWROUTE => routes.extend(read_route(body).ok_or_else(malformed)?),
            _ => {}
        }
        part = part.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Reads a route. The inner `None` is a route that leads to no other machine.
#[expect(clippy::option_option, reason = "a malformed route is not a harmless one")]
fn read_route(body: &[u8]) -> Option<Option<DeviceRoute>> {
    let head = body.first_chunk::<ROUTE_BYTES>()?;
    let family = i32::from(head[0]);
    let prefix = head[1];
    let kind = head[7];
    // Local addresses, and prefixes that the kernel refuses.
    if kind != RTN_UNICAST {
        return Some(None);
    }
    let attributes = body.get(ROUTE_BYTES..)?;
    let to = find_attribute(attributes, RTA_DST);
    let to = match family {
        nix::libc::AF_INET => {
            let bytes = to.map_or(Some([0; 4]), |bytes| bytes.try_into().ok())?;
            IpAddr::V4(Ipv4Addr::from(bytes))
        }
        nix::libc::AF_INET6 => {
            let bytes: [u8; 16] = to.map_or(Some([0; 16]), |bytes| bytes.try_into().ok())?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        // Other families have no route to an address of the internet.
        _ => return Some(None),
    };
    let interface = find_attribute(attributes, RTA_OIF);
    let interface = interface.and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    Some(Some(DeviceRoute { to, prefix, interface }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str, prefix: u8) -> DeviceRoute {
        DeviceRoute { to: to.parse().expect("an address"), prefix, interface: None }
    }

    #[test]
    fn guard_53_only_a_route_to_the_guard_alone_leads_to_the_guard() {
        let guard: IpAddr = "10.9.0.2".parse().expect("an address");
        for (to, prefix, leads) in [
            ("10.9.0.2", 32, true),
            ("10.9.0.2", 31, true),
            ("10.9.0.0", 30, true),
            ("10.9.0.0", 29, false),
            ("10.9.0.3", 32, false),
            ("0.0.0.0", 0, false),
            ("::", 0, false),
        ] {
            assert_eq!(route(to, prefix).leads_only_to(guard), leads, "{to}/{prefix}");
        }
        let six: IpAddr = "fd00::2".parse().expect("an address");
        assert!(route("fd00::2", 127).leads_only_to(six));
        assert!(!route("fd00::", 64).leads_only_to(six) && route("fe80::", 64).is_link_local());
    }

    #[test]
    fn messages_of_the_kernel_are_read_whole_or_refused() {
        let mut body = vec![2, 24, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0];
        body.extend([8, 0, 1, 0, 10, 9, 0, 0, 8, 0, 4, 0, 3, 0, 0, 0]);
        let found = read_route(&body).expect("a route").expect("unicast");
        assert_eq!(found, DeviceRoute { interface: Some(3), ..route("10.9.0.0", 24) });
        body[7] = 2;
        assert_eq!(read_route(&body), Some(None));
        assert_eq!(read_route(&body[..8]), None);
        let mut routes = Vec::new();
        assert!(read_part(&[9; 20], &mut routes).is_err() && routes.is_empty());
    }

    #[test]
    fn this_machine_gives_its_routes() {
        assert!(list_routes().is_ok());
    }
}
