//! Groups of prime order as values: variants and firewalls are generic over [`Group`], because the
//! lab hands a modulus in when it runs.

mod ristretto;

pub use ristretto::Ristretto;
pub(crate) use ristretto::reduce_wide;

use alloc::vec::Vec;
use core::fmt::Debug;

use mezza_core::CryptoRng;
use zeroize::Zeroize;

use crate::error::GroupError;

/// A cyclic group of order q with two generators g and h whose relation nobody knows, written
/// multiplicatively as the thesis has it.
///
/// `decode` is the only way from bytes to an element: it refuses every form but the canonical one,
/// every value outside the group, and the identity (GUARD-1). Secret exponents go through `power`,
/// `power_g` and `power_h` alone, which take constant time in a group that is safe (GUARD-4).
pub trait Group: Clone {
    /// An element.
    type Element: Clone + PartialEq;
    /// An exponent modulo q; wiped where it is secret.
    type Scalar: Clone + PartialEq + Zeroize;

    /// The name that the lab prints.
    fn name(&self) -> &str;

    /// Bytes of an encoded element.
    fn element_bytes(&self) -> usize;

    /// Bytes of an encoded scalar.
    fn scalar_bytes(&self) -> usize;

    /// The generator g.
    fn g(&self) -> Self::Element;

    /// The second generator h.
    fn h(&self) -> Self::Element;

    /// Reads the canonical form of an element other than the identity.
    ///
    /// # Errors
    /// [`GroupError::Element`] for everything else.
    fn decode(&self, bytes: &[u8]) -> Result<Self::Element, GroupError>;

    /// The canonical form, [`element_bytes`](Self::element_bytes) long.
    fn encode(&self, element: &Self::Element) -> Vec<u8>;

    /// Returns true if this is the identity.
    fn is_identity(&self, element: &Self::Element) -> bool;

    /// The product of two elements.
    fn multiply(&self, a: &Self::Element, b: &Self::Element) -> Self::Element;

    /// The inverse of an element.
    fn invert(&self, element: &Self::Element) -> Self::Element;

    /// `base` to the power of `exponent`.
    fn power(&self, base: &Self::Element, exponent: &Self::Scalar) -> Self::Element;

    /// g to the power of `exponent`.
    fn power_g(&self, exponent: &Self::Scalar) -> Self::Element {
        self.power(&self.g(), exponent)
    }

    /// h to the power of `exponent`.
    fn power_h(&self, exponent: &Self::Scalar) -> Self::Element {
        self.power(&self.h(), exponent)
    }

    /// A scalar drawn uniformly from 1 to q - 1: the coins that multiply.
    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> Self::Scalar;

    /// A scalar drawn uniformly from 0 to q - 1: the coins that are added.
    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> Self::Scalar;

    /// Reads a scalar below q.
    ///
    /// # Errors
    /// [`GroupError::Scalar`] for q and above, and for another length (GUARD-2).
    fn decode_scalar(&self, bytes: &[u8]) -> Result<Self::Scalar, GroupError>;

    /// The fixed-width form of a scalar (GUARD-5).
    fn encode_scalar(&self, scalar: &Self::Scalar) -> Vec<u8>;

    /// a + b modulo q.
    fn add_scalars(&self, a: &Self::Scalar, b: &Self::Scalar) -> Self::Scalar;

    /// a b modulo q.
    fn multiply_scalars(&self, a: &Self::Scalar, b: &Self::Scalar) -> Self::Scalar;

    /// The inverse modulo q of a scalar that is not 0; `None` where there is none.
    fn invert_scalar(&self, scalar: &Self::Scalar) -> Option<Self::Scalar>;

    /// [`GroupError::Element`] if this is the identity.
    ///
    /// # Errors
    /// As said.
    fn check_proper(&self, element: &Self::Element) -> Result<(), GroupError> {
        if self.is_identity(element) { Err(GroupError::Element) } else { Ok(()) }
    }
}

/// A value that a blind guard changes on its way: C1, C2, X, Y, r, s and the elements of El-Gamal.
///
/// Both ends see different values, so nothing that is authenticated or derived may depend on one
/// (GUARD-9). There is no `AsRef<[u8]>` and no serialisation but that of a message; keys are derived
/// from a [`SharedElement`] alone.
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
    /// Marks a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the element that this observer sees: for computing with it, never for hashing it.
    pub const fn seen(&self) -> &T {
        &self.0
    }
}

impl<T> Debug for ViewDependent<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ViewDependent")
    }
}

/// The element that both ends compute: what keys are derived from.
pub struct SharedElement<G: Group>(G::Element);

impl<G: Group> SharedElement<G> {
    /// `their` to the power of the own exponent; refuses the identity.
    ///
    /// # Errors
    /// [`GroupError::Element`] if the peer's element, and with it the result, is the identity.
    pub fn agree(group: &G, their: &G::Element, exponent: &G::Scalar) -> Result<Self, GroupError> {
        let shared = group.power(their, exponent);
        // Checked on the result, which is the identity exactly if the peer's element was.
        group.check_proper(&shared)?;
        Ok(Self(shared))
    }

    /// The canonical form, for key derivation.
    pub(crate) fn encode(&self, group: &G) -> Vec<u8> {
        group.encode(&self.0)
    }
}

impl<G: Group> Debug for SharedElement<G> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SharedElement")
    }
}
