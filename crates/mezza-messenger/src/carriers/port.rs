//! The port between the device and its carriers: a call goes to the carrier of an ID, or to all.

use alloc::vec::Vec;

use mezza_core::{Backend, Snapshot, StaticKey};

use super::carrier::Carrier;
use crate::error::DeviceError;
use crate::io::{CarrierId, Ctx};

/// A set of carriers. A new set implements the first four methods and inherits the others.
pub trait Port: Snapshot {
    /// The backend of the primitives.
    type Backend: Backend;
    /// Inputs of the driver to the carriers.
    type Input;
    /// Requests of the carriers to the driver.
    type Output: Snapshot;

    /// Returns all carriers, each with an ID of its own.
    fn all_carriers(&self) -> impl Iterator<Item = &dyn Carrier>;
    /// Returns all carriers for changes, in the same order.
    fn all_carriers_mut(&mut self) -> impl Iterator<Item = &mut dyn Carrier>;
    /// Handles an input of the driver. `seals` are the private keys under which unknown senders
    /// seal.
    ///
    /// # Errors
    /// The error of the carrier to which the input belongs. A refused input changes nothing.
    fn handle_input(
        &mut self,
        input: Self::Input,
        seals: &[&StaticKey],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError>;
    /// Returns the next request to the driver, in order.
    fn poll(&mut self) -> Option<Self::Output>;

    /// Returns the carrier with this ID, or `None` if the set does not contain it.
    fn carrier(&self, id: CarrierId) -> Option<&dyn Carrier> {
        self.all_carriers().find(|one| one.id() == id)
    }

    /// Returns the carrier with this ID for changes, or `None` if the set does not contain it.
    fn carrier_mut(&mut self, id: CarrierId) -> Option<&mut dyn Carrier> {
        self.all_carriers_mut().find(|one| one.id() == id)
    }

    /// Calls `notify` with each carrier.
    fn notify_all(&mut self, notify: impl FnMut(&mut dyn Carrier)) {
        self.all_carriers_mut().for_each(notify);
    }

    /// Calls `ask` with each carrier. Returns all results in one list.
    fn collect_all<T, L: IntoIterator<Item = T>>(
        &self,
        ask: impl FnMut(&dyn Carrier) -> L,
    ) -> Vec<T> {
        self.all_carriers().flat_map(ask).collect()
    }
}
