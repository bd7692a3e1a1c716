//! The slots of a link: assigns them to names, and selects the name that loses its slot to a
//! newcomer.
//!
//! A name costs nothing, so slots are counted by address: an address with more names than others
//! loses one first, for any newcomer. An IPv6 address costs little too; MAC addresses are not
//! considered.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use mezza_core::CryptoRng;

use super::{Error, NodeLink, Source};
use crate::engine::Engine;
use crate::frame::Name;
use crate::limits::{NEIGHBOURS_MAX, SECOND};

/// Maximum number of names of one address.
const NAMES_PER_SOURCE: usize = 4;
/// Time between two lotteries, µs. A lottery gives one slot to a newcomer while all slots belong to
/// addresses with one name each, so eight are reassigned per minute.
const REPLACE: u64 = 7_500_000;
/// A name without frames for this time counts as dead: a living one sends a beacon within 5.5 s.
const DEAD: u64 = 6 * SECOND;
/// Number of slots that the lottery leaves to neighbours that delivered cells.
const GIVERS: usize = NEIGHBOURS_MAX / 4;

/// A name and its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    name: Name,
    source: Source,
    heard_at: u64,
    gave: u32,
}

/// The name that loses its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaver {
    pub name: Name,
    /// Earliest time of the next lottery; `None` if this slot was not lost by lottery.
    pub replace_at: Option<u64>,
}

/// Returns the names that have a slot on a link.
pub(super) fn list_seats(link: &NodeLink, engine: &Engine) -> Vec<Seat> {
    let seats = link.names.iter().filter_map(|(name, (id, source))| {
        let neighbour = engine.neighbour(*id).filter(|neighbour| neighbour.name == *name)?;
        let heard_at = neighbour.heard_at;
        let gave = neighbour.gave;
        Some(Seat { name: *name, source: *source, heard_at, gave })
    });
    seats.collect()
}

/// Returns the name that must leave so that another name of `source` gets a slot; `None` while
/// there is room.
///
/// # Errors
/// If the newcomer gets no slot.
pub(super) fn select_leaver(
    seats: &[Seat],
    source: Source,
    replace_at: u64,
    now: u64,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Leaver>, Error> {
    // Names are bounded by address, so that one device cannot take all slots of a link (MESH-60).
    let at_once = |seat: &Seat| Some(Leaver { name: seat.name, replace_at: None });
    let own = seats.iter().filter(|seat| seat.source == source);
    let own_count = own.clone().count();
    if own_count < NAMES_PER_SOURCE && seats.len() < NEIGHBOURS_MAX {
        return Ok(None);
    }
    // Dead names of the newcomer's own address leave first: they are left over from a restart of
    // the device (MESH-61).
    let oldest = own.min_by_key(|seat| seat.heard_at).filter(|seat| seat.heard_at + DEAD < now);
    // At the limit of an address, only its own silent name loses its slot.
    if oldest.is_some() || own_count >= NAMES_PER_SOURCE {
        return oldest.map(at_once).ok_or(Error::Full);
    }
    let mut counts: BTreeMap<Source, usize> = BTreeMap::new();
    for seat in seats {
        *counts.entry(seat.source).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    // An address with at least two names more than the newcomer's loses one first (MESH-60).
    if let Some((greedy, _)) = most.filter(|(_, count)| **count > own_count + 1) {
        // The name that delivered the fewest cells leaves first, and among equals the one silent
        // longest.
        let theirs = seats.iter().filter(|seat| seat.source == *greedy);
        return Ok(theirs.min_by_key(|seat| (seat.gave, seat.heard_at)).and_then(at_once));
    }
    // An address that has a name takes no part in the lottery, or it could replace the only name of
    // another address with a further one of its own (MESH-60). Lotteries have a rate limit, or new
    // addresses would replace all neighbours at once.
    if own_count > 0 || now < replace_at {
        return Err(Error::Full);
    }
    // Neighbours that delivered cells are exempt from the lottery while there are few of them
    // (MESH-60).
    let few_give = seats.iter().filter(|seat| seat.gave > 0).count() <= GIVERS;
    let lots: Vec<&Seat> = seats.iter().filter(|seat| !few_give || seat.gave == 0).collect();
    let drawn = lots.get((rng.next_u64() % lots.len().max(1) as u64) as usize);
    let leaver = |seat: &&Seat| Leaver { name: seat.name, replace_at: Some(now + REPLACE) };
    drawn.map(leaver).map(Some).ok_or(Error::Full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_sim::SimRng;

    fn seat(name: Name, source: Source) -> Seat {
        Seat { name, source, heard_at: 60 * SECOND, gave: 0 }
    }

    fn asked(seats: &[Seat], source: Source, replace_at: u64) -> Result<Option<Name>, Error> {
        let mut rng = SimRng::new(1, 0);
        let leaver = select_leaver(seats, source, replace_at, 60 * SECOND, rng.rng())?;
        Ok(leaver.map(|leaver| leaver.name))
    }

    #[test]
    fn mesh_60_an_address_with_many_names_loses_one_first() {
        let mut seats: Vec<Seat> = (0..61).map(|n| seat(n, n / 4)).collect();
        assert_eq!(asked(&seats, 100, 0), Ok(None), "there is room");
        seats.extend((61..64).map(|n| seat(n, 100 + n)));
        seats[0].gave = 9;
        // A newcomer from a new address gets a slot at once, and no address with one name loses its
        // own.
        let left = asked(&seats, 500, u64::MAX).unwrap().unwrap();
        assert!(left < 60 && left != 0, "{left}");
        assert_eq!(asked(&seats, 3, u64::MAX), Err(Error::Full), "four names have to do");
    }

    #[test]
    fn mesh_60_between_addresses_with_one_name_it_is_a_lot_and_givers_stay() {
        let mut seats: Vec<Seat> = (0..64).map(|n| seat(n, n)).collect();
        assert_eq!(asked(&seats, 500, 61 * SECOND), Err(Error::Full));
        seats.iter_mut().take(16).for_each(|seat| seat.gave = 1);
        for source in 500..600 {
            assert!(asked(&seats, source, 0).unwrap().unwrap() >= 16);
        }
    }

    /// When all places are taken, an address that has a name already cannot displace the only name
    /// of another address (MESH-60).
    #[test]
    fn mesh_60_an_address_that_has_a_name_draws_no_lot() {
        for own in 1..=3 {
            // Address 7 has `own` names, every other address has one.
            let source = |n| if n < own { 7 } else { 100 + n };
            let mut seats: Vec<Seat> = (0..64).map(|n| seat(n, source(n))).collect();
            assert_eq!(asked(&seats, 7, 0), Err(Error::Full), "{own}");
            assert!(asked(&seats, 500, u64::MAX).is_ok() == (own > 1), "{own}");
            // An address that has two names more than the newcomer's address loses one to the
            // newcomer. Before that, a dead name of the newcomer's own address is displaced.
            (10..12 + own).for_each(|at| seats[at as usize].source = 8);
            assert!((10..12 + own).contains(&asked(&seats, 7, 0).unwrap().unwrap()), "{own}");
            seats[0].heard_at = 53 * SECOND;
            assert_eq!(asked(&seats, 7, 0), Ok(Some(0)), "{own}");
        }
    }

    #[test]
    fn mesh_61_a_restarted_device_takes_the_place_of_its_dead_name() {
        let mut seats: Vec<Seat> = (0..4).map(|n| seat(n, 7)).collect();
        assert_eq!(asked(&seats, 7, 0), Err(Error::Full));
        (seats[2].heard_at, seats[3].heard_at) = (50 * SECOND, 52 * SECOND);
        assert_eq!(asked(&seats, 7, 0), Ok(Some(2)));
    }
}
