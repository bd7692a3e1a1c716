//! A group in which every power has a variable base, so that times are comparable to counts; it
//! also counts the powers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mezza_core::CryptoRng;
use mezza_guard::{Group, GroupError};

/// The number of powers of each kind.
#[derive(Default, Debug)]
pub struct PowerCounts {
    /// The number of powers of g.
    pub of_g: AtomicU32,
    /// The number of powers of h.
    pub of_h: AtomicU32,
    /// The number of other powers.
    pub other: AtomicU32,
}

impl PowerCounts {
    /// Returns the counts: g, h, others.
    #[cfg(test)]
    pub fn all(&self) -> [u32; 3] {
        [&self.of_g, &self.of_h, &self.other].map(|count| count.load(Ordering::Relaxed))
    }
}

/// A group without tables that counts powers.
#[derive(Clone)]
pub struct UniformGroup<G: Group> {
    inner: G,
    /// The counts of powers so far.
    pub counts: Arc<PowerCounts>,
}

impl<G: Group> UniformGroup<G> {
    /// Wraps a group in the mode `uniform`.
    pub fn new(inner: G) -> Self {
        Self { inner, counts: Arc::default() }
    }

    /// Returns the wrapped group.
    pub const fn inner(&self) -> &G {
        &self.inner
    }
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<G: Group> Group for UniformGroup<G> {
    type Element = G::Element;
    type Scalar = G::Scalar;

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn element_bytes(&self) -> usize {
        self.inner.element_bytes()
    }

    fn scalar_bytes(&self) -> usize {
        self.inner.scalar_bytes()
    }

    fn g(&self) -> G::Element {
        self.inner.g()
    }

    fn h(&self) -> G::Element {
        self.inner.h()
    }

    fn decode(&self, bytes: &[u8]) -> Result<G::Element, GroupError> {
        self.inner.decode(bytes)
    }

    fn encode(&self, element: &G::Element) -> Vec<u8> {
        self.inner.encode(element)
    }

    fn is_identity(&self, element: &G::Element) -> bool {
        self.inner.is_identity(element)
    }

    fn multiply(&self, a: &G::Element, b: &G::Element) -> G::Element {
        self.inner.multiply(a, b)
    }

    fn invert(&self, element: &G::Element) -> G::Element {
        self.inner.invert(element)
    }

    fn power(&self, base: &G::Element, exponent: &G::Scalar) -> G::Element {
        count(&self.counts.other);
        self.inner.power(base, exponent)
    }

    fn power_g(&self, exponent: &G::Scalar) -> G::Element {
        count(&self.counts.of_g);
        self.inner.power(&self.inner.g(), exponent)
    }

    fn power_h(&self, exponent: &G::Scalar) -> G::Element {
        count(&self.counts.of_h);
        self.inner.power(&self.inner.h(), exponent)
    }

    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> G::Scalar {
        self.inner.draw_nonzero(rng)
    }

    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> G::Scalar {
        self.inner.draw_scalar(rng)
    }

    fn decode_scalar(&self, bytes: &[u8]) -> Result<G::Scalar, GroupError> {
        self.inner.decode_scalar(bytes)
    }

    fn encode_scalar(&self, scalar: &G::Scalar) -> Vec<u8> {
        self.inner.encode_scalar(scalar)
    }

    fn add_scalars(&self, a: &G::Scalar, b: &G::Scalar) -> G::Scalar {
        self.inner.add_scalars(a, b)
    }

    fn multiply_scalars(&self, a: &G::Scalar, b: &G::Scalar) -> G::Scalar {
        self.inner.multiply_scalars(a, b)
    }

    fn invert_scalar(&self, scalar: &G::Scalar) -> Option<G::Scalar> {
        self.inner.invert_scalar(scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thesis::curve::FullCurve;
    use crate::thesis::listing::Listing;
    use mezza_guard::Ristretto;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng as _;

    /// Both ends of every listing agree, with the number of powers that the thesis counts.
    #[test]
    fn listings_agree_and_have_the_powers_that_they_say() {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let all = [
            (Listing::Dh, 0.0),
            (Listing::DhFirewall(1), 50.0),
            (Listing::DhFirewall(2), 100.0),
            (Listing::DhComm, 0.0),
            (Listing::CommBasic, 30.0),
            (Listing::CommFull, 60.0),
            (Listing::CommChecked, 80.0),
            (Listing::Eg, 0.0),
            (Listing::EgRerand, 50.0),
            (Listing::EgMaul, 75.0),
            (Listing::EgReMaul, 125.0),
        ];
        for (listing, overhead) in all {
            let group = UniformGroup::new(Ristretto::new());
            assert!(listing.run_once(&group, Group::draw_nonzero, &mut rng), "{listing:?}");
            assert_eq!(
                group.counts.all().iter().sum::<u32>(),
                listing.count_powers(),
                "{listing:?}"
            );
            assert!((listing.overhead_percent() - overhead).abs() < 1e-9);
            let curve = FullCurve::new();
            assert!(listing.run_once(&curve, Group::draw_nonzero, &mut rng), "{listing:?}");
        }
    }
}
