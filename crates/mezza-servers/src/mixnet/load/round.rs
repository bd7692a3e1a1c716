//! One round of all users: what was sent, what came back, and if the replies are right.

use std::collections::BTreeMap;
use std::time::Duration;

use mezza_core::{Time, Wiping};
use mezza_lanes::Kernel;
use mezza_mixnet::RoundId;
use mezza_mixnet::client::{Access, CheckedSettings, DropResult, Timing};
use mezza_mixnet::config::ServicePolicy;
use mezza_mixnet::keys::SecretVec;
use mezza_mixnet::onion::{Multiply, Tables, open_reply, wrap_onions};
use mezza_mixnet::wire::MissedReason;
use rayon::prelude::*;

use super::user::{Pairs, make_cell};
use mezza_host::backend::AwsLc;
use mezza_host::process::busy::thread_cpu;
use mezza_host::process::rng::OsRng;

/// Users whose onions are made in one job.
const CHUNK: usize = 512;
/// How long replies are accepted after the end of a round, milliseconds.
const GRACE_MS: u64 = 2_000;

/// The figures of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// The number of the round.
    pub round: u64,
    /// Time at which the round opened, ms since 1970.
    pub open_ms: u64,
    /// Users whose onions were sent.
    pub sent: usize,
    /// Users who got a reply.
    pub returned: usize,
    /// Replies with the expected content; all replies if none was opened.
    pub right: usize,
    /// Replies with other content.
    pub wrong: usize,
    /// Users to whom the entry reported that they missed the round.
    pub missed: usize,
    /// From the close to the reply, milliseconds: median, 99th percentile, maximum.
    pub latency_ms: [u64; 3],
    /// Number of onions made.
    pub onions: usize,
    /// CPU time of making the onions, of all threads together.
    pub making: Duration,
}

/// The outcome of one user in a round. Large values are boxed: a tree that grows at its end leaves
/// half of each node empty.
enum UserOutcome {
    /// The onion is ready.
    Ready(Box<Access>, SecretVec),
    /// The onion was sent.
    Sent(Box<Access>, SecretVec),
    /// A reply arrived: after this number of ms, with its content if it was opened.
    Returned(u64, Option<Box<DropResult>>),
    Missed,
}

impl UserOutcome {
    const fn is_waiting(&self) -> bool {
        matches!(self, Self::Ready(..) | Self::Sent(..))
    }
}

/// The state of one round of all users.
pub(super) struct LoadRound {
    id: RoundId,
    open: Time,
    policy: ServicePolicy,
    outcomes: BTreeMap<u32, UserOutcome>,
    /// Users whose onions have no final outcome yet.
    waiting: usize,
    is_prepared: bool,
    onions: usize,
    making: Duration,
}

/// The plaintexts of a round, to be wrapped.
#[expect(clippy::vec_box, reason = "they move one by one to where they wait")]
pub(super) struct Work {
    id: RoundId,
    checked: CheckedSettings,
    users: Vec<u32>,
    accesses: Vec<Box<Access>>,
}

/// The onions of a round.
#[expect(clippy::vec_box, reason = "they move one by one to where they wait")]
pub(super) struct Prepared {
    pub id: RoundId,
    users: Vec<u32>,
    accesses: Vec<Box<Access>>,
    onions: Vec<Vec<u8>>,
    back: Vec<SecretVec>,
    making: Duration,
}

impl Work {
    /// Wraps all onions. Returns `None` if a key is no valid point, which a checked round excludes.
    pub(super) fn wrap_onions(self, kernel: &'static dyn Kernel) -> Option<Prepared> {
        let Self { id, checked, users, accesses } = self;
        let begun = thread_cpu();
        let layers = checked.layers();
        let tables = Tables::new(kernel, &layers)?;
        let size = id.service.innermost_bytes();
        let before = thread_cpu().saturating_sub(begun);
        let wrapped = accesses.par_chunks(CHUNK).map(|part| {
            let begun = thread_cpu();
            let inner: Vec<u8> = part.iter().flat_map(|access| *access.bytes()).collect();
            let inner = Wiping::new(inner);
            let made =
                wrap_onions(kernel, Multiply::Tables(&tables), &layers, &inner, size, &mut OsRng);
            let each = made.onions.len() / part.len();
            let onions: Vec<Vec<u8>> = made.onions.chunks_exact(each).map(<[u8]>::to_vec).collect();
            let back = (0..part.len()).map(|at| {
                let mut own = SecretVec::zeros(layers.len());
                own.iter_mut().zip(&made.reply_keys).for_each(|(key, layer)| *key = layer[at]);
                own
            });
            (onions, (back.collect::<Vec<_>>(), thread_cpu().saturating_sub(begun)))
        });
        let (onions, rest): (Vec<_>, Vec<_>) = wrapped.unzip();
        let (back, spent): (Vec<_>, Vec<Duration>) = rest.into_iter().unzip();
        let onions = onions.into_iter().flatten().collect();
        let back = back.into_iter().flatten();
        let making = before + spent.iter().sum::<Duration>();
        Some(Prepared { id, users, accesses, onions, back: back.collect(), making })
    }
}

impl LoadRound {
    /// Creates the state of a round whose settings were checked.
    pub(super) const fn new(id: RoundId, open: Time, policy: ServicePolicy) -> Self {
        let outcomes = BTreeMap::new();
        let making = Duration::ZERO;
        Self { id, open, policy, outcomes, waiting: 0, is_prepared: false, onions: 0, making }
    }

    /// Prepares the cells of all users for this round.
    pub(super) fn plan_work(
        &self,
        users: Vec<u32>,
        checked: CheckedSettings,
        pairs: &mut Pairs,
    ) -> Work {
        let access = |user: &u32| Box::new(pairs.make_access(*user, self.id.round, &mut OsRng));
        let accesses = users.iter().map(access).collect();
        Work { id: self.id, checked, users, accesses }
    }

    /// Takes over the finished onions. Returns their departures, uniform over the window.
    pub(super) fn schedule_onions(&mut self, prepared: Prepared) -> Vec<(Time, u32, Vec<u8>)> {
        let Prepared { users, accesses, onions, back, making, .. } = prepared;
        (self.is_prepared, self.onions, self.making) = (true, onions.len(), making);
        self.waiting = users.len();
        let keys = users.iter().zip(accesses.into_iter().zip(back));
        for (user, (access, back)) in keys {
            self.outcomes.insert(*user, UserOutcome::Ready(access, back));
        }
        let send = |(user, onion)| {
            let timing =
                Timing::draw(&self.policy, self.open, mezza_host::clock::now(), &mut OsRng);
            (timing.send, user, onion)
        };
        users.into_iter().zip(onions).map(send).collect()
    }

    /// Marks the onion of a user as sent.
    pub(super) fn mark_sent(&mut self, user: u32) {
        self.change_outcome(user, |outcome| match outcome {
            UserOutcome::Ready(access, back) => UserOutcome::Sent(access, back),
            other => other,
        });
    }

    /// Replaces a user's outcome.
    fn change_outcome(&mut self, user: u32, next: impl FnOnce(UserOutcome) -> UserOutcome) {
        let Some(outcome) = self.outcomes.remove(&user) else { return };
        let waited = outcome.is_waiting();
        let outcome = next(outcome);
        self.waiting -= usize::from(waited && !outcome.is_waiting());
        self.outcomes.insert(user, outcome);
    }

    /// Removes the onion of a user who is disconnected.
    pub(super) fn drop_unsent(&mut self, user: u32) {
        self.waiting -= usize::from(self.outcomes.remove(&user).is_some());
    }

    /// Records the reply to a user, and opens it if `verify` is set.
    pub(super) fn record_reply(
        &mut self,
        user: u32,
        reply: &[u8],
        verify: Option<&dyn Kernel>,
        now: Time,
    ) {
        let waited = now.since_ms(self.close_time());
        self.change_outcome(user, |outcome| {
            let UserOutcome::Sent(access, back) = outcome else { return outcome };
            let answer = verify.map(|kernel| match open_reply(kernel, &back, reply.to_vec()) {
                Some(cell) => access.read_reply::<AwsLc>(&cell),
                None => DropResult::Garbage,
            });
            UserOutcome::Returned(waited, answer.map(Box::new))
        });
    }

    /// Records that the entry reported a user as missing from the round.
    pub(super) fn mark_missed(&mut self, user: u32, reason: MissedReason) {
        tracing::debug!(?reason, round = self.id.round, "a user missed a round");
        self.change_outcome(user, |_| UserOutcome::Missed);
    }

    fn close_time(&self) -> Time {
        self.open.plus_ms(self.policy.collect_ms.into())
    }

    /// Returns the time after which no reply counts.
    pub(super) fn end_time(&self) -> Time {
        self.close_time().plus_ms(u64::from(self.policy.mix_limit_ms) + GRACE_MS)
    }

    /// Returns true if every onion has its outcome, or the round's end has passed.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.end_time()
            || (self.is_prepared && now >= self.close_time() && self.waiting == 0)
    }

    /// Compares all replies with the expected ones.
    pub(super) fn judge_outcomes(&self, pairs: &Pairs) -> LoadReport {
        let mut latencies = Vec::new();
        let mut wrong = 0;
        let mut missed = 0;
        let mut sent = 0;
        for (user, outcome) in &self.outcomes {
            match outcome {
                UserOutcome::Ready(..) => continue,
                UserOutcome::Sent(..) => {}
                UserOutcome::Missed => missed += 1,
                UserOutcome::Returned(waited, answer) => {
                    latencies.push(*waited);
                    let right = answer.as_ref().is_none_or(|a| self.is_right(*user, a, pairs));
                    wrong += usize::from(!right);
                }
            }
            sent += 1;
        }
        latencies.sort_unstable();
        let at = |hundredths: usize| {
            latencies.get((latencies.len() * hundredths / 100).min(latencies.len().max(1) - 1))
        };
        LoadReport {
            round: self.id.round,
            open_ms: self.open.as_ms(),
            sent,
            returned: latencies.len(),
            right: latencies.len() - wrong,
            wrong,
            missed,
            latency_ms: [50, 99, 100].map(|part| at(part).copied().unwrap_or_default()),
            onions: self.onions,
            making: self.making,
        }
    }

    /// Returns true if a reply has the expected content: the partner's cell if the partner's onion
    /// returned, else no cell.
    fn is_right(&self, user: u32, answer: &DropResult, pairs: &Pairs) -> bool {
        let partner = pairs.partner(user);
        let theirs = partner.map(|partner| DropResult::Met(Ok(make_cell(partner, self.id.round))));
        match partner.and_then(|partner| self.outcomes.get(&partner)) {
            Some(UserOutcome::Returned(..)) => Some(answer) == theirs.as_ref(),
            // The partner's onion left, but it is unknown whether it arrived.
            Some(UserOutcome::Sent(..)) => {
                *answer == DropResult::Absent || Some(answer) == theirs.as_ref()
            }
            _ => *answer == DropResult::Absent,
        }
    }
}
