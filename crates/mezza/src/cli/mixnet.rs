//! `mezza mixnet`: keys, configs and servers of a mixnet.

mod config;
mod load;
mod member;
mod privacy;
mod serve;

use data_encoding::HEXLOWER;
use serde_json::json;

use super::Desk;
use super::args::Mixnet;
use crate::exit::{Exit, Fault};
use crate::mixnet::key::Key;
use crate::rng::OsRng;

/// `mezza mixnet ..`
///
/// # Errors
/// What the command refuses; see each of them.
pub fn mixnet(desk: &Desk, what: &Mixnet) -> Result<Exit, Fault> {
    match what {
        Mixnet::Keygen { out } => {
            let public = HEXLOWER.encode(&Key::make(out, &mut OsRng)?.public());
            desk.out.either(&json!({ "key": public, "file": out }), &public);
            Ok(Exit::Done)
        }
        Mixnet::Config { what } => config::config(desk.out, what),
        Mixnet::Privacy(asked) => privacy::privacy(desk.out, asked),
        Mixnet::Entry(asked) => serve::entry(desk, asked),
        Mixnet::Mix(asked) => serve::mix(desk, asked),
        Mixnet::Bucket(asked) => serve::bucket(desk, asked),
        Mixnet::Join { link } => member::join(desk, link),
        Mixnet::Status => member::status(desk),
        Mixnet::Resume { .. } => member::resume(desk),
        Mixnet::Load(asked) => load::load(desk, asked),
    }
}
