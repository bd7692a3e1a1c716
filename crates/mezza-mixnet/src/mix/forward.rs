//! Incoming and outgoing batches.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;

use mezza_core::{Backend, CryptoRng, Secret, Wiping};

use super::backward::store_mixed;
use super::round::{IncomingBatch, OutgoingBatch, Round, RoundState};
use super::{Mix, MixError, Output, noise, send};
use crate::job::{
    Batch, Job, JobId, JobOutput, MatchJob, PublishJob, ShuffleJob, Shuffled, Trap, UnwrapJob,
};
use crate::onion::{Layer, Unwrapped};
use crate::service::{LAYER_BYTES, RoundId};
use crate::wire::{AbortReason, FrameBody, Items};

impl<B: Backend> Mix<B> {
    /// Handles a frame of the incoming batch. A violation of the rules ends the round.
    pub(super) fn on_batch_frame(
        &mut self,
        id: RoundId,
        body: FrameBody,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let job_items = self.setup.job_items;
        let round = self.find_round(id)?;
        let outcome = match body {
            FrameBody::BatchStart { count, size } => start_batch(round, count, usize::from(size)),
            FrameBody::Onions(items) => append_onions(round, items, job_items),
            FrameBody::BatchEnd { count } => end_batch(round, count),
            _ => return Err(MixError::Unexpected),
        };
        match outcome {
            Ok(jobs) => self.outputs.extend(jobs.into_iter().map(Output::Job)),
            // The round ends for all clients, because a partial batch must not be processed
            // (MIX-11).
            Err(reason) => self.abort_round(id, reason),
        }
        self.mix_if_ready(id, rng);
        Ok(())
    }

    /// Handles a job with its result. Data of a round that is over is wiped here.
    pub(super) fn on_done(
        &mut self,
        job: Job,
        done: JobOutput,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        match (job, done) {
            (Job::Table(job), JobOutput::Table(tables)) => self.on_tables(job.id, tables, rng),
            (Job::Noise(job), JobOutput::Noise(made)) => self.on_noise(job.ticket, made, rng),
            (Job::Unwrap(job), JobOutput::Unwrap(part)) => {
                let ticket = job.ticket;
                // The job contains the frame and the secret. It is dropped first, so that both are
                // wiped early (MIX-14).
                drop(job);
                self.on_unwrapped(ticket, part, rng)
            }
            (Job::Shuffle(job), JobOutput::Shuffle(shuffled)) => self.on_shuffled(&job, shuffled),
            (Job::Gather(job), JobOutput::Gather(items)) => self.on_gathered(job.ticket, items),
            (Job::Match(job), JobOutput::Match(replies)) => {
                self.on_matched(job.id, &job.parts, replies, rng)
            }
            (Job::Publish(job), JobOutput::Publish(objects)) => {
                self.publish_objects(job.id, &objects)
            }
            (Job::Seal(job), JobOutput::Seal(sealed)) => self.on_sealed(&job, &sealed, rng),
            (Job::Trap(job), JobOutput::Trap(failed)) => {
                if failed {
                    self.raise_alarm(&job);
                }
                Ok(())
            }
            _ => Err(MixError::Unasked),
        }
    }

    fn on_unwrapped(
        &mut self,
        ticket: JobId,
        part: Unwrapped,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let open = self.find_round(ticket.id)?.as_open().ok_or(MixError::Unasked)?;
        let incoming = open.incoming.as_mut().ok_or(MixError::Unasked)?;
        incoming.parts.insert(ticket.index, part);
        self.mix_if_ready(ticket.id, rng);
        Ok(())
    }

    /// Mixes the batch once all onions and all noise are there, and not before (MIX-10).
    pub(super) fn mix_if_ready(&mut self, id: RoundId, rng: &mut dyn CryptoRng) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        let has_noise = round.has_noise();
        let last = round.is_last();
        let talks = id.service.has_replies();
        let size = round.onion_bytes() - LAYER_BYTES;
        let buckets = round.policy.buckets;
        let Some(open) = round.as_open() else { return };
        if open.incoming.as_ref().is_none_or(|incoming| !incoming.is_ready()) {
            return;
        }
        // The last onion is unwrapped, so the secret is not needed any more (MIX-14).
        open.secret = None;
        // Forwarding without all noise would break the promise of the round (MIX-10).
        if (has_noise && !open.noise.is_ready()) || open.mixed.is_some() {
            return;
        }
        let Some(incoming) = open.incoming.take() else { return };
        let parts = incoming.parts.into_values().collect();
        let own = open.noise.parts.values_mut();
        let noise = own.map(|part| take(&mut part.onions)).collect();
        let job = if !last {
            let batch = Arc::new(Batch::new(parts, noise, size));
            Job::Shuffle(ShuffleJob { id, batch, seed: Secret::random(rng) })
        } else if talks {
            Job::Match(MatchJob { id, parts, seed: Secret::random(rng) })
        } else {
            Job::Publish(PublishJob { id, parts, noise, buckets })
        };
        self.outputs.push_back(Output::Job(job));
    }

    fn on_shuffled(&mut self, job: &ShuffleJob, shuffled: Shuffled) -> Result<(), MixError> {
        let id = job.id;
        let round = self.find_round(id)?;
        let begins = noise::noise_offsets(round);
        let size = round.onion_bytes() - LAYER_BYTES;
        let reply = round.reply_bytes();
        let open = round.as_open().ok_or(MixError::Unasked)?;
        let Shuffled { kept, order } = shuffled;
        let frames = job.batch.frame_jobs(JobId { id, index: 0 }, &kept, &order);
        let mut mixed = store_mixed(job.batch.parts(), kept, order, reply);
        let own = take(&mut open.noise.parts).into_values().zip(begins);
        for (part, begin) in own {
            let placed = |mut trap: Trap| {
                // Jobs count from 0. After the kept onions the noise of the jobs follows in order.
                trap.at += begin;
                (trap.at, trap)
            };
            mixed.traps.extend(part.traps.into_iter().map(placed));
        }
        let count = mixed.forwarded_count();
        open.mixed = Some(mixed);
        let all = frames.len() as u32;
        let ready = BTreeMap::new();
        open.leaving = Some(OutgoingBatch { next: 0, frames: all, count, ready });
        self.outputs
            .push_back(send::batch_frame(id, FrameBody::BatchStart { count, size: size as u16 }));
        self.outputs.extend(frames.into_iter().map(Job::Gather).map(Output::Job));
        self.send_ready(id)
    }

    fn on_gathered(&mut self, ticket: JobId, items: Wiping<Items>) -> Result<(), MixError> {
        let open = self.find_round(ticket.id)?.as_open().ok_or(MixError::Unasked)?;
        let leaving = open.leaving.as_mut().ok_or(MixError::Unasked)?;
        leaving.ready.insert(ticket.index, items);
        self.send_ready(ticket.id)
    }

    /// Sends the finished frames of the batch in order, and its end after the last one.
    fn send_ready(&mut self, id: RoundId) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        let open = round.as_open().ok_or(MixError::Unasked)?;
        let leaving = open.leaving.as_mut().ok_or(MixError::Unasked)?;
        // Gather jobs end in any order, and frames are sent in the order of their indices (MIX-10).
        while let Some(mut items) = leaving.ready.remove(&leaving.next) {
            leaving.next += 1;
            self.outputs.push_back(send::batch_frame(id, FrameBody::Onions(take(&mut *items))));
        }
        if leaving.next == leaving.frames {
            let count = leaving.count;
            open.leaving = None;
            self.outputs.push_back(send::batch_frame(id, FrameBody::BatchEnd { count }));
        }
        Ok(())
    }

    fn publish_objects(&mut self, id: RoundId, objects: &[Vec<u8>]) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        // Keys and batch are dropped here. Only STORED is still needed.
        round.stage = RoundState::Publishing;
        let frames = send::object_frames(id, &round.config, &self.setup.signer, objects);
        self.outputs.extend(frames);
        Ok(())
    }
}

/// Handles `BATCH_START`: checks the count before any memory is allocated for it (MIX-11, MIX-12).
fn start_batch(round: &mut Round, announced: u32, size: usize) -> Result<Vec<Job>, AbortReason> {
    let fits = size == round.onion_bytes();
    let most = round.batch_max;
    let open = round.as_open().ok_or(AbortReason::Malformed)?;
    // A second batch would be unwrapped with the same secret.
    if !fits || open.incoming.is_some() || open.secret.is_none() {
        return Err(AbortReason::Malformed);
    }
    // Honest mixes exceed this bound with a probability below e^-40, and memory is bounded by it
    // (MIX-11, MIX-12).
    if u64::from(announced) > most {
        return Err(AbortReason::TooMany);
    }
    let parts = BTreeMap::new();
    open.incoming = Some(IncomingBatch { announced, received: 0, ended: false, jobs: 0, parts });
    Ok(Vec::new())
}

/// Handles the next ONIONS of the batch. Returns jobs of at most `job_items` onions each.
fn append_onions(
    round: &mut Round,
    items: Items,
    job_items: usize,
) -> Result<Vec<Job>, AbortReason> {
    let id = round.id;
    let size = round.onion_bytes();
    let position = round.position;
    let open = round.as_open().ok_or(AbortReason::Malformed)?;
    let layer: Layer = open.layers[usize::from(position)];
    let (Some(incoming), Some(secret)) = (&mut open.incoming, &open.secret) else {
        return Err(AbortReason::Malformed);
    };
    // A gap or another size would assign onions to the wrong replies (MIX-11).
    if incoming.ended || !items.is_next(incoming.received, incoming.announced, size) {
        return Err(AbortReason::Malformed);
    }
    incoming.received += u32::from(items.count);
    let most = size * if job_items == 0 { usize::from(items.count) } else { job_items };
    let frame = Arc::new(Wiping::new(items.bytes));
    let jobs: Vec<Job> = (0..frame.len())
        .step_by(most)
        .zip(incoming.jobs..)
        .map(|(from, index)| UnwrapJob {
            ticket: JobId { id, index },
            secret: Arc::clone(secret),
            layer,
            frame: Arc::clone(&frame),
            part: from..frame.len().min(from + most),
            size,
        })
        .map(Job::Unwrap)
        .collect();
    incoming.jobs += jobs.len() as u32;
    Ok(jobs)
}

/// Handles `BATCH_END`: exactly the announced number must have arrived.
fn end_batch(round: &mut Round, count: u32) -> Result<Vec<Job>, AbortReason> {
    let open = round.as_open().ok_or(AbortReason::Malformed)?;
    let incoming = open.incoming.as_mut().ok_or(AbortReason::Malformed)?;
    if incoming.ended || count != incoming.announced || count != incoming.received {
        return Err(AbortReason::Count);
    }
    incoming.ended = true;
    Ok(Vec::new())
}
