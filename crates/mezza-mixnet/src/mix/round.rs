//! One round at one mix.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Time, Wiping};
use mezza_lanes::Scalar;

use super::Peer;
use crate::batch::{Permutation, Places};
use crate::config::ServicePolicy;
use crate::job::{Kind, Noise, Trap};
use crate::keys::Keys;
use crate::onion::{Layer, Tables, Unwrapped};
use crate::service::{RoundId, reply_bytes};
use crate::sign::VerifyKey;
use crate::wire::{Items, Settings};

/// A round under way.
pub(super) struct Round {
    pub id: RoundId,
    /// The hash of the config it runs under.
    pub config: [u8; 32],
    /// The identities of that config.
    pub keys: Vec<VerifyKey>,
    pub coordinator: VerifyKey,
    pub policy: ServicePolicy,
    /// Most messages that an honest neighbour before sends.
    pub batch_max: u64,
    pub position: u8,
    pub mixes: u8,
    pub deadline: Time,
    pub key: [u8; 32],
    pub stage: Stage,
}

/// What a round waits for.
pub(super) enum Stage {
    /// For the settings.
    Keyed(Arc<Scalar>),
    /// For the disk.
    Storing(Arc<Scalar>, Settings),
    /// For onions, jobs and replies.
    Open(Box<Open>),
    /// For the bucket store.
    Publishing,
}

/// What an open round holds.
pub(super) struct Open {
    pub layers: Vec<Layer>,
    /// Gone as soon as the last onion is unwrapped.
    pub secret: Option<Arc<Scalar>>,
    pub noise: Own,
    pub incoming: Option<Incoming>,
    pub leaving: Option<Leaving>,
    pub mixed: Option<Mixed>,
}

/// Our own noise.
pub(super) struct Own {
    /// What is to be made, in order; unknown before the tables are there.
    pub plan: Option<Vec<Kind>>,
    pub parts: BTreeMap<u32, Noise>,
    /// The tables, while jobs use them.
    pub tables: Option<Arc<Tables>>,
}

impl Own {
    pub fn is_ready(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.len() == self.parts.len())
    }
}

/// The batch on its way in.
pub(super) struct Incoming {
    pub announced: u32,
    pub received: u32,
    pub ended: bool,
    /// Jobs handed out.
    pub jobs: u32,
    pub parts: BTreeMap<u32, Unwrapped>,
}

impl Incoming {
    pub fn is_ready(&self) -> bool {
        self.ended && self.parts.len() == self.jobs as usize
    }
}

/// The batch on its way out: frames leave in their order, whichever is ready first.
pub(super) struct Leaving {
    pub next: u32,
    pub frames: u32,
    pub count: u32,
    pub ready: BTreeMap<u32, Wiping<Items>>,
}

/// The batch on its way out and back.
pub(super) struct Mixed {
    /// Which of the onions that came in went on.
    pub kept: Places,
    pub order: Permutation,
    /// The reply key of each onion that came in.
    pub back: Keys,
    /// Traps by their place behind the kept onions.
    pub traps: BTreeMap<u32, Trap>,
    pub caught: Vec<(Trap, Vec<u8>)>,
    /// Replies that came back.
    pub received: u32,
    pub ended: bool,
    /// Jobs handed out, and those that came back.
    pub jobs: (u32, u32),
    /// Sealed replies, in the order of the onions that came in, as frames.
    pub out: Vec<Wiping<Items>>,
    /// Which of them are there.
    pub filled: Vec<bool>,
}

impl Mixed {
    pub fn is_ready(&self) -> bool {
        self.ended && self.jobs.0 == self.jobs.1
    }

    pub fn forwarded(&self) -> u32 {
        self.order.len() as u32
    }
}

impl Round {
    /// Bytes of the onions that come in.
    pub const fn onion_bytes(&self) -> usize {
        self.id.service.onion_bytes((self.mixes - self.position) as usize)
    }

    /// Bytes of the replies that come back from behind.
    pub const fn reply_bytes(&self) -> usize {
        reply_bytes((self.mixes - 1 - self.position) as usize)
    }

    pub const fn is_last(&self) -> bool {
        self.position + 1 == self.mixes
    }

    /// Whether this mix adds noise: every one does, but the last in conversations.
    pub const fn has_noise(&self) -> bool {
        !(self.is_last() && self.id.service.has_replies())
    }

    /// Who hears that the round is over.
    pub fn neighbours(&self) -> impl Iterator<Item = Peer> + use<> {
        let next = (!self.is_last()).then_some(Peer::Next);
        [Peer::Previous, Peer::Coordinator].into_iter().chain(next)
    }

    /// Whether the round cannot end well without this peer.
    pub fn needs(&self, peer: Peer) -> bool {
        match peer {
            Peer::Store => matches!(self.stage, Stage::Publishing),
            Peer::Next => !self.is_last(),
            Peer::Previous | Peer::Coordinator => true,
        }
    }

    pub fn open(&mut self) -> Option<&mut Open> {
        match &mut self.stage {
            Stage::Open(open) => Some(open),
            _ => None,
        }
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Keyed(_) => "keyed",
            Stage::Storing(..) => "storing",
            Stage::Open(_) => "open",
            Stage::Publishing => "publishing",
        };
        let mut shown = f.debug_struct(stage);
        shown.field("deadline", &self.deadline);
        if let Stage::Open(open) = &self.stage {
            let incoming =
                open.incoming.as_ref().map(|i| (i.announced, i.received, i.ended, i.parts.len()));
            let mixed = open.mixed.as_ref().map(|m| (m.received, m.ended, m.jobs));
            shown.field("noise", &open.noise.parts.len());
            shown.field("incoming", &incoming).field("mixed", &mixed);
        }
        shown.finish_non_exhaustive()
    }
}
