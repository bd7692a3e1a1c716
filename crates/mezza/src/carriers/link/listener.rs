//! The listener of links: on the addresses that the setting `link_listen` names, and on no other.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::{ConnectionReport, Listening, Means, connection, lock};

/// The port of links.
const PORT: u16 = 4_796;
/// How often the addresses of an interface are looked up again.
const LOOK: Duration = Duration::from_secs(10);
/// The pause after a refused accept, such as for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// The setting `link_listen`: an interface, an address, or an address with a port. Port 0 is any free
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkListen {
    /// All addresses of this interface, with the usual port.
    Interface(String),
    /// This address.
    Address(SocketAddr),
}

impl FromStr for LinkListen {
    type Err = String;

    /// Reads the setting.
    ///
    /// # Errors
    /// The unspecified address, which would be an address of every interface, or a text that can
    /// name no interface.
    fn from_str(text: &str) -> Result<Self, String> {
        let address = text
            .parse::<SocketAddr>()
            .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT)));
        if let Ok(address) = address {
            // Strangers on other networks must not reach the listener.
            return if address.ip().is_unspecified() {
                Err("it would be reached from every network".into())
            } else {
                Ok(Self::Address(address))
            };
        }
        // Linux limits the name of an interface to 15 bytes without `/`, `:` and white space.
        let is_name = (1..16).contains(&text.len())
            && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
        if is_name { Ok(Self::Interface(text.into())) } else { Err("it names no interface".into()) }
    }
}

/// An address of this machine, and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnAddress {
    at: SocketAddr,
    mask: IpAddr,
}

impl OwnAddress {
    /// Returns true if a peer is on the same link: in the network of our address.
    fn is_on_link(&self, peer: IpAddr) -> bool {
        match (self.at.ip(), self.mask, peer.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(mask), IpAddr::V4(peer)) => {
                own.to_bits() & mask.to_bits() == peer.to_bits() & mask.to_bits()
            }
            (IpAddr::V6(own), IpAddr::V6(mask), IpAddr::V6(peer)) => {
                own.to_bits() & mask.to_bits() == peer.to_bits() & mask.to_bits()
            }
            _ => false,
        }
    }
}

/// A bound address.
struct Bound {
    /// The address with its real port.
    at: SocketAddr,
    task: AbortHandle,
}

/// Accepts connections for a device. The addresses of an interface may come and go.
pub(super) async fn run_listener<E: From<ConnectionReport> + Send + 'static>(
    listen: LinkListen,
    means: Means<E>,
) {
    let mut tasks = JoinSet::new();
    let mut bound: BTreeMap<SocketAddr, Bound> = BTreeMap::new();
    loop {
        let wanted = find_addresses(&listen);
        let is_wanted = |at: &SocketAddr| wanted.iter().any(|own| own.at == *at);
        bound.retain(|at, it| {
            let stays = is_wanted(at) && !it.task.is_finished();
            if !stays {
                it.task.abort();
            }
            stays
        });
        let mut trouble = wanted.is_empty().then(|| name_absence(&listen));
        for own in wanted {
            if bound.contains_key(&own.at) {
                continue;
            }
            let listener = TcpListener::bind(own.at).await;
            match listener.and_then(|listener| Ok((listener.local_addr()?, listener))) {
                Ok((at, listener)) => {
                    let task = tasks.spawn(accept_connections(listener, own, means.clone()));
                    bound.insert(own.at, Bound { at, task });
                }
                Err(error) => trouble = Some(format!("{} cannot be used: {error}", own.at)),
            }
        }
        let addresses = bound.values().map(|it| it.at).collect();
        *lock(&means.lines.listening) = Some(Listening { addresses, trouble });
        while tasks.try_join_next().is_some() {}
        sleep(LOOK).await;
    }
}

fn name_absence(listen: &LinkListen) -> String {
    match listen {
        LinkListen::Interface(name) => format!("the interface {name} has no address"),
        LinkListen::Address(at) => format!("no interface has the address {}", at.ip()),
    }
}

async fn accept_connections<E: From<ConnectionReport> + Send + 'static>(
    listener: TcpListener,
    own: OwnAddress,
    means: Means<E>,
) {
    let mut tasks = JoinSet::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        let from = from.ip();
        // Devices on other networks, and one device with many connections, get no place.
        if !own.is_on_link(from) {
            continue;
        }
        let Some(seat) = means.lines.admit(from) else { continue };
        let means = means.clone();
        tasks.spawn(async move {
            connection::serve(stream, None, &means).await;
            drop(seat);
        });
    }
}

/// Returns the addresses of this machine that the setting names.
fn find_addresses(listen: &LinkListen) -> Vec<OwnAddress> {
    let all = getifaddrs().into_iter().flatten().filter_map(|one| {
        let at = read_address(one.address.as_ref()?)?;
        // The kernel leaves out the mask of some point-to-point addresses: only the peer itself.
        let mask =
            one.netmask.as_ref().and_then(read_address).map_or(full_mask(at.ip()), |m| m.ip());
        Some((one.interface_name, OwnAddress { at, mask }))
    });
    match listen {
        LinkListen::Interface(name) => {
            all.filter(|(interface, _)| interface == name).map(|(_, own)| own).collect()
        }
        LinkListen::Address(wanted) => all
            .filter(|(_, own)| own.at.ip() == wanted.ip())
            .map(|(_, own)| OwnAddress { at: with_port(own.at, wanted.port()), ..own })
            .take(1)
            .collect(),
    }
}

fn full_mask(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::BROADCAST.into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX).into(),
    }
}

fn with_port(mut at: SocketAddr, port: u16) -> SocketAddr {
    at.set_port(port);
    at
}

/// Reads an IP address, with the scope of a link-local one and the usual port.
fn read_address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::new(v4.ip().into(), PORT));
    }
    let v6 = storage.as_sockaddr_in6()?;
    Some(SocketAddrV6::new(v6.ip(), PORT, 0, v6.scope_id()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_146_a_listener_has_an_interface_or_an_address_of_its_own() {
        let address = |text: &str| LinkListen::Address(text.parse().unwrap());
        assert_eq!("eth0".parse(), Ok(LinkListen::Interface("eth0".into())));
        assert_eq!("10.9.0.1".parse(), Ok(address("10.9.0.1:4796")));
        assert_eq!("127.0.0.1:5000".parse(), Ok(address("127.0.0.1:5000")));
        assert_eq!("[fe80::1]:80".parse(), Ok(address("[fe80::1]:80")));
        for bad in ["", "0.0.0.0", "[::]:4796", "::", "a name", "way-too-long-a-name", "a/b"] {
            assert!(bad.parse::<LinkListen>().is_err(), "{bad}");
        }
    }

    #[test]
    fn msg_146_only_devices_on_the_link_are_served() {
        let own = |at: &str, mask: &str| OwnAddress {
            at: at.parse().unwrap(),
            mask: mask.parse().unwrap(),
        };
        let cable = own("10.9.0.1:4796", "255.255.255.0");
        let v6 = own("[fe80::1]:4796", "ffff:ffff:ffff:ffff::");
        let cases = [
            (cable, "10.9.0.77", true),
            (cable, "::ffff:10.9.0.77", true),
            (cable, "10.9.1.77", false),
            (cable, "fe80::2", false),
            (v6, "fe80::2", true),
            (v6, "2001:db8::1", false),
        ];
        for (own, peer, expected) in cases {
            assert_eq!(own.is_on_link(peer.parse().unwrap()), expected, "{peer}");
        }
    }

    #[test]
    fn addresses_of_the_loopback_interface_are_found() {
        let named = find_addresses(&LinkListen::Interface("lo".into()));
        assert!(named.iter().any(|own| own.at == "127.0.0.1:4796".parse().unwrap()), "{named:?}");
        let one = find_addresses(&LinkListen::Address("127.0.0.1:77".parse().unwrap()));
        assert_eq!(one[0].at, "127.0.0.1:77".parse().unwrap());
        assert!(one[0].is_on_link("127.0.0.5".parse().unwrap()));
    }
}
