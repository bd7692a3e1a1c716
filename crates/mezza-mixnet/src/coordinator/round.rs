//! One round at the coordinator.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Time, snapshot};

use super::shelf::BucketDownload;
use super::{ConnectionId, Output};
use crate::RoundId;
use crate::config::{Config, ServicePolicy};
use crate::sign::{Purpose, Signature, Signer, VerifyKey};
use crate::wire::frame::{COORDINATOR, abort_bytes};
use crate::wire::{AbortReason, Frame, FrameBody, MissedReason, Settings, SignedSettings};

/// A round in progress.
pub(super) struct Round {
    pub id: RoundId,
    pub config: [u8; 32],
    /// Mixes that raised an alarm.
    pub alarmed: BTreeSet<u8>,
    /// Identity keys of the mixes.
    pub mixes: Vec<VerifyKey>,
    pub policy: ServicePolicy,
    /// The index of the policy in the config.
    pub index: u16,
    pub users_max: u32,
    /// Time of the settings; `close` is the end of collecting onions, and `end` the deadline of the
    /// round.
    pub announce: Time,
    pub open: Time,
    pub close: Time,
    pub end: Time,
    pub stage: RoundState,
}

snapshot!(struct Round {
    id, config, alarmed, mixes, policy, index, users_max, announce, open, close, end, stage,
});

/// The state of a round, by the event that it waits for.
pub(super) enum RoundState {
    /// Waits for the keys of the mixes.
    Asking(Vec<Option<[u8; 32]>>),
    /// Waits for the signatures of the mixes.
    Signing(Settings, Vec<Option<Signature>>),
    /// Waits for the time of the announcement.
    Agreed(SignedSettings),
    /// Collects onions until the round closes.
    Announced(SignedSettings, Submissions),
    /// Waits for replies.
    Mixing(Submissions, Vec<u8>),
    /// Waits for the bucket store.
    Fetching(Submissions, BucketDownload),
}

snapshot!(enum RoundState [
    Asking(a), Signing(a, b), Agreed(a), Announced(a, b), Mixing(a, b), Fetching(a, b),
]);

/// The onions of a round and their owners.
#[derive(Default)]
pub(super) struct Submissions {
    pub onions: Vec<u8>,
    /// The owners, in the order of the onions.
    pub owners: Vec<ConnectionId>,
    /// The owners as a set, for finding a second SUBMIT.
    pub submitted: BTreeSet<ConnectionId>,
}

snapshot!(struct Submissions { onions, owners, submitted });

impl Round {
    /// Creates a round of a config's service, or returns `None` if the service or the opening time
    /// does not exist.
    pub fn begin(id: RoundId, config: &Config) -> Option<Self> {
        let (index, policy) = config.find_policy(id.service)?;
        let open = policy.open_time(id.round)?;
        let close = open.plus_ms(policy.collect_ms.into());
        Some(Self {
            id,
            config: config.hash(),
            alarmed: BTreeSet::new(),
            mixes: config.mix_keys().copied().collect(),
            index,
            users_max: config.users_max,
            announce: open.minus_ms(policy.lead_ms.into()),
            open,
            close,
            end: close.plus_ms(policy.mix_limit_ms.into()),
            stage: RoundState::Asking(vec![None; config.mixes.len()]),
            policy: policy.clone(),
        })
    }

    /// Returns the time of the next step.
    pub const fn deadline(&self) -> Time {
        match self.stage {
            RoundState::Asking(_) | RoundState::Signing(..) | RoundState::Agreed(_) => {
                self.announce
            }
            RoundState::Announced(..) => self.close,
            RoundState::Mixing(..) | RoundState::Fetching(..) => self.end,
        }
    }

    /// Returns the bytes of one client's onions.
    pub fn submit_bytes(&self) -> usize {
        usize::from(self.policy.slots) * self.id.service.onion_bytes(self.mixes.len())
    }

    /// Returns the settings that all mixes must sign.
    pub fn build_settings(&self, keys: Vec<[u8; 32]>) -> Settings {
        Settings {
            config: self.config,
            id: self.id,
            collect_ms: self.policy.collect_ms,
            slots: self.policy.slots,
            buckets: self.policy.buckets,
            policy: self.index,
            keys,
        }
    }

    /// Returns the signed ABORT of this round.
    pub fn sign_abort(&self, signer: &Signer, reason: AbortReason) -> Frame {
        let bytes = abort_bytes(&self.config, self.id, COORDINATOR, reason);
        let signature = signer.sign(Purpose::Abort, &[&bytes]);
        Frame::Round(self.id, FrameBody::Abort { position: COORDINATOR, reason, signature })
    }

    /// Returns the MISSED frames to the clients of an aborted round.
    pub fn missed_frames(&self) -> impl Iterator<Item = Output> {
        let batch = match &self.stage {
            RoundState::Announced(_, batch)
            | RoundState::Mixing(batch, _)
            | RoundState::Fetching(batch, _) => Some(batch),
            RoundState::Asking(_) | RoundState::Signing(..) | RoundState::Agreed(_) => None,
        };
        let missed = Frame::Round(self.id, FrameBody::Missed(MissedReason::Aborted));
        let owners = batch.into_iter().flat_map(|batch| batch.owners.iter());
        owners.map(move |owner| Output::ToClient(*owner, missed.clone()))
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, count) = match &self.stage {
            RoundState::Asking(keys) => ("asking", keys.iter().flatten().count()),
            RoundState::Signing(_, signatures) => ("signing", signatures.iter().flatten().count()),
            RoundState::Agreed(_) => ("agreed", 0),
            RoundState::Announced(_, batch) => ("announced", batch.owners.len()),
            RoundState::Mixing(_, replies) => ("mixing", replies.len()),
            RoundState::Fetching(_, shelf) => ("fetching", shelf.byte_count()),
        };
        write!(f, "{stage}({count})")
    }
}
