//! A part of the jobs, so that several machines can share them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Error};

/// Part `index` of `count`, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// Returns the jobs of this part, in the order of `jobs`. Jobs are dealt in descending order of
    /// cost, so that all parts take about the same time; each job belongs to exactly one part.
    pub fn pick_jobs<T>(self, jobs: Vec<T>, cost: impl Fn(&T) -> u32) -> Vec<T> {
        let mut dealt: Vec<usize> = (0..jobs.len()).collect();
        dealt.sort_by_key(|at| Reverse(cost(&jobs[*at])));
        let own: BTreeSet<_> = dealt.into_iter().skip(self.index).step_by(self.count).collect();
        let jobs = jobs.into_iter().enumerate().filter(|(at, _)| own.contains(at));
        jobs.map(|(_, job)| job).collect()
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        let below = parts.filter(|shard| shard.index < shard.count);
        below.context("a part is I/N with I below N, such as 0/4; the parts are 0/N to N-1/N")
    }
}

/// Formats the part for file names.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_belongs_to_exactly_one_part() {
        let jobs: Vec<u32> = vec![5, 1, 400, 20, 20, 7, 120, 3];
        for count in 1..=jobs.len() + 2 {
            let part = |index| Shard { index, count }.pick_jobs(jobs.clone(), |job| *job);
            let parts: Vec<Vec<u32>> = (0..count).map(part).collect();
            let mut union = parts.concat();
            union.sort_unstable();
            assert_eq!(union, [1, 3, 5, 7, 20, 20, 120, 400], "{count} parts");
            let sizes = parts.iter().map(Vec::len);
            assert!(sizes.clone().max() <= sizes.min().map(|least| least + 1), "{parts:?}");
        }
    }

    #[test]
    fn jobs_keep_their_order_and_the_dearest_are_apart() {
        let part = |index| Shard { index, count: 2 }.pick_jobs(vec![10, 300, 20, 200], |job| *job);
        assert_eq!([part(0), part(1)], [[300, 20], [10, 200]]);
    }

    #[test]
    fn what_is_no_part_is_refused() {
        assert_eq!("3/4".parse::<Shard>().unwrap(), Shard { index: 3, count: 4 });
        for text in ["4/4", "0/0", "1", "a/2", "1/2/3", "-1/2", ""] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.to_string().contains("such as 0/4"), "{text}");
        }
    }
}
