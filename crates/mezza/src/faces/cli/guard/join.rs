//! `mezza guard join` and `leave`: the device's side of a pairing with a guard.

use serde_json::json;
use zeroize::Zeroizing;

use crate::faces::cli::CliContext;
use crate::faces::cli::args::GuardJoinArgs;
use crate::faces::cli::link::with_port;
use mezza_guard::keys::PairingKey;
use mezza_host::api::json::GuardJoinRequest;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

use super::CODE_BYTES_MAX;

/// The port of guards.
const PORT: u16 = 4_797;

/// Joins a guard through the running node.
///
/// # Errors
/// Exit code 65 for a mistyped code, 77 if the code cannot be typed or its file is open to others,
/// 69 without a running node.
pub(super) fn join_guard(context: &CliContext, asked: &GuardJoinArgs) -> Result<Exit, Fault> {
    if asked.address.trim().is_empty() {
        let text = "the address of the guard is empty";
        return Err(Fault::new(Exit::Usage, text, "write it as HOST or HOST:PORT"));
    }
    let client = context.client()?;
    let code = read_code(asked)?;
    // A typing error is found before anything is sent.
    PairingKey::from_code(&code).map_err(|error| {
        let next = "run `mezza guard pair` on the guard for another code";
        Fault::new(Exit::Malformed, error.to_string(), next)
    })?;
    let address = with_port(&asked.address, PORT);
    let request = GuardJoinRequest { address: address.clone(), code: code.as_str().to_owned() };
    let joined = client.act_with("POST", "/v1/guard/join", &request);
    drop(Zeroizing::new(request.code));
    joined?;
    let value = json!({ "event": "joined", "address": address });
    context.out.print_either(
        &value,
        format!(
            "the guard at {address} is used for contacts with a destination; the first link through it proves \
             the code\nnext: `mezza set NAME --guard-dest N`, with the number of `mezza guard dest add`"
        ),
    );
    Ok(Exit::Done)
}

/// Leaves the guard through the running node.
///
/// # Errors
/// Exit code 1 if no guard is joined, 69 without a running node.
pub(super) fn leave_guard(context: &CliContext) -> Result<Exit, Fault> {
    context.client()?.act("POST", "/v1/guard/leave")?;
    let text = "no guard is used any more; contacts with a destination are not dialled until you join one again\n\
                next: `mezza set NAME --guard-dest none` reaches a contact without a guard";
    context.out.print_either(&json!({ "event": "left" }), text);
    Ok(Exit::Done)
}

fn read_code(asked: &GuardJoinArgs) -> Result<Zeroizing<String>, Fault> {
    let Some(path) = &asked.code_file else {
        let typed = rpassword::prompt_password("code of the guard: ").map_err(|_| {
            let next = "put the code into a file of mode 0600 and name it with `--code-file FILE`";
            Fault::new(Exit::Denied, "there is no terminal to type the code on", next)
        })?;
        return Ok(Zeroizing::new(typed));
    };
    let bytes = Zeroizing::new(private::read(path, CODE_BYTES_MAX)?);
    Ok(Zeroizing::new(std::str::from_utf8(&bytes).unwrap_or_default().to_owned()))
}
