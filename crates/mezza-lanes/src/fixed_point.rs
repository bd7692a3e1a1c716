//! A fixed point: a point to be multiplied by many scalars.

#[cfg(any(test, target_arch = "x86_64"))]
use crate::eight::comb::Comb;
use alloc::boxed::Box;
use core::fmt;
use curve25519_dalek::edwards::EdwardsBasepointTable;

/// A point of the curve, not of its twist and not of small order, with a table of its multiples.
/// [`Kernel::fixed_point`](crate::Kernel::fixed_point) makes it. Every kernel accepts it: a kernel
/// that cannot read the table uses the u-coordinate.
pub struct FixedPoint {
    u: [u8; 32],
    pub(crate) table: MultiplesTable,
}

/// Multiples of the point, in the format of the kernel that made them.
pub enum MultiplesTable {
    /// The table of the portable kernel, 30 KiB.
    Portable(Box<EdwardsBasepointTable>),
    /// The table of the vector kernel, 60 KiB.
    #[cfg(any(test, target_arch = "x86_64"))]
    Comb(Comb),
    /// No table.
    None,
}

impl FixedPoint {
    pub(crate) fn new(u: &[u8; 32], table: MultiplesTable) -> Self {
        Self { u: *u, table }
    }

    /// Makes a fixed point without a table, for kernels of other crates. The caller has checked the
    /// point: see [`Kernel::is_fixed_point`](crate::Kernel::is_fixed_point).
    pub const fn without_table(u: &[u8; 32]) -> Self {
        Self { u: *u, table: MultiplesTable::None }
    }

    /// Returns the u-coordinate as it was given.
    pub fn u(&self) -> &[u8; 32] {
        &self.u
    }
}

impl fmt::Debug for FixedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedPoint").field("u", &self.u).finish_non_exhaustive()
    }
}
