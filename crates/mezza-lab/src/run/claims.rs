//! The number of claims of each experiment in the profile `quick` with all peers, as on its page.

use super::experiment::{Experiment, Report};

/// The experiments with a page in `docs/lab`, ordered by name.
pub const CLAIMS: &[(&str, usize)] = &[
    ("asa", 2),
    ("fosam-f3-attackers", 1),
    ("fosam-f3-density", 1),
    ("fosam-f3-users", 2),
    ("fosam-f4", 1),
    ("fosam-f5", 1),
    ("fosam-f6-attackers", 4),
    ("fosam-f6-density", 1),
    ("fosam-f6-users", 1),
    ("fosam-f7", 1),
    ("fosam-f8", 1),
    ("fosam-t1", 8),
    ("fosam-t2", 1),
    ("fosam-x1", 13),
    ("fosam-x5", 5),
    ("fosam-x6", 3),
    ("fosam-x7", 3),
    ("hibe-clocks", 5),
    ("hibe-flip", 2),
    ("hibe-forward", 2),
    ("hibe-infinity", 2),
    ("hibe-label", 2),
    ("hibe-lent", 2),
    ("hibe-salamander", 2),
    ("hibe-second-form", 2),
    ("hibe-shared-t", 2),
    ("hibe-siblings", 2),
    ("hibe-sleeper", 2),
    ("hibe-who-is-it", 3),
    ("leak", 2),
    ("link-roads", 6),
    ("link-soak", 5),
    ("seka-f10", 1),
    ("seka-f11", 2),
    ("seka-f5", 3),
    ("seka-f6", 4),
    ("seka-f7", 2),
    ("seka-f8", 4),
    ("seka-f9", 4),
    ("seka-t3", 2),
    ("seka-t4", 2),
    ("signal-f5", 4),
    ("signal-f6", 2),
    ("signal-t1", 22),
    ("signal-t2", 14),
    ("signal-t3", 10),
    ("signal-x", 14),
    ("sosp15-f9", 2),
    ("thesis-f51", 1),
    ("thesis-f52", 0),
    ("thesis-f53", 3),
    ("thesis-f54", 2),
    ("thesis-f55", 1),
    ("thesis-t52", 1),
    ("thesis-t53", 0),
    ("thesis-t54", 3),
    ("thesis-t55", 2),
    ("thesis-t56", 1),
    ("vuvuzela-breakdown", 3),
    ("vuvuzela-noise", 8),
    ("vuvuzela-scaling", 6),
    ("vuvuzela-x", 24),
    ("wire", 3),
];

/// Returns the declared number of claims.
pub fn declared_count(id: &str) -> Option<usize> {
    CLAIMS.iter().find(|(name, _)| *name == id).map(|(_, count)| *count)
}

/// Describes a wrong number of claims of a run, or returns `None`. A run without a peer has fewer.
pub fn find_mismatch(experiment: &Experiment, report: &Report) -> Option<String> {
    let declared = declared_count(experiment.id)?;
    let made = report.shapes.len();
    let is_less = made < declared && !report.absent.is_empty();
    (made != declared && !is_less).then(|| {
        format!(
            "{} made {made} claims, run/claims.rs has {declared}: one of them is old",
            experiment.id
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Claim;

    #[test]
    fn a_run_with_other_claims_than_declared_is_named() {
        let experiment =
            Experiment::calculated("signal-f6", "codes", [1; 3], |_| Ok(Report::default()));
        let claims = |count: usize| vec![Claim::is("a", "b", true); count];
        let report = |count| Report { shapes: claims(count), ..Report::default() };
        assert_eq!(find_mismatch(&experiment, &report(2)), None);
        assert!(find_mismatch(&experiment, &report(3)).unwrap().contains("made 3 claims"));
        assert!(find_mismatch(&experiment, &report(1)).is_some());
        let without = Report { absent: vec!["java".into()], ..report(1) };
        assert_eq!(find_mismatch(&experiment, &without), None);
    }
}
