//! Messages to the kernel about interfaces and routes, and its notices about interfaces
//! (rtnetlink(7)).

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::netlink::find_attribute;

const NLMSG_ERROR: u16 = 2;
const RTM_DELLINK: u16 = 17;
const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// The group of messages about interfaces (`RTMGRP_LINK`).
const GROUP_LINK: u32 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_METRICS: u16 = 8;
const RTAX_MTU: u16 = 2;
/// Bytes of `rtmsg`.
const ROUTE_BYTES: usize = 12;
/// Request, acknowledge.
const FLAGS: u16 = 0x01 | 0x04;
/// Create, replace.
const FLAGS_NEW: u16 = 0x400 | 0x100;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const HEADER_BYTES: usize = 16;

/// Adds an address with its prefix to an interface; an existing one stays.
///
/// # Errors
/// The error of the kernel.
pub(super) fn add_address(interface: &str, ip: IpAddr, prefix: u8) -> Result<(), Fault> {
    let (family, bytes) = match ip {
        IpAddr::V4(ip) => (nix::libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (nix::libc::AF_INET6 as u8, ip.octets().to_vec()),
    };
    let index = index_of(interface)?;
    let mut body = vec![family, prefix, 0, 0];
    body.extend_from_slice(&index.to_ne_bytes());
    push_attribute(&mut body, IFA_LOCAL, &bytes);
    push_attribute(&mut body, IFA_ADDRESS, &bytes);
    request_change(RTM_NEWADDR, FLAGS | FLAGS_NEW, &body).map_err(|error| {
        describe_refusal(&format!("{interface} cannot have the address {ip}"), &error)
    })
}

/// Makes an interface a port of a bridge.
///
/// # Errors
/// The error of the kernel.
pub(super) fn join_bridge(interface: &str, bridge: &str) -> Result<(), Fault> {
    let master = index_of(bridge)?;
    let mut body = link_body(interface)?;
    push_attribute(&mut body, IFLA_MASTER, &master.to_ne_bytes());
    request_change(RTM_SETLINK, FLAGS, &body).map_err(|error| {
        describe_refusal(&format!("{interface} cannot join the bridge {bridge}"), &error)
    })
}

/// Removes an interface of ours, which ends the threads that read it. An interface that is already
/// gone is no error.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn delete_interface(interface: &str) -> Result<(), Fault> {
    let Ok(body) = link_body(interface) else { return Ok(()) };
    match request_change(RTM_DELLINK, FLAGS, &body) {
        // Another program removed the interface between the two calls.
        Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => Ok(()),
        done => done
            .map_err(|error| describe_refusal(&format!("{interface} cannot be removed"), &error)),
    }
}

/// Sets the MTU of an interface.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn set_mtu(interface: &str, mtu: u16) -> Result<(), Fault> {
    let mut body = link_body(interface)?;
    push_attribute(&mut body, IFLA_MTU, &u32::from(mtu).to_ne_bytes());
    request_change(RTM_SETLINK, FLAGS, &body).map_err(|error| {
        describe_refusal(&format!("{interface} cannot have an MTU of {mtu}"), &error)
    })
}

/// Returns the MTU that the kernel knows for the route to an address over an interface, or `None`
/// if the route has no MTU; the MTU of the interface applies then.
pub(super) fn route_mtu(to: Ipv6Addr, interface: u32) -> Option<usize> {
    let (family, bytes) = match to.to_ipv4_mapped() {
        Some(ip) => (nix::libc::AF_INET as u8, ip.octets().to_vec()),
        None => (nix::libc::AF_INET6 as u8, to.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE_BYTES];
    body[0] = family;
    body[1] = 8 * bytes.len() as u8;
    push_attribute(&mut body, RTA_DST, &bytes);
    push_attribute(&mut body, RTA_OIF, &interface.to_ne_bytes());
    let answer = exchange_message(RTM_GETROUTE, 0x01, &body).ok()?;
    let kind = answer.get(4..)?.first_chunk::<2>()?;
    if u16::from_ne_bytes(*kind) != RTM_NEWROUTE {
        return None;
    }
    let metrics = find_attribute(answer.get(HEADER_BYTES + ROUTE_BYTES..)?, RTA_METRICS)?;
    let mtu = find_attribute(metrics, RTAX_MTU)?.first_chunk::<4>()?;
    usize::try_from(u32::from_ne_bytes(*mtu)).ok().filter(|mtu| *mtu > 0)
}

/// A subscription to the kernel's notices about changed interfaces.
pub(super) struct InterfaceNews(OwnedFd);

impl InterfaceNews {
    /// Subscribes to the notices.
    pub(super) fn subscribe() -> io::Result<Self> {
        let route = SockProtocol::NetlinkRoute;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, route)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, GROUP_LINK))?;
        Ok(Self(fd))
    }

    /// Waits for the next notice. Its content is ignored: a full queue loses notices, so the caller
    /// reads all interfaces again.
    pub(super) fn wait(&self) {
        let mut buffer = [0; 16 * 1024];
        let _ = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty());
    }
}

fn index_of(interface: &str) -> Result<u32, Fault> {
    if_nametoindex(interface).map_err(|_| super::carrier::no_interface(interface))
}

/// Returns the `ifinfomsg` of an interface.
fn link_body(interface: &str) -> Result<Vec<u8>, Fault> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&index_of(interface)?.to_ne_bytes());
    body.extend_from_slice(&[0; 8]);
    Ok(body)
}

/// Appends an attribute, padded to four bytes.
fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends one message. Returns the bytes of the kernel's response.
fn exchange_message(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let route = SockProtocol::NetlinkRoute;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, route)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    message.extend_from_slice(&1_u32.to_ne_bytes());
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(body);
    sendto(fd.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = vec![0; 8_192];
    let bytes = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(bytes);
    Ok(answer)
}

/// Sends one message that the kernel acknowledges or refuses.
fn request_change(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let answer = exchange_message(kind, flags, body)?;
    let field = |at: usize| answer.get(at..).and_then(<[u8]>::first_chunk::<4>);
    let kind = answer.get(4..).and_then(<[u8]>::first_chunk::<2>);
    let code = field(HEADER_BYTES).map(|code| i32::from_ne_bytes(*code));
    match (kind.map(|kind| u16::from_ne_bytes(*kind)), code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn describe_refusal(text: &str, error: &io::Error) -> Fault {
    let code =
        if error.kind() == io::ErrorKind::PermissionDenied { Exit::Denied } else { Exit::Config };
    Fault::new(code, format!("{text}: {error}"), "look at `ip address` and `ip link`")
}
