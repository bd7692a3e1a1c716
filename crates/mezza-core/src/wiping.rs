//! Wiping as fast as the machine fills memory. Writing zeros one byte at a time, each one volatile,
//! costs a sixth of opening a short message.

use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// Fills with zeros in a way that the compiler may not leave out.
#[inline]
pub fn wipe_bytes(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

/// Bytes that can be wiped where they lie.
pub trait Wipe {
    /// Leaves zeros, or nothing, in all the memory that this owns.
    fn wipe(&mut self);
}

impl<const N: usize> Wipe for [u8; N] {
    fn wipe(&mut self) {
        wipe_bytes(self);
    }
}

/// With the room behind the bytes. What a vector left elsewhere when it grew stays there: make it
/// as long as it will become.
impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        self.clear();
        self.resize(self.capacity(), 0);
        zeroize::optimization_barrier(self.as_slice());
        self.clear();
    }
}

/// A value that is wiped when it goes. `Debug` shows nothing of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Wiping<T: Wipe>(T);

impl<T: Wipe> Wiping<T> {
    /// Takes a value over.
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
