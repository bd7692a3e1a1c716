//! A heap that looks through what it gets back for planted bytes, while a test of its thread asks: what
//! is found was not wiped.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};

/// Bytes of a planted pattern: four limbs.
pub const PATTERN_BYTES: usize = 32;
/// Bytes by which a pattern is looked up.
const HEAD_BYTES: usize = 8;

struct Watched;

#[global_allocator]
static HEAP: Watched = Watched;

thread_local! {
    /// Sorted.
    static PLANTED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    static FOUND: Cell<u32> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "a heap cannot be written without; it hands every call on")]
// SAFETY: every call goes to the heap of the system as it came.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: handed on, with zeros, so that all of the memory can be read when it comes back.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if WATCHING.try_with(Cell::get).unwrap_or(false) {
            // SAFETY: the memory is as large as its layout says, and was written by `alloc`.
            look(unsafe { std::slice::from_raw_parts(pointer, layout.size()) });
        }
        // SAFETY: handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn look(bytes: &[u8]) {
    WATCHING.set(false);
    PLANTED.with_borrow(|planted| {
        let is_planted = |window: &[u8]| {
            let head = &window[..HEAD_BYTES];
            let at = planted.partition_point(|pattern| &pattern[..HEAD_BYTES] < head);
            planted.get(at).is_some_and(|pattern| pattern == window)
        };
        let found = bytes.windows(PATTERN_BYTES).filter(|window| is_planted(window));
        FOUND.set(FOUND.get() + found.count() as u32);
    });
    WATCHING.set(true);
}

/// How often a planted pattern came back to the heap while `work` ran.
pub fn leaked(mut planted: Vec<Vec<u8>>, work: impl FnOnce()) -> u32 {
    assert!(planted.iter().all(|pattern| pattern.len() == PATTERN_BYTES));
    planted.sort_unstable();
    PLANTED.set(planted);
    FOUND.set(0);
    WATCHING.set(true);
    work();
    WATCHING.set(false);
    PLANTED.take();
    FOUND.get()
}

#[test]
fn the_watched_heap_sees_what_is_not_wiped() {
    let pattern: Vec<u8> = (0..32).map(|i| i * 7 + 3).collect();
    let copy = pattern.clone();
    assert_eq!(leaked(vec![pattern], move || drop(vec![copy])), 1);
}
