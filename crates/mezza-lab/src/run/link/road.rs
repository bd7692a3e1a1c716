//! The roads of the matrix: the kinds of path between two machines over which links are tested.

use super::cable::Faults;

/// The path between both machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// One cable with interfaces of this MTU.
    Cable(u16),
    /// Two routers; the cable between them has this MTU, the machines' cables have 1,500.
    Routers(u16),
    /// One cable, and a VLAN on it.
    Vlan,
    /// A cable in software, whose cards do not join datagrams.
    Software(Faults),
}

/// The IP versions of both machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4, and IPv6 on the cable.
    Both,
    /// IPv4 only: the kernel has no IPv6.
    Ip4,
    /// IPv6 only: the machines have no IPv4 address.
    Ip6,
}

/// An incident after the link came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// No incident.
    None,
    /// The cable's interfaces get this MTU.
    Mtu(u16),
    /// The link is idle until the translator's mapping ends, and then B sends first. Between the
    /// measurements the translator forgets its mapping.
    Idle,
    /// The card of A stops computing checksums, so that its kernel refuses joined datagrams.
    Card,
}

/// A road: a row of the matrix, with a path between two machines and the settings of the link over
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Road {
    /// The name of the road in the table.
    pub name: &'static str,
    /// The path between both machines.
    pub ground: Ground,
    /// The IP versions of the machines.
    pub family: Family,
    /// The carrier of the link: `udp` or `ether`.
    pub carrier: &'static str,
    /// Additional lines of `link.toml`, by side.
    pub settings: [&'static str; 2],
    /// True if the tunnel joins two bridges.
    pub bridges: bool,
    /// The incident after the link came up.
    pub incident: Incident,
    /// Payload bytes of a datagram.
    pub datagram_bytes: usize,
}

/// Bytes that `WireGuard` adds to a packet, including the IPv6 header.
const WIREGUARD_BYTES: u16 = 80;

impl Road {
    /// Returns the MTU of wireguard-go's interfaces on this road. `None` where wireguard-go is not
    /// measured: it is measured only on one cable without incident, between IPv4 addresses.
    pub fn wireguard_mtu(&self) -> Option<u16> {
        let Ground::Cable(mtu) = self.ground else { return None };
        let is_plain = self.carrier == PLAIN.carrier
            && self.settings == PLAIN.settings
            && self.incident == Incident::None
            && self.family != Family::Ip6
            && !self.bridges;
        is_plain.then_some(mtu - WIREGUARD_BYTES)
    }
}

/// Bytes of a datagram that fits into one frame on every road.
const SMALL: usize = 1_100;
/// Bytes of a datagram that fills an Ethernet frame.
const FULL: usize = 1_472;

/// The name of the road whose link needs no IP.
pub const ETHER: &str = "bare Ethernet";

/// A road with one cable and no incident.
pub const PLAIN: Road = Road {
    name: "one cable",
    ground: Ground::Cable(1_500),
    family: Family::Both,
    carrier: "udp",
    settings: ["", ""],
    bridges: false,
    incident: Incident::None,
    datagram_bytes: SMALL,
};

const fn cable_road(name: &'static str, mtu: u16) -> Road {
    Road { name, ground: Ground::Cable(mtu), ..PLAIN }
}

const fn lossy_road(name: &'static str, loss_permille: u32) -> Road {
    let faults = Faults { loss_permille, translates: false };
    Road { name, ground: Ground::Software(faults), ..PLAIN }
}

/// All roads.
pub const ALL: [Road; 20] = [
    cable_road("MTU 1,280", 1_280),
    cable_road("MTU 1,400", 1_400),
    cable_road("MTU 1,492", 1_492),
    cable_road("MTU 1,500", 1_500),
    cable_road("MTU 9,000", 9_000),
    Road { name: "MTU 1,280 between routers", ground: Ground::Routers(1_280), ..PLAIN },
    Road { name: "MTU 1,400 between routers", ground: Ground::Routers(1_400), ..PLAIN },
    Road { incident: Incident::Mtu(1_280), ..cable_road("MTU 1,500, then 1,280 while up", 1_500) },
    Road { incident: Incident::Mtu(1_500), ..cable_road("MTU 1,280, then 1,500 while up", 1_280) },
    Road {
        name: "bridges at both ends, full frames",
        bridges: true,
        datagram_bytes: FULL,
        ..PLAIN
    },
    Road { name: ETHER, carrier: "ether", ..PLAIN },
    Road { name: "VLAN", ground: Ground::Vlan, ..PLAIN },
    Road { name: "IPv4 only", family: Family::Ip4, ..PLAIN },
    Road { name: "IPv6 only", family: Family::Ip6, ..PLAIN },
    Road { name: "offload off at A", settings: ["offload = \"off\"\n", ""], ..PLAIN },
    Road { name: "offload off at B", settings: ["", "offload = \"off\"\n"], ..PLAIN },
    Road { name: "offload refused by the card of A", incident: Incident::Card, ..PLAIN },
    lossy_road("1 % of frames lost, offload refused by both cards", 10),
    lossy_road("10 % of frames lost, offload refused by both cards", 100),
    Road {
        name: "NAT with mappings of 30 s, offload refused by both cards",
        ground: Ground::Software(Faults { loss_permille: 0, translates: true }),
        family: Family::Ip4,
        settings: ["endpoint = \"10.9.0.2:4795\"\nkeepalive = \"25s\"\n", ""],
        incident: Incident::Idle,
        ..PLAIN
    },
];
