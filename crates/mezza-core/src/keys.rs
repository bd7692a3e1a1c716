//! X25519 keys by role: the type of a key shows its lifetime and its permitted uses.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::OnceCell;
use core::fmt;

use curve25519_dalek::montgomery::MontgomeryPoint;
use rand_core::CryptoRng;
use zeroize::Zeroize as _;

use crate::wire::{DecodeError, Reader};
use crate::{Backend, Secret};

/// An X25519 public key: a u-coordinate, 32 bytes, little-endian (RFC 7748, section 5).
///
/// Any 32 bytes are a valid `PublicKey`. A protocol that needs a canonical key, or a key that is
/// not of low order, checks this and defines a type of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Returns the u-coordinate, 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads a public key from the next 32 bytes.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.read_array()?))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey")
    }
}

/// Error: the shared secret is zero, because the other public key has low order (RFC 7748, section
/// 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shared secret is zero, because the other public key has low order")]
pub struct ZeroSecret;

/// A private key that is used repeatedly: an identity, a prekey, the seal of a mailbox, the ratchet
/// key of a session.
///
/// The first backend that uses the key prepares the scalar once. The prepared form is stored with
/// the scalar, for that backend only.
pub struct StaticKey {
    scalar: Secret<32>,
    public: PublicKey,
    /// True for a scalar that must not be clamped; see [`EphemeralKey::from_joint_scalar`].
    is_joint: bool,
    /// The [`Backend::Pair`] of the first backend that used the key. `StaticKey` has no type
    /// parameter, because machines pass keys in inputs and outputs that are independent of the
    /// backend.
    pair: OnceCell<Box<dyn Any + Send>>,
}

impl StaticKey {
    /// Generates a key from 32 random bytes.
    pub fn random<B: Backend>(rng: &mut dyn CryptoRng) -> Self {
        Self::from_scalar::<B>(Secret::random(rng))
    }

    /// Creates the key from a scalar of 32 bytes and clamps it (RFC 7748, section 5).
    #[expect(clippy::needless_pass_by_value, reason = "who hands a scalar in keeps no copy")]
    pub fn from_scalar<B: Backend>(scalar: Secret<32>) -> Self {
        let scalar = clamp_scalar(&scalar);
        let pair = B::prepare_scalar(&scalar);
        let public = B::public_key(&pair);
        let pair: Box<dyn Any + Send> = Box::new(pair);
        Self { scalar, public, is_joint: false, pair: OnceCell::from(pair) }
    }

    /// Restores a stored key. The stored public key is not checked against the scalar.
    #[expect(clippy::needless_pass_by_value, reason = "who hands a scalar in keeps no copy")]
    pub fn from_stored(scalar: Secret<32>, public: PublicKey) -> Self {
        Self { scalar: clamp_scalar(&scalar), public, is_joint: false, pair: OnceCell::new() }
    }

    /// Returns the clamped scalar, 32 bytes.
    pub fn scalar(&self) -> &Secret<32> {
        &self.scalar
    }

    /// Returns the public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the X25519 shared secret of this key and `their`, 32 bytes (RFC 7748).
    ///
    /// # Errors
    /// [`ZeroSecret`] if `their` has low order.
    pub fn diffie_hellman<B: Backend>(&self, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        // Backends clamp every scalar, which would change a joint one.
        if self.is_joint {
            return joint_diffie_hellman(&self.scalar, their);
        }
        let prepared = self.pair.get_or_init(|| Box::new(B::prepare_scalar(&self.scalar)));
        match prepared.downcast_ref() {
            Some(pair) => B::diffie_hellman(pair, their),
            None => B::diffie_hellman(&B::prepare_scalar(&self.scalar), their),
        }
    }

    /// Copies the key. There is no `Clone`, so that a review sees each copy.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let scalar = self.scalar.duplicate();
        Self { scalar, public: self.public, is_joint: self.is_joint, pair: OnceCell::new() }
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticKey")
    }
}

/// A private key for one exchange. The caller draws the key and passes it in, because protocol code
/// has no random source.
pub struct EphemeralKey(StaticKey);

impl EphemeralKey {
    /// Generates a key from 32 random bytes.
    pub fn random<B: Backend>(rng: &mut dyn CryptoRng) -> Self {
        Self(StaticKey::random::<B>(rng))
    }

    /// Creates the key from a scalar of 32 bytes and clamps it (RFC 7748, section 5).
    pub fn from_scalar<B: Backend>(scalar: Secret<32>) -> Self {
        Self(StaticKey::from_scalar::<B>(scalar))
    }

    /// Creates a key that two parties generated together: its scalar is a sum, so it cannot be
    /// clamped. The scalar has 32 bytes, little-endian, and is a multiple of 8 below 2^256, so that
    /// torsion in the other key has no effect. The public key is not checked against the scalar.
    ///
    /// All backends compute with it by the same portable ladder (RFC 7748, section 5).
    pub fn from_joint_scalar(scalar: Secret<32>, public: PublicKey) -> Self {
        Self(StaticKey { scalar, public, is_joint: true, pair: OnceCell::new() })
    }

    /// Returns the scalar, 32 bytes; it is clamped, except that of a joint key.
    pub fn scalar(&self) -> &Secret<32> {
        self.0.scalar()
    }

    /// Returns the public key.
    pub fn public_key(&self) -> &PublicKey {
        self.0.public_key()
    }

    /// Consumes this key and returns its X25519 shared secret with `their`, 32 bytes (RFC 7748).
    ///
    /// # Errors
    /// [`ZeroSecret`] if `their` has low order.
    pub fn diffie_hellman<B: Backend>(self, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        self.0.diffie_hellman::<B>(their)
    }

    /// Consumes this key and returns its X25519 shared secrets with each of `theirs`, in the same
    /// order, for an exchange that mixes several secrets.
    ///
    /// # Errors
    /// [`ZeroSecret`] if one of `theirs` has low order.
    pub fn diffie_hellman_each<'a, B: Backend>(
        self,
        theirs: impl IntoIterator<Item = &'a PublicKey>,
    ) -> Result<Vec<Secret<32>>, ZeroSecret> {
        theirs.into_iter().map(|their| self.0.diffie_hellman::<B>(their)).collect()
    }

    /// Converts this key to a [`StaticKey`], for example to the ratchet key of a session.
    #[must_use]
    pub fn into_static(self) -> StaticKey {
        self.0
    }
}

impl fmt::Debug for EphemeralKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EphemeralKey")
    }
}

/// Runs the ladder over all 256 bits of a scalar, without clamping.
fn joint_diffie_hellman(scalar: &Secret<32>, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
    let bits = (0..256).rev().map(|bit| (scalar.expose()[bit / 8] >> (bit % 8)) & 1 == 1);
    let mut shared = MontgomeryPoint(their.0).mul_bits_be(bits);
    let secret = Secret::copy_from(shared.as_bytes());
    shared.zeroize();
    // A zero result means that the other key has low order, so the secret is publicly known (RFC
    // 7748).
    if secret == Secret::init_with(|_| {}) { Err(ZeroSecret) } else { Ok(secret) }
}

fn clamp_scalar(scalar: &Secret<32>) -> Secret<32> {
    Secret::init_with(|s| {
        s.copy_from_slice(scalar.expose());
        s[0] &= 0xf8;
        s[31] = (s[31] & 0x7f) | 0x40;
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortableBackend;
    use alloc::format;

    fn key(byte: u8) -> StaticKey {
        StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(byte)))
    }

    fn fresh(byte: u8) -> EphemeralKey {
        EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(byte)))
    }

    /// A backend whose prepared keys are of another type and whose secrets are zero.
    struct Other;

    impl Backend for Other {
        type Chacha = <PortableBackend as Backend>::Chacha;
        type Pair = ();

        fn prepare_scalar(_: &Secret<32>) {}

        fn public_key((): &()) -> PublicKey {
            PublicKey([0; 32])
        }

        fn diffie_hellman((): &(), _: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
            Err(ZeroSecret)
        }
    }

    #[test]
    fn a_key_of_low_order_gives_no_secret() {
        let low = PublicKey([0; 32]);
        assert_eq!(key(1).diffie_hellman::<PortableBackend>(&low), Err(ZeroSecret));
        assert_eq!(fresh(2).diffie_hellman::<PortableBackend>(&low), Err(ZeroSecret));
        let both = fresh(2).diffie_hellman_each::<PortableBackend>([key(3).public_key(), &low]);
        assert_eq!(both, Err(ZeroSecret));
    }

    #[test]
    fn a_stored_key_and_its_copy_agree_as_the_key_did() {
        let own = key(4);
        let other = key(5);
        let secret = other.diffie_hellman::<PortableBackend>(own.public_key());
        let again = StaticKey::from_stored(own.scalar().duplicate(), *own.public_key());
        assert_eq!(again.diffie_hellman::<PortableBackend>(other.public_key()), secret);
        assert_eq!(again.duplicate().diffie_hellman::<PortableBackend>(other.public_key()), secret);
        assert_eq!(
            fresh(4).into_static().diffie_hellman::<PortableBackend>(other.public_key()),
            secret
        );
    }

    #[test]
    fn another_backend_never_computes_with_what_the_first_one_prepared() {
        let own = key(7);
        let other = key(8);
        let secret = own.diffie_hellman::<PortableBackend>(other.public_key());
        assert_eq!(own.diffie_hellman::<Other>(other.public_key()), Err(ZeroSecret));
        assert_eq!(own.diffie_hellman::<PortableBackend>(other.public_key()), secret);
    }

    #[test]
    fn debug_is_silent() {
        let shown = format!("{:?} {:?} {:?}", key(6), key(6).public_key(), fresh(6));
        assert_eq!(shown, "StaticKey PublicKey EphemeralKey");
    }

    #[test]
    fn a_joint_key_agrees_with_a_clamped_one() {
        // A clamped scalar below 2^255 is also a multiple of 8, so both ladders give the same.
        let scalar = clamp_scalar(&Secret::init_with(|s| s.fill(0x51)));
        let public = *fresh(0x51).public_key();
        let their = *key(9).public_key();
        let joint = EphemeralKey::from_joint_scalar(scalar, public);
        assert_eq!(joint.public_key(), &public);
        let plain = fresh(0x51).diffie_hellman::<PortableBackend>(&their).expect("a secret");
        // Another backend does not touch a joint key: `Other` gives zeros.
        assert!(joint.diffie_hellman::<Other>(&their).expect("a secret") == plain);
        let low = EphemeralKey::from_joint_scalar(Secret::init_with(|s| s.fill(8)), public);
        assert!(low.diffie_hellman::<PortableBackend>(&PublicKey([0; 32])).is_err());
    }
}
