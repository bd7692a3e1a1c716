//! A batch on its way in, out, and back.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Secret, Wiping};

use super::round::{Incoming, Mixed, Round, Stage};
use super::{Mix, MixError, Output, Peer, noise, send};
use crate::batch::{Permutation, Places};
use crate::job::{
    Done, Job, MatchJob, PublishJob, Replies, SealJob, ShuffleJob, Shuffled, Ticket, Trap, TrapJob,
    UnwrapJob,
};
use crate::keys::Keys;
use crate::onion::{Layer, Unwrapped};
use crate::service::{LAYER_BYTES, RoundId, TAG_BYTES, items_per_frame};
use crate::sign::Purpose;
use crate::wire::frame::alarm_bytes;
use crate::wire::{AbortReason, Body, Frame, Items};

impl<B: Backend> Mix<B> {
    /// A frame of the batch that comes in. What breaks the rules ends the round.
    pub(super) fn forward(
        &mut self,
        id: RoundId,
        body: Body,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let job_items = self.setup.job_items;
        let round = self.round(id)?;
        let outcome = match body {
            Body::BatchStart { count, size } => start(round, count, usize::from(size)),
            Body::Onions(items) => onions(round, &items, job_items),
            Body::BatchEnd { count } => end(round, count),
            _ => return Err(MixError::Unexpected),
        };
        match outcome {
            Ok(jobs) => self.outputs.extend(jobs.into_iter().map(Output::Job)),
            Err(reason) => self.abort(id, reason),
        }
        self.mix_if_ready(id, rng);
        Ok(())
    }

    /// A frame of the replies that come back.
    pub(super) fn backward(
        &mut self,
        id: RoundId,
        body: Body,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let round = self.round(id)?;
        let outcome = match body {
            Body::Replies(items) => replies(round, &items),
            Body::RepliesEnd { count } => replies_end(round, count),
            _ => return Err(MixError::Unexpected),
        };
        match outcome {
            Ok(job) => self.outputs.extend(job.map(Output::Job)),
            Err(reason) => self.abort(id, reason),
        }
        self.finish_if_ready(id, rng);
        Ok(())
    }

    /// A job came back with its result. What it holds of a round that is over is wiped here.
    pub(super) fn done(
        &mut self,
        job: Job,
        done: Done,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        match (job, done) {
            (Job::Table(job), Done::Table(tables)) => self.tabled(job.id, tables, rng),
            (Job::Noise(job), Done::Noise(made)) => self.noised(job.ticket, made, rng),
            (Job::Unwrap(job), Done::Unwrap(part)) => {
                let ticket = job.ticket;
                drop(job);
                self.unwrapped(ticket, part, rng)
            }
            (Job::Shuffle(job), Done::Shuffle(shuffled)) => {
                self.shuffled(job.id, &job.parts, shuffled)
            }
            (Job::Match(job), Done::Match(replies)) => {
                self.matched(job.id, &job.parts, replies, rng)
            }
            (Job::Publish(job), Done::Publish(objects)) => self.publish(job.id, &objects),
            (Job::Seal(job), Done::Seal(sealed)) => self.sealed(&job, &sealed, rng),
            (Job::Trap(job), Done::Trap(failed)) => {
                self.alarm(&job, failed);
                Ok(())
            }
            _ => Err(MixError::Unexpected),
        }
    }

    fn unwrapped(
        &mut self,
        ticket: Ticket,
        part: Unwrapped,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let open = self.round(ticket.id)?.open().ok_or(MixError::Unexpected)?;
        let incoming = open.incoming.as_mut().ok_or(MixError::Unexpected)?;
        incoming.parts.insert(ticket.index, part);
        self.mix_if_ready(ticket.id, rng);
        Ok(())
    }

    /// Once the whole batch and all noise are there, and not before (MIX-10).
    pub(super) fn mix_if_ready(&mut self, id: RoundId, rng: &mut dyn CryptoRng) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        let (has_noise, last, talks) =
            (round.has_noise(), round.is_last(), id.service.has_replies());
        let (size, buckets) = (round.onion_bytes() - LAYER_BYTES, round.policy.buckets);
        let Some(open) = round.open() else { return };
        if open.incoming.as_ref().is_none_or(|incoming| !incoming.is_ready()) {
            return;
        }
        open.secret = None;
        if (has_noise && !open.noise.is_ready()) || open.mixed.is_some() {
            return;
        }
        let Some(incoming) = open.incoming.take() else { return };
        let parts = incoming.parts.into_values().collect();
        let own = open.noise.parts.values_mut();
        let noise = own.map(|part| core::mem::take(&mut part.onions)).collect();
        let job = if !last {
            Job::Shuffle(ShuffleJob { id, parts, noise, size, seed: Secret::random(rng) })
        } else if talks {
            Job::Match(MatchJob { id, parts, seed: Secret::random(rng) })
        } else {
            Job::Publish(PublishJob { id, parts, noise, buckets })
        };
        self.outputs.push_back(Output::Job(job));
    }

    fn shuffled(
        &mut self,
        id: RoundId,
        parts: &[Unwrapped],
        shuffled: Shuffled,
    ) -> Result<(), MixError> {
        let round = self.round(id)?;
        let begins = noise::offsets(round);
        let (size, reply) = (round.onion_bytes() - LAYER_BYTES, round.reply_bytes());
        let open = round.open().ok_or(MixError::Unexpected)?;
        let mut mixed = mixed(parts, shuffled.kept, shuffled.order, reply);
        let own = core::mem::take(&mut open.noise.parts).into_values().zip(begins);
        for (part, begin) in own {
            let placed = |mut trap: Trap| {
                trap.at += begin;
                (trap.at, trap)
            };
            mixed.traps.extend(part.traps.into_iter().map(placed));
        }
        open.mixed = Some(mixed);
        self.outputs.extend(send::onions(id, &shuffled.batch, size));
        Ok(())
    }

    /// The last mix has its replies at once.
    fn matched(
        &mut self,
        id: RoundId,
        parts: &[Unwrapped],
        replies: Replies,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        let size = round.reply_bytes();
        let open = round.open().ok_or(MixError::Unexpected)?;
        let order = Permutation::identity(replies.kept.len());
        let mixed = open.mixed.insert(mixed(parts, replies.kept, order, size));
        for part in replies.cells.chunks(size * items_per_frame(size)) {
            let job = seal_job(id, mixed, part, size);
            self.outputs.extend(job.map(Job::Seal).map(Output::Job));
        }
        mixed.ended = true;
        self.finish_if_ready(id, rng);
        Ok(())
    }

    fn publish(&mut self, id: RoundId, objects: &[Vec<u8>]) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        round.stage = Stage::Publishing;
        let frames = send::objects(id, &round.config, &self.setup.signer, objects);
        self.outputs.extend(frames);
        Ok(())
    }

    /// The store has everything on disk: the round is over.
    pub(super) fn published(&mut self, id: RoundId) -> Result<(), MixError> {
        if !matches!(self.round(id)?.stage, Stage::Publishing) {
            return Err(MixError::Unexpected);
        }
        self.rounds.remove(&id);
        let end = Frame::Round(id, Body::RepliesEnd { count: 0 });
        self.outputs.push_back(Output::Frame(Peer::Previous, end));
        Ok(())
    }

    fn sealed(
        &mut self,
        job: &SealJob,
        sealed: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let id = job.ticket.id;
        let open = self.round(id)?.open().ok_or(MixError::Unexpected)?;
        let mixed = open.mixed.as_mut().ok_or(MixError::Unexpected)?;
        let size = job.size + TAG_BYTES;
        for (target, reply) in job.targets.iter().zip(sealed.chunks_exact(size)) {
            let at = *target as usize;
            mixed.out[at * size..(at + 1) * size].copy_from_slice(reply);
            mixed.filled[at] = true;
        }
        mixed.jobs.1 += 1;
        self.finish_if_ready(id, rng);
        Ok(())
    }

    /// Once all replies are there, and not before (MIX-10): they leave in the order of the onions,
    /// random bytes where an onion was bad (MIX-7), and the round is wiped.
    fn finish_if_ready(&mut self, id: RoundId, rng: &mut dyn CryptoRng) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        let (size, position) = (round.reply_bytes() + TAG_BYTES, round.position);
        let config = round.config;
        let Some(mixed) = round.open().and_then(|open| open.mixed.as_mut()) else { return };
        if !mixed.is_ready() {
            return;
        }
        if id.service.has_replies() {
            let empty = mixed.filled.iter().zip(mixed.out.chunks_exact_mut(size));
            for (_, reply) in empty.filter(|(filled, _)| !**filled) {
                rng.fill_bytes(reply);
            }
            self.outputs.extend(send::replies(id, &mixed.out, size));
            let traps = core::mem::take(&mut mixed.caught);
            if !traps.is_empty() {
                let job = TrapJob { id, config, position, traps };
                self.outputs.push_back(Output::Job(Job::Trap(job)));
            }
        } else {
            let end = Frame::Round(id, Body::RepliesEnd { count: 0 });
            self.outputs.push_back(Output::Frame(Peer::Previous, end));
        }
        self.rounds.remove(&id);
    }

    /// Links lose nothing by accident: one trap that failed is somebody's doing (MIX-27).
    fn alarm(&mut self, job: &TrapJob, failed: u32) {
        if failed == 0 {
            return;
        }
        let (position, traps) = (job.position, job.traps.len() as u32);
        let bytes = alarm_bytes(&job.config, job.id, position, traps, failed);
        let signature = self.setup.signer.sign(Purpose::Alarm, &[&bytes]);
        let alarm = Body::Alarm { position, traps, failed, signature };
        self.outputs.push_back(Output::Frame(Peer::Coordinator, Frame::Round(job.id, alarm)));
    }
}

/// `BATCH_START`: the count is checked before anything is kept for it (MIX-11, MIX-12).
fn start(round: &mut Round, announced: u32, size: usize) -> Result<Vec<Job>, AbortReason> {
    let (fits, most) = (size == round.onion_bytes(), round.batch_max);
    let open = round.open().ok_or(AbortReason::Malformed)?;
    if !fits || open.incoming.is_some() || open.secret.is_none() {
        return Err(AbortReason::Malformed);
    }
    if u64::from(announced) > most {
        return Err(AbortReason::TooMany);
    }
    let parts = BTreeMap::new();
    open.incoming = Some(Incoming { announced, received: 0, ended: false, jobs: 0, parts });
    Ok(Vec::new())
}

/// `ONIONS`: the next ones of the batch, as jobs of at most `job_items` of them.
fn onions(round: &mut Round, items: &Items, job_items: usize) -> Result<Vec<Job>, AbortReason> {
    let (id, size, position) = (round.id, round.onion_bytes(), round.position);
    let open = round.open().ok_or(AbortReason::Malformed)?;
    let layer: Layer = open.layers[usize::from(position)];
    let (Some(incoming), Some(secret)) = (&mut open.incoming, &open.secret) else {
        return Err(AbortReason::Malformed);
    };
    if incoming.ended || !items.is_next(incoming.received, incoming.announced, size) {
        return Err(AbortReason::Malformed);
    }
    incoming.received += u32::from(items.count);
    let most = if job_items == 0 { usize::from(items.count) } else { job_items };
    let parts = items.bytes.chunks(most * size).zip(incoming.jobs..);
    let jobs: Vec<Job> = parts
        .map(|(onions, index)| UnwrapJob {
            ticket: Ticket { id, index },
            secret: Arc::clone(secret),
            layer,
            onions: Wiping::new(onions.to_vec()),
            size,
        })
        .map(Job::Unwrap)
        .collect();
    incoming.jobs += jobs.len() as u32;
    Ok(jobs)
}

/// `BATCH_END`: exactly what was announced came.
fn end(round: &mut Round, count: u32) -> Result<Vec<Job>, AbortReason> {
    let open = round.open().ok_or(AbortReason::Malformed)?;
    let incoming = open.incoming.as_mut().ok_or(AbortReason::Malformed)?;
    if incoming.ended || count != incoming.announced || count != incoming.received {
        return Err(AbortReason::Count);
    }
    incoming.ended = true;
    Ok(Vec::new())
}

/// `REPLIES`: the next ones; those of noise end here.
fn replies(round: &mut Round, items: &Items) -> Result<Option<Job>, AbortReason> {
    let (id, size) = (round.id, round.reply_bytes());
    let mixed = round.open().and_then(|open| open.mixed.as_mut()).ok_or(AbortReason::Malformed)?;
    let next = items.is_next(mixed.received, mixed.forwarded(), size);
    if mixed.ended || !id.service.has_replies() || !next {
        return Err(AbortReason::Malformed);
    }
    Ok(seal_job(id, mixed, &items.bytes, size).map(Job::Seal))
}

/// The job for the next replies in the order of the output; `None` if all of them are noise.
fn seal_job(id: RoundId, mixed: &mut Mixed, replies: &[u8], size: usize) -> Option<SealJob> {
    let kept = mixed.kept.len() as u32;
    let count = replies.len() / size;
    let (mut targets, mut bodies) =
        (Vec::with_capacity(count), Wiping::new(Vec::with_capacity(replies.len())));
    for reply in replies.chunks_exact(size) {
        let source = mixed.order.sources()[mixed.received as usize];
        mixed.received += 1;
        match source.checked_sub(kept) {
            None => {
                targets.push(mixed.kept[source as usize]);
                bodies.extend_from_slice(reply);
            }
            Some(own) => {
                let trap = mixed.traps.remove(&own);
                mixed.caught.extend(trap.map(|trap| (trap, reply.to_vec())));
            }
        }
    }
    if targets.is_empty() {
        return None;
    }
    let targets = Places::from(targets);
    let mut back = Keys::zeros(targets.len());
    for (key, target) in back.iter_mut().zip(targets.iter()) {
        *key = mixed.back[*target as usize];
    }
    let ticket = Ticket { id, index: mixed.jobs.0 };
    mixed.jobs.0 += 1;
    Some(SealJob { ticket, back, replies: bodies, size, targets })
}

/// `REPLIES_END`: exactly what was forwarded came back; nothing in services without replies.
fn replies_end(round: &mut Round, count: u32) -> Result<Option<Job>, AbortReason> {
    let id = round.id;
    let mixed = round.open().and_then(|open| open.mixed.as_mut()).ok_or(AbortReason::Malformed)?;
    let due = if id.service.has_replies() { mixed.forwarded() } else { 0 };
    if mixed.ended || count != due || mixed.received != due {
        return Err(AbortReason::Count);
    }
    mixed.ended = true;
    Ok(None)
}

/// What is kept of a batch until its replies of `size` bytes are back.
fn mixed(parts: &[Unwrapped], kept: Places, order: Permutation, size: usize) -> Mixed {
    let total: usize = parts.iter().map(|part| part.back.len()).sum();
    let mut back = Keys::zeros(total);
    let keys = parts.iter().flat_map(|part| part.back.iter());
    back.iter_mut().zip(keys).for_each(|(key, own)| *key = *own);
    Mixed {
        kept,
        order,
        back,
        traps: BTreeMap::new(),
        caught: Vec::new(),
        received: 0,
        ended: false,
        jobs: (0, 0),
        out: Wiping::new(alloc::vec![0; total * (size + TAG_BYTES)]),
        filled: alloc::vec![false; total],
    }
}
