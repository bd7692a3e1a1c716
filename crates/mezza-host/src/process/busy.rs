//! The CPU time of a mix by phase, summed up over all rounds.
//!
//! It stays in the process and is not among the [`metrics`](super::metrics): the cost of a round's
//! own noise would show its amount, which is the secret of noise (MIX-32).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use mezza_mixnet::job::Job;
use nix::time::{ClockId, clock_gettime};

/// Parts of the work of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Layers are taken off onions.
    Unwrap,
    /// Own noise is made, ahead of its round, and looked at when it comes back.
    Noise,
    /// Batches are permuted, doubles found.
    Permute,
    /// Accesses of a dead drop are put together, buckets are filled.
    Match,
    /// Replies are sealed.
    Seal,
    /// Frames go over links: TLS, sockets, cutting them out of bytes.
    Link,
    /// The machine between them: counts, states, which frame goes where.
    Machine,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Unwrap,
        Self::Noise,
        Self::Permute,
        Self::Match,
        Self::Seal,
        Self::Link,
        Self::Machine,
    ];

    /// Returns true if it is made of jobs, which threads of their own run.
    pub const fn is_job(self) -> bool {
        !matches!(self, Self::Link | Self::Machine)
    }

    /// The phase of a job.
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
    /// Threads that are at it now.
    now: [AtomicU64; Phase::ALL.len()],
}

impl Busy {
    /// Runs work that is part of a phase.
    pub fn time_work<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        self.now[phase as usize].fetch_add(1, Ordering::Relaxed);
        let before = thread_cpu();
        let done = work();
        let spent = thread_cpu().saturating_sub(before);
        self.ns[phase as usize].fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
        self.now[phase as usize].fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// A task that is part of a phase: each of its steps counts, its waiting does not.
    pub async fn time_task<T>(&self, phase: Phase, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        poll_fn(|context| -> Poll<T> { self.time_work(phase, || task.as_mut().poll(context)) })
            .await
    }

    /// The CPU time of a phase until now.
    pub fn cpu_time(&self, phase: Phase) -> Duration {
        Duration::from_nanos(self.ns[phase as usize].load(Ordering::Relaxed))
    }

    /// Returns true if a thread is at it now.
    pub fn is_at(&self, phase: Phase) -> bool {
        self.now[phase as usize].load(Ordering::Relaxed) > 0
    }
}

/// CPU time of this thread; a system without such a clock counts nothing.
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
