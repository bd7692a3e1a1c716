//! A limit of a design: its row, its direction and its bound.
//!
//! A row with a limit is made only from a [`Limit`], so the table in the tests of `goals.rs` lists
//! all limits.

use std::fmt;

use crate::row::{Figure, Outcome, Row, Sense, format_number, format_sense};

/// The texts of a limit, which are constants.
type Text = &'static str;

/// The bound of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A number.
    Fixed(f64),
    /// A figure of the same run; the goal's text has the formula.
    OfTheRun,
    /// No bound: the figure is printed for comparison and decides nothing.
    None,
}

/// A limit of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The id of the row.
    pub id: Text,
    /// The text of the goal in the design.
    pub goal: Text,
    /// The direction: at most or at least.
    pub sense: Sense,
    /// The bound that decides.
    pub bound: Bound,
    /// A stricter bound, which is printed and decides nothing.
    pub stretch: Option<f64>,
    /// The unit of value and bounds.
    pub unit: Text,
}

impl Limit {
    /// Makes a limit for a value that must not exceed the bound.
    pub const fn at_most(id: Text, goal: Text, most: f64, unit: Text) -> Self {
        Self { sense: Sense::AtMost, ..Self::at_least(id, goal, most, unit) }
    }

    /// Makes a limit for a value that must not fall below the bound.
    pub const fn at_least(id: Text, goal: Text, least: f64, unit: Text) -> Self {
        let sense = Sense::AtLeast;
        let bound = Bound::Fixed(least);
        let stretch = None;
        Self { id, goal, sense, bound, stretch, unit }
    }

    /// Makes a limit for a value that must not exceed a figure of the same run.
    pub const fn at_most_of_the_run(id: Text, goal: Text, unit: Text) -> Self {
        Self { bound: Bound::OfTheRun, ..Self::at_most(id, goal, 0.0, unit) }
    }

    /// Makes a limit for a value that decides nothing.
    pub const fn none(id: Text, goal: Text, unit: Text) -> Self {
        Self { bound: Bound::None, ..Self::at_most(id, goal, 0.0, unit) }
    }

    /// Adds a stricter bound that decides nothing.
    #[must_use]
    pub const fn stretching(self, bound: f64) -> Self {
        Self { stretch: Some(bound), ..self }
    }

    /// Makes the row of a value. If the bound is a figure of the same run and that figure is
    /// missing, the row does not reach its goal.
    pub fn make_row(&self, measured: f64) -> Row {
        match self.bound {
            Bound::Fixed(bound) => self.row_at(measured, bound),
            Bound::OfTheRun => self.row_at(measured, f64::NAN),
            Bound::None => self.row_of(Outcome::Measured(self.make_figure(measured, None))),
        }
    }

    /// Makes the row of a value with a bound of the same run.
    pub fn row_at(&self, measured: f64, bound: f64) -> Row {
        let row = self.row_of(Outcome::Measured(self.make_figure(measured, Some(bound))));
        let Some(stretch) = self.stretch else { return row };
        let is_reached = self.make_figure(measured, Some(stretch)).holds();
        let reached = if is_reached { "reached" } else { "not reached" };
        let sign = format_sense(self.sense);
        let stretch = format_number(stretch);
        row.with_detail(format!("stretch {sign} {stretch} {}: {reached}", self.unit))
    }

    /// Makes the row of a value that this machine cannot measure.
    pub fn not_here(&self, reason: impl Into<String>) -> Row {
        self.row_of(Outcome::NotHere(reason.into()))
    }

    /// Makes the row of a value whose peer is missing.
    pub fn no_peer(&self, reason: impl Into<String>) -> Row {
        self.row_of(Outcome::NoPeer(reason.into()))
    }

    /// Makes the row of a failed measurement. It is an error even if the value decides nothing.
    pub fn broken_row(&self, error: &anyhow::Error) -> Row {
        Row::must(self.id, self.goal, Outcome::Broken(format!("{error:#}")))
    }

    fn make_figure(&self, measured: f64, limit: Option<f64>) -> Figure {
        Figure { measured, limit, unit: self.unit, sense: self.sense }
    }

    fn row_of(&self, outcome: Outcome) -> Row {
        let row = Row::must(self.id, self.goal, outcome);
        if self.bound == Bound::None { row.into_context() } else { row }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self.bound {
            Bound::Fixed(bound) => format!("{} {bound} {}", format_sense(self.sense), self.unit),
            Bound::OfTheRun => format!("{} of the run, {}", format_sense(self.sense), self.unit),
            Bound::None => format!("shown, {}", self.unit),
        };
        let stretch = self.stretch.map_or(String::new(), |bound| format!(", stretch {bound}"));
        write!(f, "{:<3} {:<50} {bound}{stretch}", self.id, self.goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Verdict, Weight, exit_code};
    use mezza::testing::api::Exit;

    #[test]
    fn each_side_of_each_direction() {
        use Verdict::{FallsShort, Holds, Shown};
        let most = Limit::at_most("M1", "goal", 2.0, "ms");
        let least = Limit::at_least("M1", "goal", 2.0, "/s");
        let of_the_run = Limit::at_most_of_the_run("M1", "goal", "ms");
        let verdicts = |limit: Limit| [1.9, 2.0, 2.1].map(|value| limit.make_row(value).verdict());
        assert_eq!(verdicts(most), [Holds, Holds, FallsShort]);
        assert_eq!(verdicts(least), [FallsShort, Holds, Holds]);
        assert_eq!(verdicts(of_the_run), [FallsShort; 3]);
        assert_eq!(verdicts(Limit::none("M1", "goal", "ms")), [Shown; 3]);
        let beside = [1.9, 2.0, 2.1].map(|value| of_the_run.row_at(value, 2.0).verdict());
        assert_eq!(beside, [Holds, Holds, FallsShort]);
    }

    #[test]
    fn a_stretch_is_told_and_decides_nothing() {
        let limit = Limit::at_least("T3", "goal", 40.0, "x").stretching(60.0);
        let [short, must, stretch] = [39.0, 40.0, 60.0].map(|value| limit.make_row(value));
        assert_eq!(
            (exit_code(&[short], true), exit_code(std::slice::from_ref(&must), true)),
            (Exit::No, Exit::Done)
        );
        assert_eq!(must.details, ["stretch >= 60.0 x: not reached"]);
        assert_eq!(stretch.details, ["stretch >= 60.0 x: reached"]);
        assert_eq!(
            limit.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
            "T3 goal >= 40 x, stretch 60"
        );
    }

    #[test]
    fn what_decides_nothing_decides_nothing_when_it_is_not_there() {
        let must = Limit::at_least("L1", "goal", 2.0, "x");
        let beside = Limit::none("L1", "goal", "x");
        assert_eq!(must.no_peer("absent").weight, Weight::Must);
        assert_eq!(beside.no_peer("absent").weight, Weight::Context);
        assert_eq!(beside.not_here("no vectors").weight, Weight::Context);
    }
}
