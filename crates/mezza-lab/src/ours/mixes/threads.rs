//! CPU time of the threads of this process by their work, from the kernel's counters. These include
//! the work around jobs, links and state machines, which the mixes do not measure themselves.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// CPU time between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads that run the jobs of mixes.
    pub pool: Duration,
    /// All other threads except the caller: they run links and state machines.
    pub runtime: Duration,
    /// The caller's thread, which is the coordinator's thread.
    pub coordinator: Duration,
}

/// The kind of work of a thread.
#[derive(Clone, Copy)]
enum Work {
    Pool,
    Runtime,
    Coordinator,
}

/// The CPU time of each thread so far, by thread number.
pub struct ThreadReading(BTreeMap<OsString, (Work, Duration)>);

impl ThreadReading {
    /// Reads the kernel's counters.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn now() -> Result<Self> {
        let own = fs::read_link("/proc/thread-self").context("/proc/thread-self")?;
        let mut threads = BTreeMap::new();
        for thread in fs::read_dir("/proc/self/task").context("/proc/self/task")? {
            let path = thread?.path();
            // A thread that ends between the two reads has no figures and is skipped.
            let (Some(number), Ok(name), Ok(stat)) = (
                path.file_name(),
                fs::read_to_string(path.join("comm")),
                fs::read_to_string(path.join("schedstat")),
            ) else {
                continue;
            };
            let used = stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default();
            let work = if Some(number) == own.file_name() {
                Work::Coordinator
            } else if name.starts_with("mix-") {
                Work::Pool
            } else {
                Work::Runtime
            };
            threads.insert(number.to_owned(), (work, Duration::from_nanos(used)));
        }
        Ok(Self(threads))
    }

    /// Returns the CPU time since `before`. A thread that ended meanwhile is not counted.
    #[must_use]
    pub fn time_since(&self, before: &Self) -> Threads {
        let mut sum = Threads::default();
        for (number, (work, used)) in &self.0 {
            let begun = before.0.get(number).map_or(Duration::ZERO, |(_, used)| *used);
            let of = match work {
                Work::Pool => &mut sum.pool,
                Work::Runtime => &mut sum.runtime,
                Work::Coordinator => &mut sum.coordinator,
            };
            *of += used.saturating_sub(begun);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::thread_cpu;

    #[test]
    fn each_thread_counts_for_what_it_is() {
        let ms = Duration::from_millis;
        let before = ThreadReading::now().unwrap();
        // Spin by CPU time: a busy machine may give a thread none of 40 ms of wall time.
        let spin = move || {
            let begun = thread_cpu().unwrap();
            while thread_cpu().unwrap() < begun + ms(40) {}
        };
        let (seen, wait) = std::sync::mpsc::channel::<()>();
        let (done, ready) = std::sync::mpsc::channel();
        let work = move || {
            spin();
            done.send(()).unwrap();
            // An ended thread has no figures.
            wait.recv().ok();
        };
        let pool = std::thread::Builder::new().name("mix-0".into()).spawn(work).unwrap();
        ready.recv().unwrap();
        spin();
        let used = ThreadReading::now().unwrap().time_since(&before);
        assert!(used.pool >= ms(5) && used.coordinator >= ms(5), "{used:?}");
        drop(seen);
        pool.join().unwrap();
    }
}
