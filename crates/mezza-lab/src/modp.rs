//! Integers modulo a safe prime of 3072 bits as groups: the secure quotient, and the whole group as
//! in the thesis. Products and powers are our own code, the other arithmetic is crypto-bigint's.

mod comb;
mod group;
mod montgomery;
#[cfg(test)]
mod vectors;

pub use group::{Modp, Profile};

use crypto_bigint::{NonZero, Odd, U3072};

/// Bytes of an element and of a scalar.
pub const BYTES: usize = 384;

/// RFC 3526, group 15: 2^3072 - 2^3008 - 1 + 2^64 (floor(2^2942 pi) + 1690314). The formula leaves
/// no room for a trapdoor, and 2 is a square modulo the prime.
const RFC3526_GROUP_15: &str = "\
FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74\
020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437\
4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05\
98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB\
9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718\
3995497CEA956AE515D2261898FA051015728E5A8AAAC42DAD33170D04507A33\
A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7\
ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864\
D87602733EC86A64521F2B18177B200CBBE117577A615D6C770988C0BAD946E2\
08E24FA074E5AB3143DB5BFCE0FD108E4B82D120A93AD2CAFFFFFFFFFFFFFFFF";

/// Returns the modulus of group 15.
pub fn group_15() -> Odd<U3072> {
    Odd::<U3072>::from_be_hex(RFC3526_GROUP_15)
}

/// Returns q = (p - 1) / 2.
pub fn order_of(p: &Odd<U3072>) -> NonZero<U3072> {
    let q = p.as_ref().wrapping_sub(&U3072::ONE).shr_vartime(1);
    // p is odd and not 1, so q is not 0.
    NonZero::new(q).unwrap_or(NonZero::<U3072>::ONE)
}

/// Reads a big-endian number of at most 384 bytes.
pub fn number(bytes: &[u8]) -> U3072 {
    let mut wide = [0; BYTES];
    wide[BYTES - bytes.len()..].copy_from_slice(bytes);
    U3072::from_be_slice(&wide)
}
