//! Primitives of ring, OpenSSL and RustCrypto behind the line protocol of the lab.

#[cfg(feature = "openssl")]
mod openssl_code;
mod ring_code;

use std::io;

use mezza_lab_measuring::primitive::{self, Implementation};
use mezza_lab_measuring::rate::{self, Call};
use mezza_lab_measuring::{messages, rustcrypto};

/// Operations that it measures.
const OPS: &[&str] = &[
    "ring:sha512",
    "ring:chacha-seal",
    "ring:chacha-open",
    "ring:gcm-seal",
    "ring:gcm-open",
    "ring:messages",
    "rustcrypto:sha512",
    "rustcrypto:blake2b",
    "rustcrypto:chacha-seal",
    "rustcrypto:chacha-open",
    "rustcrypto:cbc-hmac-seal",
    "rustcrypto:cbc-hmac-open",
    #[cfg(feature = "openssl")]
    "openssl:sha512",
    #[cfg(feature = "openssl")]
    "openssl:blake2b",
    #[cfg(feature = "openssl")]
    "openssl:cbc-hmac-seal",
    #[cfg(feature = "openssl")]
    "openssl:cbc-hmac-open",
    #[cfg(feature = "openssl")]
    "openssl:chacha-seal",
    #[cfg(feature = "openssl")]
    "openssl:chacha-open",
    #[cfg(feature = "openssl")]
    "openssl:gcm-seal",
    #[cfg(feature = "openssl")]
    "openssl:gcm-open",
];

fn main() -> io::Result<()> {
    rate::serve(&library_version(), OPS, &prepare_call)
}

/// `OP` is `PROVIDER:OPERATION`, or `ring:messages`: SIZE of them in a call.
fn prepare_call(op: &str, size: usize, calls: usize) -> Result<Call, String> {
    if op == "ring:messages" {
        return Ok(messages::seal(size, ring_code::seal_message));
    }
    let (provider, primitive) = op.split_once(':').ok_or_else(|| format!("no provider in {op}"))?;
    let code: fn(&str) -> Option<Implementation> = match provider {
        "ring" => ring_code::find_implementation,
        "rustcrypto" => rustcrypto::code,
        #[cfg(feature = "openssl")]
        "openssl" => openssl_code::find_implementation,
        _ => return Err(format!("no provider {provider}")),
    };
    primitive::prepare(code, primitive, size, calls)
        .ok_or_else(|| format!("{provider} has no {primitive}"))
}

#[cfg(feature = "openssl")]
fn library_version() -> String {
    format!("ring 0.17.14, {}", openssl::version::version())
}

#[cfg(not(feature = "openssl"))]
fn library_version() -> String {
    "ring 0.17.14, built without OpenSSL".to_owned()
}
