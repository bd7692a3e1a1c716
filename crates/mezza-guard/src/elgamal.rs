//! El-Gamal (thesis, section 4.2).
//!
//! ```text
//! KeyOwner: a    --- (g, h = g^a) --->    Encryptor: b
//!                <-- (g^b, h^b m) ---
//! m = c1 c0^-a
//! ```

use alloc::vec;
use core::fmt;

use mezza_core::CryptoRng;
use zeroize::Zeroizing;

use crate::coins::{CoinRole, Coins, wipe_on_drop};
use crate::error::ExchangeError;
use crate::group::Group;
use crate::message::Message;

/// The owner of an El-Gamal key pair.
pub struct KeyOwner<G: Group> {
    a: Zeroizing<G::Scalar>,
}

impl<G: Group> KeyOwner<G> {
    /// Draws the key pair. Returns the public key as a message.
    pub fn generate(
        group: &G,
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Message<G>) {
        let see = |a: &G::Scalar| vec![group.encode(&group.power_g(a))];
        let a = wipe_on_drop(coins.draw_coin(group, CoinRole::Exponent, &see, rng));
        let key = Message::encryption_key(group.power_g(&a));
        (Self { a }, key)
    }

    /// Decrypts a ciphertext.
    pub fn decrypt(&self, group: &G, [c0, c1]: [&G::Element; 2]) -> G::Element {
        group.multiply(c1, &group.invert(&group.power(c0, &self.a)))
    }
}

impl<G: Group> fmt::Debug for KeyOwner<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyOwner")
    }
}

/// A checked El-Gamal public key for encryption.
#[derive(Clone)]
pub struct Encryptor<G: Group> {
    /// The generator; `None` means that of the group.
    g: Option<G::Element>,
    h: G::Element,
}

impl<G: Group> Encryptor<G> {
    /// Checks a public key.
    ///
    /// # Errors
    /// [`ExchangeError`] if one of its elements is the identity, or the message is not a public
    /// key.
    pub fn new(group: &G, key: &Message<G>) -> Result<Self, ExchangeError> {
        let (g, h) = match key {
            Message::EncryptionKey(h) => (None, h),
            Message::MauledKey([g, h]) => (Some(g), h),
            _ => return Err(ExchangeError::Group(crate::error::GroupError::Message)),
        };
        // With an identity the plaintext would be sent unchanged (GUARD-1).
        if [g, Some(h)].into_iter().flatten().any(|element| group.is_identity(element.seen())) {
            return Err(ExchangeError::Identity);
        }
        Ok(Self { g: g.map(|g| g.seen().clone()), h: h.seen().clone() })
    }

    /// Encrypts an element under a fresh exponent.
    pub fn encrypt(
        &self,
        group: &G,
        m: &G::Element,
        coins: &mut dyn Coins<G>,
        rng: &mut dyn CryptoRng,
    ) -> Message<G> {
        let encrypt = |b: &G::Scalar| {
            let c0 = match &self.g {
                Some(g) => group.power(g, b),
                None => group.power_g(b),
            };
            [c0, group.multiply(&group.power(&self.h, b), m)]
        };
        let see = |b: &G::Scalar| encrypt(b).iter().map(|element| group.encode(element)).collect();
        let b = wipe_on_drop(coins.draw_coin(group, CoinRole::Encryption, &see, rng));
        let [c0, c1] = encrypt(&b);
        Message::ciphertext(c0, c1)
    }
}

impl<G: Group> fmt::Debug for Encryptor<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryptor")
    }
}
