//! An experiment: a table or figure of a paper, and the report of its new measurement.

use anyhow::Result;

use crate::bench::Bench;
use crate::plot::Plot;
use crate::profile::Profile;
use crate::shape::Claim;

/// The texts of an experiment, which are constants.
type Text = &'static str;
/// The function that runs an experiment.
type Run = fn(&mut Bench) -> Result<Report>;

/// One table or figure.
pub struct Experiment {
    /// The id, for example `signal-t1`.
    pub id: Text,
    /// The contents of the table or figure.
    pub about: Text,
    /// The revision, raised when the meaning of a figure changes.
    pub rev: u32,
    /// The peers of the experiment. An absent peer is reported.
    pub peers: &'static [Text],
    /// The approximate duration in seconds: smoke, quick, full.
    pub seconds: [u32; 3],
    /// True if the experiment measures time. Otherwise it calculates, simulates or compares, and
    /// may run with others of that kind on all cores.
    pub exclusive: bool,
    /// The function that runs the experiment.
    pub run: Run,
}

impl Experiment {
    /// Makes an experiment that measures time.
    pub const fn timed(id: Text, about: Text, seconds: [u32; 3], run: Run) -> Self {
        Self { id, about, rev: 1, peers: &[], seconds, exclusive: true, run }
    }

    /// Makes an experiment that measures no time.
    pub const fn calculated(id: Text, about: Text, seconds: [u32; 3], run: Run) -> Self {
        Self { exclusive: false, ..Self::timed(id, about, seconds, run) }
    }

    /// Sets the peers of the experiment.
    pub const fn with_peers(self, peers: &'static [Text]) -> Self {
        Self { peers, ..self }
    }
}

/// The results of an experiment.
#[derive(Default)]
pub struct Report {
    /// The lines of the table, for the user.
    pub lines: Vec<String>,
    /// The claims and their results.
    pub shapes: Vec<Claim>,
    /// The plot, if the paper has a figure.
    pub plot: Option<Plot>,
    /// Columns and rows in which ours is worse than a compared one, with their figures.
    pub losing: Vec<String>,
    /// Absent peers: the reason and the next step for each.
    pub absent: Vec<String>,
    /// True if the lines are already Markdown.
    pub is_markdown: bool,
    /// True if the claims are about speed; these decide nothing in a smoke run.
    pub about_speed: bool,
    /// The number of leading claims that are not about speed and decide in every run.
    pub attacks: usize,
}

impl Report {
    /// Adds a line.
    pub fn add_line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Notes a column or row in which ours is worse. The page shows it in bold.
    pub fn add_loss(&mut self, text: impl Into<String>) {
        self.losing.push(text.into());
    }

    /// Notes several columns or rows in which ours is worse.
    pub fn add_losses(&mut self, texts: Vec<String>) {
        self.losing.extend(texts);
    }

    /// Returns true if none of the deciding claims fails.
    pub fn holds(&self, profile: Profile) -> bool {
        let all_decide = !self.about_speed || profile != Profile::Smoke;
        let decide = if all_decide { self.shapes.len() } else { self.attacks };
        !self.shapes.iter().take(decide).any(Claim::fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_fails_decides_unless_a_smoke_run_is_about_speed() {
        let shapes = vec![Claim::is("a", "b", false)];
        let mut report = Report { shapes, about_speed: true, ..Report::default() };
        assert!(report.holds(Profile::Smoke) && !report.holds(Profile::Quick));
        report.attacks = 1;
        assert!(!report.holds(Profile::Smoke));
    }
}
