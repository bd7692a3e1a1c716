//! Coins: every random scalar of a party or firewall is drawn through [`Coins`].

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

use crate::group::Group;

/// The role of a coin, and the values by which an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinRole {
    /// A private exponent a, b, x or y. Visible: its public key.
    Exponent,
    /// r of a commitment. Visible: r.
    CommitmentR,
    /// s of a commitment. Visible: C1, C2, s.
    CommitmentS,
    /// The exponent of an El-Gamal ciphertext. Visible: c0, c1.
    Encryption,
    /// A coin of a firewall that is a factor: w, alpha, beta.
    Power,
    /// A coin of a firewall that is added: u, v, r of a re-randomisation.
    Shift,
}

impl CoinRole {
    /// Returns true if the coin may be 0. Added coins may, so that P1 is exact. Factors may not
    /// (GUARD-3).
    pub const fn may_be_zero(self) -> bool {
        matches!(self, Self::Shift)
    }
}

/// A function that returns the encoded wire fields for a candidate of a coin.
pub type View<'a, G> = dyn Fn(&<G as Group>::Scalar) -> Vec<Vec<u8>> + 'a;

/// A source of coins. `view` shows the wire fields of a candidate: an honest source ignores it, and
/// a substitution attack uses it.
pub trait Coins<G: Group> {
    /// Draws one coin.
    fn draw_coin(
        &mut self,
        group: &G,
        role: CoinRole,
        view: &View<'_, G>,
        rng: &mut dyn CryptoRng,
    ) -> G::Scalar;
}

/// The honest source: uniform and independent of the view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uniform;

impl<G: Group> Coins<G> for Uniform {
    fn draw_coin(
        &mut self,
        group: &G,
        role: CoinRole,
        _: &View<'_, G>,
        rng: &mut dyn CryptoRng,
    ) -> G::Scalar {
        // An added coin may be 0 for a uniform distribution. A factor of 0 would erase the client's
        // value (GUARD-3).
        if role.may_be_zero() { group.draw_scalar(rng) } else { group.draw_nonzero(rng) }
    }
}

/// Given coins in their order, for test vectors and for attacks that compute coins elsewhere. When
/// all are used, further coins are uniform.
#[derive(Clone)]
pub struct GivenCoins<S>(VecDeque<S>);

impl<S> GivenCoins<S> {
    /// Creates a source of these coins, first one first.
    pub fn new(coins: impl IntoIterator<Item = S>) -> Self {
        Self(coins.into_iter().collect())
    }
}

impl<S> fmt::Debug for GivenCoins<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenCoins")
    }
}

impl<G: Group> Coins<G> for GivenCoins<G::Scalar> {
    fn draw_coin(
        &mut self,
        group: &G,
        role: CoinRole,
        view: &View<'_, G>,
        rng: &mut dyn CryptoRng,
    ) -> G::Scalar {
        self.0.pop_front().unwrap_or_else(|| Uniform.draw_coin(group, role, view, rng))
    }
}

/// The coin of a firewall for one session; it is wiped at the end of the session and never copied
/// (GUARD-3).
///
/// ```compile_fail
/// use mezza_guard::{Group, Ristretto, coins::Coin};
/// fn twice<G: Group>(coin: Coin<G>) -> (Coin<G>, Coin<G>) { (coin.clone(), coin) }
/// ```
pub struct Coin<G: Group>(Zeroizing<G::Scalar>);

impl<G: Group> Coin<G> {
    /// Draws a coin of a firewall.
    pub fn draw(
        group: &G,
        role: CoinRole,
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        // The guard's own source gets an empty view, because its coins must not depend on their
        // effect.
        Self(Zeroizing::new(coins.draw_coin(group, role, &|_| Vec::new(), rng)))
    }

    /// Returns the scalar for one computation.
    pub fn scalar(&self) -> &G::Scalar {
        &self.0
    }
}

impl<G: Group> fmt::Debug for Coin<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coin")
    }
}

/// Wraps a scalar so that it is wiped on drop.
pub(crate) fn wipe_on_drop<S: Zeroize>(scalar: S) -> Zeroizing<S> {
    Zeroizing::new(scalar)
}
