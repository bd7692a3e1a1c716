//! The own prekeys: what they need, what others can fetch of them.

use alloc::vec::Vec;

use mezza_core::{Backend, Machine as _, StaticKey, Time};
use mezza_ratchet::prekeys::{Input, Output};

use super::Sessions;
use crate::io::{At, ContactId, Due, Event, Publication};

impl<B: Backend> Sessions<B> {
    /// Others can get so many one-time keys still.
    pub fn report_stock(&mut self, left: u32, at: &mut At<'_>) {
        self.feed_prekeys(Input::Stock(left), at);
    }

    /// The person wants fresh signed prekeys.
    pub fn rotate_prekeys(&mut self, at: &mut At<'_>) {
        self.feed_prekeys(Input::Rotate, at);
    }

    /// The person wants the stock filled up.
    pub fn refill_stock(&mut self, left: u32, at: &mut At<'_>) {
        self.feed_prekeys(Input::Refill(left), at);
    }

    fn feed_prekeys(&mut self, input: Input, at: &mut At<'_>) {
        // A stock is a claim of others: the worst that a lie brings about is a refill. A wish is
        // never refused.
        let _ = self.prekeys.handle(input, at.now, at.rng);
        self.drain_prekeys(at);
    }

    /// The prekeys do what is due.
    pub fn wake_prekeys(&mut self, at: &mut At<'_>) {
        self.prekeys.wake(at.now, at.rng);
        self.drain_prekeys(at);
    }

    /// Carries out what the prekeys want.
    pub(super) fn drain_prekeys(&mut self, at: &mut At<'_>) {
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let spk = (0..spk).map(|_| StaticKey::random::<B>(at.rng)).collect();
                    let opk = (0..opk).map(|_| StaticKey::random::<B>(at.rng)).collect();
                    // Exactly what was asked for is never refused.
                    let _ = self.prekeys.handle(Input::Fresh { spk, opk }, at.now, at.rng);
                }
                Output::Store(changes) => self.store(ContactId(0), changes, at.step),
                Output::Publish { bundle, one_time, replace } => {
                    let newer = Publication { bundle, one_time, replace };
                    match &mut self.publication {
                        Some(publication) => publication.merge_newer(newer),
                        None => self.publication = Some(newer),
                    }
                }
                Output::Low => at.step.show(Event::Low),
            }
        }
        at.step.set_timer(Due::Prekeys, self.prekeys.deadline());
    }

    /// Returns the publication for others, if it has changed.
    pub fn take_publication(&mut self) -> Option<Publication> {
        self.publication.take()
    }

    /// Others were given a bundle that is not ours: another life of this vault put one up. Ours takes its
    /// place, and the one-time keys that are there go. Ours are not put up again, as some were given out.
    pub fn offer_anew(&mut self, now: Time) {
        let Some((bundle, _)) = self.prekeys.current_bundle() else { return };
        // Anybody can send mail that opens for nobody: the pace bounds what that costs (MSG-128).
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
