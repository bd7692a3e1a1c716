//! Where the time of a round goes: the cores' time from the first frame to the last reply, by mix
//! and phase. What is not accounted for is CPU time that neither job nor link nor machine used.

use std::time::Duration;

use mezza::mixnet::busy::Phase;

use super::{Outcome, Spent};
use crate::machine;

/// Shares of the cores' time of a round.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Of each mix by phase.
    pub mixes: Vec<[f64; Phase::ALL.len()]>,
    /// Noise of each mix, made before the batch came: not part of the round, on the same scale.
    pub ahead: Vec<f64>,
    /// The desk's ends of its links, which are the entry's in a network.
    pub entry: f64,
    /// Cores without work of ours.
    pub wait: f64,
}

impl Shares {
    /// Of some rounds together.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let cores = u32::try_from(machine::cores()).unwrap_or(1);
        let sum = |part: &dyn Fn(&Outcome) -> Duration| {
            outcomes.iter().map(part).sum::<Duration>().as_secs_f64()
        };
        let whole = sum(&|o| o.wall * cores);
        let count = outcomes.first().map_or(0, |o| o.spent.len());
        let of = |at: usize, phase: Phase, from: fn(&Outcome) -> &Vec<Spent>| {
            sum(&|o| from(o)[at][phase as usize]) / whole
        };
        let mix = |at| Phase::ALL.map(|phase| of(at, phase, |o| &o.spent));
        Self {
            mixes: (0..count).map(mix).collect(),
            ahead: (0..count).map(|at| of(at, Phase::Noise, |o| &o.ahead)).collect(),
            entry: sum(&|o| o.own) / whole,
            wait: sum(&|o| (o.wall * cores).saturating_sub(o.cpu)) / whole,
        }
    }

    /// All mixes, one phase.
    pub fn phase(&self, phase: Phase) -> f64 {
        self.mixes.iter().map(|mix| mix[phase as usize]).sum()
    }

    /// What has a name: jobs, links, waiting. The machines between them have none here.
    pub fn sum(&self) -> f64 {
        let jobs = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Machine);
        jobs.map(|phase| self.phase(phase)).sum::<f64>() + self.entry + self.wait
    }

    /// The part of all CPU time that is cryptography, the noise made ahead included.
    pub fn cryptography(&self) -> f64 {
        let ahead: f64 = self.ahead.iter().sum();
        let inside = [Phase::Unwrap, Phase::Noise, Phase::Seal].map(|phase| self.phase(phase));
        (inside.iter().sum::<f64>() + ahead) / self.cpu()
    }

    /// The part of all CPU time that links take.
    pub fn links(&self) -> f64 {
        (self.phase(Phase::Link) + self.entry) / self.cpu()
    }

    fn cpu(&self) -> f64 {
        1.0 - self.wait + self.ahead.iter().sum::<f64>()
    }

    /// A table in per cent: a line for each mix, then the whole.
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
        let cells = Phase::ALL.map(|phase| format!("{:>9.1}", self.phase(phase) * 100.0));
        lines.push(format!("{:<8}{}", "all", cells.concat()));
        lines.push(format!(
            "entry's links {:.1}, wait {:.1}; jobs, links and wait together {:.1}",
            self.entry * 100.0,
            self.wait * 100.0,
            self.sum() * 100.0
        ));
        let used = (1.0 - self.wait) / 100.0;
        lines.push(format!(
            "of the CPU time of the round alone: jobs and links {:.1}, machines {:.1}",
            (self.sum() - self.wait) / used,
            self.phase(Phase::Machine) / used
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of 100 ms; so much of every core's time went nobody knows where.
    fn outcome(unaccounted_ms: u64) -> Outcome {
        let ms = Duration::from_millis;
        let mut spent: Spent = Default::default();
        spent[Phase::Unwrap as usize] = ms(60);
        spent[Phase::Link as usize] = ms(10);
        let cores = u64::try_from(machine::cores()).unwrap();
        let (wall, cpu) = (ms(100), ms(80 + unaccounted_ms * cores));
        let (own, making, ahead) = (ms(10), ms(0), vec![Spent::default()]);
        Outcome { wall, cpu, spent: vec![spent], ahead, own, making }
    }

    #[test]
    fn what_nobody_accounts_for_is_missing() {
        let whole = Shares::of(&[outcome(0)]);
        assert!((whole.sum() - 1.0).abs() < 1e-9, "{whole:?}");
        assert!((whole.cryptography() - 0.75).abs() < 1e-9 && (whole.links() - 0.25).abs() < 1e-9);
        assert!((Shares::of(&[outcome(3)]).sum() - 0.97).abs() < 1e-9);
        assert_eq!(whole.lines().len(), 5);
    }
}
