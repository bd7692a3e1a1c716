//! Our side of every comparison, as a program (`mezza-lab peer`) with the same line protocol as the
//! peers, so that all sides run in equal processes and environments.
//!
//! ```text
//! OP = WHO:OPERATION      WHO = rustcrypto aws-lc own                    the tables' primitives
//!                               hibe fosam                               envelopes; the paper's profile of them
//!                               fw                                       reverse firewalls
//!                               lanes                                    many inputs at once
//!                               seka                                     exchanges of a link
//!                               b2c20 v3 [-portable] b2c20-pq            a conversation
//!                               bare-b2c20 bare-v3 bare-paper bare-sig bare-kdf bare-aead
//! ```

mod aws_lc;
pub mod bare;
pub mod crowd;
pub mod device;
pub mod firewalls;
pub mod fosam;
pub mod hibe;
mod lanes;
pub mod mixes;
mod own;
pub mod plain;
pub mod seka;
pub mod talk;
mod variants;

use anyhow::{Context as _, Result};
use mezza::testing::backend::AwsLc;
use mezza_core::PortableBackend;
use mezza_ratchet::suite::paper::Paper;
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3};

use bare::Bare;
use mezza_lab_measuring::primitive::{self, Implementation};
use mezza_lab_measuring::rate::{self, Call};
use mezza_lab_measuring::rustcrypto;
use talk::MeasuredConversation;
use variants::{OnlyAead, OnlyKdf, OnlySig};

/// Responds to lines until the input ends.
///
/// # Errors
/// If standard input or output fails.
pub fn serve_lines() -> Result<()> {
    let version = concat!("mezzavoce ", env!("CARGO_PKG_VERSION"));
    let prepare =
        |op: &str, size, calls| prepare_call(op, size, calls).map_err(|e| format!("{e:#}"));
    Ok(rate::serve(version, &[], &prepare)?)
}

/// Prepares a batch of `calls` calls of `WHO:OPERATION` on `size` bytes.
///
/// # Errors
/// An unknown name, or a refusal of the library.
pub fn prepare_call(op: &str, size: usize, calls: usize) -> Result<Call> {
    let (who, op) = op
        .split_once(':')
        .with_context(|| format!("{op} names nobody; it must be WHO:OPERATION"))?;
    let of = |code: fn(&str) -> Option<Implementation>| {
        primitive::prepare(code, op, size, calls).with_context(|| format!("{who} has no {op}"))
    };
    match who {
        "rustcrypto" => of(rustcrypto::code),
        "aws-lc" => of(aws_lc::find_implementation),
        "own" => of(own::find_implementation),
        "fosam" => fosam::prepare_call(op, size),
        "hibe" => hibe::prepare_call(op, size),
        "fw" => firewalls::prepare_call(op),
        "lanes" => lanes::prepare_call(op, size),
        "seka" => seka::prepare_call(op),
        "b2c20" => device::prepare_call::<MeasuredConversation<B2c20, AwsLc>>(op, size, calls),
        "b2c20-portable" => {
            device::prepare_call::<MeasuredConversation<B2c20, PortableBackend>>(op, size, calls)
        }
        "v3" => device::prepare_call::<MeasuredConversation<V3, AwsLc>>(op, size, calls),
        "b2c20-pq" => device::prepare_call::<MeasuredConversation<B2c20Pq, AwsLc>>(op, size, calls),
        "v3-portable" => {
            device::prepare_call::<MeasuredConversation<V3, PortableBackend>>(op, size, calls)
        }
        "bare-b2c20" => device::prepare_call::<Bare<B2c20, AwsLc>>(op, size, calls),
        "bare-v3" => device::prepare_call::<Bare<V3, AwsLc>>(op, size, calls),
        "bare-paper" => device::prepare_call::<Bare<Paper, AwsLc>>(op, size, calls),
        "bare-sig" => device::prepare_call::<Bare<OnlySig, AwsLc>>(op, size, calls),
        "bare-kdf" => device::prepare_call::<Bare<OnlyKdf, AwsLc>>(op, size, calls),
        "bare-aead" => device::prepare_call::<Bare<OnlyAead, AwsLc>>(op, size, calls),
        _ => anyhow::bail!("nobody is called {who}"),
    }
}
