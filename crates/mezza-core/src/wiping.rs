//! Fast wiping of memory. Zeroing with one volatile write per byte takes a sixth of the time that
//! it takes to open a short message.

use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// Fills `bytes` with zeros; the compiler cannot remove these writes.
#[inline]
pub fn wipe_bytes(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// A value that can be wiped in place.
pub trait Wipe {
    /// Overwrites all memory that the value owns with zeros.
    fn wipe(&mut self);
}

impl<const N: usize> Wipe for [u8; N] {
    fn wipe(&mut self) {
        wipe_bytes(self);
    }
}

/// Wipes the whole capacity. Memory that the vector left when it grew is not wiped, so give the
/// vector its final capacity at the start.
impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        self.clear();
        self.resize(self.capacity(), 0);
        zeroize::optimization_barrier(self.as_slice());
        self.clear();
    }
}

/// A value that is wiped on drop. `Debug` shows nothing of the value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Wiping<T: Wipe>(T);

impl<T: Wipe> Wiping<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T: Wipe> Drop for Wiping<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<T: Wipe> Deref for Wiping<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Wipe> DerefMut for Wiping<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Wipe> fmt::Debug for Wiping<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wiping")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    #[test]
    fn arrays_and_vectors_are_zeros_up_to_their_capacity() {
        let mut array = [7; 33];
        array.wipe();
        assert_eq!(array, [0; 33]);
        let mut vector = vec![7; 100];
        vector.truncate(10);
        let room = vector.capacity();
        vector.wipe();
        assert!(vector.is_empty());
        assert_eq!(vector.capacity(), room);
        vector.resize(room, 1);
        vector.wipe();
        assert!(vector.is_empty());
    }

    #[test]
    fn what_goes_is_wiped() {
        use alloc::rc::Rc;
        use core::cell::Cell;
        struct Seen(Rc<Cell<bool>>);
        impl Wipe for Seen {
            fn wipe(&mut self) {
                self.0.set(true);
            }
        }
        let wiped = Rc::new(Cell::new(false));
        let held = Wiping::new(Seen(Rc::clone(&wiped)));
        assert!(!wiped.get());
        drop(held);
        assert!(wiped.get());
    }

    #[test]
    fn debug_is_silent() {
        assert_eq!(format!("{:?}", Wiping::new([0xde_u8; 2])), "Wiping");
    }
}
