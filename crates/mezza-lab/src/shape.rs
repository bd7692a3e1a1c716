//! What a paper claims of its figures, as assertions that can fail (L5).

use serde_json::{Value, json};

/// One claim, looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What is claimed.
    pub claim: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Shape {
    /// `value` is below `limit`; what is no number is not.
    pub fn below(claim: impl Into<String>, value: f64, limit: f64) -> Self {
        let found = format!("{value:.2} (limit {limit:.2})");
        Self { claim: claim.into(), found, holds: value < limit }
    }

    /// `value` is above `limit`; what is no number is not.
    pub fn above(claim: impl Into<String>, value: f64, limit: f64) -> Self {
        let found = format!("{value:.2} (limit {limit:.2})");
        Self { claim: claim.into(), found, holds: value > limit }
    }

    /// Something is so.
    pub fn is(claim: impl Into<String>, found: impl Into<String>, holds: bool) -> Self {
        Self { claim: claim.into(), found: found.into(), holds }
    }

    /// For people.
    pub fn line(&self) -> String {
        let Self { claim, found, .. } = self;
        format!("shape  {:<6} {claim}: {found}", if self.holds { "holds" } else { "FAILS" })
    }

    /// For programs.
    pub fn value(&self) -> Value {
        json!({ "claim": self.claim, "found": self.found, "holds": self.holds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_fails_once() {
        assert!(Shape::below("a", 1.0, 2.0).holds && !Shape::below("a", 2.0, 2.0).holds);
        assert!(Shape::above("a", 3.0, 2.0).holds && !Shape::above("a", 2.0, 2.0).holds);
        assert!(!Shape::below("a", f64::NAN, 2.0).holds && !Shape::above("a", f64::NAN, 2.0).holds);
        assert!(Shape::is("a", "b", true).holds && !Shape::is("a", "b", false).holds);
        assert_eq!(Shape::is("a", "b", false).line(), "shape  FAILS  a: b");
        assert_eq!(Shape::above("a", 3.0, 2.0).value()["holds"], true);
    }
}
