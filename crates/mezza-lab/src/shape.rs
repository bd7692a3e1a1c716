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
}

impl Claim {
    /// Claims that `value` is below `limit`. NaN fails.
    pub fn below(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { text: text.into(), found: format_both(value, "below", limit), holds: value < limit }
    }

    /// Claims that `value` is above `limit`. NaN fails.
    pub fn above(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { text: text.into(), found: format_both(value, "above", limit), holds: value > limit }
    }

    /// Claims that `value` is at most `limit`. NaN fails.
    pub fn at_most(text: impl Into<String>, value: f64, limit: f64) -> Self {
        let found = format_both(value, "at most", limit);
        Self { text: text.into(), found, holds: value <= limit }
    }

    /// Claims that `value` is at least `limit`. NaN fails.
    pub fn at_least(text: impl Into<String>, value: f64, limit: f64) -> Self {
        let found = format_both(value, "at least", limit);
        Self { text: text.into(), found, holds: value >= limit }
    }

    /// Makes a claim that is true or false.
    pub fn is(text: impl Into<String>, found: impl Into<String>, holds: bool) -> Self {
        Self { text: text.into(), found: found.into(), holds }
    }

    /// Formats the claim for the user.
    pub fn format_line(&self) -> String {
        let Self { text, found, .. } = self;
        format!("shape  {:<6} {text}: {found}", if self.holds { "holds" } else { "FAILS" })
    }

    /// Formats the claim for programs.
    pub fn to_json(&self) -> Value {
        json!({ "claim": self.text, "found": self.found, "holds": self.holds })
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
