//! Our own noise of a round: how much, and from which jobs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Secret};

use super::round::Round;
use super::{Mix, MixError, Output};
use crate::config::ServicePolicy;
use crate::job::{Job, Kind, Noise, NoiseJob, Ticket};
use crate::limits::TRAPS_MAX;
use crate::noise::Law;
use crate::onion::Tables;
use crate::service::{RoundId, Service};
use crate::wire::AbortReason;

/// Most messages of one job.
const JOB_MESSAGES: u32 = 512;

impl<B: Backend> Mix<B> {
    /// The tables are there: draw the counts, afresh for each round (MIX-16), and hand out the work.
    pub(super) fn tabled(
        &mut self,
        id: RoundId,
        tables: Option<Tables>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        let Some(tables) = tables.map(Arc::new) else {
            self.abort(id, AbortReason::Settings);
            return Ok(());
        };
        let plan = plan(&round.policy, rng);
        let mut traps = trapped(&plan, id.service);
        let behind = usize::from(round.position) + 1;
        let open = round.open().ok_or(MixError::Unexpected)?;
        let layers = open.layers[behind..].to_vec();
        for (kind, index) in plan.iter().zip(0_u32..) {
            let job = NoiseJob {
                ticket: Ticket { id, index },
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

    /// Some noise is there.
    pub(super) fn noised(
        &mut self,
        ticket: Ticket,
        noise: Noise,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let open = self.round(ticket.id)?.open().ok_or(MixError::Unexpected)?;
        open.noise.parts.insert(ticket.index, noise);
        if open.noise.is_ready() {
            open.noise.tables = None;
        }
        self.mix_if_ready(ticket.id, rng);
        Ok(())
    }
}

/// What to make, in pieces of at most 512 messages. Every bucket has noise, the no-op 0 too
/// (MIX-18).
fn plan(policy: &ServicePolicy, rng: &mut dyn CryptoRng) -> Vec<Kind> {
    let law = Law::of(policy);
    let mut plan = Vec::new();
    match policy.service {
        Service::Conversation => {
            let counts = law.draw_conversation(rng);
            pieces(&mut plan, counts.singles, JOB_MESSAGES, Kind::Singles);
            pieces(&mut plan, counts.pairs, JOB_MESSAGES / 2, Kind::Pairs);
        }
        _ => (0..=policy.buckets).for_each(|bucket| {
            let count = law.draw_bucket(rng);
            pieces(&mut plan, count, JOB_MESSAGES, |n| Kind::Bucket(bucket, n));
        }),
    }
    plan
}

fn pieces(plan: &mut Vec<Kind>, mut count: u32, most: u32, kind: impl Fn(u32) -> Kind) {
    while count > 0 {
        let piece = count.min(most);
        plan.push(kind(piece));
        count -= piece;
    }
}

/// How many messages of singles and of pairs are traps: at most 1,024, divided as the noise is, so
/// that who drops one sort alone is noticed too. Which ones does not matter: messages of one sort
/// are alike, and the permutation moves them.
fn trapped(plan: &[Kind], service: Service) -> [u32; 2] {
    if !service.has_replies() {
        return [0; 2];
    }
    let count = |pairs: bool| {
        let of = plan.iter().filter(|kind| matches!(kind, Kind::Pairs(_)) == pairs);
        of.map(|kind| kind.messages()).sum::<u32>()
    };
    let (singles, pairs) = (count(false), count(true));
    let (all, most) = (u64::from(singles) + u64::from(pairs), TRAPS_MAX as u64);
    if all <= most {
        return [singles, pairs];
    }
    let of_singles = (u64::from(singles) * most / all) as u32;
    [of_singles, (TRAPS_MAX as u32 - of_singles) & !1]
}

/// The part of them that a job takes.
fn take_traps(left: &mut [u32; 2], kind: Kind) -> u32 {
    let left = &mut left[usize::from(matches!(kind, Kind::Pairs(_)))];
    let taken = kind.messages().min(*left);
    *left -= taken;
    taken
}

/// Where the noise of each piece begins, behind the onions that were kept.
pub(super) fn offsets(round: &mut Round) -> Vec<u32> {
    let plan = round.open().and_then(|open| open.noise.plan.as_deref()).unwrap_or_default();
    let begins = plan.iter().scan(0, |sum, kind| {
        let begin = *sum;
        *sum += kind.messages();
        Some(begin)
    });
    begins.collect()
}
