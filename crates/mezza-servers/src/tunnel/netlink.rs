//! Three messages to the kernel about interfaces: an address, a bridge, an end (rtnetlink(7)).

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

use mezza_host::api::{Exit, Fault};

const NLMSG_ERROR: u16 = 2;
const RTM_DELLINK: u16 = 17;
const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
/// Request, acknowledge.
const FLAGS: u16 = 0x01 | 0x04;
/// Create, replace.
const FLAGS_NEW: u16 = 0x400 | 0x100;
const IFLA_MASTER: u16 = 10;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const HEADER_BYTES: usize = 16;

/// Adds an address with its prefix to an interface; one that is there stays.
///
/// # Errors
/// What the kernel says.
pub(super) fn add_address(interface: &str, (ip, prefix): (IpAddr, u8)) -> Result<(), Fault> {
    let (family, bytes) = match ip {
        IpAddr::V4(ip) => (nix::libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (nix::libc::AF_INET6 as u8, ip.octets().to_vec()),
    };
    let index = index_of(interface)?;
    let mut body = vec![family, prefix, 0, 0];
    body.extend_from_slice(&index.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, &bytes);
    attribute(&mut body, IFA_ADDRESS, &bytes);
    ask(RTM_NEWADDR, FLAGS | FLAGS_NEW, &body)
        .map_err(|error| refused(&format!("{interface} cannot have the address {ip}"), &error))
}

/// Makes an interface a port of a bridge.
///
/// # Errors
/// What the kernel says.
pub(super) fn join_bridge(interface: &str, bridge: &str) -> Result<(), Fault> {
    let master = index_of(bridge)?;
    let mut body = link_body(interface)?;
    attribute(&mut body, IFLA_MASTER, &master.to_ne_bytes());
    ask(RTM_SETLINK, FLAGS, &body)
        .map_err(|error| refused(&format!("{interface} cannot join the bridge {bridge}"), &error))
}

/// Lets an interface hand over super-frames of so many segments at most. A kernel that does not know the
/// limit hands over larger ones, which cost one call more.
pub(super) fn limit_segments(interface: &str, most: u32) -> Result<(), Fault> {
    let mut body = link_body(interface)?;
    attribute(&mut body, IFLA_GSO_MAX_SEGS, &most.to_ne_bytes());
    if let Err(error) = ask(RTM_SETLINK, FLAGS, &body) {
        tracing::debug!(%error, "super-frames keep their size");
    }
    Ok(())
}

/// Removes an interface of ours: threads that read from it end.
///
/// # Errors
/// What the kernel says.
pub(super) fn delete(interface: &str) -> Result<(), Fault> {
    let body = link_body(interface)?;
    ask(RTM_DELLINK, FLAGS, &body)
        .map_err(|error| refused(&format!("{interface} cannot be removed"), &error))
}

fn index_of(interface: &str) -> Result<u32, Fault> {
    if_nametoindex(interface).map_err(|_| super::carrier::no_interface(interface))
}

/// `ifinfomsg` of an interface.
fn link_body(interface: &str) -> Result<Vec<u8>, Fault> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&index_of(interface)?.to_ne_bytes());
    body.extend_from_slice(&[0; 8]);
    Ok(body)
}

/// An attribute, filled up to four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// One message, and the kernel's answer to it.
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
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
    let mut answer = [0; 1_024];
    let bytes = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let field = |at: usize| answer[..bytes].get(at..).and_then(<[u8]>::first_chunk::<4>);
    let kind = answer[..bytes].get(4..).and_then(<[u8]>::first_chunk::<2>);
    let code = field(HEADER_BYTES).map(|code| i32::from_ne_bytes(*code));
    match (kind.map(|kind| u16::from_ne_bytes(*kind)), code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn refused(text: &str, error: &io::Error) -> Fault {
    let code =
        if error.kind() == io::ErrorKind::PermissionDenied { Exit::Denied } else { Exit::Config };
    Fault::new(code, format!("{text}: {error}"), "look at `ip address` and `ip link`")
}
