//! Who watches which box: the newest WATCH owns it.

use std::collections::HashMap;

use mezza_messenger::relay_wire::{Address, RelayFrame};

use super::job::{Outlet, WatchId};
use crate::relay::store::{BoxId, Seq};

/// The connection that gets a box's mail.
pub(super) struct Owner {
    pub(super) watch: WatchId,
    pub(super) number: u16,
    pub(super) box_id: BoxId,
    pub(super) outlet: Outlet,
    /// Sent and not yet taken.
    pub(super) in_flight: Vec<Seq>,
    /// The newest seq that was sent.
    pub(super) last: Seq,
    /// Whether the store may hold mail behind `last`; then new mail waits its turn there.
    pub(super) behind: bool,
}

impl Owner {
    /// Whether another mail may go out.
    pub(super) fn has_room(&self, in_flight_max: usize) -> bool {
        self.in_flight.len() < in_flight_max && self.outlet.has_room()
    }

    /// Sends the next mail. Where it does not go out, none behind it may: `last` must not pass it.
    pub(super) fn send(&mut self, seq: Seq, envelope: Vec<u8>, in_flight_max: usize) {
        let fits = !self.behind && self.has_room(in_flight_max);
        if fits && self.outlet.mail(self.number, self.watch, seq, envelope) {
            self.in_flight.push(seq);
            self.last = seq;
        } else {
            self.behind = true;
        }
    }
}

/// All owners.
#[derive(Default)]
pub(super) struct Owners(HashMap<Address, Owner>);

impl Owners {
    /// The newest WATCH takes the box over.
    pub(super) fn insert(&mut self, address: Address, owner: Owner) {
        self.0.insert(address, owner);
    }

    pub(super) fn owner(&mut self, address: &Address) -> Option<&mut Owner> {
        self.0.get_mut(address)
    }

    /// The owner, if it is still this watch.
    pub(super) fn of_watch(&mut self, address: &Address, watch: WatchId) -> Option<&mut Owner> {
        self.0.get_mut(address).filter(|owner| owner.watch == watch)
    }

    pub(super) fn remove(&mut self, address: &Address) -> Option<Owner> {
        self.0.remove(address)
    }

    /// Tells the owner how many one-time keys are left.
    pub(super) fn stock(&self, address: &Address, left: u32) {
        if let Some(owner) = self.0.get(address) {
            owner.outlet.stock(stock_frame(owner.number, left));
        }
    }

    /// The boxes that are watched.
    pub(super) fn boxes(&self) -> Vec<BoxId> {
        self.0.values().map(|owner| owner.box_id).collect()
    }
}

/// A STOCK, cut to what its field holds.
pub(super) fn stock_frame(number: u16, left: u32) -> RelayFrame {
    RelayFrame::Stock { number, left: u16::try_from(left).unwrap_or(u16::MAX) }
}
