//! The CPU time that other programs use while an experiment runs.
#![expect(clippy::cast_precision_loss, reason = "CPU times stay far below 2^53 ticks")]

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{SysconfVar, sysconf};

use crate::machine;

/// The fields of a line `cpu` in `/proc/stat` that count idle time: `idle` and `iowait`.
const IDLE: [usize; 2] = [3, 4];
/// The fields behind these count guests a second time.
const FIELDS: usize = 8;

/// CPU times at a moment.
pub struct CpuTimes {
    at: Instant,
    /// Seconds of all programs and of the hypervisor's other guests, of all cores.
    all_s: f64,
    /// Seconds of this program and of its children that have ended.
    own_s: f64,
}

impl CpuTimes {
    /// Reads the times; `None` where the system has no `/proc/stat`.
    pub fn read() -> Option<Self> {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok()??;
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let all_s = parse_busy_ticks(&stat)? as f64 / ticks as f64;
        let own_us = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| {
            let usage = getrusage(who).ok()?;
            Some(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
        });
        let own_us = own_us.into_iter().sum::<Option<i64>>()?;
        Some(Self { at: Instant::now(), all_s, own_s: own_us as f64 / 1e6 })
    }

    /// Returns the share of all cores that others used since then, percent.
    pub fn others_since(&self, now: &Self) -> f64 {
        let cores = machine::count_cores() as f64;
        let whole_s = (now.at - self.at).as_secs_f64() * cores;
        let others_s = (now.all_s - self.all_s) - (now.own_s - self.own_s);
        (100.0 * others_s / whole_s.max(1e-3)).clamp(0.0, 100.0)
    }
}

/// Returns the ticks of all cores that were not idle.
fn parse_busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields = line.split_whitespace().take(FIELDS).enumerate();
    let busy = fields.filter(|(at, _)| !IDLE.contains(at));
    busy.map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_and_guests_are_not_counted() {
        let stat = "cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse_busy_ticks(stat), Some(63));
        assert_eq!(parse_busy_ticks("intr 5\n"), None);
    }

    #[test]
    fn own_work_is_not_that_of_others() {
        let at = Instant::now();
        let then = CpuTimes { at, all_s: 10.0, own_s: 1.0 };
        let now =
            |all_s, own_s| CpuTimes { at: at + std::time::Duration::from_secs(2), all_s, own_s };
        assert!(then.others_since(&now(12.0, 3.0)).abs() < 1e-9);
        let half = 50.0 / machine::count_cores() as f64;
        assert!((then.others_since(&now(12.0, 2.0)) - half).abs() < 1e-9);
        assert!(CpuTimes::read().is_some());
    }
}
