//! The progress of a backup or a restore, for a page that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bytes that are done, and their total. Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct WorkProgress(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    done: AtomicU64,
    total: AtomicU64,
}

impl WorkProgress {
    /// Sets how many bytes there are to handle. 0, as at the beginning: not known yet.
    pub fn set_total(&self, bytes: u64) {
        self.0.total.store(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that were handled.
    pub fn add_done(&self, bytes: u64) {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that were handled.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Returns how many bytes there are to handle, or 0 if that is not known.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }
}
