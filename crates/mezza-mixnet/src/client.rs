//! The steps of a client in one round: check the settings, choose the partners to serve, fill the
//! slots, wrap them, and read the replies.
//!
//! ```text
//! Announcement -check-> Checked -wrap-> onions, Keys -> SUBMIT .. RETURN -> open -> Access::answer
//! ```
//!
//! An idle slot takes the same steps as a busy one, with a random root instead of a contact's:
//! equal calls, equal lengths, and for the network equal bytes (MIX-22).
//!
//! [`machine`] contains [`Client`], which runs these steps round after round. [`record`] is the
//! form of the rows that it stores.

mod access;
mod checked;
mod contacts;
pub mod job;
pub mod machine;
pub mod record;
mod schedule;

pub use access::{Access, DropResult, NO_BUCKET, no_call, no_invitation, to_bucket};
pub use checked::{CheckedSettings, SettingsError};
pub use contacts::{ACTIVE_MAX, PartnerId};
pub use job::{ClientJob, ClientJobOutput};
pub use machine::{
    Client, ClientError, ClientOptions, Input, Invite, LiveLine, NewRoot, Output, ROW_BYTES_MAX,
    RefusedReason, RestoreError, RowFault, RowsSetAside, StartRounds, StreamMark,
};
pub use schedule::{FrameSchedule, ScheduledFrame, SendTime};

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Time, snapshot};
use mezza_lanes::Kernel;

use crate::config::ServicePolicy;
use crate::contact::DeadDrop;
use crate::keys::SecretVec;
use crate::noise::draw_below;
use crate::onion::{Layer, Multiply, wrap_one, wrap_onions as wrap_layers};

/// Longest time between sealing and sending, in milliseconds. A slow disk stores the record of the
/// round in this time, after earlier writes.
const SEAL_MS_MAX: u64 = 2_000;
/// Longest time between the last SUBMIT and the close, in milliseconds, for the travel of the
/// frame.
const TRAVEL_MS_MAX: u64 = 250;
/// Longest time between RETURN and GET, in milliseconds.
const FETCH_MS_MAX: u64 = 5_000;

/// The times of a round at one client. They are drawn when the settings are read, before it is
/// known whether any slot will be busy (MIX-74).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time at which the cells are sealed and the changes stored.
    pub seal: Time,
    /// Time at which the onions are sent, by the timer of the line.
    pub send: Time,
    /// Milliseconds between reading RETURN and requesting the bucket.
    pub fetch_ms: u64,
}

snapshot!(struct Timing { seal, send, fetch_ms });

impl Timing {
    /// Draws the times. `send` is uniform in [open + m, close - m] with m = min(250 ms, collect /
    /// 8). `seal` is w = min(2 s, collect / 2) before `send`, but not before `now`. `fetch_ms` is
    /// uniform in [0, min(5 s, collect / 2)].
    pub fn draw(policy: &ServicePolicy, open: Time, now: Time, rng: &mut dyn CryptoRng) -> Self {
        let collect = u64::from(policy.collect_ms);
        // A SUBMIT sent at the edge of the window could arrive after the close and cost the round.
        let margin = TRAVEL_MS_MAX.min(collect / 8).max(1);
        let draw = |max: u64, rng: &mut dyn CryptoRng| draw_below(u128::from(max) + 1, rng) as u64;
        // The draw does not depend on the content of the slots, so the times reveal nothing
        // (MIX-74).
        let send = open.plus_ms(margin + draw(collect - 2 * margin, rng));
        // The record must be durable before `send`, also on a disk that takes 250 ms for a sync.
        let seal = send.minus_ms(SEAL_MS_MAX.min(collect / 2)).max(now);
        Self { seal, send, fetch_ms: draw(FETCH_MS_MAX.min(collect / 2), rng) }
    }
}

/// Returns the indices of the meetings that a client serves in a round: the `slots` with the
/// largest turns, largest first. Both sides of a pair compute the same turn, so they need no
/// agreement. With a and b active contacts they meet in a fraction 1/(a+b-1) of the rounds for one
/// slot.
pub fn select_served(meetings: &[DeadDrop], slots: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..meetings.len()).collect();
    order.sort_by_key(|at| core::cmp::Reverse(meetings[*at].priority));
    // A pair meets only if both sides serve it, so both rank by the shared turn (MIX-85).
    order.truncate(slots);
    order
}

/// The onions of one client, and for each onion the keys of its reply, outermost first.
#[derive(Debug)]
pub struct Submission {
    /// Content of the SUBMIT frame.
    pub onions: Vec<u8>,
    /// One set of keys for each onion.
    pub reply_keys: Vec<SecretVec>,
}

snapshot!(struct Submission { onions, reply_keys });

/// Wraps one plaintext per slot in `layers`, outermost first. The caller supplies the key pairs of
/// the outermost layer, one per slot, and uses them for this call only. Returns `None` if their
/// number is wrong.
pub fn wrap_slots<B: Backend>(
    kernel: &dyn Kernel,
    layers: &[Layer],
    pairs: Vec<EphemeralKey>,
    inner: &[u8],
    rng: &mut dyn CryptoRng,
) -> Option<Submission> {
    let (outermost, behind) = layers.split_first()?;
    let size = outermost.id.service.innermost_bytes();
    // One pair too few would leave a slot without an onion, and the count of onions is fixed
    // (MIX-21).
    if pairs.is_empty() || pairs.len() * size != inner.len() {
        return None;
    }
    // The inner layers come first: the outermost layer seals what they produce.
    let wrapped = wrap_layers(kernel, Multiply::Ladders, behind, inner, size, rng);
    let body = inner.len() / size.max(1);
    let bytes = wrapped.onions.len() / body.max(1);
    let mut onions = Vec::with_capacity(outermost.id.service.onion_bytes(layers.len()) * body);
    let mut back = Vec::with_capacity(body);
    let slots = pairs.into_iter().zip(wrapped.onions.chunks_exact(bytes)).enumerate();
    for (slot, (pair, onion)) in slots {
        let public = *pair.public_key();
        // The round key was checked as a fixed point (MIX-6), so a zero secret means an error of
        // the caller.
        let shared = pair.diffie_hellman::<B>(&outermost.key).ok()?;
        let (whole, first) = wrap_one(kernel, outermost, &public, shared.expose(), onion);
        let mut keys = SecretVec::zeros(layers.len());
        keys[0] = first[0];
        for (key, layer) in keys[1..].iter_mut().zip(&wrapped.reply_keys) {
            *key = layer[slot];
        }
        onions.extend_from_slice(&whole);
        back.push(keys);
    }
    Some(Submission { onions, reply_keys: back })
}

#[cfg(test)]
mod tests;
