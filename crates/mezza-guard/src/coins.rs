//! Coins: every random scalar of a party or firewall is drawn through [`Coins`].

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

use crate::group::Group;

/// The role of a coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinRole {
    /// A private exponent: a, b, x, y. Seen: its key.
    Exponent,
    /// r of a commitment. Seen: r.
    CommitmentR,
    /// s of a commitment. Seen: C1, C2, s.
    CommitmentS,
    /// The exponent of an El-Gamal ciphertext. Seen: c0, c1.
    Encryption,
    /// A firewall's coin that multiplies: w, alpha, beta.
    Power,
    /// A firewall's coin that is added: u, v, r of a re-randomisation.
    Shift,
}

impl CoinRole {
    /// Coins that are added may be 0; then P1 is exact. Coins that multiply may not (GUARD-3).
    pub const fn may_be_zero(self) -> bool {
        matches!(self, Self::Shift)
    }
}

/// The view of an observer of the wire on a candidate: the fields that it decides, encoded.
pub type View<'a, G> = dyn Fn(&<G as Group>::Scalar) -> Vec<Vec<u8>> + 'a;

/// A source of coins. `view` gives what an observer of the wire would see of a candidate: an honest
/// source ignores it, a substitution attack is a source that does not.
pub trait Coins<G: Group> {
    /// One coin.
    fn draw_coin(
        &mut self,
        group: &G,
        role: CoinRole,
        view: &View<'_, G>,
        rng: &mut dyn CryptoRng,
    ) -> G::Scalar;
}

/// The honest source: uniform, blind to what it causes.
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
        // A shift of 0 belongs to the uniform law. A factor of 0 would erase the client's value
        // (GUARD-3).
        if role.may_be_zero() { group.draw_scalar(rng) } else { group.draw_nonzero(rng) }
    }
}

/// Coins that are given, in their order: for vectors and for attacks that compute them elsewhere.
/// When they have run out, coins are uniform.
#[derive(Clone)]
pub struct GivenCoins<S>(VecDeque<S>);

impl<S> GivenCoins<S> {
    /// These coins, the first one first.
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

/// The coin of a firewall: for one session, wiped at its end, never copied (GUARD-3).
///
/// ```compile_fail
/// use mezza_guard::{Group, Ristretto, coins::Coin};
/// fn twice<G: Group>(coin: Coin<G>) -> (Coin<G>, Coin<G>) { (coin.clone(), coin) }
/// ```
pub struct Coin<G: Group>(Zeroizing<G::Scalar>);

impl<G: Group> Coin<G> {
    /// A fresh coin of a firewall.
    pub fn draw(
        group: &G,
        role: CoinRole,
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        // The guard's own source gets an empty view: its coins must not follow from what they
        // cause.
        Self(Zeroizing::new(coins.draw_coin(group, role, &|_| Vec::new(), rng)))
    }

    /// The scalar itself, for one computation.
    pub fn scalar(&self) -> &G::Scalar {
        &self.0
    }
}

impl<G: Group> fmt::Debug for Coin<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coin")
    }
}

/// Wipes a scalar that is used up.
pub(crate) fn wipe_on_drop<S: Zeroize>(scalar: S) -> Zeroizing<S> {
    Zeroizing::new(scalar)
}
