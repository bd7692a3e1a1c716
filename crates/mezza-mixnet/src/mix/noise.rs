//! Our own noise in a round: its amount, and its jobs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Secret};

use super::round::Round;
use super::{Mix, MixError, Output};
use crate::config::{ServicePolicy, Traps};
use crate::job::{Job, JobId, Noise, NoiseJob, NoiseKind};
use crate::noise::Law;
use crate::onion::Tables;
use crate::service::{RoundId, Service};
use crate::wire::AbortReason;

/// Most messages of one job.
const JOB_MESSAGES: u32 = 512;

impl<B: Backend> Mix<B> {
    /// Handles the finished tables: draws the counts, freshly for each round (MIX-16), and starts
    /// the jobs.
    pub(super) fn on_tables(
        &mut self,
        id: RoundId,
        tables: Option<Tables>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        // A later mix signed a key that no client would accept (MIX-6), so no client takes part.
        let Some(tables) = tables.map(Arc::new) else {
            self.abort_round(id, AbortReason::Settings);
            return Ok(());
        };
        let plan = plan_noise(&round.policy, rng);
        let mut traps = of_each_sort(round.policy.traps);
        let behind = usize::from(round.position) + 1;
        let open = round.as_open().ok_or(MixError::Unasked)?;
        let layers = open.layers[behind..].to_vec();
        for (kind, index) in plan.iter().zip(0_u32..) {
            let job = NoiseJob {
                ticket: JobId { id, index },
                kind: *kind,
                layers: layers.clone(),
                tables: Arc::clone(&tables),
                seed: Secret::random(rng),
                traps: take_traps(&mut traps, *kind),
            };
            self.outputs.push_back(Output::Job(Job::Noise(job)));
        }
        open.noise.plan = Some(plan);
        open.noise.tables = Some(tables);
        self.mix_if_ready(id, rng);
        Ok(())
    }

    /// Handles the noise of one job.
    pub(super) fn on_noise(
        &mut self,
        ticket: JobId,
        noise: Noise,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let open = self.find_round(ticket.id)?.as_open().ok_or(MixError::Unasked)?;
        open.noise.parts.insert(ticket.index, noise);
        if open.noise.is_ready() {
            // The tables take megabytes, and no further job of this round needs them.
            open.noise.tables = None;
        }
        self.mix_if_ready(ticket.id, rng);
        Ok(())
    }
}

/// Plans the noise in pieces of at most 512 messages: the drawn noise, and the traps in addition
/// (MIX-45). Every bucket has noise, including the idle bucket 0 (MIX-18).
fn plan_noise(policy: &ServicePolicy, rng: &mut dyn CryptoRng) -> Vec<NoiseKind> {
    let law = Law::from_policy(policy);
    let mut plan = Vec::new();
    match policy.service {
        Service::Conversation => {
            let drawn = law.draw_conversation(rng);
            let traps = policy.traps;
            // Added to the draw and not part of it, because one ALARM must not reveal the drawn
            // count (MIX-45).
            let singles = drawn.singles + u32::from(traps.singles);
            let pairs = drawn.pairs + u32::from(traps.pairs);
            push_pieces(&mut plan, singles, JOB_MESSAGES, NoiseKind::Singles);
            push_pieces(&mut plan, pairs, JOB_MESSAGES / 2, NoiseKind::Pairs);
        }
        // Bucket 0 has noise too. Otherwise its size would show the number of clients without a
        // call (MIX-18).
        Service::Call | Service::Invitation => (0..=policy.buckets).for_each(|bucket| {
            let count = law.draw_bucket(rng);
            push_pieces(&mut plan, count, JOB_MESSAGES, |n| NoiseKind::Bucket(bucket, n));
        }),
    }
    plan
}

fn push_pieces(
    plan: &mut Vec<NoiseKind>,
    mut count: u32,
    most: u32,
    kind: impl Fn(u32) -> NoiseKind,
) {
    while count > 0 {
        let piece = count.min(most);
        plan.push(kind(piece));
        count -= piece;
    }
}

/// Returns the number of trap messages among singles and among pairs. Any messages of a sort will
/// do, because they look alike and are permuted.
const fn of_each_sort(traps: Traps) -> [u32; 2] {
    [traps.singles as u32, 2 * traps.pairs as u32]
}

/// Removes the part of the traps that a job takes.
fn take_traps(left: &mut [u32; 2], kind: NoiseKind) -> u32 {
    let left = &mut left[usize::from(matches!(kind, NoiseKind::Pairs(_)))];
    let taken = kind.message_count().min(*left);
    *left -= taken;
    taken
}

/// Returns the index of the first message of each piece of noise, which follows the kept onions.
pub(super) fn noise_offsets(round: &mut Round) -> Vec<u32> {
    let plan = round.as_open().and_then(|open| open.noise.plan.as_deref()).unwrap_or_default();
    let begins = plan.iter().scan(0, |sum, kind| {
        let begin = *sum;
        *sum += kind.message_count();
        Some(begin)
    });
    begins.collect()
}
