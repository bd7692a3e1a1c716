//! A network that is left, and joined again: what is remembered of it (MIX-69).
//!
//! It is a snapshot without contacts: configs, ledger and last rounds. So nobody gets a second budget,
//! or seals a round a second time, by leaving and coming back.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Time, Wiping};

use super::links::Link;
use super::{Client, ClientOptions, RestoreError};
use crate::client::contacts::Partners;

impl<B: Backend> Client<B> {
    /// Returns the state to remember of a network that is left; `None` while no config is known, as
    /// nothing can have been spent. It holds no key, and at most 64 configs of some 5,000 bytes.
    pub fn encode_remembered(&self) -> Option<Wiping<Vec<u8>>> {
        // Nothing was charged without a config, so a later join may begin anew.
        self.chain.as_ref()?;
        Some(Wiping::new(self.write_text(&Partners::default()).finish()))
    }

    /// Returns true if [`rejoin`](Self::rejoin) would go on from this.
    pub fn can_rejoin(setup: ClientOptions, remembered: &[u8], now: Time) -> bool {
        Self::read_text(setup, remembered, now).is_ok()
    }

    /// A client in a network that was left before. Its first output is a snapshot to store.
    ///
    /// # Errors
    /// [`RestoreError`] unless [`encode_remembered`](Self::encode_remembered) made this for the network of `setup`.
    pub fn rejoin(
        setup: ClientOptions,
        remembered: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        let mut client = Self::read_text(setup, remembered, now)?;
        client.link = Link::Down { at: client.first_try(now, rng), failed: 0 };
        // The ledger of the first stay counts on, and must be durable before a round is charged
        // (MIX-69).
        client.take_snapshot(now);
        Ok(client)
    }
}
