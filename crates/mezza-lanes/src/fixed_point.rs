//! A point that many scalars will be multiplied with.

#[cfg(any(test, target_arch = "x86_64"))]
use crate::eight::comb::Comb;
use alloc::boxed::Box;
use core::fmt;
use curve25519_dalek::edwards::EdwardsBasepointTable;

/// A point of the curve, not of its twist and not of small order, with a table of its multiples.
/// Made by [`Kernel::fixed_point`](crate::Kernel::fixed_point) and useful to every kernel: one that
/// cannot read the table works from the u-coordinate.
pub struct FixedPoint {
    u: [u8; 32],
    pub(crate) table: MultiplesTable,
}

/// Multiples of the point, in the form of the kernel that made them.
pub enum MultiplesTable {
    /// 30 KiB.
    Portable(Box<EdwardsBasepointTable>),
    /// 60 KiB.
    #[cfg(any(test, target_arch = "x86_64"))]
    Comb(Comb),
    /// Nothing.
    None,
}

impl FixedPoint {
    pub(crate) fn new(u: &[u8; 32], table: MultiplesTable) -> Self {
        Self { u: *u, table }
    }

    /// A point without a table, for kernels of other crates, which have checked it: see
    /// [`Kernel::is_fixed_point`](crate::Kernel::is_fixed_point).
    pub const fn without_table(u: &[u8; 32]) -> Self {
        Self { u: *u, table: MultiplesTable::None }
    }

    /// The u-coordinate, as it was given.
    pub fn u(&self) -> &[u8; 32] {
        &self.u
    }
}

impl fmt::Debug for FixedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedPoint").field("u", &self.u).finish_non_exhaustive()
    }
}
