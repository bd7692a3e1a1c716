//! Diffie-Hellman (thesis, section 4.1), with the same code for both ends.
//!
//! ```text
//! A: a        --- A = g^a --->        B: b
//!             <-- B = g^b ---
//! k = B^a                             k = A^b
//! ```

use alloc::vec;
use core::fmt;

use mezza_core::{CryptoRng, Secret};
use zeroize::Zeroizing;

use crate::coins::{CoinRole, Coins, wipe_on_drop};
use crate::error::ExchangeError;
use crate::group::{Group, SharedElement};
use crate::keys;
use crate::message::Message;

/// One end after drawing its exponent.
pub struct DhParty<G: Group> {
    exponent: Zeroizing<G::Scalar>,
}

impl<G: Group> DhParty<G> {
    /// Draws the exponent. Returns the public key as a message.
    pub fn begin(
        group: &G,
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Message<G>) {
        let see = |a: &G::Scalar| vec![group.encode(&group.power_g(a))];
        let exponent = wipe_on_drop(coins.draw_coin(group, CoinRole::Exponent, &see, rng));
        let key = Message::key(group.power_g(&exponent));
        (Self { exponent }, key)
    }

    /// Returns the shared key, 32 bytes.
    ///
    /// # Errors
    /// [`ExchangeError::Identity`] if the peer's key is the identity.
    pub fn finish(self, group: &G, their: &G::Element) -> Result<Secret<32>, ExchangeError> {
        let shared = SharedElement::agree(group, their, &self.exponent)
            .map_err(|_| ExchangeError::Identity)?;
        Ok(keys::lab_key(group, &shared))
    }
}

impl<G: Group> fmt::Debug for DhParty<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DhParty")
    }
}
