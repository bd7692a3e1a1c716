//! The CPU time of a mix by phase, summed over all rounds.
//!
//! It is not exported among the [`metrics`](super::metrics): the cost of a round's own noise would
//! reveal its amount, which must stay secret (MIX-32).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use mezza_mixnet::job::Job;
use nix::time::{ClockId, clock_gettime};

/// A part of the work of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Removing layers from onions.
    Unwrap,
    /// Making own noise ahead of its round, and checking it when it returns.
    Noise,
    /// Permuting batches and finding duplicates.
    Permute,
    /// Matching the accesses of a dead drop, and filling buckets.
    Match,
    /// Sealing replies.
    Seal,
    /// Carrying frames over links: TLS, sockets, deframing.
    Link,
    /// The machine itself: counts, states, routing of frames.
    Machine,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 7] = [
        Self::Unwrap,
        Self::Noise,
        Self::Permute,
        Self::Match,
        Self::Seal,
        Self::Link,
        Self::Machine,
    ];

    /// Returns true if the phase consists of jobs on the worker threads.
    pub const fn is_job(self) -> bool {
        !matches!(self, Self::Link | Self::Machine)
    }

    /// Returns the phase of a job.
    pub const fn from_job(job: &Job) -> Self {
        match job {
            Job::Unwrap(_) => Self::Unwrap,
            Job::Table(_) | Job::Noise(_) | Job::Trap(_) => Self::Noise,
            Job::Shuffle(_) | Job::Gather(_) => Self::Permute,
            Job::Match(_) | Job::Publish(_) => Self::Match,
            Job::Seal(_) => Self::Seal,
        }
    }
}

/// CPU time by phase.
#[derive(Debug, Default)]
pub struct Busy {
    ns: [AtomicU64; Phase::ALL.len()],
    /// Number of threads that are in each phase now.
    now: [AtomicU64; Phase::ALL.len()],
}

impl Busy {
    /// Runs work and counts its CPU time for a phase.
    pub fn time_work<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        self.now[phase as usize].fetch_add(1, Ordering::Relaxed);
        let before = thread_cpu();
        let done = work();
        let spent = thread_cpu().saturating_sub(before);
        self.ns[phase as usize].fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
        self.now[phase as usize].fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Runs a task and counts the CPU time of its polls for a phase; waiting does not count.
    pub async fn time_task<T>(&self, phase: Phase, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        poll_fn(|context| -> Poll<T> { self.time_work(phase, || task.as_mut().poll(context)) })
            .await
    }

    /// Returns the CPU time of a phase until now.
    pub fn cpu_time(&self, phase: Phase) -> Duration {
        Duration::from_nanos(self.ns[phase as usize].load(Ordering::Relaxed))
    }

    /// Returns true if a thread is in this phase now.
    pub fn is_at(&self, phase: Phase) -> bool {
        self.now[phase as usize].load(Ordering::Relaxed) > 0
    }
}

/// Returns the CPU time of this thread, or zero if the system has no such clock.
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(long: Duration) {
        let end = thread_cpu() + long;
        while thread_cpu() < end {}
    }

    #[test]
    fn work_counts_where_it_belongs_and_waiting_does_not() {
        let busy = Busy::default();
        let some = Duration::from_millis(5);
        let is_at = || [Phase::Seal, Phase::Match].map(|phase| busy.is_at(phase));
        let seen = busy.time_work(Phase::Seal, || (spin(some), is_at()).1);
        assert_eq!((seen, is_at()), ([true, false], [false; 2]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(busy.time_task(Phase::Link, async {
            spin(some);
            tokio::time::sleep(Duration::from_secs(1)).await;
            spin(some);
        }));
        let of = |phase| busy.cpu_time(phase).as_millis();
        assert!((5..500).contains(&of(Phase::Seal)), "{busy:?}");
        assert!((10..500).contains(&of(Phase::Link)), "{busy:?}");
        assert_eq!(of(Phase::Unwrap), 0);
    }
}
