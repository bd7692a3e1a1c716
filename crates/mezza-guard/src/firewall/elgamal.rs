//! The firewalls of El-Gamal (thesis, section 4.2; Dodis, Mironov and Stephens-Davidowitz 2016).
//!
//! | firewall | place | what it does |
//! |---|---|---|
//! | [`RerandFirewall`] | encryptor | out (c0 g^r, c1 h^r), a fresh r for each ciphertext |
//! | [`KeyMaulFirewall`] | key owner | out h -> h^alpha, in c0 -> c0^alpha |
//! | [`ReMaulFirewall`] | encryptor | in (g^alpha, h^beta); out re-randomised under that key, then c0^(beta/alpha) |

use mezza_core::CryptoRng;

use super::{Firewall, check_proper};
use crate::coins::{Coin, CoinRole, Coins, Uniform};
use crate::error::FirewallError;
use crate::group::{Group, ViewDependent};
use crate::message::Message;

/// A received public key: its generator, or `None` for that of the group, and h.
type SeenKey<G> = (Option<<G as Group>::Element>, <G as Group>::Element);

/// Returns the public key in a message.
///
/// # Errors
/// [`FirewallError`] if the message is not a public key or contains an identity.
fn public_key<G: Group>(group: &G, message: &Message<G>) -> Result<SeenKey<G>, FirewallError> {
    let (g, h) = match message {
        Message::EncryptionKey(h) => (None, h.seen().clone()),
        Message::MauledKey([g, h]) => (Some(g.seen().clone()), h.seen().clone()),
        _ => return Err(FirewallError::Order),
    };
    check_proper(group, &[g.as_ref().unwrap_or(&h), &h])?;
    Ok((g, h))
}

/// Re-randomises ciphertexts at the encryptor: `EG_Rerand`.
pub struct RerandFirewall<G: Group, C = Uniform> {
    group: G,
    coins: C,
    key: Option<SeenKey<G>>,
}

impl<G: Group> RerandFirewall<G> {
    /// Creates a firewall for one public key.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> RerandFirewall<G, C> {
    /// Creates a firewall with this source of coins, one r per ciphertext.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, key: None }
    }
}

/// Computes (c0 g^r, c1 h^r) with a fresh r.
fn rerandomise_ciphertext<G: Group>(
    group: &G,
    (g, h): &SeenKey<G>,
    [c0, c1]: [&G::Element; 2],
    coins: &mut dyn Coins<G>,
    rng: &mut dyn CryptoRng,
) -> [G::Element; 2] {
    // Each ciphertext has its own coin. With a shared one, quotients of messages would be
    // preserved.
    let r = Coin::draw(group, CoinRole::Shift, coins, rng);
    let gr = match g {
        Some(g) => group.power(g, r.scalar()),
        None => group.power_g(r.scalar()),
    };
    [group.multiply(c0, &gr), group.multiply(c1, &group.power(h, r.scalar()))]
}

impl<G: Group, C: Coins<G>> Firewall<G> for RerandFirewall<G, C> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (Some(key), Message::Ciphertext(both)) = (&self.key, &message) else {
            return Err(FirewallError::Order);
        };
        let both = both.each_ref().map(ViewDependent::seen);
        let [c0, c1] = rerandomise_ciphertext(&self.group, key, both, &mut self.coins, rng);
        Ok(Message::ciphertext(c0, c1))
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        _: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let key = public_key(&self.group, &message)?;
        // A new key in between would mix ciphertexts under two keys.
        if self.key.replace(key).is_some() {
            return Err(FirewallError::Order);
        }
        Ok(message)
    }
}

/// Mauls the key at its owner, which protects the generation of the key (`EG_KeyMaul`).
pub struct KeyMaulFirewall<G: Group, C = Uniform> {
    group: G,
    coins: C,
    alpha: Option<Coin<G>>,
}

impl<G: Group> KeyMaulFirewall<G> {
    /// Creates a firewall for one key pair.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> KeyMaulFirewall<G, C> {
    /// Creates a firewall with this source of the coin alpha.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, alpha: None }
    }
}

impl<G: Group, C: Coins<G>> Firewall<G> for KeyMaulFirewall<G, C> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        // One coin serves one key, because a second key under alpha would reveal their quotient
        // (GUARD-3).
        let (None, Message::EncryptionKey(h)) = (&self.alpha, &message) else {
            return Err(FirewallError::Order);
        };
        check_proper(&self.group, &[h.seen()])?;
        let alpha = Coin::draw(&self.group, CoinRole::Power, &mut self.coins, rng);
        let mauled = self.group.power(h.seen(), alpha.scalar());
        self.alpha = Some(alpha);
        Ok(Message::encryption_key(mauled))
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        _: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (Some(alpha), Message::Ciphertext([c0, c1])) = (&self.alpha, &message) else {
            return Err(FirewallError::Order);
        };
        // Only c0 is mauled, which converts the ciphertext from the mauled key to the owner's.
        let c0 = self.group.power(c0.seen(), alpha.scalar());
        Ok(Message::ciphertext(c0, c1.seen().clone()))
    }
}

/// Mauls the key towards the encryptor, re-randomises under the mauled key, then mauls back
/// (`EG_ReMaul`, in the order that decrypts; the listing of the thesis does not).
pub struct ReMaulFirewall<G: Group, C = Uniform> {
    group: G,
    coins: C,
    mauled: Option<Mauled<G>>,
}

/// The key that was sent to the encryptor, and beta/alpha.
struct Mauled<G: Group> {
    key: SeenKey<G>,
    back: zeroize::Zeroizing<G::Scalar>,
}

impl<G: Group> ReMaulFirewall<G> {
    /// Creates a firewall for one public key.
    pub const fn new(group: G) -> Self {
        Self::with_coins(group, Uniform)
    }
}

impl<G: Group, C: Coins<G>> ReMaulFirewall<G, C> {
    /// Creates a firewall with this source of coins: alpha, beta, then one r per ciphertext.
    pub const fn with_coins(group: G, coins: C) -> Self {
        Self { group, coins, mauled: None }
    }
}

impl<G: Group, C: Coins<G>> Firewall<G> for ReMaulFirewall<G, C> {
    fn change_outgoing(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (Some(Mauled { key, back }), Message::Ciphertext(both)) = (&self.mauled, &message)
        else {
            return Err(FirewallError::Order);
        };
        let both = both.each_ref().map(ViewDependent::seen);
        let [c0, c1] = rerandomise_ciphertext(&self.group, key, both, &mut self.coins, rng);
        // Re-randomised first and mauled back last. The order in the thesis does not decrypt.
        Ok(Message::ciphertext(self.group.power(&c0, back), c1))
    }

    fn change_incoming(
        &mut self,
        message: Message<G>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Message<G>, FirewallError> {
        let (g, h) = public_key(&self.group, &message)?;
        // The encryptor could compare two keys under one pair of coins.
        if self.mauled.is_some() {
            return Err(FirewallError::Order);
        }
        let group = &self.group;
        let mut draw = || Coin::draw(group, CoinRole::Power, &mut self.coins, rng);
        let alpha = draw();
        let beta = draw();
        // q is prime, so a nonzero coin has an inverse.
        let inverse = group.invert_scalar(alpha.scalar()).ok_or(FirewallError::Order)?;
        let back = crate::coins::wipe_on_drop(group.multiply_scalars(beta.scalar(), &inverse));
        let mauled_g = match g {
            Some(g) => group.power(&g, alpha.scalar()),
            None => group.power_g(alpha.scalar()),
        };
        let mauled_h = group.power(&h, beta.scalar());
        let key = (Some(mauled_g.clone()), mauled_h.clone());
        self.mauled = Some(Mauled { key, back });
        Ok(Message::mauled_key(mauled_g, mauled_h))
    }
}
