//! Runs heavy work on threads without sockets and timers.
//!
//! ```text
//! machine -- Job --> two bounded queues --> threads --> report(Done | Lost)
//!                    a round waits | ahead of time
//! ```
//!
//! Jobs that a round waits for run before jobs done ahead of time; rayon has no priorities. A job
//! that panics costs its round and no other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezza_lanes::Kernel;
use mezza_mixnet::RoundId;
use mezza_mixnet::job::{Job, JobOutput, Urgency};
use rayon::{ThreadPool, ThreadPoolBuilder};

use mezza_host::api::Fault;
use mezza_host::process::busy::Phase;
use mezza_host::process::metrics::Metrics;

/// Maximum number of waiting jobs: four million onions at the smallest job size.
const JOBS_MAX: usize = 65_536;

/// The end of a job.
#[derive(Debug)]
pub(crate) enum JobEnd {
    /// The job returned a result.
    Done(Job, JobOutput),
    /// The job was lost; it belonged to this round.
    Lost(RoundId),
}

/// Reports the end of a job.
type Report = Box<dyn Fn(JobEnd) + Send + Sync>;

/// Threads and the jobs that wait for them. Waiting jobs are wiped when the pool is dropped.
pub(crate) struct WorkerPool {
    threads: ThreadPool,
    queue: Arc<JobQueue>,
}

struct JobQueue {
    kernel: &'static dyn Kernel,
    metrics: Arc<Metrics>,
    waiting: Mutex<Waiting>,
    report: Report,
}

#[derive(Default)]
struct Waiting {
    round: VecDeque<Job>,
    background: VecDeque<Job>,
}

impl WorkerPool {
    /// Starts the threads. `report` is called on them and may block; `metrics` record the cost of
    /// jobs.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn start(
        threads: usize,
        kernel: &'static dyn Kernel,
        metrics: Arc<Metrics>,
        report: impl Fn(JobEnd) + Send + Sync + 'static,
    ) -> Result<Self, Fault> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("mix-{n}"))
            .start_handler(move |n| stay(n, threads))
            // Without this handler a panic would end the process and every other round.
            .panic_handler(|_| tracing::error!("a job panicked; its round is lost"))
            .build()
            .map_err(|_| Fault::bug("the system refuses threads"))?;
        let queue =
            JobQueue { kernel, metrics, waiting: Mutex::default(), report: Box::new(report) };
        Ok(Self { threads, queue: Arc::new(queue) })
    }

    /// Queues a job by its urgency. Returns false if too many jobs wait.
    pub(crate) fn submit(&self, job: Job) -> bool {
        let mut waiting = self.queue.lock_waiting();
        if waiting.round.len() + waiting.background.len() >= JOBS_MAX {
            return false;
        }
        match job.urgency() {
            Urgency::Round => waiting.round.push_back(job),
            Urgency::Background => waiting.background.push_back(job),
        }
        drop(waiting);
        let queue = Arc::clone(&self.queue);
        self.threads.spawn(move || queue.run_next_job());
        true
    }

    /// Drops and wipes the waiting jobs for which `wanted` returns false (MIX-14).
    pub(crate) fn retain(&self, wanted: impl Fn(&Job) -> bool) {
        let mut waiting = self.queue.lock_waiting();
        waiting.round.retain(&wanted);
        waiting.background.retain(&wanted);
    }
}

/// Pins thread `n` to its own core if there is one core per thread. Without this, two threads woken
/// on one core may share it for milliseconds while another core idles. A job that is not started in
/// time is run by another thread.
#[cfg(target_os = "linux")]
fn stay(n: usize, threads: usize) {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    let this = Pid::from_raw(0);
    let Ok(all) = sched_getaffinity(this) else { return };
    let mut cores = (0..CpuSet::count()).filter(|core| all.is_set(*core) == Ok(true));
    if cores.clone().count() != threads {
        return;
    }
    let mut own = CpuSet::new();
    if cores.nth(n).is_some_and(|core| own.set(core).is_ok()) {
        // If the system refuses, the thread works on any core.
        let _ = sched_setaffinity(this, &own);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay(_: usize, _: usize) {}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.retain(|_| false);
    }
}

impl JobQueue {
    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the most urgent job, which may differ from the one that woke this thread.
    fn run_next_job(&self) {
        let mut waiting = self.lock_waiting();
        let next = waiting.round.pop_front().or_else(|| waiting.background.pop_front());
        drop(waiting);
        let Some(job) = next else { return };
        let guard = Guard { queue: self, id: Some(job.id()) };
        let done = self.metrics.busy.time_work(Phase::from_job(&job), || job.run(self.kernel));
        guard.report_end(JobEnd::Done(job, done));
    }
}

/// Reports a job as lost if it panics.
struct Guard<'a> {
    queue: &'a JobQueue,
    id: Option<RoundId>,
}

impl Guard<'_> {
    fn report_end(mut self, outcome: JobEnd) {
        self.id = None;
        (self.queue.report)(outcome);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            (self.queue.report)(JobEnd::Lost(id));
        }
    }
}

#[cfg(test)]
mod tests;
