//! The order of the steps. A step starts when its required steps have passed and its lane is free,
//! so that steps that wait for timers or disks run in parallel to steps that compute.

use super::{Context, Verdict};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The work of one step; an `Err` is a failure like any other.
pub type Work = fn(&Context) -> Result<Verdict, String>;

/// One step.
pub struct Step {
    /// The name of the step on the command line and in the table.
    pub name: &'static str,
    /// Steps that must have passed before this one starts.
    pub needs: &'static [&'static str],
    pub lane: Lane,
    pub work: Work,
}

/// The scarce resource that a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The lock of the build folder. Two compilations would only wait for each other.
    Cargo,
    /// A core for most of its time.
    Compute,
    /// Real programs that mostly wait for timers, sockets and each other.
    Processes,
    /// Few resources: runs in parallel to everything else.
    Light,
    /// The whole machine, for measurements. Runs last and alone.
    Alone,
}

/// The outcome of one step.
pub struct Outcome {
    pub name: &'static str,
    pub verdict: Verdict,
    pub time: Duration,
}

/// Returns the named steps and all steps that they require, in the order of the list.
pub fn select_steps<'a>(all: &'a [Step], names: &[&str]) -> Vec<&'a Step> {
    let mut chosen = names.to_vec();
    let mut next = 0;
    while let Some(name) = chosen.get(next).copied() {
        let step = all.iter().find(|step| step.name == name);
        let needs = step.map(|step| step.needs).unwrap_or_default();
        let missing = needs.iter().copied().filter(|need| !chosen.contains(need));
        let missing = missing.collect::<Vec<_>>();
        chosen.extend(missing);
        next += 1;
    }
    all.iter().filter(|step| chosen.contains(&step.name)).collect()
}

/// Runs `steps` and reports the outcome of each in the order of completion.
pub fn run_steps(steps: &[&Step], context: &Context, mut report: impl FnMut(Outcome)) {
    let mut course = Course { waiting: steps.to_vec(), running: Vec::new(), failed: Vec::new() };
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        loop {
            while let Some(name) = course.next_blocked() {
                // A failed compilation has printed its errors; its dependents have none of their
                // own.
                report(Outcome { name, verdict: Verdict::NotRun, time: Duration::ZERO });
            }
            while let Some(step) = course.next_ready() {
                let sender = sender.clone();
                scope.spawn(move || {
                    let begun = Instant::now();
                    let verdict = (step.work)(context);
                    let verdict = verdict.unwrap_or_else(|text| Verdict::Failed(vec![text]));
                    let outcome = Outcome { name: step.name, verdict, time: begun.elapsed() };
                    let _ = sender.send(outcome);
                });
            }
            if course.running.is_empty() {
                return;
            }
            let Ok(outcome) = outcomes.recv() else { return };
            course.end_step(outcome.name, outcome.verdict.allows_dependents());
            report(outcome);
        }
    });
}

/// The steps that have not ended.
struct Course<'a> {
    waiting: Vec<&'a Step>,
    running: Vec<&'a Step>,
    failed: Vec<&'static str>,
}

impl<'a> Course<'a> {
    /// Moves the first step that may start to the running ones. Returns it.
    fn next_ready(&mut self) -> Option<&'a Step> {
        let ready = self.waiting.iter().position(|step| self.may_start(step))?;
        let step = self.waiting.remove(ready);
        self.running.push(step);
        Some(step)
    }

    fn may_start(&self, step: &Step) -> bool {
        let unfinished = self.waiting.iter().chain(&self.running);
        let is_free = match step.lane {
            Lane::Light => true,
            Lane::Alone => {
                self.running.is_empty() && self.waiting.iter().all(|s| s.lane == Lane::Alone)
            }
            lane => self.running.iter().all(|running| running.lane != lane),
        };
        is_free && unfinished.into_iter().all(|other| !step.needs.contains(&other.name))
    }

    /// Removes a step whose requirements cannot be met any more. Returns its name.
    fn next_blocked(&mut self) -> Option<&'static str> {
        let is_blocked = |step: &&Step| step.needs.iter().any(|need| self.failed.contains(need));
        let blocked = self.waiting.iter().position(is_blocked)?;
        let name = self.waiting.remove(blocked).name;
        self.failed.push(name);
        Some(name)
    }

    fn end_step(&mut self, name: &'static str, passed: bool) {
        self.running.retain(|step| step.name != name);
        if !passed {
            self.failed.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(name: &'static str, needs: &'static [&'static str], lane: Lane) -> Step {
        Step { name, needs, lane, work: |_| Err("these tests run no step".to_owned()) }
    }

    const STEPS: [Step; 5] = [
        step("build", &[], Lane::Cargo),
        step("lint", &["build"], Lane::Cargo),
        step("test", &["build"], Lane::Compute),
        step("figures", &["build"], Lane::Alone),
        step("words", &[], Lane::Light),
    ];

    fn course() -> Course<'static> {
        static ALL: [Step; 5] = STEPS;
        Course { waiting: ALL.iter().collect(), running: Vec::new(), failed: Vec::new() }
    }

    fn start_all(course: &mut Course) -> Vec<&'static str> {
        std::iter::from_fn(|| course.next_ready()).map(|step| step.name).collect()
    }

    #[test]
    fn steps_start_when_their_needs_have_passed_and_their_lane_is_free() {
        let mut course = course();
        assert_eq!(start_all(&mut course), ["build", "words"]);
        assert_eq!(start_all(&mut course), [""; 0]);
        course.end_step("build", true);
        assert_eq!(start_all(&mut course), ["lint", "test"]);
        course.end_step("words", true);
        course.end_step("test", true);
        assert_eq!(start_all(&mut course), [""; 0], "figures are measured beside nothing else");
        course.end_step("lint", true);
        assert_eq!(start_all(&mut course), ["figures"]);
    }

    #[test]
    fn dependents_of_a_failed_step_do_not_run() {
        let mut course = course();
        start_all(&mut course);
        course.end_step("build", false);
        let blocked = std::iter::from_fn(|| course.next_blocked()).collect::<Vec<_>>();
        assert_eq!(blocked, ["lint", "test", "figures"]);
        assert!(course.waiting.is_empty());
    }

    #[test]
    fn a_named_step_brings_the_steps_it_needs() {
        let all = STEPS;
        let names = |wanted: &[&str]| {
            select_steps(&all, wanted).iter().map(|step| step.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["test"]), ["build", "test"]);
        assert_eq!(names(&["words", "figures"]), ["build", "figures", "words"]);
    }
}
