//! A row: a goal, the measured value, the limit, and the verdict.

use std::fmt;

use mezza::testing::api::Exit;
use serde_json::{Value, json};

/// The direction of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// The value must not exceed the limit.
    AtMost,
    /// The value must not fall below the limit.
    AtLeast,
}

/// The weight of a row for the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The row must hold.
    Must,
    /// The row is printed and decides nothing.
    Context,
}

/// A measured value with its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The measured value.
    pub measured: f64,
    /// The limit, from the same run if the goal is relative.
    pub limit: Option<f64>,
    /// The unit of value and limit.
    pub unit: &'static str,
    /// The direction.
    pub sense: Sense,
}

impl Figure {
    /// Returns the measured value divided by the limit.
    pub fn ratio(&self) -> Option<f64> {
        self.limit.map(|limit| self.measured / limit)
    }

    /// Returns true if the goal is met. NaN meets no goal.
    pub fn holds(&self) -> bool {
        match (self.limit, self.sense) {
            (None, _) => self.measured.is_finite(),
            (Some(limit), Sense::AtMost) => self.measured <= limit,
            (Some(limit), Sense::AtLeast) => self.measured >= limit,
        }
    }
}

/// The outcome of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The value was measured.
    Measured(Figure),
    /// This machine cannot measure the value: the reason and the next step.
    NotHere(String),
    /// The peer is absent: the reason and the next step.
    NoPeer(String),
    /// The measurement itself failed: the error.
    Broken(String),
}

/// The verdict, which is the last column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The goal is met.
    Holds,
    /// The goal is not met.
    FallsShort,
    /// The value is printed without a limit.
    Shown,
    /// This machine cannot measure the value.
    NotHere,
    /// The peer is absent.
    NoPeer,
    /// The measurement failed.
    Error,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::FallsShort => "falls short",
            Self::Shown => "shown",
            Self::NotHere => "NOT MEASURABLE HERE",
            Self::NoPeer => "PEER ABSENT",
            Self::Error => "ERROR",
        })
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The id, for example `M1`.
    pub id: &'static str,
    /// The text of the goal in the design.
    pub goal: String,
    /// The weight of the row for the exit code.
    pub weight: Weight,
    /// The outcome.
    pub outcome: Outcome,
    /// Lines below the row: parts of the figure, and values for comparison.
    pub details: Vec<String>,
}

impl Row {
    /// Makes a row that must hold.
    pub fn must(id: &'static str, goal: &str, outcome: Outcome) -> Self {
        Self { id, goal: goal.into(), weight: Weight::Must, outcome, details: Vec::new() }
    }

    /// Replaces the text of the goal.
    #[must_use]
    pub fn with_goal(mut self, goal: &str) -> Self {
        self.goal = goal.into();
        self
    }

    /// Turns the row into context, which is printed and decides nothing.
    #[must_use]
    pub fn into_context(mut self) -> Self {
        self.weight = Weight::Context;
        self
    }

    /// Adds a line below the row.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Returns the verdict, which is the last column of a row.
    pub fn verdict(&self) -> Verdict {
        match &self.outcome {
            Outcome::Measured(figure) if !figure.holds() => Verdict::FallsShort,
            Outcome::Measured(figure) if figure.limit.is_none() => Verdict::Shown,
            Outcome::Measured(_) => Verdict::Holds,
            Outcome::NotHere(_) => Verdict::NotHere,
            Outcome::NoPeer(_) => Verdict::NoPeer,
            Outcome::Broken(_) => Verdict::Error,
        }
    }

    /// Formats the row for the user: one line, then its details.
    pub fn to_lines(&self) -> Vec<String> {
        let head = format!("{:<3} {:<44}", self.id, self.goal);
        let first = match &self.outcome {
            Outcome::Measured(figure) => {
                let context = if self.weight == Weight::Context { " (context)" } else { "" };
                let verdict = self.verdict();
                format!("{head} {} {verdict}{context}", format_columns(figure))
            }
            Outcome::NotHere(reason) | Outcome::NoPeer(reason) | Outcome::Broken(reason) => {
                format!("{head} {} {reason}", self.verdict())
            }
        };
        let details = self.details.iter().map(|detail| format!("      {detail}"));
        std::iter::once(first).chain(details).collect()
    }

    /// Formats the row for programs.
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "id": self.id, "goal": self.goal, "must": self.weight == Weight::Must,
            "verdict": self.verdict().to_string(), "details": self.details,
        });
        match &self.outcome {
            Outcome::Measured(figure) => {
                value["measured"] = json!(figure.measured);
                value["limit"] = json!(figure.limit);
                value["unit"] = json!(figure.unit);
                value["sense"] = json!(format_sense(figure.sense));
                value["ratio"] = json!(figure.ratio());
            }
            Outcome::NotHere(reason) | Outcome::NoPeer(reason) | Outcome::Broken(reason) => {
                value["reason"] = json!(reason);
            }
        }
        value
    }
}

/// Formats the direction of a limit.
pub fn format_sense(sense: Sense) -> &'static str {
    match sense {
        Sense::AtMost => "<=",
        Sense::AtLeast => ">=",
    }
}

fn format_columns(figure: &Figure) -> String {
    let measured = format!("{} {}", format_number(figure.measured), figure.unit);
    let limit = figure.limit.map_or(String::new(), |limit| {
        format!("{} {} {}", format_sense(figure.sense), format_number(limit), figure.unit)
    });
    let ratio = figure.ratio().map_or("-".into(), |ratio| format!("{ratio:.2}"));
    format!("{measured:>14} {limit:>16} {ratio:>6} ")
}

/// Formats a number with three or more digits.
pub fn format_number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the exit code: [`Exit::Bug`] if a row is broken; if figures decide, [`Exit::No`] if a
/// must-row falls short, and [`Exit::Unreachable`] if the peer of a must-row is absent.
pub fn exit_code(rows: &[Row], figures_decide: bool) -> Exit {
    let is = |verdict| move |row: &Row| row.weight == Weight::Must && row.verdict() == verdict;
    if rows.iter().any(|row| row.verdict() == Verdict::Error) {
        Exit::Bug
    } else if figures_decide && rows.iter().any(is(Verdict::FallsShort)) {
        Exit::No
    } else if figures_decide && rows.iter().any(is(Verdict::NoPeer)) {
        Exit::Unreachable
    } else {
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(measured: f64, limit: f64, unit: &'static str) -> Figure {
        Figure { measured, limit: Some(limit), unit, sense: Sense::AtMost }
    }

    fn at_least(measured: f64, limit: f64, unit: &'static str) -> Figure {
        Figure { sense: Sense::AtLeast, ..at_most(measured, limit, unit) }
    }

    fn plain(measured: f64, unit: &'static str) -> Figure {
        Figure { limit: None, ..at_most(measured, 0.0, unit) }
    }

    fn measured(id: &'static str, figure: Figure) -> Row {
        Row::must(id, "goal", Outcome::Measured(figure))
    }

    fn short() -> Figure {
        at_most(3.0, 2.0, "ms")
    }

    #[test]
    fn each_side_of_a_limit_and_the_limit_itself() {
        for (figure, holds) in [
            (at_most(2.0, 2.0, "ms"), true),
            (at_most(2.01, 2.0, "ms"), false),
            (at_least(2.0, 2.0, "/s"), true),
            (at_least(1.99, 2.0, "/s"), false),
            (at_most(f64::NAN, 2.0, "ms"), false),
            (at_least(f64::NAN, 2.0, "/s"), false),
            (plain(9.0, "x"), true),
            (plain(f64::NAN, "x"), false),
        ] {
            assert_eq!(figure.holds(), holds, "{figure:?}");
        }
        assert_eq!(short().ratio(), Some(1.5));
        assert_eq!(plain(9.0, "x").ratio(), None);
    }

    #[test]
    fn lab_4_a_row_that_loses_is_printed_like_one_that_wins() {
        let wins = measured("M1", at_most(1.0, 2.0, "ms")).with_detail("beside");
        let loses = measured("M1", short()).with_detail("beside");
        assert_eq!((wins.verdict(), loses.verdict()), (Verdict::Holds, Verdict::FallsShort));
        assert_eq!(wins.to_lines().len(), loses.to_lines().len());
        let line = &loses.to_lines()[0];
        for part in ["M1", "goal", "3.00 ms", "<= 2.00 ms", "1.50", "falls short"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert_eq!(wins.to_json().as_object().map(serde_json::Map::len), Some(10));
        assert_eq!(loses.to_json().as_object().map(serde_json::Map::len), Some(10));
    }

    #[test]
    fn every_verdict_is_reached() {
        let not_here = Row::must("M6", "goal", Outcome::NotHere("no page; build it".into()));
        let broken = Row::must("M3", "goal", Outcome::Broken("no socket".into()));
        let shown = measured("M2", plain(50.0, "x")).into_context();
        assert_eq!(not_here.verdict(), Verdict::NotHere);
        assert!(not_here.to_lines()[0].ends_with("NOT MEASURABLE HERE no page; build it"));
        assert_eq!(broken.verdict(), Verdict::Error);
        assert_eq!(broken.to_json()["reason"], "no socket");
        assert_eq!(shown.verdict(), Verdict::Shown);
        assert!(shown.to_lines()[0].ends_with("shown (context)"), "{:?}", shown.to_lines());
        assert!(!not_here.to_lines()[0].contains("context"));
        assert!(!measured("M2", short()).to_lines()[0].contains("context"));
    }

    #[test]
    fn exit_codes() {
        let good = || measured("M1", at_most(1.0, 2.0, "ms"));
        let bad = || measured("M1", short());
        let beside = || measured("M5", short()).into_context();
        let not_here = || Row::must("M6", "goal", Outcome::NotHere("why".into()));
        let broken = || Row::must("M3", "goal", Outcome::Broken("why".into()));
        assert_eq!(exit_code(&[good(), beside(), not_here()], true), Exit::Done);
        assert_eq!(exit_code(&[good(), bad()], true), Exit::No);
        assert_eq!(exit_code(&[good(), bad()], false), Exit::Done);
        assert_eq!(exit_code(&[good(), bad(), broken()], true), Exit::Bug);
        assert_eq!(exit_code(&[broken()], false), Exit::Bug);
        let no_peer = || Row::must("T1", "goal", Outcome::NoPeer("fetch it".into()));
        assert_eq!(no_peer().verdict(), Verdict::NoPeer);
        assert_eq!(exit_code(&[good(), no_peer()], true), Exit::Unreachable);
        assert_eq!(exit_code(&[bad(), no_peer()], true), Exit::No);
        assert_eq!(exit_code(&[no_peer()], false), Exit::Done);
    }

    #[test]
    fn numbers_keep_their_digits() {
        let texts = [38_123.4, 100.0, 12.34, 1.234, 0.0].map(format_number);
        assert_eq!(texts, ["38123", "100", "12.3", "1.23", "0.00"]);
    }
}
