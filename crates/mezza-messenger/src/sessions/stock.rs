//! Our prekeys: key generation, storage and publication.

use alloc::vec::Vec;

use mezza_core::{Backend, Machine as _, StaticKey, Time};
use mezza_ratchet::prekeys::{Input, Output};

use super::Sessions;
use crate::io::{ContactId, Ctx, Due, Event, Publication};

impl<B: Backend> Sessions<B> {
    /// Reports the number of our one-time keys that other devices can still fetch.
    pub fn report_stock(&mut self, left: u32, ctx: &mut Ctx<'_>) {
        self.feed_prekeys(Input::Stock(left), ctx);
    }

    /// Replaces the signed prekeys at the user's request.
    pub fn rotate_prekeys(&mut self, ctx: &mut Ctx<'_>) {
        self.feed_prekeys(Input::Rotate, ctx);
    }

    /// Fills up the stock of one-time keys at the user's request.
    pub fn refill_stock(&mut self, left: u32, ctx: &mut Ctx<'_>) {
        self.feed_prekeys(Input::Refill(left), ctx);
    }

    fn feed_prekeys(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        // The stock is a claim of the relay, and a false one causes a refill at worst. The other
        // inputs are never refused.
        let _ = self.prekeys.handle(input, ctx.now, ctx.rng);
        self.drain_prekeys(ctx);
    }

    /// Runs all due work of the prekeys.
    pub fn wake_prekeys(&mut self, ctx: &mut Ctx<'_>) {
        self.prekeys.wake(ctx.now, ctx.rng);
        self.drain_prekeys(ctx);
    }

    /// Carries out the outputs of the prekeys.
    pub(super) fn drain_prekeys(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let spk = (0..spk).map(|_| StaticKey::random::<B>(ctx.rng)).collect();
                    let opk = (0..opk).map(|_| StaticKey::random::<B>(ctx.rng)).collect();
                    // The prekeys refuse no keys that they requested.
                    let _ = self.prekeys.handle(Input::Fresh { spk, opk }, ctx.now, ctx.rng);
                }
                Output::Store(changes) => self.store(ContactId(0), changes, ctx.effects),
                Output::Publish { bundle, one_time, replace } => {
                    let newer = Publication { bundle, one_time, replace };
                    match &mut self.publication {
                        Some(publication) => publication.merge_newer(newer),
                        None => self.publication = Some(newer),
                    }
                }
                Output::Low => ctx.effects.show(Event::Low),
            }
        }
        ctx.effects.set_timer(Due::Prekeys, self.prekeys.deadline());
    }

    /// Returns the publication for other devices if it has changed.
    pub fn take_publication(&mut self) -> Option<Publication> {
        self.publication.take()
    }

    /// Replaces a foreign bundle at the relay, which another copy of this vault published, and
    /// deletes the one-time keys there. Our earlier one-time keys are not published again, because
    /// some were given out.
    pub fn offer_anew(&mut self, now: Time) {
        let Some((bundle, _)) = self.prekeys.current_bundle() else { return };
        // Any device can send mail that does not open, so the rate limit bounds the cost (MSG-128).
        if self.offers.take_turn(now).is_ok() {
            let newer = Publication { bundle, one_time: Vec::new(), replace: true };
            match &mut self.publication {
                Some(publication) => publication.merge_newer(newer),
                None => self.publication = Some(newer),
            }
        }
    }

    /// Returns the present publication again.
    pub fn current_publication(&self) -> Option<Publication> {
        let (bundle, one_time) = self.prekeys.current_bundle()?;
        Some(Publication { bundle, one_time, replace: false })
    }
}
