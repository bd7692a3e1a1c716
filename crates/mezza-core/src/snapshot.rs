//! The whole state of a machine as bytes, for tests that compare it before and after a call.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Range;

use crate::wiping::Wipe;
use crate::{
    DecodeError, EphemeralKey, PublicKey, Secret, StaticKey, SuiteId, Time, Wiping, Writer,
};

/// A part of the state of a machine. Different values write different bytes: lists write their
/// length first, optional parts a flag, enums the name of the variant.
///
/// Implement this trait with [`snapshot!`](crate::snapshot!), which names every field. A new field
/// that the macro call does not name is a compile error.
pub trait Snapshot {
    /// Writes the whole value.
    fn snapshot_into(&self, w: &mut Writer);

    /// Writes several values, one after another. The implementation for `u8` copies them in one
    /// step.
    fn snapshot_each(parts: &[Self], w: &mut Writer)
    where
        Self: Sized,
    {
        for part in parts {
            part.snapshot_into(w);
        }
    }
}

/// Returns the bytes of a state. For tests only: memory that the vector left when it grew is not
/// wiped.
pub fn snapshot_of(state: &impl Snapshot) -> Wiping<Vec<u8>> {
    let mut w = Writer::new();
    state.snapshot_into(&mut w);
    Wiping::new(w.finish())
}

/// Implements [`Snapshot`] for a type from all of its fields or variants. `field => expression`
/// writes the expression for a field whose type is from another crate. `encoded` writes `encode()`
/// of the whole value. A type parameter without a bound is a backend.
///
/// ```
/// use mezza_core::{snapshot, snapshot::snapshot_of};
///
/// struct Queue { waiting: Vec<u8>, next: Item }
/// enum Item { Nothing, Number(u32), Pair { left: u8, right: u8 } }
///
/// snapshot!(struct Queue { waiting, next });
/// snapshot!(enum Item [Nothing, Number(n), Pair { left, right }]);
///
/// let queue = |next| Queue { waiting: vec![7], next };
/// let [one, two] = [Item::Nothing, Item::Number(0)].map(|item| snapshot_of(&queue(item)));
/// assert!(one != two);
/// ```
#[macro_export]
macro_rules! snapshot {
    (struct $name:ident<$backend:ident> { $($fields:tt)+ }) => {
        $crate::snapshot!(struct $name<$backend: $crate::Backend> { $($fields)+ });
    };
    (struct $name:ident $(<$($of:ident: $bound:path),+>)? {
        $($field:ident $(=> $as:expr)?),+ $(,)?
    }) => {
        impl $(<$($of: $bound),+>)? $crate::Snapshot for $name $(<$($of),+>)? {
            fn snapshot_into(&self, w: &mut $crate::Writer) {
                let Self { $($field),+ } = self;
                $( $crate::snapshot!(part w, $field $(=> $as)?); )+
            }
        }
    };
    (struct $name:ident($field:ident $(=> $as:expr)?)) => {
        impl $crate::Snapshot for $name {
            fn snapshot_into(&self, w: &mut $crate::Writer) {
                let Self($field) = self;
                $crate::snapshot!(part w, $field $(=> $as)?);
            }
        }
    };
    (enum $name:ident $(<$($of:ident: $bound:path),+>)? [ $(
        $variant:ident $(($($part:ident $(=> $as:expr)?),+))? $({ $($field:ident),+ })?
    ),+ $(,)? ]) => {
        impl $(<$($of: $bound),+>)? $crate::Snapshot for $name $(<$($of),+>)? {
            fn snapshot_into(&self, w: &mut $crate::Writer) {
                match self { $(
                    Self::$variant $(($($part),+))? $({ $($field),+ })? => {
                        w.put_var8(stringify!($variant).as_bytes());
                        $( $( $crate::snapshot!(part w, $part $(=> $as)?); )+ )?
                        $( $( $crate::snapshot!(part w, $field); )+ )?
                    }
                )+ }
            }
        }
    };
    (encoded $name:ident) => {
        impl $crate::Snapshot for $name {
            fn snapshot_into(&self, w: &mut $crate::Writer) {
                $crate::Snapshot::snapshot_into(&self.encode(), w);
            }
        }
    };
    (part $w:ident, $part:ident) => { $crate::Snapshot::snapshot_into($part, $w) };
    (part $w:ident, $part:ident => $as:expr) => { $crate::Snapshot::snapshot_into(&$as, $w) };
}

impl Snapshot for u8 {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_u8(*self);
    }

    fn snapshot_each(parts: &[Self], w: &mut Writer) {
        w.put_bytes(parts);
    }
}

/// Implements [`Snapshot`] for integers by their big-endian bytes.
macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl Snapshot for $number {
            fn snapshot_into(&self, w: &mut Writer) {
                w.put_bytes(&self.to_be_bytes());
            }
        }
    )+ };
}

numbers!(u16, u32, u64, usize, f64);

impl Snapshot for bool {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_u8(u8::from(*self));
    }
}

impl<T> Snapshot for PhantomData<T> {
    fn snapshot_into(&self, _: &mut Writer) {}
}

impl<T: Snapshot> Snapshot for [T] {
    fn snapshot_into(&self, w: &mut Writer) {
        self.len().snapshot_into(w);
        T::snapshot_each(self, w);
    }
}

impl<T: Snapshot, const N: usize> Snapshot for [T; N] {
    fn snapshot_into(&self, w: &mut Writer) {
        T::snapshot_each(self, w);
    }
}

/// Implements [`Snapshot`] for types that contain one part.
macro_rules! holders {
    ($($holder:ident),+) => { $(
        impl<T: Snapshot + ?Sized> Snapshot for $holder<T> {
            fn snapshot_into(&self, w: &mut Writer) {
                (**self).snapshot_into(w);
            }
        }
    )+ };
}

holders!(Box, Arc);

impl<T: Snapshot + Wipe> Snapshot for Wiping<T> {
    fn snapshot_into(&self, w: &mut Writer) {
        (**self).snapshot_into(w);
    }
}

impl<T: Snapshot> Snapshot for Vec<T> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.as_slice().snapshot_into(w);
    }
}

impl<T: Snapshot> Snapshot for VecDeque<T> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.len().snapshot_into(w);
        for part in self {
            part.snapshot_into(w);
        }
    }
}

impl<T: Snapshot> Snapshot for BTreeSet<T> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.len().snapshot_into(w);
        for part in self {
            part.snapshot_into(w);
        }
    }
}

impl<K: Snapshot, V: Snapshot> Snapshot for BTreeMap<K, V> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.len().snapshot_into(w);
        for (key, value) in self {
            key.snapshot_into(w);
            value.snapshot_into(w);
        }
    }
}

impl<T: Snapshot> Snapshot for Option<T> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.as_slice().snapshot_into(w);
    }
}

impl<T: Snapshot> Snapshot for Range<T> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.start.snapshot_into(w);
        self.end.snapshot_into(w);
    }
}

impl Snapshot for String {
    fn snapshot_into(&self, w: &mut Writer) {
        self.as_bytes().snapshot_into(w);
    }
}

impl<A: Snapshot, B: Snapshot> Snapshot for (A, B) {
    fn snapshot_into(&self, w: &mut Writer) {
        self.0.snapshot_into(w);
        self.1.snapshot_into(w);
    }
}

impl<A: Snapshot, B: Snapshot, C: Snapshot> Snapshot for (A, B, C) {
    fn snapshot_into(&self, w: &mut Writer) {
        self.0.snapshot_into(w);
        self.1.snapshot_into(w);
        self.2.snapshot_into(w);
    }
}

impl<const N: usize> Snapshot for Secret<N> {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_bytes(self.expose());
    }
}

/// The prepared form of the backend is computed from the scalar, so the snapshot leaves it out.
impl Snapshot for StaticKey {
    fn snapshot_into(&self, w: &mut Writer) {
        self.scalar().snapshot_into(w);
        self.public_key().snapshot_into(w);
    }
}

impl Snapshot for EphemeralKey {
    fn snapshot_into(&self, w: &mut Writer) {
        self.scalar().snapshot_into(w);
    }
}

impl Snapshot for Time {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_u64(self.as_ms());
    }
}

snapshot!(struct PublicKey(bytes));
snapshot!(struct SuiteId(number));
snapshot!(enum DecodeError [Truncated, Trailing, Value]);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    struct Pair {
        left: Vec<u8>,
        right: Vec<u8>,
    }

    enum Stage {
        Begun,
        Over(u8),
        Counts { few: u16, many: u64 },
    }

    snapshot!(struct Pair { left, right });
    snapshot!(enum Stage [Begun, Over(code), Counts { few, many }]);

    #[test]
    fn values_that_differ_write_bytes_that_differ() {
        let pair = |left, right| snapshot_of(&Pair { left, right });
        assert!(pair(vec![1, 2], vec![3]) != pair(vec![1], vec![2, 3]));
        let stages = [
            Stage::Begun,
            Stage::Over(0),
            Stage::Over(1),
            Stage::Counts { few: 1, many: 0 },
            Stage::Counts { few: 0, many: 1 },
        ];
        let distinct: BTreeSet<Vec<u8>> =
            stages.iter().map(|stage| snapshot_of(stage).to_vec()).collect();
        assert_eq!(distinct.len(), stages.len());
        assert!(snapshot_of(&None::<u8>) != snapshot_of(&Some(0_u8)));
        assert!(snapshot_of(&(1_u8, 2_u16)) == snapshot_of(&(1_u8, 2_u16)));
    }

    #[test]
    fn secrets_and_queues_are_in_it() {
        let secret = |byte| Secret::<4>::init_with(|bytes| bytes.fill(byte));
        assert!(snapshot_of(&secret(1)) != snapshot_of(&secret(2)));
        let queue = |parts: &[u64]| snapshot_of(&parts.iter().copied().collect::<VecDeque<_>>());
        assert!(queue(&[1, 2]) != queue(&[2, 1]) && queue(&[1]) != queue(&[]));
    }
}
