//! Expensive work as values: a job leaves a machine, runs anywhere, and returns with its result.
//!
//! A job uses no random source, no clock and no global state. Running it twice gives equal results,
//! and the order in which jobs end changes no output. Seeds are part of the job. A job that is
//! dropped wipes itself.
//!
//! | job | unit | gives |
//! |---|---|---|
//! | [`TableJob`] | one round | tables of the keys of later mixes |
//! | [`NoiseJob`] | up to 512 messages | noise, and the traps in it |
//! | [`UnwrapJob`] | one frame of onions, or a part of it | inner onions and reply keys |
//! | [`ShuffleJob`] | one batch | which onions go on, and an order for them and the noise |
//! | [`GatherJob`] | one frame of the output | the onions in it |
//! | [`MatchJob`] | one batch | a reply for each access of a dead drop |
//! | [`PublishJob`] | one batch | the objects of all buckets |
//! | [`SealJob`] | one frame of replies | the sealed replies |
//! | [`TrapJob`] | one round | whether a trap did not come back as it must |

mod batch;
mod gather;
mod noise;

pub use batch::{MatchJob, PublishJob, Replies, ShuffleJob, Shuffled};
pub use gather::{Batch, GatherJob};
pub use noise::{Noise, NoiseJob, NoiseKind, Trap, TrapJob};

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use mezza_core::{Wiping, snapshot};
use mezza_lanes::{Kernel, Scalar};

use crate::RoundId;
use crate::batch::SecretIndices;
use crate::keys::SecretVec;
use crate::onion::{self, Layer, Tables, Unwrapped};
use crate::wire::Items;

/// The round of a job, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId {
    /// The round of the job.
    pub id: RoundId,
    /// Index of the job's result among those of its kind.
    pub index: u32,
}

snapshot!(struct JobId { id, index });

/// One unit of expensive work.
#[derive(Debug)]
#[expect(missing_docs, reason = "the table of this module names them")]
pub enum Job {
    Table(TableJob),
    Noise(NoiseJob),
    Unwrap(UnwrapJob),
    Shuffle(ShuffleJob),
    Gather(GatherJob),
    Match(MatchJob),
    Publish(PublishJob),
    Seal(SealJob),
    Trap(TrapJob),
}

snapshot!(enum Job [
    Table(a), Noise(a), Unwrap(a), Shuffle(a), Gather(a), Match(a), Publish(a), Seal(a), Trap(a),
]);

/// The result of a job.
#[derive(Debug)]
#[expect(missing_docs, reason = "the table of this module names them")]
pub enum JobOutput {
    Table(Option<Tables>),
    Noise(Noise),
    Unwrap(Unwrapped),
    Shuffle(Shuffled),
    Gather(Wiping<Items>),
    Match(Replies),
    Publish(Vec<Vec<u8>>),
    Seal(Wiping<Vec<u8>>),
    Trap(bool),
}

/// The order in which jobs should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// A round waits for the job.
    Round,
    /// The job is done ahead of time.
    Background,
}

impl Job {
    /// Runs the job. Seeds and keys left on the stack are overwritten (MIX-14).
    pub fn run(&self, kernel: &dyn Kernel) -> JobOutput {
        let done = self.do_work(kernel);
        // The thread continues with other jobs, so keys must not stay on its stack (MIX-14).
        mezza_lanes::wipe_stack();
        done
    }

    fn do_work(&self, kernel: &dyn Kernel) -> JobOutput {
        match self {
            Self::Table(job) => JobOutput::Table(Tables::new(kernel, &job.layers)),
            Self::Noise(job) => JobOutput::Noise(job.run(kernel)),
            Self::Unwrap(job) => {
                let onions = job.onions();
                let size = job.size;
                JobOutput::Unwrap(onion::unwrap_layer(
                    kernel,
                    &job.secret,
                    &job.layer,
                    onions,
                    size,
                ))
            }
            Self::Shuffle(job) => JobOutput::Shuffle(job.run()),
            Self::Gather(job) => JobOutput::Gather(Wiping::new(job.run())),
            Self::Match(job) => JobOutput::Match(job.run()),
            Self::Publish(job) => JobOutput::Publish(job.run()),
            Self::Seal(job) => {
                let sealed = onion::seal_replies(kernel, &job.reply_keys, &job.replies, job.size);
                JobOutput::Seal(Wiping::new(sealed))
            }
            Self::Trap(job) => JobOutput::Trap(job.run(kernel)),
        }
    }

    /// Returns the round of the job.
    pub const fn id(&self) -> RoundId {
        match self {
            Self::Table(job) => job.id,
            Self::Noise(job) => job.ticket.id,
            Self::Unwrap(job) => job.ticket.id,
            Self::Shuffle(job) => job.id,
            Self::Gather(job) => job.ticket.id,
            Self::Match(job) => job.id,
            Self::Publish(job) => job.id,
            Self::Seal(job) => job.ticket.id,
            Self::Trap(job) => job.id,
        }
    }

    /// Returns the urgency of the job.
    pub const fn urgency(&self) -> Urgency {
        match self {
            // Noise is generated before the batch arrives, and an alarm may come after the round.
            Self::Table(_) | Self::Noise(_) | Self::Trap(_) => Urgency::Background,
            Self::Unwrap(_)
            | Self::Shuffle(_)
            | Self::Gather(_)
            | Self::Match(_)
            | Self::Publish(_)
            | Self::Seal(_) => Urgency::Round,
        }
    }
}

/// Computes the tables with which noise of one round is wrapped.
#[derive(Debug)]
pub struct TableJob {
    /// The round of the job.
    pub id: RoundId,
    /// The layers of the later mixes.
    pub layers: Vec<Layer>,
}

snapshot!(struct TableJob { id, layers });

/// Removes a layer from some onions.
#[derive(Debug)]
pub struct UnwrapJob {
    /// Number of the part of the batch.
    pub ticket: JobId,
    /// The secret scalar of the round.
    pub secret: Arc<Scalar>,
    /// The layer to remove.
    pub layer: Layer,
    /// The onions of a frame.
    pub frame: Arc<Wiping<Vec<u8>>>,
    /// The byte range of the onions in the frame.
    pub part: Range<usize>,
    /// Bytes of each onion.
    pub size: usize,
}

snapshot!(struct UnwrapJob { ticket, secret => *secret.expose(), layer, frame, part, size });

impl UnwrapJob {
    /// Returns the onions of this job.
    pub fn onions(&self) -> &[u8] {
        &self.frame[self.part.clone()]
    }
}

/// Seals some replies, each under the key of its onion.
#[derive(Debug)]
pub struct SealJob {
    /// Number of the frame of replies.
    pub ticket: JobId,
    /// A key for each reply.
    pub reply_keys: SecretVec,
    /// The replies to seal.
    pub replies: Wiping<Vec<u8>>,
    /// Bytes of each reply.
    pub size: usize,
    /// For each reply, the index of its onion in the batch.
    pub targets: SecretIndices,
}

snapshot!(struct SealJob { ticket, reply_keys, replies, size, targets });
