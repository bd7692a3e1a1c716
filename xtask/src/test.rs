//! `cargo xtask test`: all checks, one line each, then the skipped ones with their reasons.
//! `cargo xtask test quick` is the step before a commit: format, lints, rules, and every test that is
//! not named `slow_`.

mod binaries;
mod book;
mod count;
mod peers;
mod schedule;
mod steps;

use crate::run::Logs;
use crate::{dist, machine, needs};
use schedule::Outcome;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The context of all steps.
pub struct Context<'a> {
    /// The repository.
    root: &'a Path,
    /// The build directory.
    target: PathBuf,
    /// A log per step.
    logs: Logs,
    /// The tools found on this machine.
    tools: needs::TestTools,
    tier: Tier,
    /// The test programs built by the step `build`.
    binaries: OnceLock<Vec<binaries::TestBinary>>,
}

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// Without tests named `slow_`.
    Quick,
    Full,
}

/// The name of the quick tier on the command line.
const QUICK: &str = "quick";

/// The result of a step.
enum Verdict {
    /// The step passed; with the reasons of skipped tests.
    Passed(Vec<String>),
    /// The output of the failure.
    Failed(Vec<String>),
    /// The step cannot run here: `name: reason; how to enable it`.
    Skipped(String),
    /// A required step has failed.
    NotRun,
}

impl Verdict {
    /// Returns true if steps that need this one may run.
    fn allows_dependents(&self) -> bool {
        matches!(self, Self::Passed(_) | Self::Skipped(_))
    }
}

/// The results of all steps.
#[derive(Default)]
struct Tally {
    skipped: Vec<String>,
    /// Failed steps with their output.
    failed: Vec<(&'static str, Vec<String>)>,
}

/// Runs all steps, the quick ones, or those named in `args` with the steps they require.
pub fn test_all(root: &Path, args: &[String]) -> Result<(), String> {
    let begun = Instant::now();
    let install = !args.iter().any(|arg| arg == "--no-install");
    let names = args.iter().map(String::as_str).filter(|arg| *arg != "--no-install");
    let mut names = names.collect::<Vec<_>>();
    let tier = if names.contains(&QUICK) { Tier::Quick } else { Tier::Full };
    names.retain(|name| *name != QUICK);
    let is_unknown = |name: &&&str| steps::STEPS.iter().all(|step| step.name != **name);
    if let Some(unknown) = names.iter().find(is_unknown) {
        let all = steps::STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
        return Err(format!("no step `{unknown}`; there are: {QUICK}, {all}"));
    }
    if names.is_empty() {
        names = match tier {
            Tier::Quick => steps::QUICK_STEPS.to_vec(),
            Tier::Full => {
                let all = steps::STEPS.iter().map(|step| step.name);
                all.filter(|name| !steps::NAMED_STEPS.contains(name)).collect()
            }
        };
    }
    let target = machine::target_folder(root);
    let logs = Logs::new(&target)?;
    logs.remove_logs()?;
    // The quick tier runs before each commit, so it uses the installed tools.
    let tools = needs::find_tools(root, &target, &logs, install && tier == Tier::Full)?;
    let context = Context { root, target, logs, tools, tier, binaries: OnceLock::new() };
    let mut tally = Tally::default();
    let steps = schedule::select_steps(&steps::STEPS, &names);
    schedule::run_steps(&steps, &context, |outcome| tally.add_outcome(outcome, &context));
    let ended = tally.sum_up(begun.elapsed(), tier == Tier::Full && skips_are_errors());
    let count = count::Count::of_log(&context.logs.read_logs("test-"));
    if count != count::Count::default() {
        println!("{}", count.result_line(ended.is_ok(), begun.elapsed()));
    }
    ended
}

/// Returns true in CI, where a skipped check is a failed check.
pub fn skips_are_errors() -> bool {
    let set = |name| std::env::var(name).is_ok_and(|value| value == "true" || value == "1");
    set("CI") || set("MEZZA_REQUIRE_ALL")
}

impl Tally {
    fn add_outcome(&mut self, outcome: Outcome, context: &Context) {
        let Outcome { name, verdict, time } = outcome;
        let word = match &verdict {
            Verdict::Passed(skipped) if skipped.is_empty() => "ok".to_owned(),
            Verdict::Passed(skipped) => format!("ok, {} skipped", skipped.len()),
            Verdict::Skipped(_) => "SKIPPED".to_owned(),
            Verdict::Failed(_) => "FAILED".to_owned(),
            Verdict::NotRun => "not run".to_owned(),
        };
        println!("{name:.<24} {word:<16} {:>8}", format_time(time));
        match verdict {
            Verdict::Passed(skipped) => self.skipped.extend(skipped),
            Verdict::Skipped(reason) => self.skipped.push(reason),
            Verdict::Failed(lines) => {
                println!("    log: {}", context.logs.path(name).display());
                self.failed.push((name, lines));
            }
            // The required step is reported as failed.
            Verdict::NotRun => {}
        }
    }

    fn sum_up(mut self, time: Duration, require_all: bool) -> Result<(), String> {
        self.skipped.sort();
        self.skipped.dedup();
        println!("SKIPPED {}", self.skipped.len());
        for reason in &self.skipped {
            println!("    {reason}");
        }
        // Failures come last, so that they are at the end of a long output.
        for (name, lines) in &self.failed {
            println!("FAILED {name}");
            for line in lines {
                println!("    {line}");
            }
        }
        if !self.failed.is_empty() {
            let names = self.failed.iter().map(|(name, _)| *name).collect::<Vec<_>>();
            return Err(format!("FAILED: {} ({})", names.join(", "), format_time(time)));
        }
        // A mirror of Debian that does not answer says nothing about this tree.
        let counts = |reason: &String| !reason.starts_with(dist::OUTSIDE);
        if require_all && self.skipped.iter().any(counts) {
            let text = "here a skip is a failure (CI or MEZZA_REQUIRE_ALL is set)";
            return Err(format!("FAILED: {} skipped; {text}", self.skipped.len()));
        }
        println!("OK {}", format_time(time));
        Ok(())
    }
}

/// Formats a duration: `84 s` below two minutes, `3 min 20 s` above; tenths below ten seconds.
pub fn format_time(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        whole @ 10..120 => format!("{whole} s"),
        whole => format!("{} min {} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_fails_only_where_everything_must_run() {
        let tally = || Tally { skipped: vec!["a: b; c".to_owned()], ..Tally::default() };
        assert!(tally().sum_up(Duration::ZERO, false).is_ok());
        assert!(tally().sum_up(Duration::ZERO, true).is_err());
        assert!(Tally::default().sum_up(Duration::ZERO, true).is_ok());
        let failed = Tally { failed: vec![("fmt", Vec::new())], ..Tally::default() };
        let text = failed.sum_up(Duration::ZERO, false).expect_err("a failure");
        assert!(text.starts_with("FAILED: fmt"));
    }

    #[test]
    fn unknown_steps_are_named() {
        let text = test_all(Path::new("."), &["fmd".to_owned()]).expect_err("no such step");
        assert!(text.contains("`fmd`") && text.contains("clippy"));
    }

    #[test]
    fn times_for_people() {
        assert_eq!(format_time(Duration::from_millis(1_230)), "1.2 s");
        assert_eq!(format_time(Duration::from_secs(84)), "84 s");
        assert_eq!(format_time(Duration::from_secs(200)), "3 min 20 s");
    }
}
