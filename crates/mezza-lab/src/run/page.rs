//! An experiment as a page of `docs/lab`: its origin, its table, the rows in which ours loses, its
//! claims, its figure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::experiment::{Experiment, Report};
use crate::machine::Hardware;
use crate::profile::Profile;
use crate::raw;
use crate::shape::Claim;

/// The origin of a page: program, machine and run.
pub struct PageHead {
    id: &'static str,
    about: &'static str,
    profile: &'static str,
    is_timed: bool,
    took: Duration,
    machine: Hardware,
    commit: String,
}

impl PageHead {
    /// Makes the head of a run that has just ended on this machine, in this repository.
    pub fn for_run(experiment: &Experiment, profile: Profile, took: Duration) -> Self {
        let (commit, dirty) = raw::find_commit();
        let commit = commit.map_or_else(|| "unknown".into(), |commit| commit[..12].to_owned());
        Self {
            id: experiment.id,
            about: experiment.about,
            profile: profile.name(),
            is_timed: experiment.exclusive,
            took,
            machine: Hardware::of_this_machine(),
            commit: if dirty == Some(true) { format!("{commit} with changes") } else { commit },
        }
    }

    fn head_text(&self) -> String {
        let Self { id, about, profile, took, machine, commit, .. } = self;
        let Hardware { cpu, cores, gib, kernel, .. } = machine;
        let tolerance = if self.is_timed {
            "Times depend on the machine; claims hold within the limits that stand with them."
        } else {
            "No figure depends on the speed of the machine; the same commit and seeds give it again."
        };
        format!(
            "# {about}\n\nMade by `mezza-lab run {id} --profile {profile}` at commit {commit} in {} s\n\
             on machine {} ({cpu}, {cores} cores, {gib} GiB, Linux {kernel}).\n{tolerance}\n",
            took.as_secs().max(1),
            machine.id(),
        )
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
    let mut parts = vec![head.head_text()];
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
            if claim.holds {
                format!("- holds: {text}\n")
            } else {
                format!("- **fails: {text}**\n")
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

    #[test]
    fn a_page_shows_its_origin_and_what_fails_in_bold() {
        let experiment = Experiment::calculated("fosam-f0", "Figure 0: nothing", [1; 3], |_| {
            Ok(Report::default())
        });
        let head = PageHead::for_run(&experiment, Profile::Quick, Duration::from_secs(7));
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
}
