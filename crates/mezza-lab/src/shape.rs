//! The claims of a paper about its figures, as assertions that can fail.

use serde_json::{Value, json};

/// A claim and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The text of the claim.
    pub text: String,
    /// The measured result as text.
    pub found: String,
    /// True if the claim holds.
    pub holds: bool,
    /// True if the claim neither holds nor fails: its rounds lie on both sides of the limit.
    pub is_undecided: bool,
}

/// A measured value with the least and the greatest value of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The value that stands for the run.
    pub value: f64,
    /// The least value of a round.
    pub low: f64,
    /// The greatest value of a round.
    pub high: f64,
}

impl Claim {
    /// Claims that `value` is below `limit`. NaN fails.
    pub fn below(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self::is(text, format_both(value, "below", limit), value < limit)
    }

    /// Claims that `value` is above `limit`. NaN fails.
    pub fn above(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self::is(text, format_both(value, "above", limit), value > limit)
    }

    /// Claims that `value` is at most `limit`. NaN fails.
    pub fn at_most(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self::is(text, format_both(value, "at most", limit), value <= limit)
    }

    /// Claims that `value` is at least `limit`. NaN fails.
    pub fn at_least(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self::is(text, format_both(value, "at least", limit), value >= limit)
    }

    /// Claims that a value is below `limit` in the run and in each of its rounds. Rounds on both sides
    /// leave the claim undecided.
    pub fn below_in_rounds(text: impl Into<String>, spread: Spread, limit: f64) -> Self {
        let Spread { value, low, high } = spread;
        Self::in_rounds(text, spread, "below", limit, [value, low, high].map(|seen| seen < limit))
    }

    /// Claims that a value is above `limit` in the run and in each of its rounds. Rounds on both sides
    /// leave the claim undecided.
    pub fn above_in_rounds(text: impl Into<String>, spread: Spread, limit: f64) -> Self {
        let Spread { value, low, high } = spread;
        Self::in_rounds(text, spread, "above", limit, [value, low, high].map(|seen| seen > limit))
    }

    fn in_rounds(
        text: impl Into<String>,
        spread: Spread,
        side: &str,
        limit: f64,
        keeps: [bool; 3],
    ) -> Self {
        let Spread { value, low, high } = spread;
        let holds = keeps == [true; 3];
        let is_undecided = !holds && keeps.contains(&true);
        let found = format_both(value, side, limit);
        let found = format!("{found}; in the undisturbed rounds {low:.2} to {high:.2}");
        Self { is_undecided, ..Self::is(text, found, holds) }
    }

    /// Makes a claim that is true or false.
    pub fn is(text: impl Into<String>, found: impl Into<String>, holds: bool) -> Self {
        Self { text: text.into(), found: found.into(), holds, is_undecided: false }
    }

    /// Returns true if the claim fails.
    pub fn fails(&self) -> bool {
        !self.holds && !self.is_undecided
    }

    /// Formats the claim for the user.
    pub fn format_line(&self) -> String {
        let Self { text, found, .. } = self;
        let verdict = match (self.holds, self.is_undecided) {
            (true, _) => "holds",
            (false, true) => "OPEN",
            (false, false) => "FAILS",
        };
        format!("shape  {verdict:<6} {text}: {found}")
    }

    /// Formats the claim for programs.
    pub fn to_json(&self) -> Value {
        let Self { text, found, holds, is_undecided } = self;
        json!({ "claim": text, "found": found, "holds": holds, "undecided": is_undecided })
    }
}

/// Maximum decimals of a printed value.
const DECIMALS_MAX: usize = 9;

/// Formats a value and the side of the limit on which it must be. The limit is printed in full. The
/// value has at least two decimals, and more where fewer would put it on the limit or beyond it.
fn format_both(value: f64, side: &str, limit: f64) -> String {
    let is_faithful = |digits: &usize| {
        let digits = *digits;
        let printed: f64 = format!("{value:.digits$}").parse().unwrap_or(f64::NAN);
        printed.partial_cmp(&limit) == value.partial_cmp(&limit)
    };
    let digits = (2..DECIMALS_MAX).find(is_faithful).unwrap_or(DECIMALS_MAX);
    format!("{value:.digits$} (must be {side} {limit})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_fails_once() {
        assert!(Claim::below("a", 1.0, 2.0).holds && !Claim::below("a", 2.0, 2.0).holds);
        assert!(Claim::above("a", 3.0, 2.0).holds && !Claim::above("a", 2.0, 2.0).holds);
        assert!(!Claim::below("a", f64::NAN, 2.0).holds && !Claim::above("a", f64::NAN, 2.0).holds);
        assert!(Claim::is("a", "b", true).holds && !Claim::is("a", "b", false).holds);
        assert!(Claim::at_most("a", 2.0, 2.0).holds && !Claim::at_most("a", 2.1, 2.0).holds);
        assert!(Claim::at_least("a", 2.0, 2.0).holds && !Claim::at_least("a", 1.9, 2.0).holds);
        assert!(!Claim::at_most("a", f64::NAN, 2.0).holds);
        assert!(!Claim::at_least("a", f64::NAN, 2.0).holds);
        assert_eq!(Claim::is("a", "b", false).format_line(), "shape  FAILS  a: b");
        assert_eq!(Claim::above("a", 3.0, 2.0).to_json()["holds"], true);
    }

    #[test]
    fn rounds_on_both_sides_of_a_limit_decide_nothing() {
        let verdict = |claim: Claim| (claim.holds, claim.fails());
        let spread = |value, low, high| Spread { value, low, high };
        let below = |spread| Claim::below_in_rounds("a", spread, 1.0);
        assert_eq!(verdict(below(spread(0.9, 0.8, 0.95))), (true, false));
        assert_eq!(verdict(below(spread(0.9, 0.8, 1.05))), (false, false));
        assert_eq!(verdict(below(spread(1.1, 0.8, 1.2))), (false, false));
        assert_eq!(verdict(below(spread(1.1, 1.0, 1.2))), (false, true));
        // On a busy machine the value may lie outside of its rounds.
        assert_eq!(verdict(below(spread(0.9, 1.1, 1.2))), (false, false));
        assert_eq!(verdict(below(spread(f64::NAN, f64::NAN, f64::NAN))), (false, true));
        let above = |spread| Claim::above_in_rounds("a", spread, 1.0);
        assert_eq!(verdict(above(spread(1.2, 1.1, 1.3))), (true, false));
        assert_eq!(verdict(above(spread(1.2, 0.9, 1.3))), (false, false));
        let line = below(spread(0.9, 0.8, 1.05)).format_line();
        assert_eq!(
            line,
            "shape  OPEN   a: 0.90 (must be below 1); in the undisturbed rounds 0.80 to 1.05"
        );
    }

    #[test]
    fn a_limit_is_printed_as_it_is_and_a_value_on_its_side_of_it() {
        for (claim, found) in [
            (Claim::below("a", 1.0, 2.0), "1.00 (must be below 2)"),
            (Claim::above("R^2", 0.9938, 0.995), "0.99 (must be above 0.995)"),
            (Claim::above("R^2", 0.9962, 0.995), "1.00 (must be above 0.995)"),
            (Claim::below("a", 0.9949, 0.99), "0.995 (must be below 0.99)"),
            (Claim::below("a", 0.0712, 0.0764), "0.07 (must be below 0.0764)"),
            (Claim::below("a", 99.999, 100.0), "99.999 (must be below 100)"),
            (Claim::at_most("a", 4.0, 4.0), "4.00 (must be at most 4)"),
            (Claim::at_most("a", 4.001, 4.0), "4.001 (must be at most 4)"),
            (Claim::below("a", f64::INFINITY, 60.0), "inf (must be below 60)"),
            (Claim::below("a", f64::NAN, 60.0), "NaN (must be below 60)"),
        ] {
            assert_eq!(claim.found, found);
        }
    }
}
