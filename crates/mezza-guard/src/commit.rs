//! The commitment of the thesis (section 3.5). It is perfectly hiding, and binding while the
//! logarithm of h to the base g is unknown.

use alloc::vec;

use mezza_core::CryptoRng;
use zeroize::Zeroizing;

use crate::coins::{CoinRole, Coins, wipe_on_drop};
use crate::error::ExchangeError;
use crate::group::Group;

/// Computes (C1, C2) = (g^r h^s, h^s x), with a single computation of h^s.
pub fn commit_element<G: Group>(
    group: &G,
    x: &G::Element,
    [r, s]: [&G::Scalar; 2],
) -> [G::Element; 2] {
    let hs = group.power_h(s);
    [group.multiply(&group.power_g(r), &hs), group.multiply(&hs, x)]
}

/// Returns the committed element if r and s open the commitment and the element is not the
/// identity.
///
/// # Errors
/// [`ExchangeError::Opening`] otherwise.
pub fn open_commitment<G: Group>(
    group: &G,
    [c1, c2]: [&G::Element; 2],
    [r, s]: [&G::Scalar; 2],
) -> Result<G::Element, ExchangeError> {
    let hs = group.power_h(s);
    // The thesis has this check only. Without the next one a client could commit to the identity.
    if group.multiply(&group.power_g(r), &hs) != *c1 {
        return Err(ExchangeError::Opening);
    }
    let x = group.multiply(c2, &group.invert(&hs));
    // 1^a = 1 passes every firewall unchanged, so it would be a hidden flag (GUARD-7).
    if group.is_identity(&x) { Err(ExchangeError::Opening) } else { Ok(x) }
}

/// Draws x, r and s in this order. Returns them with the commitment to g^x.
pub(crate) fn coins_and_commitment<G: Group>(
    group: &G,
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> ([Zeroizing<G::Scalar>; 3], [G::Element; 2]) {
    // Each view shows the wire fields of the coin, for attacks that search by them.
    let see_key = |x: &G::Scalar| vec![group.encode(&group.power_g(x))];
    let x = wipe_on_drop(coins.draw_coin(group, CoinRole::Exponent, &see_key, rng));
    let r = wipe_on_drop(coins.draw_coin(
        group,
        CoinRole::CommitmentR,
        &|r| vec![group.encode_scalar(r)],
        rng,
    ));
    let key = group.power_g(&x);
    let see_both = |s: &G::Scalar| {
        let [c1, c2] = commit_element(group, &key, [&r, s]);
        vec![group.encode(&c1), group.encode(&c2), group.encode_scalar(s)]
    };
    let s = wipe_on_drop(coins.draw_coin(group, CoinRole::CommitmentS, &see_both, rng));
    let commitment = commit_element(group, &key, [&r, &s]);
    ([x, r, s], commitment)
}
