//! OpenSSL's `BN_mod_exp` with constant time, behind the line protocol of the lab.
//!
//! ```text
//! OP = powers-N BITS      N powers modulo RFC 3526 group 15, exponents of so many bits
//!      x25519             four operations: two public keys, two secrets
//! ```

use mezza_lab_measuring::rate::{self, Call};
use openssl::bn::{BigNum, BigNumContext, MsbOption};
use openssl::derive::Deriver;
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey};

/// Operations that it measures.
const OPS: &[&str] = &["powers-2", "x25519"];

fn main() -> std::io::Result<()> {
    let version = format!("{} BN_mod_exp, constant time", openssl::version::version());
    rate::serve(&version, OPS, &|op, size, _| {
        prepare_call(op, size).map_err(|error| error.to_string())
    })
}

fn prepare_call(op: &str, bits: usize) -> Result<Call, Box<dyn std::error::Error>> {
    if op == "x25519" {
        return Ok(Box::new(|_| run_x25519().expect("X25519")));
    }
    let count: usize = op.strip_prefix("powers-").ok_or("powers-N or x25519")?.parse()?;
    let p = BigNum::get_rfc3526_prime_3072()?;
    let mut exponent = BigNum::new()?;
    exponent.rand(i32::try_from(bits)?, MsbOption::ONE, false)?;
    exponent.set_const_time();
    let mut base = BigNum::new()?;
    base.rand(3_071, MsbOption::ONE, false)?;
    let mut context = BigNumContext::new()?;
    let mut power = BigNum::new()?;
    Ok(Box::new(move |_| {
        for _ in 0..count {
            power.mod_exp(&base, &exponent, &p, &mut context).expect("a power");
            std::hint::black_box(&power);
        }
    }))
}

/// Two keys, and the secret at both ends.
fn run_x25519() -> Result<(), ErrorStack> {
    let keys = [PKey::generate_x25519()?, PKey::generate_x25519()?];
    let publics = [keys[0].raw_public_key()?, keys[1].raw_public_key()?];
    for (key, their) in [(&keys[0], &publics[1]), (&keys[1], &publics[0])] {
        let their = PKey::public_key_from_raw_bytes(their, Id::X25519)?;
        let mut deriver = Deriver::new(key)?;
        deriver.set_peer(&their)?;
        std::hint::black_box(deriver.derive_to_vec()?);
    }
    Ok(())
}
