//! Groups of prime order as values. Variants and firewalls are generic over [`Group`], because the
//! lab chooses a modulus at run time.

mod ristretto;

pub use ristretto::Ristretto;
pub(crate) use ristretto::reduce_wide;

use alloc::vec::Vec;
use core::fmt::Debug;

use mezza_core::CryptoRng;
use zeroize::Zeroize;

use crate::error::GroupError;

/// A cyclic group of order q with two generators g and h of unknown relation, written
/// multiplicatively as in the thesis.
///
/// `decode` is the only conversion from bytes to an element. It refuses all forms except the
/// canonical one, all values outside the group, and the identity (GUARD-1). Secret exponents are
/// used only in `power`, `power_g` and `power_h`, which take constant time in a safe group
/// (GUARD-4).
pub trait Group: Clone {
    /// An element.
    type Element: Clone + PartialEq;
    /// An exponent modulo q; secret ones are wiped.
    type Scalar: Clone + PartialEq + Zeroize;

    /// Returns the name that the lab prints.
    fn name(&self) -> &str;

    /// Returns the bytes of an encoded element.
    fn element_bytes(&self) -> usize;

    /// Returns the bytes of an encoded scalar.
    fn scalar_bytes(&self) -> usize;

    /// Returns the generator g.
    fn g(&self) -> Self::Element;

    /// Returns the second generator h.
    fn h(&self) -> Self::Element;

    /// Reads the canonical form of an element other than the identity.
    ///
    /// # Errors
    /// [`GroupError::Element`] for everything else.
    fn decode(&self, bytes: &[u8]) -> Result<Self::Element, GroupError>;

    /// Encodes an element in its canonical form of [`element_bytes`](Self::element_bytes) bytes.
    fn encode(&self, element: &Self::Element) -> Vec<u8>;

    /// Returns true if the element is the identity.
    fn is_identity(&self, element: &Self::Element) -> bool;

    /// Multiplies two elements.
    fn multiply(&self, a: &Self::Element, b: &Self::Element) -> Self::Element;

    /// Inverts an element.
    fn invert(&self, element: &Self::Element) -> Self::Element;

    /// Raises `base` to the power of `exponent`.
    fn power(&self, base: &Self::Element, exponent: &Self::Scalar) -> Self::Element;

    /// Raises g to the power of `exponent`.
    fn power_g(&self, exponent: &Self::Scalar) -> Self::Element {
        self.power(&self.g(), exponent)
    }

    /// Raises h to the power of `exponent`.
    fn power_h(&self, exponent: &Self::Scalar) -> Self::Element {
        self.power(&self.h(), exponent)
    }

    /// Draws a scalar uniformly from 1 to q - 1, for coins that are factors.
    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> Self::Scalar;

    /// Draws a scalar uniformly from 0 to q - 1, for coins that are added.
    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> Self::Scalar;

    /// Reads a scalar below q.
    ///
    /// # Errors
    /// [`GroupError::Scalar`] for q and above, and for another length (GUARD-2).
    fn decode_scalar(&self, bytes: &[u8]) -> Result<Self::Scalar, GroupError>;

    /// Encodes a scalar in fixed width (GUARD-5).
    fn encode_scalar(&self, scalar: &Self::Scalar) -> Vec<u8>;

    /// Adds two scalars modulo q.
    fn add_scalars(&self, a: &Self::Scalar, b: &Self::Scalar) -> Self::Scalar;

    /// Multiplies two scalars modulo q.
    fn multiply_scalars(&self, a: &Self::Scalar, b: &Self::Scalar) -> Self::Scalar;

    /// Inverts a scalar modulo q. Returns `None` for 0, or if there is no inverse.
    fn invert_scalar(&self, scalar: &Self::Scalar) -> Option<Self::Scalar>;

    /// Checks that an element is not the identity.
    ///
    /// # Errors
    /// [`GroupError::Element`] if it is.
    fn check_proper(&self, element: &Self::Element) -> Result<(), GroupError> {
        if self.is_identity(element) { Err(GroupError::Element) } else { Ok(()) }
    }
}

/// A value that a blind guard changes on its way: C1, C2, X, Y, r, s and the elements of El-Gamal.
///
/// The two ends see different values, so no authenticated or derived value may depend on one
/// (GUARD-9). There is no `AsRef<[u8]>`, and only messages can be encoded. Keys are derived from a
/// [`SharedElement`] only.
///
/// ```compile_fail
/// use mezza_guard::{Group, Ristretto, ViewDependent, keys};
/// let group = Ristretto::new();
/// let seen = ViewDependent::new(group.g());
/// keys::lab_key(&group, &seen); // only a `SharedElement` is hashed
/// ```
///
/// ```compile_fail
/// use mezza_guard::ViewDependent;
/// fn hash(bytes: impl AsRef<[u8]>) {}
/// hash(ViewDependent::new([0_u8; 32]));
/// ```
#[derive(Clone, PartialEq)]
pub struct ViewDependent<T>(T);

impl<T> ViewDependent<T> {
    /// Marks a value as dependent on the observer.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value that this end sees, for computing with it, never for hashing it.
    pub const fn seen(&self) -> &T {
        &self.0
    }
}

impl<T> Debug for ViewDependent<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ViewDependent")
    }
}

/// The element that both ends compute, from which keys are derived.
pub struct SharedElement<G: Group>(G::Element);

impl<G: Group> SharedElement<G> {
    /// Raises `their` to the power of our exponent.
    ///
    /// # Errors
    /// [`GroupError::Element`] if the peer's element, and with it the result, is the identity.
    pub fn agree(group: &G, their: &G::Element, exponent: &G::Scalar) -> Result<Self, GroupError> {
        let shared = group.power(their, exponent);
        // The result is checked; it is the identity exactly if the peer's element was.
        group.check_proper(&shared)?;
        Ok(Self(shared))
    }

    /// Encodes the canonical form, for key derivation.
    pub(crate) fn encode(&self, group: &G) -> Vec<u8> {
        group.encode(&self.0)
    }
}

impl<G: Group> Debug for SharedElement<G> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SharedElement")
    }
}
