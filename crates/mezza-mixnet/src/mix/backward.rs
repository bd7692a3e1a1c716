//! Replies on their way back to the clients.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem::take;

use mezza_core::{Backend, CryptoRng, Wiping};

use super::round::{MixedBatch, Round, RoundState};
use super::{Mix, MixError, Neighbour, Output, send};
use crate::batch::{Permutation, SecretIndices};
use crate::job::{Job, JobId, Replies, SealJob, TrapJob};
use crate::keys::SecretVec;
use crate::onion::Unwrapped;
use crate::service::{RoundId, TAG_BYTES, items_per_frame};
use crate::sign::Purpose;
use crate::wire::frame::alarm_bytes;
use crate::wire::{AbortReason, Frame, FrameBody, Items};

impl<B: Backend> Mix<B> {
    /// Handles a frame of replies from the next mix.
    pub(super) fn on_reply_frame(
        &mut self,
        id: RoundId,
        body: FrameBody,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let round = self.find_round(id)?;
        let outcome = match body {
            FrameBody::Replies(items) => append_replies(round, &items),
            FrameBody::RepliesEnd { count } => replies_end(round, count),
            _ => return Err(MixError::Unexpected),
        };
        match outcome {
            Ok(job) => self.outputs.extend(job.map(Output::Job)),
            Err(reason) => self.abort_round(id, reason),
        }
        self.finish_if_ready(id, rng);
        Ok(())
    }

    /// Handles the replies that the last mix computed itself.
    pub(super) fn on_matched(
        &mut self,
        id: RoundId,
        parts: &[Unwrapped],
        replies: Replies,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        let size = round.reply_bytes();
        let open = round.as_open().ok_or(MixError::Unasked)?;
        // The last mix forwards nothing, so its replies are in the order of its input.
        let order = Permutation::identity(replies.kept.len());
        let mixed = open.mixed.insert(store_mixed(parts, replies.kept, order, size));
        for part in replies.cells.chunks(size * items_per_frame(size)) {
            let job = seal_job(id, mixed, part, size);
            self.outputs.extend(job.map(Job::Seal).map(Output::Job));
        }
        // No REPLIES_END arrives here, because this mix computed all replies itself.
        mixed.ended = true;
        self.finish_if_ready(id, rng);
        Ok(())
    }

    /// Handles STORED: all objects are durable at the store, so the round is over.
    pub(super) fn on_published(&mut self, id: RoundId) -> Result<(), MixError> {
        if !matches!(self.find_round(id)?.stage, RoundState::Publishing) {
            return Err(MixError::Unexpected);
        }
        self.rounds.remove(&id);
        let end = Frame::Round(id, FrameBody::RepliesEnd { count: 0 });
        self.outputs.push_back(Output::Frame(Neighbour::Previous, end));
        Ok(())
    }

    pub(super) fn on_sealed(
        &mut self,
        job: &SealJob,
        sealed: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let id = job.ticket.id;
        let open = self.find_round(id)?.as_open().ok_or(MixError::Unasked)?;
        let mixed = open.mixed.as_mut().ok_or(MixError::Unasked)?;
        let size = job.size + TAG_BYTES;
        for (target, reply) in job.targets.iter().zip(sealed.chunks_exact(size)) {
            item_slot(&mut mixed.out, *target as usize, size).copy_from_slice(reply);
            // Unfilled places belong to bad onions and get random bytes (MIX-7).
            mixed.filled[*target as usize] = true;
        }
        mixed.jobs.1 += 1;
        self.finish_if_ready(id, rng);
        Ok(())
    }

    /// Sends the replies once all of them are there, and not before (MIX-10). They are in the order
    /// of the onions, with random bytes for bad onions (MIX-7). The round is wiped.
    fn finish_if_ready(&mut self, id: RoundId, rng: &mut dyn CryptoRng) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        let size = round.reply_bytes() + TAG_BYTES;
        let position = round.position;
        let config = round.config;
        let Some(mixed) = round.as_open().and_then(|open| open.mixed.as_mut()) else { return };
        // A reply that was sent early would show the place of its onion among the jobs (MIX-10).
        if !mixed.is_ready() {
            return;
        }
        if id.service.has_replies() {
            let mut out = take(&mut mixed.out);
            let filled = mixed.filled.iter().enumerate();
            for (at, _) in filled.filter(|(_, filled)| !**filled) {
                // A missing reply would show the previous server which onion was bad (MIX-7).
                rng.fill_bytes(item_slot(&mut out, at, size));
            }
            self.outputs.extend(send::reply_frames(id, out));
            let traps = take(&mut mixed.caught);
            if !traps.is_empty() {
                // The check follows the replies, because an alarm must not change their times.
                let job = TrapJob { id, config, position, traps };
                self.outputs.push_back(Output::Job(Job::Trap(job)));
            }
        } else {
            let end = Frame::Round(id, FrameBody::RepliesEnd { count: 0 });
            self.outputs.push_back(Output::Frame(Neighbour::Previous, end));
        }
        self.rounds.remove(&id);
    }

    /// Sends ALARM after a failed trap. Links lose nothing by accident, so one failed trap proves
    /// interference (MIX-27). The number of failures is not reported (MIX-46).
    pub(super) fn raise_alarm(&mut self, job: &TrapJob) {
        let bytes = alarm_bytes(&job.config, job.id, job.position);
        let signature = self.setup.signer.sign(Purpose::Alarm, &[&bytes]);
        let alarm = FrameBody::Alarm { position: job.position, signature };
        self.outputs.push_back(Output::Frame(Neighbour::Coordinator, Frame::Round(job.id, alarm)));
    }
}

/// Returns item number `at` of a batch of items of `size` bytes.
fn item_slot(batch: &mut [Wiping<Items>], at: usize, size: usize) -> &mut [u8] {
    let most = items_per_frame(size);
    let from = at % most * size;
    &mut batch[at / most].bytes[from..from + size]
}

/// Handles the next REPLIES; replies to noise end here.
fn append_replies(round: &mut Round, items: &Items) -> Result<Option<Job>, AbortReason> {
    let id = round.id;
    let size = round.reply_bytes();
    // Replies before our batch was forwarded are forged; the round ends as malformed.
    let open = round.as_open().filter(|open| open.leaving.is_none());
    let mixed = open.and_then(|open| open.mixed.as_mut()).ok_or(AbortReason::Malformed)?;
    // More replies than onions, or another order, would reach the wrong clients (MIX-11).
    let next = items.is_next(mixed.received, mixed.forwarded_count(), size);
    if mixed.ended || !id.service.has_replies() || !next {
        return Err(AbortReason::Malformed);
    }
    Ok(seal_job(id, mixed, &items.bytes, size).map(Job::Seal))
}

/// Returns the job for the next replies in the order of the output, or `None` if all of them are
/// for noise.
fn seal_job(id: RoundId, mixed: &mut MixedBatch, replies: &[u8], size: usize) -> Option<SealJob> {
    let kept = mixed.kept.len() as u32;
    let each = replies.chunks_exact(size);
    let mut targets = Vec::with_capacity(each.len());
    let mut bodies = Wiping::new(Vec::with_capacity(replies.len()));
    for reply in each {
        let source = mixed.order.sources()[mixed.received as usize];
        mixed.received += 1;
        match source.checked_sub(kept) {
            None => {
                targets.push(mixed.kept[source as usize]);
                bodies.extend_from_slice(reply);
            }
            Some(own) => {
                // Replies to noise end here. Only those to traps are stored for checking.
                let trap = mixed.traps.remove(&own);
                mixed.caught.extend(trap.map(|trap| (trap, reply.to_vec())));
            }
        }
    }
    if targets.is_empty() {
        return None;
    }
    let targets = SecretIndices::from(targets);
    let mut back = SecretVec::zeros(targets.len());
    for (key, target) in back.iter_mut().zip(targets.iter()) {
        *key = mixed.reply_keys[*target as usize];
    }
    let ticket = JobId { id, index: mixed.jobs.0 };
    mixed.jobs.0 += 1;
    Some(SealJob { ticket, reply_keys: back, replies: bodies, size, targets })
}

/// Handles `REPLIES_END`: exactly the forwarded number must have returned, and none in services
/// without replies.
fn replies_end(round: &mut Round, count: u32) -> Result<Option<Job>, AbortReason> {
    let id = round.id;
    let mixed =
        round.as_open().and_then(|open| open.mixed.as_mut()).ok_or(AbortReason::Malformed)?;
    let due = if id.service.has_replies() { mixed.forwarded_count() } else { 0 };
    // A missing reply would shift all later ones (MIX-11).
    if mixed.ended || count != due || mixed.received != due {
        return Err(AbortReason::Count);
    }
    mixed.ended = true;
    Ok(None)
}

/// Stores the part of a batch that its replies of `size` bytes need.
pub(super) fn store_mixed(
    parts: &[Unwrapped],
    kept: SecretIndices,
    order: Permutation,
    size: usize,
) -> MixedBatch {
    let total: usize = parts.iter().map(|part| part.reply_keys.len()).sum();
    let mut back = SecretVec::zeros(total);
    let keys = parts.iter().flat_map(|part| part.reply_keys.iter());
    // Copied into one list, so that jobs get their keys without the parts.
    back.iter_mut().zip(keys).for_each(|(key, own)| *key = *own);
    MixedBatch {
        kept,
        order,
        reply_keys: back,
        traps: BTreeMap::new(),
        caught: Vec::new(),
        received: 0,
        ended: false,
        jobs: (0, 0),
        out: Items::zeros(total, size + TAG_BYTES).map(Wiping::new).collect(),
        filled: alloc::vec![false; total],
    }
}
