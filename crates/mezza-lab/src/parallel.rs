//! Calculations on all cores. Code that measures time must not run here.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::machine;

/// Runs `work` on each of `jobs`, on all cores. Returns the results in the order of the jobs.
pub fn map_parallel<T: Send, R: Send>(jobs: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    map_on(machine::count_cores(), jobs, work)
}

/// Runs `work` on each of `jobs` with `threads` threads. Returns the results in the order of the
/// jobs.
pub fn map_with<T: Send, R: Send>(
    threads: usize,
    jobs: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    map_on(threads, jobs, work)
}

fn map_on<T: Send, R: Send>(cores: usize, jobs: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one = || std::iter::from_fn(next).map(|(at, job)| (at, work(job))).collect::<Vec<_>>();
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one)).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|e| resume_unwind(e)));
        ended.flatten().collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every job runs once and the results are in order, for any number of threads.
    #[test]
    fn lab_8_any_number_of_threads_gives_the_same() {
        let expected: Vec<u64> = (0..100).map(|job| job * job).collect();
        for cores in [1, 2, 5] {
            assert_eq!(map_on(cores, (0..100).collect(), |job: u64| job * job), expected);
        }
        assert_eq!(map_parallel(Vec::new(), |job: u64| job), [0_u64; 0]);
    }
}
