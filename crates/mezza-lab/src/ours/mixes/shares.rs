//! The time of a round by mix and phase: the time of all cores from the first frame to the last
//! reply. The time that threads spend around jobs and links is printed by kind and counts as
//! unaccounted.

use std::time::Duration;

use mezza::testing::process::busy::Phase;

use super::round::{PhaseCpu, RoundTiming};
use crate::machine;

/// Shares of the cores' time of a round.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The share of each mix, by phase of its work.
    pub mixes: Vec<[f64; Phase::ALL.len()]>,
    /// The share of each mix for noise made before the batch. It is not part of the round and has
    /// the same scale.
    pub ahead: Vec<f64>,
    /// The share of the coordinator's ends of its links, which belong to the entry server in a real
    /// network.
    pub entry: f64,
    /// The share that the threads of the mixes' pools spend outside the jobs themselves: fetching a
    /// job, handing over its result, going to sleep.
    pub pool: f64,
    /// The share that the runtime's threads spend on scheduling, outside links and state machines.
    pub runtime: f64,
    /// The share of the coordinator, which sends the batch and collects the replies.
    pub coordinator: f64,
    /// The share of time in which the cores do no work for this process.
    pub wait: f64,
}

impl Shares {
    /// Computes the shares of some rounds together.
    pub fn from_rounds(outcomes: &[RoundTiming]) -> Self {
        let cores = u32::try_from(machine::count_cores()).unwrap_or(1);
        let sum = |part: &dyn Fn(&RoundTiming) -> Duration| {
            outcomes.iter().map(part).sum::<Duration>().as_secs_f64()
        };
        let whole = sum(&|o| o.wall * cores);
        let count = outcomes.first().map_or(0, |o| o.spent.len());
        let of = |at: usize, phase: Phase, from: fn(&RoundTiming) -> &Vec<PhaseCpu>| {
            sum(&|o| from(o)[at][phase as usize]) / whole
        };
        let mix = |at| Phase::ALL.map(|phase| of(at, phase, |o| &o.spent));
        let mixes: Vec<_> = (0..count).map(mix).collect();
        let entry = sum(&|o| o.own) / whole;
        let part = |mix: &[f64; Phase::ALL.len()], is_job| -> f64 {
            let those = Phase::ALL.into_iter().filter(|phase| phase.is_job() == is_job);
            those.map(|phase| mix[phase as usize]).sum()
        };
        let all = |is_job| mixes.iter().map(|mix| part(mix, is_job)).sum::<f64>();
        Self {
            ahead: (0..count).map(|at| of(at, Phase::Noise, |o| &o.ahead)).collect(),
            pool: sum(&|o| o.threads.pool) / whole - all(true),
            runtime: sum(&|o| o.threads.runtime) / whole - all(false) - entry,
            coordinator: sum(&|o| o.threads.coordinator) / whole,
            mixes,
            entry,
            wait: sum(&|o| (o.wall * cores).saturating_sub(o.cpu)) / whole,
        }
    }

    /// Returns the share of one phase over all mixes.
    pub fn phase_share(&self, phase: Phase) -> f64 {
        self.mixes.iter().map(|mix| mix[phase as usize]).sum()
    }

    /// Returns the share of jobs, links and waiting, which excludes all scheduling.
    pub fn work(&self) -> f64 {
        let work = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Machine);
        work.map(|phase| self.phase_share(phase)).sum::<f64>() + self.entry + self.wait
    }

    /// Returns the part of all CPU time that is cryptography, including noise made ahead.
    pub fn cryptography_share(&self) -> f64 {
        let ahead: f64 = self.ahead.iter().sum();
        let inside =
            [Phase::Unwrap, Phase::Noise, Phase::Seal].map(|phase| self.phase_share(phase));
        (inside.iter().sum::<f64>() + ahead) / self.cpu_share()
    }

    /// Returns the part of the elapsed time of all cores that is cryptography within the round.
    pub fn cryptography_in_round(&self) -> f64 {
        [Phase::Unwrap, Phase::Noise, Phase::Seal].map(|phase| self.phase_share(phase)).iter().sum()
    }

    /// Returns the part of the elapsed time of all cores that is used by links or idle.
    pub fn links_and_waiting(&self) -> f64 {
        self.phase_share(Phase::Link) + self.entry + self.wait
    }

    /// Returns the part of all CPU time that links use.
    pub fn links_share(&self) -> f64 {
        (self.phase_share(Phase::Link) + self.entry) / self.cpu_share()
    }

    fn cpu_share(&self) -> f64 {
        1.0 - self.wait + self.ahead.iter().sum::<f64>()
    }

    /// Formats a table in percent: a line per mix, then the total.
    pub fn lines(&self) -> Vec<String> {
        let head = Phase::ALL.map(|phase| format!("{:>9}", format!("{phase:?}").to_lowercase()));
        let mut lines = vec![format!("{:<8}{}{:>16}", "%", head.concat(), "noise ahead")];
        for (at, (mix, ahead)) in self.mixes.iter().zip(&self.ahead).enumerate() {
            let cells = mix.map(|share| format!("{:>9.1}", share * 100.0));
            lines.push(format!(
                "{:<8}{}{:>16.1}",
                format!("mix {at}"),
                cells.concat(),
                ahead * 100.0
            ));
        }
        let cells = Phase::ALL.map(|phase| format!("{:>9.1}", self.phase_share(phase) * 100.0));
        lines.push(format!("{:<8}{}", "all", cells.concat()));
        let [entry, wait, work] = [self.entry, self.wait, self.work()].map(|share| share * 100.0);
        lines.push(format!(
            "entry's links {entry:.1}, wait {wait:.1}; jobs, links and wait together {work:.1}"
        ));
        let [pool, runtime, coordinator] =
            [self.pool, self.runtime, self.coordinator].map(|share| share * 100.0);
        lines.push(format!(
            "around them: threads of jobs {pool:.1}, runtime of links and machines {runtime:.1}, coordinator {coordinator:.1}"
        ));
        let used = (1.0 - self.wait) / 100.0;
        lines.push(format!(
            "of the CPU time of the round alone: jobs and links {:.1}, machines {:.1}",
            (self.work() - self.wait) / used,
            self.phase_share(Phase::Machine) / used
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::mixes::threads::Threads;

    /// Makes a round of 100 ms, of which `unaccounted_ms` of each core belong to no phase.
    fn outcome(unaccounted_ms: u64) -> RoundTiming {
        let ms = Duration::from_millis;
        let mut spent: PhaseCpu = Default::default();
        spent[Phase::Unwrap as usize] = ms(60);
        spent[Phase::Link as usize] = ms(10);
        let cores = u64::try_from(machine::count_cores()).unwrap();
        let wall = ms(100);
        let cpu = ms(90 + unaccounted_ms * cores);
        let own = ms(10);
        let making = ms(0);
        let ahead = vec![PhaseCpu::default()];
        let threads = Threads { pool: ms(64), runtime: ms(23), coordinator: ms(3) };
        RoundTiming { wall, cpu, spent: vec![spent], ahead, own, threads, making }
    }

    #[test]
    fn what_nobody_accounts_for_is_missing() {
        let whole = Shares::from_rounds(&[outcome(0)]);
        let cores = f64::from(u32::try_from(machine::count_cores()).unwrap());
        let is = |share: f64, ms: f64| (share * cores * 100.0 - ms).abs() < 1e-6;
        assert!(
            is(whole.pool, 4.0) && is(whole.runtime, 3.0) && is(whole.coordinator, 3.0),
            "{whole:?}"
        );
        // Of 100 ms of each core: all except the 10 ms around jobs and links.
        assert!(is(1.0 - whole.work(), 10.0), "{whole:?}");
        assert!((whole.cryptography_share() - 60.0 / 90.0).abs() < 1e-9, "{whole:?}");
        assert!((whole.links_share() - 20.0 / 90.0).abs() < 1e-9);
        assert!(is(whole.cryptography_in_round(), 60.0), "{whole:?}");
        // 20 ms of links, and all time that is not CPU time.
        assert!(is(whole.links_and_waiting(), 20.0 + cores * 100.0 - 90.0), "{whole:?}");
        let missing = whole.work() - Shares::from_rounds(&[outcome(3)]).work();
        assert!((missing - 0.03).abs() < 1e-9, "{missing}");
        assert_eq!(whole.lines().len(), 6);
    }
}
