//! An experiment as a page of `docs/lab`: its origin, its table, the rows in which ours loses, its
//! claims, its figure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use serde_json::Value;

use super::RunOptions;
use super::experiment::{Experiment, Report};
use crate::args::SEED;
use crate::machine::Hardware;
use crate::raw;
use crate::shape::Claim;

/// The origin of a page: program, machine and run.
pub struct PageHead {
    id: &'static str,
    about: &'static str,
    /// The command with all options that are not the default.
    command: String,
    is_timed: bool,
    took: Duration,
    /// The share of all cores that other programs used meanwhile, percent; `None` if unknown.
    others: Option<f64>,
    machine: Hardware,
    commit: String,
}

impl PageHead {
    /// Makes the head of a run that has just ended on this machine, in this repository.
    pub fn for_run(
        experiment: &Experiment,
        options: RunOptions<'_>,
        took: Duration,
        others: Option<f64>,
    ) -> Self {
        let (commit, dirty) = raw::find_commit();
        let commit = commit.map_or_else(|| "unknown".into(), |commit| commit[..12].to_owned());
        Self {
            id: experiment.id,
            about: experiment.about,
            command: command_of(experiment, options),
            is_timed: experiment.exclusive,
            took,
            others,
            machine: Hardware::of_this_machine(),
            commit: if dirty == Some(true) { format!("{commit} with changes") } else { commit },
        }
    }

    fn head_text(&self, report: &Report) -> String {
        let Self { about, command, took, machine, commit, .. } = self;
        let Hardware { cpu, cores, gib, kernel, .. } = machine;
        let verdict = describe_claims(&report.shapes);
        let tolerance = if self.is_timed {
            let others = self.others.map_or_else(String::new, |percent| {
                format!(" Other programs used {percent:.0} % of its CPU time meanwhile.")
            });
            format!("Times depend on the machine.{others}")
        } else {
            "No figure depends on the speed of the machine, except where a line says so; the same commit \
             and seeds\ngive the others again."
                .to_owned()
        };
        let missing = if report.absent.is_empty() {
            ""
        } else {
            "**Rows and claims are missing, since a program is absent: see the end.**\n"
        };
        format!(
            "# {about}\n\nMade by `{command}` at commit {commit} in {} s\n\
             on machine {} ({cpu}, {cores} cores, {gib} GiB, Linux {kernel}).\n{tolerance}\n{verdict}\n\
             {missing}",
            took.as_secs().max(1),
            machine.id(),
        )
    }
}

/// Returns the command that gives the figures of a run again.
fn command_of(experiment: &Experiment, options: RunOptions<'_>) -> String {
    let RunOptions { profile, seed, params } = options;
    let mut words = vec![format!("mezza-lab run {} --profile {}", experiment.id, profile.name())];
    if seed != SEED {
        words.push(format!("--seed {seed}"));
    }
    for (name, value) in params.as_object().into_iter().flatten() {
        match value {
            // A form of the output changes no figure.
            Value::Bool(_) if name == "stream" => {}
            Value::Bool(_) => words.push(format!("--{name}")),
            Value::String(text) => words.push(format!("--{name} {text}")),
            other => words.push(format!("--{name} {other}")),
        }
    }
    words.join(" ")
}

/// Describes how many of the claims of a run hold.
pub fn describe_claims(claims: &[Claim]) -> String {
    let failing = claims.iter().filter(|claim| claim.fails()).count();
    let undecided = claims.iter().filter(|claim| claim.is_undecided).count();
    let rest = match (undecided, claims.len()) {
        (0, _) => return describe_decided(claims.len(), failing),
        (1, 1) => return "**The one claim of this run is undecided: see its rounds.**".to_owned(),
        (1, _) => "1 is undecided: see its rounds".to_owned(),
        (several, _) => format!("{several} are undecided: see their rounds"),
    };
    let all = claims.len();
    format!(
        "**Of the {all} claims of this run {} hold, {failing} fail, {rest}.**",
        all - failing - undecided
    )
}

fn describe_decided(count: usize, failing: usize) -> String {
    match (count, failing) {
        (0, _) => "This run makes no claim.".to_owned(),
        (1, 0) => "The one claim of this run holds.".to_owned(),
        (1, _) => "**The one claim of this run fails.**".to_owned(),
        (2, 0) => "Both claims of this run hold.".to_owned(),
        (all, 0) => format!("All {all} claims of this run hold."),
        (all, 1) => format!("**1 of the {all} claims of this run fails.**"),
        (all, failing) => format!("**{failing} of the {all} claims of this run fail.**"),
    }
}

/// Writes the page and its figure into a folder. Returns the path of the page.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn write_page(folder: &Path, head: &PageHead, report: &Report) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = |ending: &str| folder.join(format!("{}.{ending}", head.id));
    if let Some(plot) = &report.plot {
        std::fs::write(path("svg"), plot.to_svg())
            .with_context(|| path("svg").display().to_string())?;
    }
    let page = path("md");
    std::fs::write(&page, page_text(head, report)).with_context(|| page.display().to_string())?;
    Ok(page)
}

fn page_text(head: &PageHead, report: &Report) -> String {
    let lines = report.lines.join("\n");
    let mut parts = vec![head.head_text(report)];
    if report.plot.is_some() {
        parts.push(format!("![{}]({}.svg)\n", head.about, head.id));
    }
    parts.push(if report.is_markdown { lines + "\n" } else { format!("```\n{lines}\n```\n") });
    if !report.losing.is_empty() {
        parts.push("Where ours does worse:\n".to_owned());
        let lines: Vec<String> =
            report.losing.iter().map(|line| format!("- **{line}**\n")).collect();
        parts.push(lines.concat());
    }
    if !report.shapes.is_empty() {
        parts.push("Claims:\n".to_owned());
        let claim = |claim: &Claim| {
            let text = format!("{}: {}", claim.text, claim.found);
            if claim.fails() {
                format!("- **fails: {text}**\n")
            } else if claim.is_undecided {
                format!("- **undecided: {text}**\n")
            } else {
                format!("- holds: {text}\n")
            }
        };
        parts.push(report.shapes.iter().map(claim).collect::<Vec<_>>().concat());
    }
    parts.extend(report.absent.iter().map(|why| format!("Not here: {why}.\n")));
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use serde_json::json;

    fn head_of(experiment: &Experiment, seed: u64, params: &Value) -> PageHead {
        let options = RunOptions { profile: Profile::Quick, seed, params };
        PageHead::for_run(experiment, options, Duration::from_secs(7), Some(12.3))
    }

    #[test]
    fn a_page_names_the_whole_command_and_the_load_of_others() {
        let experiment = Experiment::timed("leak", "a leak", [1; 3], |_| Ok(Report::default()));
        let params = json!({ "firewall": "fw", "messages": 9, "stateful": true, "stream": true });
        let mut report = Report::default();
        let text = page_text(&head_of(&experiment, 8, &params), &report);
        let command =
            "`mezza-lab run leak --profile quick --seed 8 --firewall fw --messages 9 --stateful`";
        assert!(text.contains(command), "{text}");
        assert!(text.contains("Other programs used 12 % of its CPU time"), "{text}");
        assert!(!text.contains("absent"), "{text}");
        report.absent.push("a peer".into());
        assert!(page_text(&head_of(&experiment, 7, &Value::Null), &report).contains("are missing"));
    }

    #[test]
    fn a_page_shows_its_origin_and_what_fails_in_bold() {
        let experiment = Experiment::calculated("fosam-f0", "Figure 0: nothing", [1; 3], |_| {
            Ok(Report::default())
        });
        let head = head_of(&experiment, SEED, &Value::Null);
        let mut report = Report::default();
        report.add_line("a row");
        report.add_loss("ours, none good: 1 against 2");
        report.shapes = vec![Claim::is("a", "b", true), Claim::is("c", "d", false)];
        let text = page_text(&head, &report);
        for words in [
            "# Figure 0: nothing\n\nMade by `mezza-lab run fosam-f0 --profile quick` at commit ",
            " in 7 s\n",
            "No figure depends on the speed",
            "```\na row\n```",
            "- **ours, none good: 1 against 2**",
            "- holds: a: b\n",
            "- **fails: c: d**",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_page_with_a_claim_that_fails_does_not_say_that_claims_hold() {
        let experiment =
            Experiment::timed("fosam-f0", "Figure 0: nothing", [1; 3], |_| Ok(Report::default()));
        let head = head_of(&experiment, SEED, &Value::Null);
        let text = |holds: &[bool]| {
            let claim = |holds: &bool| Claim::is("a", "b", *holds);
            let shapes = holds.iter().map(claim).collect();
            page_text(&head, &Report { shapes, ..Report::default() })
        };
        for (holds, words) in [
            (&[][..], "This run makes no claim."),
            (&[true], "The one claim of this run holds."),
            (&[false], "**The one claim of this run fails.**"),
            (&[true, true], "Both claims of this run hold."),
            (&[true, true, true], "All 3 claims of this run hold."),
            (&[true, false], "**1 of the 2 claims of this run fails.**"),
            (&[true, false, false], "**2 of the 3 claims of this run fail.**"),
        ] {
            let page = text(holds);
            assert!(page.contains(words), "{words}: {page}");
            let says_hold =
                page.contains("claims hold") || page.contains("claims of this run hold");
            assert_eq!(says_hold, holds.len() > 1 && !holds.contains(&false), "{page}");
        }
    }

    #[test]
    fn a_page_counts_undecided_claims_apart() {
        let open = Claim { is_undecided: true, ..Claim::is("a", "b", false) };
        let closed = |holds| Claim::is("a", "b", holds);
        let said = describe_claims(&[open.clone(), closed(true), closed(false), closed(true)]);
        assert_eq!(
            said,
            "**Of the 4 claims of this run 2 hold, 1 fail, 1 is undecided: see its rounds.**"
        );
        let experiment =
            Experiment::timed("fosam-f0", "Figure 0: nothing", [1; 3], |_| Ok(Report::default()));
        let report = Report { shapes: vec![open], ..Report::default() };
        let page = page_text(&head_of(&experiment, SEED, &Value::Null), &report);
        assert!(page.contains("one claim of this run is undecided"), "{page}");
        assert!(page.contains("- **undecided: a: b**"), "{page}");
    }
}
