//! A network that is left and joined again: the state that is remembered (MIX-69).
//!
//! The remembered state is a snapshot without contacts: configs, ledger and last rounds. A user can
//! therefore not get a second budget, or seal a round twice, by leaving and joining again.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Time, Wiping};

use super::links::Link;
use super::{Client, ClientOptions, RestoreError};
use crate::client::contacts::Partners;

impl<B: Backend> Client<B> {
    /// Returns the state to remember when a network is left, or `None` while no config is known and
    /// nothing was spent. It contains no key, and at most 64 configs of some 5,000 bytes.
    pub fn encode_remembered(&self) -> Option<Wiping<Vec<u8>>> {
        // Without a config nothing was charged, so a later join may begin with a new ledger.
        self.chain.as_ref()?;
        Some(Wiping::new(self.write_text(&Partners::default()).finish()))
    }

    /// Returns true if [`rejoin`](Self::rejoin) would succeed with this state.
    pub fn can_rejoin(setup: ClientOptions, remembered: &[u8], now: Time) -> bool {
        Self::read_text(setup, remembered, now).is_ok()
    }

    /// Creates a client in a network that was left before. Its first output is a snapshot to store.
    ///
    /// # Errors
    /// [`RestoreError`] unless `remembered` is from [`encode_remembered`](Self::encode_remembered)
    /// for the network of `setup`.
    pub fn rejoin(
        setup: ClientOptions,
        remembered: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        let mut client = Self::read_text(setup, remembered, now)?;
        client.link = Link::Down { at: client.first_try(now, rng), failed: 0 };
        // The ledger continues from the first stay, and must be durable before a round is charged
        // (MIX-69).
        client.take_snapshot(now);
        Ok(client)
    }
}
