//! Assigns cast links to interfaces on a machine that has more interfaces than slots (MESH-70).

use std::collections::BTreeMap;

use mezza_core::Time;
use mezza_mesh::limits::CASTS_MAX;
use mezza_mesh::node::LinkNumber;

use super::udp::CastInterface;

/// A link without an accepted frame for this time gives its slot to a waiting interface, ms.
const QUIET_MS: u64 = 60_000;

/// An interface over which a link multicasts.
struct PlacedCast {
    interface: CastInterface,
    /// Time of the last accepted frame, or of the start of the link.
    heard_at: Time,
}

/// Changes to make to the links that multicast, one for each interface.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PlaceChanges {
    /// Links that end.
    pub close: Vec<LinkNumber>,
    /// Interfaces that get a link.
    pub open: Vec<CastInterface>,
}

/// The cast links, and the queue of interfaces without a link.
#[derive(Default)]
pub(super) struct CastPlaces {
    up: BTreeMap<LinkNumber, PlacedCast>,
    /// Interfaces that lost their slot, with the time of the loss.
    waits_since: BTreeMap<String, Time>,
}

impl CastPlaces {
    /// Chooses links for the interfaces that were found, best first. Interfaces that had no slot
    /// yet come first, then those that have waited longest.
    pub(super) fn choose_links(&mut self, found: &[CastInterface], now: Time) -> PlaceChanges {
        let mut changes = PlaceChanges::default();
        for (link, cast) in &self.up {
            if !found.contains(&cast.interface) {
                changes.close.push(*link);
            }
        }
        self.waits_since.retain(|name, _| found.iter().any(|interface| interface.name == *name));
        let is_up =
            |interface: &CastInterface| self.up.values().any(|cast| cast.interface == *interface);
        let mut waiting: Vec<_> = found.iter().filter(|interface| !is_up(interface)).collect();
        waiting.sort_by_key(|interface| self.waits_since.get(&interface.name).copied());
        let mut free = (CASTS_MAX + changes.close.len()).saturating_sub(self.up.len());
        let mut quiet: Vec<_> = self.up.iter().collect();
        quiet.retain(|(link, cast)| {
            now.since_ms(cast.heard_at) > QUIET_MS && !changes.close.contains(link)
        });
        quiet.sort_by_key(|(_, cast)| cast.heard_at);
        let mut quiet = quiet.into_iter();
        for interface in waiting {
            if free > 0 {
                free -= 1;
            } else if let Some((link, cast)) = quiet.next() {
                self.waits_since.insert(cast.interface.name.clone(), now);
                changes.close.push(*link);
            } else {
                break;
            }
            changes.open.push(interface.clone());
        }
        changes
    }

    /// Records that a link came up on an interface.
    pub(super) fn insert(&mut self, link: LinkNumber, interface: CastInterface, now: Time) {
        self.waits_since.remove(&interface.name);
        self.up.insert(link, PlacedCast { interface, heard_at: now });
    }

    /// A link ended.
    pub(super) fn remove(&mut self, link: LinkNumber) {
        self.up.remove(&link);
    }

    /// A frame was accepted on a link.
    pub(super) fn on_heard(&mut self, link: LinkNumber, now: Time) {
        if let Some(cast) = self.up.get_mut(&link) {
            cast.heard_at = now;
        }
    }

    /// Returns the links with their interfaces.
    pub(super) fn links(&self) -> impl Iterator<Item = (LinkNumber, &CastInterface)> {
        self.up.iter().map(|(link, cast)| (*link, &cast.interface))
    }

    /// Returns the interfaces that have a link.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = &CastInterface> {
        self.up.values().map(|cast| &cast.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Time = Time::from_ms(1_000_000);

    fn interfaces(count: usize) -> Vec<CastInterface> {
        (0..count).map(|n| CastInterface::named(&format!("if{n:02}"))).collect()
    }

    /// Chooses links and applies the changes. Returns the names of the interfaces that got a link.
    fn choose(places: &mut CastPlaces, found: &[CastInterface], now: Time) -> Vec<String> {
        let PlaceChanges { close, open } = places.choose_links(found, now);
        for link in close {
            places.remove(link);
        }
        let first = places.up.keys().next_back().map_or(0, |link| link + 1);
        let names = open.iter().map(|interface| interface.name.clone()).collect();
        for (link, interface) in (first..).zip(open) {
            places.insert(link, interface, now);
        }
        names
    }

    #[test]
    fn mesh_70_the_first_interfaces_get_the_places() {
        let mut places = CastPlaces::default();
        let found = interfaces(CASTS_MAX + 2);
        assert_eq!(choose(&mut places, &found, T0).len(), CASTS_MAX);
        assert!(places.interfaces().eq(&found[..CASTS_MAX]));
        assert!(choose(&mut places, &found, T0.plus_ms(QUIET_MS)).is_empty(), "no minute passed");
        // The slot of an interface that is gone becomes free at once.
        let left = choose(&mut places, &found[1..], T0.plus_ms(1));
        assert_eq!(left, [found[CASTS_MAX].name.clone()]);
    }

    /// A link with neighbours keeps its slot. Links without neighbours take turns, so that each
    /// interface has a slot for a minute.
    #[test]
    fn mesh_70_quiet_interfaces_give_their_places_in_turn() {
        let mut places = CastPlaces::default();
        let found = interfaces(CASTS_MAX + 3);
        choose(&mut places, &found, T0);
        let mut had: Vec<String> = Vec::new();
        for minute in 1..40 {
            let now = T0.plus_ms(minute * (QUIET_MS + 1));
            places.on_heard(0, now);
            had.extend(choose(&mut places, &found, now));
            assert_eq!(places.up.len(), CASTS_MAX);
            assert!(
                places.interfaces().any(|interface| *interface == found[0]),
                "it has neighbours"
            );
        }
        for interface in &found[1..] {
            assert!(had.contains(&interface.name), "{} had no turn", interface.name);
        }
    }
}
