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
        Self { text: text.into(), found: format_both(value, limit), holds: value < limit }
    }

    /// Claims that `value` is above `limit`. NaN fails.
    pub fn above(text: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { text: text.into(), found: format_both(value, limit), holds: value > limit }
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

/// Formats a value and its limit with enough digits to distinguish them.
fn format_both(value: f64, limit: f64) -> String {
    let texts = |digits: usize| [value, limit].map(|number| format!("{number:.digits$}"));
    let [value, limit] = match texts(2) {
        [value, limit] if value == limit => texts(4),
        texts => texts,
    };
    format!("{value} (limit {limit})")
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
        assert_eq!(Claim::above("R^2", 0.9938, 0.995).found, "0.9938 (limit 0.9950)");
        assert_eq!(Claim::below("a", 1.0, 2.0).found, "1.00 (limit 2.00)");
        assert_eq!(Claim::is("a", "b", false).format_line(), "shape  FAILS  a: b");
        assert_eq!(Claim::above("a", 3.0, 2.0).to_json()["holds"], true);
    }
}
