//! A group of order 11: the squares modulo 23, each as the lesser of x and 23 - x. Small enough to go
//! through every choice of a device and every coin of a firewall.

use mezza_core::CryptoRng;
use mezza_guard::{Group, GroupError};

/// p = 2 q + 1.
const P: u64 = 23;
/// The order.
pub const Q: u64 = 11;

/// The quotient of the integers modulo 23 by plus and minus 1; g = 2, h = 3.
#[derive(Clone, Copy, Debug)]
pub struct Toy;

fn folded(x: u64) -> u64 {
    let x = x % P;
    x.min(P - x)
}

fn below(limit: u64, rng: &mut dyn CryptoRng) -> u64 {
    let mut bytes = [0; 8];
    rng.fill_bytes(&mut bytes);
    u64::from_be_bytes(bytes) % limit
}

impl Group for Toy {
    type Element = u64;
    type Scalar = u64;

    fn name(&self) -> &'static str {
        "toy"
    }

    fn element_bytes(&self) -> usize {
        1
    }

    fn scalar_bytes(&self) -> usize {
        1
    }

    fn g(&self) -> u64 {
        2
    }

    fn h(&self) -> u64 {
        3
    }

    fn decode(&self, bytes: &[u8]) -> Result<u64, GroupError> {
        match bytes {
            [x] if (2..=Q).contains(&u64::from(*x)) => Ok(u64::from(*x)),
            _ => Err(GroupError::Element),
        }
    }

    fn encode(&self, element: &u64) -> Vec<u8> {
        vec![u8::try_from(*element).expect("a small number")]
    }

    fn is_identity(&self, element: &u64) -> bool {
        *element == 1
    }

    fn multiply(&self, a: &u64, b: &u64) -> u64 {
        folded(a * b)
    }

    fn invert(&self, element: &u64) -> u64 {
        self.power(element, &(Q - 1))
    }

    fn power(&self, base: &u64, exponent: &u64) -> u64 {
        (0..*exponent).fold(1, |product, _| folded(product * base))
    }

    fn draw_nonzero(&self, rng: &mut dyn CryptoRng) -> u64 {
        1 + below(Q - 1, rng)
    }

    fn draw_scalar(&self, rng: &mut dyn CryptoRng) -> u64 {
        below(Q, rng)
    }

    fn decode_scalar(&self, bytes: &[u8]) -> Result<u64, GroupError> {
        match bytes {
            [x] if u64::from(*x) < Q => Ok(u64::from(*x)),
            _ => Err(GroupError::Scalar),
        }
    }

    fn encode_scalar(&self, scalar: &u64) -> Vec<u8> {
        self.encode(scalar)
    }

    fn add_scalars(&self, a: &u64, b: &u64) -> u64 {
        (a + b) % Q
    }

    fn multiply_scalars(&self, a: &u64, b: &u64) -> u64 {
        (a * b) % Q
    }

    fn invert_scalar(&self, scalar: &u64) -> Option<u64> {
        (1..Q).find(|x| x * scalar % Q == 1)
    }
}
