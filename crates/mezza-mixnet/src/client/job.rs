//! The expensive work of a client as values. As in [`crate::job`], a job uses no random source and
//! no clock.

use alloc::vec::Vec;

use mezza_core::{Backend, EphemeralKey, Secret, StaticKey, Wiping, snapshot};
use mezza_lanes::Kernel;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{Submission, wrap_slots};
use crate::RoundId;
use crate::onion::Layer;
use crate::wire::bucket::split_invitations;
use crate::wire::invitation::Invitation;

/// One unit of expensive work.
#[derive(Debug)]
pub enum ClientJob {
    /// Wraps the onions of a round: three scalar multiplications for each layer and slot.
    Wrap(WrapJob),
    /// Tries to open all invitations of a bucket: one scalar multiplication each.
    Open(OpenJob),
}

snapshot!(enum ClientJob [Wrap(a), Open(a)]);

/// The result of a job.
#[derive(Debug)]
pub enum ClientJobOutput {
    /// The wrapped onions; `None` if the number of pairs was wrong.
    Wrap(Option<Submission>),
    /// The invitations that opened.
    Open(Vec<Invitation>),
}

/// Input of [`ClientJob::Wrap`].
#[derive(Debug)]
pub struct WrapJob {
    /// The round of the job.
    pub id: RoundId,
    /// One layer for each mix, outermost first.
    pub layers: Vec<Layer>,
    /// The key pairs of the outermost layer, one per slot.
    pub pairs: Vec<EphemeralKey>,
    /// The plaintexts of all slots.
    pub inner: Wiping<Vec<u8>>,
    /// Seed for the key pairs of all inner layers.
    pub seed: Secret<32>,
}

snapshot!(struct WrapJob { id, layers, pairs, inner, seed });

/// Input of [`ClientJob::Open`].
#[derive(Debug)]
pub struct OpenJob {
    /// The round of the job.
    pub id: RoundId,
    /// Our private dialling key.
    pub own: StaticKey,
    /// The content of the bucket.
    pub object: Vec<u8>,
}

snapshot!(struct OpenJob { id, own, object });

impl ClientJob {
    /// Runs the job, which consumes its key pairs. Secrets left on the stack are overwritten.
    pub fn run<B: Backend>(&mut self, kernel: &dyn Kernel) -> ClientJobOutput {
        let done = match self {
            Self::Wrap(job) => {
                // The seed is part of the job, so running it twice gives equal bytes.
                let mut rng = ChaCha20Rng::from_seed(*job.seed.expose());
                let pairs = core::mem::take(&mut job.pairs);
                ClientJobOutput::Wrap(wrap_slots::<B>(
                    kernel,
                    &job.layers,
                    pairs,
                    &job.inner,
                    &mut rng,
                ))
            }
            Self::Open(job) => {
                // A malformed bucket contains no invitation for us. The manifest proves that the
                // last mix created it.
                let all = split_invitations(&job.object).unwrap_or_default();
                let open = |sealed| Invitation::open::<B>(&job.own, sealed, job.id.round);
                ClientJobOutput::Open(all.iter().filter_map(open).collect())
            }
        };
        // Scalars and shared secrets of this call may still be on the stack of the worker thread.
        mezza_lanes::wipe_stack();
        done
    }

    /// Returns the round of the job.
    pub const fn id(&self) -> RoundId {
        match self {
            Self::Wrap(job) => job.id,
            Self::Open(job) => job.id,
        }
    }
}
