//! The groups of integers modulo a safe prime.
#![expect(
    clippy::large_types_passed_by_value,
    clippy::unused_self,
    reason = "numbers of 384 bytes are the values here, and a product costs microseconds"
)]

use std::sync::Arc;

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{NonZero, Odd, U3072};
use mezza_core::CryptoRng;
use mezza_guard::keys::expand_label;
use mezza_guard::{Group, GroupError};
use zeroize::Zeroize;

use super::comb::PowerComb;
use super::montgomery::{Montgomery, Residue};
use super::{BYTES, group_15, number, order_of};

/// A value in crypto-bigint's form, for inverses and Jacobi symbols.
type Form = FixedMontyForm<{ U3072::LIMBS }>;
/// The label from which the second generator is expanded.
const H_LABEL: &[u8] = b"GUARD1-PEDERSEN-H-MODP";
/// Bytes of the expansion: 128 bits more than the modulus, so that the remainder is uniform.
const H_BYTES: usize = 400;

/// The choice of group for a safe prime p = 2 q + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The integers modulo p, with x and -x identified, of prime order q. An element is the smaller
    /// of x and p - x, so a comparison tests membership. g = 2.
    Safe,
    /// All integers modulo p, of order 2 q, g = 5. Every firewall leaves visible if an element is a
    /// square.
    Thesis,
}

/// A group modulo a safe prime of 3072 bits that is 7 modulo 8.
#[derive(Clone)]
pub struct Modp(Arc<Inner>);

struct Inner {
    profile: Profile,
    params: FixedMontyParams<{ U3072::LIMBS }>,
    field: Montgomery,
    q: NonZero<U3072>,
    order: NonZero<U3072>,
    g: U3072,
    h: U3072,
    /// Tables of g and h. Without tables every power takes the same time (the mode `uniform`).
    combs: Option<[PowerComb; 2]>,
}

/// An exponent and its maximum number of bits: short keys take less time.
#[derive(Clone, PartialEq)]
pub struct ModpScalar {
    value: U3072,
    bits: u32,
}

impl Zeroize for ModpScalar {
    fn zeroize(&mut self) {
        self.value.zeroize();
    }
}

impl Modp {
    /// Makes group 15 in a profile; `fast` adds tables of g and h.
    pub fn new(profile: Profile, fast: bool) -> Self {
        let p = group_15();
        let params = FixedMontyParams::new_vartime(p);
        let q = order_of(&p);
        let twice = NonZero::new(q.as_ref().shl_vartime(1)).unwrap_or(q);
        let (order, g) = match profile {
            Profile::Safe => (q, U3072::from_u64(2)),
            Profile::Thesis => (twice, U3072::from_u64(5)),
        };
        let h = fold_wide(&expand_label(H_LABEL, H_BYTES), &p);
        let h = if profile == Profile::Safe { fold_number(h, p.as_ref()) } else { h };
        let field = Montgomery::new(&params);
        let combs = fast.then(|| [&g, &h].map(|base| PowerComb::new(&field, base)));
        Self(Arc::new(Inner { profile, params, field, q, order, g, h, combs }))
    }

    /// Returns the modulus.
    pub fn p(&self) -> &Odd<U3072> {
        self.0.params.modulus()
    }

    /// Draws a key of 256 bits, as the thesis uses for plain Diffie-Hellman.
    pub fn draw_short(&self, rng: &mut dyn CryptoRng) -> ModpScalar {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        bytes[0] |= 0x80;
        ModpScalar { value: number(&bytes), bits: 256 }
    }

    #[cfg(test)]
    /// Returns true if an element is a square modulo p (Euler's criterion by the Jacobi symbol).
    pub fn is_square(&self, element: &U3072) -> bool {
        bool::from(Form::new(element, &self.0.params).jacobi_symbol_vartime().is_one())
    }

    fn finish(&self, residue: &Residue) -> U3072 {
        self.fold_residue(self.0.field.leave_form(residue))
    }

    fn fold_residue(&self, x: U3072) -> U3072 {
        match self.0.profile {
            Profile::Safe => fold_number(x, self.p().as_ref()),
            Profile::Thesis => x,
        }
    }

    fn scalar(&self, value: U3072) -> ModpScalar {
        ModpScalar { value, bits: U3072::BITS }
    }

    /// Computes a power of g or h, by table if there is one and the exponent has full length.
    fn power_fixed(&self, at: usize, exponent: &ModpScalar) -> U3072 {
        let Inner { field, combs, g, h, .. } = &*self.0;
        match combs {
            Some(combs) if exponent.bits == U3072::BITS => {
                self.finish(&combs[at].power(field, &exponent.value))
            }
            _ => self.power([g, h][at], exponent),
        }
    }
}

/// Returns the smaller of x and p - x.
fn fold_number(x: U3072, p: &U3072) -> U3072 {
    let other = p.wrapping_sub(&x);
    if x > other { other } else { x }
}

/// Reduces big-endian bytes, more than the modulus has, modulo p.
fn fold_wide(bytes: &[u8], p: &Odd<U3072>) -> U3072 {
    let p = p.as_nz_ref();
    bytes.chunks(16).fold(U3072::ZERO, |x, chunk| {
        let shift = U3072::ONE.shl_vartime(8 * chunk.len() as u32);
        x.mul_mod(&shift, p).add_mod(&number(chunk), p)
    })
}

/// Draws a uniform number of 384 bytes below `limit`; larger numbers are drawn again.
fn draw_below(limit: &NonZero<U3072>, rng: &mut dyn CryptoRng) -> U3072 {
    loop {
        let mut bytes = [0; BYTES];
        rng.fill_bytes(&mut bytes);
        let drawn = number(&bytes).shr_vartime(limit.as_ref().leading_zeros());
        bytes.zeroize();
        if drawn < *limit.as_ref() {
            return drawn;
        }
    }
}

impl Group for Modp {
    type Element = U3072;
    type Scalar = ModpScalar;

    fn name(&self) -> &'static str {
        match self.0.profile {
            Profile::Safe => "modp3072",
            Profile::Thesis => "modp3072-thesis",
        }
    }

    fn element_bytes(&self) -> usize {
        BYTES
    }

    fn scalar_bytes(&self) -> usize {
        BYTES
    }

    fn g(&self) -> U3072 {
        self.0.g
    }

    fn h(&self) -> U3072 {
        self.0.h
    }

    fn decode(&self, bytes: &[u8]) -> Result<U3072, GroupError> {
        if bytes.len() != BYTES {
            return Err(GroupError::Element);
        }
        let element = number(bytes);
        let most = match self.0.profile {
            Profile::Safe => *self.0.q.as_ref(),
            Profile::Thesis => self.p().as_ref().wrapping_sub(&U3072::ONE),
        };
        let is_member = element > U3072::ONE && element <= most;
        if is_member { Ok(element) } else { Err(GroupError::Element) }
    }

    fn encode(&self, element: &U3072) -> Vec<u8> {
        element.to_be_bytes().as_ref().to_vec()
    }

    fn is_identity(&self, element: &U3072) -> bool {
        *element == U3072::ONE
    }

    fn multiply(&self, a: &U3072, b: &U3072) -> U3072 {
        self.fold_residue(self.0.field.product(a, b))
    }

    fn invert(&self, element: &U3072) -> U3072 {
        let inverse = Form::new(element, &self.0.params).invert_vartime();
        inverse.into_option().map_or(U3072::ZERO, |inverse| self.fold_residue(inverse.retrieve()))
    }

    fn power(&self, base: &U3072, exponent: &ModpScalar) -> U3072 {
        let (field, ModpScalar { value, bits }) = (&self.0.field, exponent);
        self.finish(&field.power(&field.enter_form(base), value, *bits))
    }

    fn power_g(&self, exponent: &ModpScalar) -> U3072 {
        self.power_fixed(0, exponent)
    }

    fn power_h(&self, exponent: &ModpScalar) -> U3072 {
        self.power_fixed(1, exponent)
    }

    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> ModpScalar {
        loop {
            let drawn = draw_below(&self.0.order, rng);
            if drawn != U3072::ZERO {
                return self.scalar(drawn);
            }
        }
    }

    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> ModpScalar {
        self.scalar(draw_below(&self.0.order, rng))
    }

    fn decode_scalar(&self, bytes: &[u8]) -> Result<ModpScalar, GroupError> {
        if bytes.len() != BYTES || number(bytes) >= *self.0.order.as_ref() {
            return Err(GroupError::Scalar);
        }
        Ok(self.scalar(number(bytes)))
    }

    fn encode_scalar(&self, scalar: &ModpScalar) -> Vec<u8> {
        scalar.value.to_be_bytes().as_ref().to_vec()
    }

    fn add_scalars(&self, a: &ModpScalar, b: &ModpScalar) -> ModpScalar {
        self.scalar(a.value.add_mod(&b.value, &self.0.order))
    }

    fn multiply_scalars(&self, a: &ModpScalar, b: &ModpScalar) -> ModpScalar {
        self.scalar(a.value.mul_mod(&b.value, &self.0.order))
    }

    fn invert_scalar(&self, scalar: &ModpScalar) -> Option<ModpScalar> {
        let inverse = scalar.value.invert_mod(&self.0.order).into_option()?;
        Some(self.scalar(inverse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto_bigint::RandomMod as _;
    use mezza_guard::coins::Uniform;
    use mezza_guard::dh::DhParty;
    use mezza_guard::firewall::DhFirewall;
    use mezza_guard::{Firewall as _, Message};
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng as _;
    use sha2::{Digest as _, Sha256};

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(15)
    }

    fn digest(number: &U3072) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(number.to_be_bytes().as_ref()))
    }

    #[test]
    fn modulus_and_second_generator_are_those_of_the_design() {
        let group = Modp::new(Profile::Safe, false);
        assert_eq!(
            digest(group.p().as_ref()),
            "48cf8b092fbce4359d9871abf74f98e25b6163379eaa15cd9087e800c6d1c55c"
        );
        assert_eq!(
            data_encoding::HEXLOWER.encode(&expand_label(H_LABEL, 16)),
            "b6b94538914d0af57adb159020af886f"
        );
        assert_eq!(
            digest(&group.h()),
            "4bfa33289adc9c68caceb5df60cd4dbb80c64f33af2e916ea7c2f59575a1a7ba"
        );
    }

    #[test]
    fn slow_the_comb_gives_the_powers_of_the_library() {
        let fast = Modp::new(Profile::Safe, true);
        let plain = Modp::new(Profile::Safe, false);
        let mut rng = rng();
        let edges = [U3072::ZERO, U3072::ONE, fast.0.q.as_ref().wrapping_sub(&U3072::ONE)];
        let drawn = (0..3).map(|_| U3072::random_mod_vartime(&mut rng, &fast.0.q));
        for exponent in edges.into_iter().chain(drawn).map(|value| fast.scalar(value)) {
            assert!(fast.power_g(&exponent) == plain.power_g(&exponent));
            assert!(fast.power_h(&exponent) == plain.power_h(&exponent));
        }
    }

    #[test]
    fn membership_of_the_quotient_is_a_comparison() {
        let group = Modp::new(Profile::Safe, false);
        let p = *group.p().as_ref();
        let one = U3072::ONE;
        let bad = [
            U3072::ZERO,
            one,
            p,
            p.wrapping_sub(&one),
            p.wrapping_add(&one),
            U3072::MAX,
            p.wrapping_sub(&group.h()),
        ];
        for x in bad {
            assert_eq!(group.decode(&group.encode(&x)), Err(GroupError::Element));
        }
        for x in [U3072::from_u64(2), *group.0.q.as_ref(), group.h()] {
            assert!(group.decode(&group.encode(&x)).is_ok());
        }
        assert!(group.decode(&[1; 383]).is_err() && group.decode(&[0; 385]).is_err());
        assert!(group.decode_scalar(group.0.q.as_ref().to_be_bytes().as_ref()).is_err());
        // Exactly one of x and p - x is a square, so the quotient is isomorphic to the squares.
        let minus = p.wrapping_sub(&group.h());
        assert!(group.is_square(&group.h()) != group.is_square(&minus));
    }

    #[test]
    fn slow_both_profiles_agree_through_a_firewall() {
        let mut rng = rng();
        for profile in [Profile::Safe, Profile::Thesis] {
            let group = Modp::new(profile, false);
            let mut wall = DhFirewall::new(group.clone());
            let (alice, a) = DhParty::begin(&group, &mut Uniform, &mut rng);
            let (bob, b) = DhParty::begin(&group, &mut Uniform, &mut rng);
            let a = wall.change_outgoing(a, &mut rng).unwrap();
            let b = wall.change_incoming(b, &mut rng).unwrap();
            let (Message::Key(a), Message::Key(b)) = (a, b) else { panic!("keys") };
            assert_eq!(alice.finish(&group, b.seen()), bob.finish(&group, a.seen()));
        }
    }
}
