//! Diffie-Hellman with a commitment (thesis, section 4.1): neither end can determine the key.
//!
//! ```text
//! Committer: x, r, s                                  Answerer: a
//!       --- C1 = g^r h^s, C2 = h^s g^x --->
//!       <-- A = g^a ---
//!       --- r, s --->                                 C1 = g^r h^s;  X = C2 h^-s != 1
//! k = A^x                                             k = X^a
//! ```
//! In the thesis Bob commits and Alice answers.

use alloc::vec;
use core::fmt;

use mezza_core::{CryptoRng, Secret};
use zeroize::Zeroizing;

use crate::coins::{CoinRole, Coins, wipe_on_drop};
use crate::commit::{coins_and_commitment, open_commitment};
use crate::error::ExchangeError;
use crate::group::{Group, SharedElement};
use crate::keys;
use crate::message::Message;

/// The end that commits, before it receives the other key.
pub struct Committer<G: Group> {
    x: Zeroizing<G::Scalar>,
    r: Zeroizing<G::Scalar>,
    s: Zeroizing<G::Scalar>,
}

impl<G: Group> Committer<G> {
    /// Draws x, r and s. Returns the commitment as a message.
    pub fn begin(
        group: &G,
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Message<G>) {
        let ([x, r, s], [c1, c2]) = coins_and_commitment(group, coins, rng);
        (Self { x, r, s }, Message::commitment(c1, c2))
    }

    /// Opens the commitment after the other key has arrived. Returns the opening and the shared
    /// key, 32 bytes.
    ///
    /// # Errors
    /// [`ExchangeError::Identity`] if the peer's key is the identity.
    pub fn finish(
        self,
        group: &G,
        their: &G::Element,
    ) -> Result<(Message<G>, Secret<32>), ExchangeError> {
        // The identity is refused: any exponent gives the same key for it (GUARD-1).
        let shared =
            SharedElement::agree(group, their, &self.x).map_err(|_| ExchangeError::Identity)?;
        let opening = Message::opening((*self.r).clone(), (*self.s).clone());
        Ok((opening, keys::lab_key(group, &shared)))
    }
}

/// The end that answers a commitment, before it receives the opening.
pub struct Answerer<G: Group> {
    a: Zeroizing<G::Scalar>,
    commitment: [G::Element; 2],
}

impl<G: Group> Answerer<G> {
    /// Draws a. Returns the public key as a message.
    pub fn answer(
        group: &G,
        commitment: [G::Element; 2],
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Message<G>) {
        let see = |a: &G::Scalar| vec![group.encode(&group.power_g(a))];
        let a = wipe_on_drop(coins.draw_coin(group, CoinRole::Exponent, &see, rng));
        let key = Message::key(group.power_g(&a));
        (Self { a, commitment }, key)
    }

    /// Returns the shared key, 32 bytes, if r and s open the commitment.
    ///
    /// # Errors
    /// [`ExchangeError`] if they do not, or if the committed element is the identity.
    pub fn finish(self, group: &G, opening: [&G::Scalar; 2]) -> Result<Secret<32>, ExchangeError> {
        let [c1, c2] = &self.commitment;
        // Opened before use, because otherwise x could be chosen after A was known.
        let x = open_commitment(group, [c1, c2], opening)?;
        let shared =
            SharedElement::agree(group, &x, &self.a).map_err(|_| ExchangeError::Identity)?;
        Ok(keys::lab_key(group, &shared))
    }
}

impl<G: Group> fmt::Debug for Committer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Committer")
    }
}

impl<G: Group> fmt::Debug for Answerer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answerer")
    }
}
