//! `mezza mixnet`: keys, configs and servers of a mixnet.

mod config;
mod load;
mod member;
mod privacy;
mod serve;

use data_encoding::HEXLOWER;
use serde_json::json;

use super::CliContext;
use super::args::MixnetCommand;
use crate::api::{Exit, Fault};
use crate::process::rng::OsRng;
use crate::servers::mixnet::key::ServerKey;

/// `mezza mixnet ..`
///
/// # Errors
/// What the command refuses; see each of them.
pub(crate) fn mixnet(context: &CliContext, what: &MixnetCommand) -> Result<Exit, Fault> {
    match what {
        MixnetCommand::Keygen { out } => {
            let public = HEXLOWER.encode(&ServerKey::make(out, &mut OsRng)?.public());
            context.out.either(&json!({ "key": public, "file": out }), &public);
            Ok(Exit::Done)
        }
        MixnetCommand::Config { what } => config::config(context.out, what),
        MixnetCommand::Privacy(asked) => privacy::privacy(context.out, asked),
        MixnetCommand::Entry(asked) => serve::entry(context, asked),
        MixnetCommand::Mix(asked) => serve::mix(context, asked),
        MixnetCommand::Bucket(asked) => serve::bucket(context, asked),
        MixnetCommand::Join { link } => member::join(context, link),
        MixnetCommand::Status => member::status(context),
        MixnetCommand::Resume { .. } => member::resume(context),
        MixnetCommand::Load(asked) => load::load(context, asked),
    }
}
