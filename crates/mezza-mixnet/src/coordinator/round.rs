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

/// A round under way.
pub(super) struct Round {
    pub id: RoundId,
    pub config: [u8; 32],
    /// Mixes that raised an alarm.
    pub alarmed: BTreeSet<u8>,
    /// The identities of the mixes.
    pub mixes: Vec<VerifyKey>,
    pub policy: ServicePolicy,
    /// The index of the policy in the config.
    pub index: u16,
    pub users_max: u32,
    /// When the settings go out, when onions are no longer taken, when it must be over.
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
    /// For the keys of the mixes.
    Asking(Vec<Option<[u8; 32]>>),
    /// For their signatures.
    Signing(Settings, Vec<Option<Signature>>),
    /// For the time to announce it.
    Agreed(SignedSettings),
    /// For onions, until it closes.
    Announced(SignedSettings, Submissions),
    /// For replies.
    Mixing(Submissions, Vec<u8>),
    /// For the bucket store.
    Fetching(Submissions, BucketDownload),
}

snapshot!(enum RoundState [
    Asking(a), Signing(a, b), Agreed(a), Announced(a, b), Mixing(a, b), Fetching(a, b),
]);

/// The onions of a round and whose they are.
#[derive(Default)]
pub(super) struct Submissions {
    pub onions: Vec<u8>,
    /// In the order of the onions.
    pub owners: Vec<ConnectionId>,
    /// The same, to find a second SUBMIT.
    pub submitted: BTreeSet<ConnectionId>,
}

snapshot!(struct Submissions { onions, owners, submitted });

impl Round {
    /// The round of a config's service; `None` if there is no such service or time.
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

    /// When something is due.
    pub const fn deadline(&self) -> Time {
        match self.stage {
            RoundState::Asking(_) | RoundState::Signing(..) | RoundState::Agreed(_) => {
                self.announce
            }
            RoundState::Announced(..) => self.close,
            RoundState::Mixing(..) | RoundState::Fetching(..) => self.end,
        }
    }

    /// Bytes of one client's onions.
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

    /// The signed end of this round.
    pub fn sign_abort(&self, signer: &Signer, reason: AbortReason) -> Frame {
        let bytes = abort_bytes(&self.config, self.id, COORDINATOR, reason);
        let signature = signer.sign(Purpose::Abort, &[&bytes]);
        Frame::Round(self.id, FrameBody::Abort { position: COORDINATOR, reason, signature })
    }

    /// Returns the frames to its clients when it is aborted.
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
