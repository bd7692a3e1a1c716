//! One measurement of a part: its limits and the function that measures.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::row::Row;

/// Limits in groups.
type Limits = &'static [&'static [Limit]];
/// Measures the rows.
type Run = fn(&mut Bench) -> Result<Vec<Row>>;

/// One measurement and the rows that it gives.
pub struct Measurement {
    /// The limits of its rows.
    limits: Limits,
    /// The requirements, for people.
    pub needs: &'static str,
    /// About how long it takes: smoke, quick, full, in seconds.
    pub seconds: [u32; 3],
    /// Measures.
    pub run: Run,
}

impl Measurement {
    /// A measurement.
    pub const fn new(limits: Limits, needs: &'static str, seconds: [u32; 3], run: Run) -> Self {
        Self { limits, needs, seconds, run }
    }

    /// The limits of its rows, in their order.
    pub fn limits(&self) -> impl Iterator<Item = &'static Limit> {
        self.limits.iter().copied().flatten()
    }

    /// The ids of its rows, each once.
    pub fn ids(&self) -> BTreeSet<&'static str> {
        self.limits().map(|limit| limit.id).collect()
    }
}
