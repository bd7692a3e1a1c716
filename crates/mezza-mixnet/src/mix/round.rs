//! One round at one mix.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Time, Wiping, snapshot};
use mezza_lanes::Scalar;

use super::Neighbour;
use crate::batch::{Permutation, SecretIndices};
use crate::config::ServicePolicy;
use crate::job::{Noise, NoiseKind, Trap};
use crate::keys::SecretVec;
use crate::onion::{Layer, Tables, Unwrapped};
use crate::service::{RoundId, reply_bytes};
use crate::sign::VerifyKey;
use crate::wire::{Items, Settings};

/// A round in progress.
pub(super) struct Round {
    pub id: RoundId,
    /// Hash of the config of the round.
    pub config: [u8; 32],
    /// Identity keys of the servers in that config.
    pub keys: Vec<VerifyKey>,
    pub coordinator: VerifyKey,
    pub policy: ServicePolicy,
    /// Most messages that an honest previous neighbour sends.
    pub batch_max: u64,
    pub position: u8,
    pub mixes: u8,
    pub deadline: Time,
    pub key: [u8; 32],
    pub stage: RoundState,
}

snapshot!(struct Round {
    id, config, keys, coordinator, policy, batch_max, position, mixes, deadline, key, stage,
});

/// The state of a round, by the event that it waits for.
pub(super) enum RoundState {
    /// Waits for the settings.
    Keyed(Arc<Scalar>),
    /// Waits for the durable number.
    Storing(Arc<Scalar>, Settings),
    /// Waits for onions, jobs and replies.
    Open(Box<OpenRound>),
    /// Waits for the bucket store.
    Publishing,
}

snapshot!(enum RoundState [
    Keyed(secret => *secret.expose()), Storing(secret => *secret.expose(), settings), Open(round),
    Publishing,
]);

/// The state of an open round.
pub(super) struct OpenRound {
    pub layers: Vec<Layer>,
    /// Removed as soon as the last onion is unwrapped.
    pub secret: Option<Arc<Scalar>>,
    pub noise: OwnNoise,
    pub incoming: Option<IncomingBatch>,
    pub leaving: Option<OutgoingBatch>,
    pub mixed: Option<MixedBatch>,
}

snapshot!(struct OpenRound {
    layers, secret => secret.as_ref().map(|secret| *secret.expose()), noise, incoming, leaving, mixed,
});

/// Our own noise.
pub(super) struct OwnNoise {
    /// Noise to be generated, in order; `None` before the tables are computed.
    pub plan: Option<Vec<NoiseKind>>,
    pub parts: BTreeMap<u32, Noise>,
    /// The tables, while jobs use them.
    pub tables: Option<Arc<Tables>>,
}

snapshot!(struct OwnNoise { plan, parts, tables });

impl OwnNoise {
    pub fn is_ready(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.len() == self.parts.len())
    }
}

/// The incoming batch.
pub(super) struct IncomingBatch {
    pub announced: u32,
    pub received: u32,
    pub ended: bool,
    /// Number of started jobs.
    pub jobs: u32,
    pub parts: BTreeMap<u32, Unwrapped>,
}

snapshot!(struct IncomingBatch { announced, received, ended, jobs, parts });

impl IncomingBatch {
    pub fn is_ready(&self) -> bool {
        self.ended && self.parts.len() == self.jobs as usize
    }
}

/// The outgoing batch: frames are sent in their order, whichever is ready first.
pub(super) struct OutgoingBatch {
    pub next: u32,
    pub frames: u32,
    pub count: u32,
    pub ready: BTreeMap<u32, Wiping<Items>>,
}

snapshot!(struct OutgoingBatch { next, frames, count, ready });

/// The state of a mixed batch, for its replies.
pub(super) struct MixedBatch {
    /// Indices of the forwarded onions in the input.
    pub kept: SecretIndices,
    pub order: Permutation,
    /// The reply key of each onion of the input.
    pub reply_keys: SecretVec,
    /// Traps by their index after the kept onions.
    pub traps: BTreeMap<u32, Trap>,
    pub caught: Vec<(Trap, Vec<u8>)>,
    /// Number of received replies.
    pub received: u32,
    pub ended: bool,
    /// Numbers of started and finished jobs.
    pub jobs: (u32, u32),
    /// Sealed replies as frames, in the order of the input.
    pub out: Vec<Wiping<Items>>,
    /// True for each finished reply.
    pub filled: Vec<bool>,
}

snapshot!(struct MixedBatch {
    kept, order, reply_keys, traps, caught, received, ended, jobs, out, filled,
});

impl MixedBatch {
    pub fn is_ready(&self) -> bool {
        self.ended && self.jobs.0 == self.jobs.1
    }

    pub fn forwarded_count(&self) -> u32 {
        self.order.len() as u32
    }
}

impl Round {
    /// Returns the bytes of an incoming onion.
    pub const fn onion_bytes(&self) -> usize {
        self.id.service.onion_bytes((self.mixes - self.position) as usize)
    }

    /// Returns the bytes of a reply from the next mix.
    pub const fn reply_bytes(&self) -> usize {
        reply_bytes((self.mixes - 1 - self.position) as usize)
    }

    pub const fn is_last(&self) -> bool {
        self.position + 1 == self.mixes
    }

    /// Returns true if this mix adds noise. Every mix does, except the last one in conversations.
    pub const fn has_noise(&self) -> bool {
        !(self.is_last() && self.id.service.has_replies())
    }

    /// Returns the neighbours that must learn that the round has ended.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> + use<> {
        // Links to the store transport no ABORT, so the store is left out.
        let next = (!self.is_last()).then_some(Neighbour::Next);
        [Neighbour::Previous, Neighbour::Coordinator].into_iter().chain(next)
    }

    /// Returns true if the round cannot succeed without this peer.
    pub fn needs_peer(&self, peer: Neighbour) -> bool {
        match peer {
            // Before publishing, the store has no part in the round, so its link may fail.
            Neighbour::Store => matches!(self.stage, RoundState::Publishing),
            Neighbour::Next => !self.is_last(),
            Neighbour::Previous | Neighbour::Coordinator => true,
        }
    }

    pub fn as_open(&mut self) -> Option<&mut OpenRound> {
        match &mut self.stage {
            RoundState::Open(open) => Some(open),
            RoundState::Keyed(_) | RoundState::Storing(..) | RoundState::Publishing => None,
        }
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            RoundState::Keyed(_) => "keyed",
            RoundState::Storing(..) => "storing",
            RoundState::Open(_) => "open",
            RoundState::Publishing => "publishing",
        };
        let mut shown = f.debug_struct(stage);
        shown.field("deadline", &self.deadline);
        if let RoundState::Open(open) = &self.stage {
            let incoming =
                open.incoming.as_ref().map(|i| (i.announced, i.received, i.ended, i.parts.len()));
            let mixed = open.mixed.as_ref().map(|m| (m.received, m.ended, m.jobs));
            shown.field("noise", &open.noise.parts.len());
            shown.field("incoming", &incoming).field("mixed", &mixed);
        }
        shown.finish_non_exhaustive()
    }
}
