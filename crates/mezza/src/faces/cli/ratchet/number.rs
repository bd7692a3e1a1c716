//! `mezza ratchet number`: safety numbers of any two identities.

use data_encoding::HEXLOWER;
use mezza_core::{Sha512, SuiteId};
use mezza_ratchet::IdentityKey;
use mezza_ratchet::safety::{self, NamedIdentity};
use serde_json::json;

use crate::faces::cli::args::NumberArgs;
use crate::faces::cli::show::Out;
use mezza_host::api::{Exit, Fault};

/// The version of Signal's scannable code.
const SIGNAL_VERSION: u32 = 2;

/// Returns the 60 digits of two identities in a suite, and the bytes of the code.
///
/// # Errors
/// If names are given for a suite that uses only identities.
pub(super) fn compute_number(
    suite: SuiteId,
    local: NamedIdentity<'_>,
    remote: NamedIdentity<'_>,
) -> Result<(String, Vec<u8>), String> {
    if !super::is_container(suite) {
        let digits = safety::signal_number::<Sha512>(local, remote);
        return Ok((digits, safety::signal_scannable::<Sha512>(SIGNAL_VERSION, local, remote)));
    }
    if !local.id.is_empty() || !remote.id.is_empty() {
        return Err("our own number takes the identities alone, without names".into());
    }
    Ok((safety::number(local.key, remote.key), safety::scannable_code(local.key, remote.key)))
}

/// Prints the number of two identities from the command line.
pub(super) fn print_number(out: Out, asked: &NumberArgs) -> Result<Exit, Fault> {
    let answer = || {
        let (local, here) = parse_party(&asked.local)?;
        let (remote, there) = parse_party(&asked.remote)?;
        let local = NamedIdentity { key: &local, id: here.as_bytes() };
        let remote = NamedIdentity { key: &remote, id: there.as_bytes() };
        compute_number(super::suite_id(asked.suite), local, remote)
    };
    let (digits, code) = answer().map_err(|error: String| {
        let next = "write an identity as 64 hex digits, in signal-v3 with `:NAME` behind it";
        Fault::new(Exit::Malformed, error, next)
    })?;
    let code = HEXLOWER.encode(&code);
    out.print_value(&json!({ "number": digits, "scannable": code }));
    out.print_line(digits);
    if asked.scannable {
        out.print_line(code);
    }
    Ok(Exit::Done)
}

/// Parses `IK` or `IK:NAME`; the key with or without its type byte.
fn parse_party(text: &str) -> Result<(IdentityKey, &str), String> {
    let (key, name) = text.split_once(':').unwrap_or((text, ""));
    let bytes = HEXLOWER.decode(key.as_bytes());
    let bytes = bytes.map_err(|error| format!("an identity is no lower-case hex: {error}"))?;
    let key = bytes.strip_prefix(&[5]).filter(|key| key.len() == 32).unwrap_or(&bytes);
    let key = key.try_into().map_err(|_| "an identity does not have 32 bytes")?;
    let key =
        IdentityKey::decode(key).map_err(|error| format!("an identity is no key: {error}"))?;
    Ok((key, name))
}
