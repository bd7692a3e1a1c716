//! One turn of the device: the handling of one input, or of one wake.

use super::Components;
use crate::carriers::{Carrier, Port};
use crate::io::{Ctx, Dropped};

/// The handling of one input: the components, the time, the random source, and the effects so far.
///
/// Each file of this folder adds the methods of its topic. A method calls only methods of files
/// below its own (`cargo xtask tidy`). Components and carriers get [`Ctx`] or less of it.
pub(super) struct Turn<'a, P: Port> {
    /// The components of the device.
    pub device: &'a mut Components<P>,
    /// Time, effects and random source.
    pub ctx: Ctx<'a>,
}

impl<'a, P: Port> Turn<'a, P> {
    /// Begins a turn.
    pub fn new(device: &'a mut Components<P>, ctx: Ctx<'a>) -> Self {
        Self { device, ctx }
    }

    /// Calls `notify` with each carrier and the context of this turn.
    pub fn notify_carriers(&mut self, mut notify: impl FnMut(&mut dyn Carrier, &mut Ctx<'_>)) {
        self.device.carriers.notify_all(|one| notify(one, &mut self.ctx));
    }

    /// Withdraws parcels from the carriers.
    pub fn retract_parcels(&mut self, dropped: &[Dropped]) {
        self.notify_carriers(|one, ctx| one.retract_parcels(dropped, ctx));
    }
}
