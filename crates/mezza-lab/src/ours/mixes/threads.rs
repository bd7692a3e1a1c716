//! CPU time of the threads of this process by their work, from the kernel's counters. They include the
//! work around jobs, links and machines, which the mixes do not measure themselves.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// CPU time since the start, or between two calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads that run the jobs of mixes.
    pub pool: Duration,
    /// All other threads except the caller: they carry links and run machines.
    pub runtime: Duration,
    /// The caller's thread, which is the coordinator's.
    pub coordinator: Duration,
}

impl Threads {
    /// The CPU time of the threads until now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn now() -> Result<Self> {
        let own = fs::read_link("/proc/thread-self").context("/proc/thread-self")?;
        let mut sum = Self::default();
        for thread in fs::read_dir("/proc/self/task").context("/proc/self/task")? {
            let path = thread?.path();
            // A thread that ends between the two reads has no figures any more and is skipped.
            let (Ok(name), Ok(stat)) =
                (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("schedstat")))
            else {
                continue;
            };
            let used = stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default();
            let of = if path.file_name() == own.file_name() {
                &mut sum.coordinator
            } else if name.starts_with("mix-") {
                &mut sum.pool
            } else {
                &mut sum.runtime
            };
            *of += Duration::from_nanos(used);
        }
        Ok(sum)
    }

    /// The CPU time since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            pool: self.pool.saturating_sub(before.pool),
            runtime: self.runtime.saturating_sub(before.runtime),
            coordinator: self.coordinator.saturating_sub(before.coordinator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::thread_cpu;

    #[test]
    fn each_thread_counts_for_what_it_is() {
        let (before, ms) = (Threads::now().unwrap(), Duration::from_millis);
        // By CPU time: a busy machine may give a thread none of 40 ms.
        let spin = move || {
            let begun = thread_cpu().unwrap();
            while thread_cpu().unwrap() < begun + ms(40) {}
        };
        let (seen, wait) = std::sync::mpsc::channel::<()>();
        let (done, ready) = std::sync::mpsc::channel();
        let work = move || {
            spin();
            done.send(()).unwrap();
            // A thread that has ended has no figures.
            wait.recv().ok();
        };
        let pool = std::thread::Builder::new().name("mix-0".into()).spawn(work).unwrap();
        ready.recv().unwrap();
        spin();
        let used = Threads::now().unwrap().since(before);
        assert!(used.pool >= ms(5) && used.coordinator >= ms(5), "{used:?}");
        drop(seen);
        pool.join().unwrap();
    }
}
