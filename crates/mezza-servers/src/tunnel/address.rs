//! The address of a peer, as carriers and records use it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use mezza_seka::PeerAddress;

const UDP: u8 = 1;
const ETHER: u8 = 2;

/// An address on a carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// An address of UDP, IPv4 mapped into IPv6; a link-local one belongs to the carrier's interface.
    Udp(SocketAddrV6),
    /// An Ethernet address.
    Ether([u8; 6]),
}

impl Endpoint {
    /// Returns the endpoint of a socket address.
    pub(crate) fn from_socket(address: SocketAddr, interface: u32) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let scope = if is_link_local(&ip) { interface } else { 0 };
        Self::Udp(SocketAddrV6::new(ip, address.port(), 0, scope))
    }

    /// Encodes the address for a record: address 16, port 2, kind 1, zero; 20 bytes.
    pub(crate) fn stored_address(&self) -> PeerAddress {
        let mut bytes = [0; 20];
        match self {
            Self::Udp(address) => {
                bytes[..16].copy_from_slice(&address.ip().octets());
                bytes[16..18].copy_from_slice(&address.port().to_be_bytes());
                bytes[18] = UDP;
            }
            Self::Ether(mac) => {
                bytes[..6].copy_from_slice(mac);
                bytes[18] = ETHER;
            }
        }
        PeerAddress(bytes)
    }

    /// Restores the address of a record, on this interface. Returns `None` if the record has none.
    pub(crate) fn from_stored(stored: &PeerAddress, interface: u32) -> Option<Self> {
        let bytes = &stored.0;
        match bytes[18] {
            UDP => {
                let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..16]).ok()?);
                let port = u16::from_be_bytes([bytes[16], bytes[17]]);
                Some(Self::from_socket((ip, port).into(), interface))
            }
            ETHER => bytes[..6].try_into().ok().map(Self::Ether),
            _ => None,
        }
    }

    /// Returns true if only a device on the same link can have this address.
    pub(crate) fn is_on_link(&self) -> bool {
        match self {
            Self::Udp(address) => is_link_local(address.ip()),
            Self::Ether(_) => true,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => match address.ip().to_ipv4_mapped() {
                Some(ip) => write!(f, "{ip}:{}", address.port()),
                None => write!(f, "[{}]:{}", address.ip(), address.port()),
            },
            Self::Ether([a, b, c, d, e, g]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
        }
    }
}

fn is_link_local(ip: &Ipv6Addr) -> bool {
    ip.segments()[0] & 0xffc0 == 0xfe80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_every_kind_of_address() {
        let addresses = ["192.0.2.7:4795", "[fe80::1]:4795", "[2001:db8::7]:9"];
        let endpoints =
            addresses.map(|text| Endpoint::from_socket(text.parse().expect("an address"), 3));
        for endpoint in endpoints.into_iter().chain([Endpoint::Ether([2, 0, 0, 0, 0, 9])]) {
            assert_eq!(Endpoint::from_stored(&endpoint.stored_address(), 3), Some(endpoint));
        }
        assert_eq!(Endpoint::from_stored(&PeerAddress::default(), 3), None);
        let shown = endpoints.map(|endpoint| endpoint.to_string());
        assert_eq!(shown, addresses);
        assert_eq!(endpoints.map(|endpoint| endpoint.is_on_link()), [false, true, false]);
    }
}
