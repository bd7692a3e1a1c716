//! `mezza mixnet`: keys, configs and servers of a mixnet.

mod config;
mod load;
mod member;
mod privacy;
mod serve;

use std::path::Path;

use data_encoding::HEXLOWER;
use serde_json::json;

use super::args::MixnetCommand;
use super::{CliContext, show};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::rng::OsRng;
use mezza_servers::mixnet::key::ServerKey;

/// Makes a key, or reads one; prints its public half.
fn make_or_show_key(
    context: &CliContext,
    out: Option<&Path>,
    shown: Option<&Path>,
) -> Result<Exit, Fault> {
    let (file, key) = match (out, shown) {
        (Some(file), _) => (file, ServerKey::make(file, &mut OsRng)?),
        (None, Some(file)) => (file, ServerKey::load(file)?),
        (None, None) => return Err(Fault::bug("`keygen` without a file")),
    };
    let public = HEXLOWER.encode(&key.public());
    context.out.print_either(&json!({ "key": public, "file": show::format_path(file) }), &public);
    Ok(Exit::Done)
}

/// Runs `mezza mixnet ..`.
///
/// # Errors
/// The fault of the command; see each of them.
pub(crate) fn run_mixnet(context: &CliContext, what: &MixnetCommand) -> Result<Exit, Fault> {
    match what {
        MixnetCommand::Keygen { out, show } => {
            make_or_show_key(context, out.as_deref(), show.as_deref())
        }
        MixnetCommand::Config { what } => config::run_config(context.out, what),
        MixnetCommand::Privacy(asked) => privacy::show_privacy(context.out, asked),
        MixnetCommand::Entry(asked) => serve::run_entry(context, asked),
        MixnetCommand::Mix(asked) => serve::run_mix(context, asked),
        MixnetCommand::Bucket(asked) => serve::run_bucket(context, asked),
        MixnetCommand::Join { link } => member::join_network(context, link),
        MixnetCommand::Leave { yes } => member::leave_network(context, *yes),
        MixnetCommand::Status => member::show_status(context),
        MixnetCommand::Resume { .. } => member::resume_restored(context),
        MixnetCommand::Load(asked) => load::run_load(context, asked),
    }
}
