//! The heavy work of a client, as values: as in [`crate::job`], a job draws no chance and reads no
//! clock.

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

/// One piece of work of a client.
#[derive(Debug)]
pub enum ClientJob {
    /// Wraps the onions of a round: three scalar multiplications for each layer and slot.
    Wrap(WrapJob),
    /// Looks for own invitations among all of a bucket: a scalar multiplication for each.
    Open(OpenJob),
}

snapshot!(enum ClientJob [Wrap(a), Open(a)]);

/// The result of a job.
#[derive(Debug)]
pub enum ClientJobOutput {
    /// The onions.
    Wrap(Option<Submission>),
    /// The invitations that opened.
    Open(Vec<Invitation>),
}

/// See [`ClientJob::Wrap`].
#[derive(Debug)]
pub struct WrapJob {
    /// The round.
    pub id: RoundId,
    /// One layer for each mix, outermost first.
    pub layers: Vec<Layer>,
    /// The pair of the outermost layer of each slot.
    pub pairs: Vec<EphemeralKey>,
    /// The plaintexts of all slots.
    pub inner: Wiping<Vec<u8>>,
    /// Of the pairs of all other layers.
    pub seed: Secret<32>,
}

snapshot!(struct WrapJob { id, layers, pairs, inner, seed });

/// See [`ClientJob::Open`].
#[derive(Debug)]
pub struct OpenJob {
    /// The round.
    pub id: RoundId,
    /// The dialling key.
    pub own: StaticKey,
    /// The object of the bucket.
    pub object: Vec<u8>,
}

snapshot!(struct OpenJob { id, own, object });

impl ClientJob {
    /// Does the work, which uses up the pairs of the job. What it left on the stack is
    /// overwritten.
    pub fn run<B: Backend>(&mut self, kernel: &dyn Kernel) -> ClientJobOutput {
        let done = match self {
            Self::Wrap(job) => {
                // The seed travels in the job, so that running the job twice gives equal bytes.
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
                // A malformed object holds no invitation for us. The manifest proves that the last
                // mix made it so.
                let all = split_invitations(&job.object).unwrap_or_default();
                let open = |sealed| Invitation::open::<B>(&job.own, sealed, job.id.round);
                ClientJobOutput::Open(all.iter().filter_map(open).collect())
            }
        };
        // Scalars and shared secrets of this call may still lie on the stack of the worker thread.
        mezza_lanes::wipe_stack();
        done
    }

    /// The round that the job belongs to.
    pub const fn id(&self) -> RoundId {
        match self {
            Self::Wrap(job) => job.id,
            Self::Open(job) => job.id,
        }
    }
}
