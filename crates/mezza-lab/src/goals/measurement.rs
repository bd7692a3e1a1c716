//! What a part of the goals is made of.

use anyhow::Result;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::row::Row;

/// One measurement: the rows that it gives, and how.
pub struct Measurement {
    /// The ids of its rows with what they are about.
    pub rows: &'static [(&'static str, &'static str)],
    /// What its rows are held against.
    pub limits: &'static [&'static [Limit]],
    /// What it needs.
    pub needs: &'static str,
    /// About how long it takes: smoke, quick, full, in seconds.
    pub seconds: [u32; 3],
    /// Measures.
    pub run: fn(&mut Bench) -> Result<Vec<Row>>,
}
