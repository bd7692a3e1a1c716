//! One measurement of a part: its limits and the function that measures.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::row::Row;

/// Limits in groups.
type Limits = &'static [&'static [Limit]];
/// The function that measures the rows.
type Run = fn(&mut Bench) -> Result<Vec<Row>>;

/// One measurement and the limits of its rows.
pub struct Measurement {
    /// The limits of the rows.
    limits: Limits,
    /// The requirements, for the user.
    pub needs: &'static str,
    /// The approximate duration in seconds: smoke, quick, full.
    pub seconds: [u32; 3],
    /// The function that measures the rows.
    pub run: Run,
}

impl Measurement {
    /// Makes a measurement.
    pub const fn new(limits: Limits, needs: &'static str, seconds: [u32; 3], run: Run) -> Self {
        Self { limits, needs, seconds, run }
    }

    /// Returns the limits of the rows, in order.
    pub fn limits(&self) -> impl Iterator<Item = &'static Limit> {
        self.limits.iter().copied().flatten()
    }

    /// Returns the ids of the rows, without duplicates.
    pub fn ids(&self) -> BTreeSet<&'static str> {
        self.limits().map(|limit| limit.id).collect()
    }
}
