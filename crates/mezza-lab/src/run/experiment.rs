//! A table or figure of a paper, and the report of measuring it again.

use anyhow::Result;

use crate::bench::Bench;
use crate::plot::Plot;
use crate::profile::Profile;
use crate::shape::Claim;

/// The texts of an experiment are constants.
type Text = &'static str;
/// Runs an experiment.
type Run = fn(&mut Bench) -> Result<Report>;

/// One table or figure.
pub struct Experiment {
    /// `signal-t1`.
    pub id: Text,
    /// The contents of the table or figure.
    pub about: Text,
    /// Raised when the meaning of a figure changes.
    pub rev: u32,
    /// Its peers. An absent one is reported.
    pub peers: &'static [Text],
    /// About how long it takes: smoke, quick, full, in seconds.
    pub seconds: [u32; 3],
    /// True if it measures time. If not, it calculates, simulates or compares, and may run beside
    /// others of that kind on all cores.
    pub exclusive: bool,
    /// Runs it.
    pub run: Run,
}

impl Experiment {
    /// An experiment that measures time.
    pub const fn timed(id: Text, about: Text, seconds: [u32; 3], run: Run) -> Self {
        Self { id, about, rev: 1, peers: &[], seconds, exclusive: true, run }
    }

    /// An experiment that measures no time.
    pub const fn calculated(id: Text, about: Text, seconds: [u32; 3], run: Run) -> Self {
        Self { exclusive: false, ..Self::timed(id, about, seconds, run) }
    }

    /// The experiment with its peers.
    pub const fn with_peers(self, peers: &'static [Text]) -> Self {
        Self { peers, ..self }
    }
}

/// The results of an experiment.
#[derive(Default)]
pub struct Report {
    /// The table, for people.
    pub lines: Vec<String>,
    /// The claims and whether they hold.
    pub shapes: Vec<Claim>,
    /// The figure, where the paper has one.
    pub plot: Option<Plot>,
    /// Columns and rows in which ours does worse than what stands beside it, with their figures.
    pub losing: Vec<String>,
    /// Absent peers: the reason and the next step.
    pub absent: Vec<String>,
    /// The lines are Markdown already.
    pub is_markdown: bool,
    /// True if the claims are about speeds, which decide nothing in a smoke run.
    pub about_speed: bool,
    /// The number of claims at the start that are not about speeds and decide in every run.
    pub attacks: usize,
}

impl Report {
    /// Adds a line.
    pub fn add_line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Says in which column or row ours does worse. The page shows it in bold.
    pub fn add_loss(&mut self, text: impl Into<String>) {
        self.losing.push(text.into());
    }

    /// Returns true if all claims that decide hold.
    pub fn holds(&self, profile: Profile) -> bool {
        let all_decide = !self.about_speed || profile != Profile::Smoke;
        let decide = if all_decide { self.shapes.len() } else { self.attacks };
        self.shapes.iter().take(decide).all(|shape| shape.holds)
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
