//! Slots shared between sources: the source with the most slots yields to those with fewer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Identifies a connection; later ones have higher numbers.
pub(super) type Number = u64;

/// The source of a connection, in two levels: an IPv4 address in its /24, or the /64 of an IPv6
/// address in its /48. A provider's customer has at least a /64, and often a /48.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientSource {
    site: [u8; 8],
    address: [u8; 8],
}

impl ClientSource {
    /// Returns the source of an address.
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                // Use 0::/8 for IPv4, which no IPv6 client has.
                Self { site: [0, 0, 0, 1, a, b, c, 0], address: [0, 0, 0, 1, a, b, c, d] }
            }
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, g, h, ..] = v6.octets();
                Self { site: [a, b, c, d, e, f, 0, 0], address: [a, b, c, d, e, f, g, h] }
            }
        }
    }

    /// Returns the address as a key: an IPv4 address or an IPv6 /64.
    pub fn address(&self) -> [u8; 8] {
        self.address
    }

    /// Returns the site as a key: an IPv4 /24 or an IPv6 /48.
    pub fn site(&self) -> [u8; 8] {
        self.site
    }
}

/// The connection of a source that is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// The oldest connection, used for handshakes: those of honest clients are short.
    Oldest,
    /// The newest connection: connections that lasted long are worth more.
    Newest,
}

/// The order of eviction, highest first: the number of slots of a source, then the sequence of
/// connections among sources with equal numbers.
type Rank = (usize, Number);

impl Leaves {
    /// Maps a number to the sort order here, in which the last one is evicted first. Applying it
    /// twice gives the number back.
    fn order_key(self, number: Number) -> Number {
        match self {
            Self::Oldest => !number,
            Self::Newest => number,
        }
    }
}

/// The connections of one site.
#[derive(Debug, Default)]
struct Site {
    /// Order keys by address; the last of each set is evicted first, see [`Leaves::order_key`].
    by_address: BTreeMap<[u8; 8], BTreeSet<Number>>,
    /// The addresses in order of eviction.
    by_rank: BTreeSet<(Rank, [u8; 8])>,
    len: usize,
}

impl Site {
    /// Returns the rank of the address that is evicted from first.
    fn worst_rank(&self) -> Option<Rank> {
        self.by_rank.last().map(|(rank, _)| *rank)
    }

    /// Returns the rank of the site among all sites: its number of slots, then the sequence of its
    /// worst address.
    fn rank(&self) -> Option<Rank> {
        self.worst_rank().map(|(_, turn)| (self.len, turn))
    }

    /// Changes the slots of an address, and its rank.
    fn change_address(
        &mut self,
        address: [u8; 8],
        change: impl FnOnce(&mut BTreeSet<Number>) -> bool,
    ) {
        let numbers = self.by_address.entry(address).or_default();
        let before = address_rank(numbers);
        change(numbers);
        let after = address_rank(numbers);
        if let Some(before) = before {
            self.by_rank.remove(&(before, address));
            self.len -= before.0;
        }
        if let Some(after) = after {
            self.by_rank.insert((after, address));
            self.len += after.0;
        } else {
            self.by_address.remove(&address);
        }
    }
}

/// Returns the rank of an address with these connections.
fn address_rank(numbers: &BTreeSet<Number>) -> Option<Rank> {
    numbers.last().map(|last| (numbers.len(), *last))
}

/// The slots of a server.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    leaves: Leaves,
    sites: BTreeMap<[u8; 8], Site>,
    /// The sites in order of eviction.
    by_rank: BTreeSet<(Rank, [u8; 8])>,
    len: usize,
}

/// No slot is free, and no connection may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Room {
    pub(super) fn new(most: usize, leaves: Leaves) -> Self {
        Self { most, leaves, sites: BTreeMap::new(), by_rank: BTreeSet::new(), len: 0 }
    }

    /// Returns the number of slots of an address and of its site.
    pub(super) fn count_places(&self, source: &ClientSource) -> (usize, usize) {
        let Some(site) = self.sites.get(&source.site) else { return (0, 0) };
        (site.by_address.get(&source.address).map_or(0, BTreeSet::len), site.len)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= self.most
    }

    /// Returns the connection to evict for one more of `source` if no slot is free: from the site
    /// with the most slots, and there from the address with the most. Among equal counts an
    /// established connection stays, and the oldest handshake is evicted.
    pub(super) fn choose_yielding(&self, source: &ClientSource) -> Result<Number, Full> {
        let ((most, turn), _) = *self.by_rank.last().ok_or(Full)?;
        if most <= self.count_places(source).1 + self.margin() {
            return self.yielding_inside(source);
        }
        Ok(self.leaves.order_key(turn))
    }

    /// Returns the connection to evict within the site of `source`.
    pub(super) fn yielding_inside(&self, source: &ClientSource) -> Result<Number, Full> {
        let (most, turn) = self.sites.get(&source.site).and_then(Site::worst_rank).ok_or(Full)?;
        if most > self.count_places(source).0 + self.margin() {
            return Ok(self.leaves.order_key(turn));
        }
        match self.leaves {
            Leaves::Oldest => self.first_of(source).ok_or(Full),
            Leaves::Newest => Err(Full),
        }
    }

    /// Returns by how many slots the yielding source must exceed the newcomer.
    fn margin(&self) -> usize {
        usize::from(self.leaves == Leaves::Newest)
    }

    /// Returns the connection of this address that is evicted first.
    pub(super) fn first_of(&self, source: &ClientSource) -> Option<Number> {
        let numbers = self.sites.get(&source.site)?.by_address.get(&source.address)?;
        numbers.last().map(|turn| self.leaves.order_key(*turn))
    }

    /// Returns true if this connection of `source` has a slot.
    pub(super) fn has_place(&self, number: Number, source: &ClientSource) -> bool {
        let site = self.sites.get(&source.site);
        let numbers = site.and_then(|site| site.by_address.get(&source.address));
        numbers.is_some_and(|numbers| numbers.contains(&self.leaves.order_key(number)))
    }

    pub(super) fn insert(&mut self, number: Number, source: &ClientSource) {
        let turn = self.leaves.order_key(number);
        self.change_places(source, |numbers| numbers.insert(turn));
    }

    /// Removes a connection; an unknown one changes nothing.
    pub(super) fn remove(&mut self, number: Number, source: &ClientSource) {
        let turn = self.leaves.order_key(number);
        self.change_places(source, |numbers| numbers.remove(&turn));
    }

    fn change_places(
        &mut self,
        source: &ClientSource,
        change: impl FnOnce(&mut BTreeSet<Number>) -> bool,
    ) {
        let site = self.sites.entry(source.site).or_default();
        let before = site.rank();
        site.change_address(source.address, change);
        let after = site.rank();
        if let Some(before) = before {
            self.by_rank.remove(&(before, source.site));
            self.len -= before.0;
        }
        if let Some(after) = after {
            self.by_rank.insert((after, source.site));
            self.len += after.0;
        } else {
            self.sites.remove(&source.site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> ClientSource {
        ClientSource::from_address(address.parse().unwrap())
    }

    /// Makes a room filled in this order; numbers count from 0.
    fn filled(leaves: Leaves, addresses: &[&str]) -> Room {
        let mut room = Room::new(addresses.len(), leaves);
        for (number, address) in (0..).zip(addresses) {
            room.insert(number, &source(address));
        }
        room
    }

    #[test]
    fn a_mapped_address_is_its_ipv4_address_and_sites_hold_addresses() {
        assert_eq!(source("::ffff:192.0.2.7"), source("192.0.2.7"));
        assert_ne!(source("192.0.2.8").address(), source("192.0.2.7").address());
        assert_eq!(source("192.0.2.8").site(), source("192.0.2.7").site());
        assert_ne!(source("192.0.3.7").site(), source("192.0.2.7").site());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:ffff"));
        let other = source("2001:db8:0:1::1");
        assert_ne!(other.address(), source("2001:db8::1").address());
        assert_eq!(other.site(), source("2001:db8::1").site());
        assert_ne!(source("2001:db8:1::1").site(), source("2001:db8::1").site());
    }

    #[test]
    fn msg_71_the_newest_of_the_greediest_makes_room() {
        let room = filled(
            Leaves::Newest,
            &["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "198.51.100.1"],
        );
        // The site has four slots, its address three: the newest connection is evicted.
        assert_eq!(room.choose_yielding(&source("203.0.113.1")), Ok(2));
        assert_eq!(room.choose_yielding(&source("198.51.100.1")), Ok(2));
        // The site with the most slots evicts among its own addresses, but nothing for its largest
        // address.
        assert_eq!(room.choose_yielding(&source("192.0.2.2")), Ok(2));
        assert_eq!(room.choose_yielding(&source("192.0.2.1")), Err(Full));
    }

    #[test]
    fn msg_71_among_equals_who_stands_stays_and_a_handshake_gives_way() {
        let equals = ["192.0.2.1", "198.51.100.1"];
        assert_eq!(
            filled(Leaves::Newest, &equals).choose_yielding(&source("203.0.113.1")),
            Err(Full)
        );
        assert!(filled(Leaves::Oldest, &equals).choose_yielding(&source("203.0.113.1")).is_ok());
        let own = filled(Leaves::Oldest, &["192.0.2.1", "192.0.2.1", "198.51.100.1"]);
        assert_eq!(own.choose_yielding(&source("192.0.2.1")), Ok(0), "the oldest of its own");
        assert_eq!(own.choose_yielding(&source("192.0.2.9")), Ok(0));
        assert_eq!(own.choose_yielding(&source("198.51.100.1")), Ok(0));
        assert_eq!(own.first_of(&source("192.0.2.1")), Some(0));
        assert_eq!(own.first_of(&source("192.0.2.9")), None);
    }

    #[test]
    fn msg_70_among_equals_age_decides_and_no_address_does() {
        let sites = ["198.51.100.9", "192.0.2.9", "198.51.100.9", "192.0.2.9"];
        let addresses = ["192.0.2.9", "192.0.2.1", "192.0.2.5", "192.0.2.9", "192.0.2.1"];
        for (leaves, of_sites, of_addresses) in [(Leaves::Oldest, 0, 0), (Leaves::Newest, 3, 4)] {
            let stranger = source("203.0.113.1");
            assert_eq!(filled(leaves, &sites).choose_yielding(&stranger), Ok(of_sites));
            assert_eq!(filled(leaves, &addresses).choose_yielding(&stranger), Ok(of_addresses));
        }
    }

    #[test]
    fn places_come_back() {
        let mut room = filled(Leaves::Newest, &["192.0.2.1", "192.0.2.1", "2001:db8::1"]);
        assert!(room.is_full());
        assert_eq!(room.count_places(&source("192.0.2.1")), (2, 2));
        room.remove(1, &source("192.0.2.1"));
        room.remove(1, &source("192.0.2.1"));
        room.remove(2, &source("192.0.2.1"));
        assert!(!room.is_full());
        assert_eq!(room.count_places(&source("192.0.2.1")), (1, 1));
        room.remove(0, &source("192.0.2.1"));
        room.remove(2, &source("2001:db8::1"));
        assert_eq!((room.len, room.sites.len(), room.by_rank.len()), (0, 0, 0));
        let none = Room::new(0, Leaves::Newest);
        assert_eq!(none.choose_yielding(&source("192.0.2.1")), Err(Full));
    }
}
