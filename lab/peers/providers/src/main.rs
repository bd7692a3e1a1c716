//! Primitives of ring, OpenSSL and RustCrypto behind the line protocol of the lab.

#[path = "../../../../crates/mezza-lab/src/ours/messages.rs"]
mod messages;
#[path = "../../../../crates/mezza-lab/src/ours/primitive.rs"]
mod primitive;
#[path = "../../../../crates/mezza-lab/src/rate.rs"]
mod rate;
mod ring_code;
#[path = "../../../../crates/mezza-lab/src/ours/rustcrypto.rs"]
mod rustcrypto;
#[cfg(feature = "openssl")]
mod openssl_code;

use std::io;

use primitive::Code;
use rate::Call;

fn main() -> io::Result<()> {
    rate::serve(&version(), &prepare)
}

/// `OP` is `PROVIDER:OPERATION`, or `ring:messages`: SIZE of them in a call.
fn prepare(op: &str, size: usize, calls: usize) -> Result<Call, String> {
    if op == "ring:messages" {
        return Ok(messages::seal(size, ring_code::message));
    }
    let (provider, primitive) = op.split_once(':').ok_or_else(|| format!("no provider in {op}"))?;
    let code: fn(&str) -> Option<Code> = match provider {
        "ring" => ring_code::code,
        "rustcrypto" => rustcrypto::code,
        #[cfg(feature = "openssl")]
        "openssl" => openssl_code::code,
        _ => return Err(format!("no provider {provider}")),
    };
    primitive::prepare(code, primitive, size, calls).ok_or_else(|| format!("{provider} has no {primitive}"))
}

#[cfg(feature = "openssl")]
fn version() -> String {
    format!("ring 0.17.14, {}", openssl::version::version())
}

#[cfg(not(feature = "openssl"))]
fn version() -> String {
    "ring 0.17.14, built without OpenSSL".to_owned()
}
