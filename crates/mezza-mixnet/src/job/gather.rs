//! An outgoing batch, assembled frame by frame. Permuting it accesses all of memory, and the next
//! mix can begin with the first frame.

use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Wiping, snapshot};

use super::JobId;
use crate::batch::{Permutation, SecretIndices};
use crate::onion::Unwrapped;
use crate::service::items_per_frame;
use crate::wire::Items;

/// The unwrapped onions of a batch, followed by our own noise.
#[derive(Debug)]
pub struct Batch {
    parts: Vec<Unwrapped>,
    noise: Vec<Wiping<Vec<u8>>>,
    size: usize,
    /// Index of the first onion of each part and each piece of noise.
    begins: Vec<u32>,
    received: u32,
    noisy: u32,
}

snapshot!(struct Batch { parts, noise, size, begins, received, noisy });

impl Batch {
    /// Creates a batch of onions of `size` bytes.
    pub fn new(parts: Vec<Unwrapped>, noise: Vec<Wiping<Vec<u8>>>, size: usize) -> Self {
        let mut total = 0;
        let mut begin = |count: usize| {
            total += count as u32;
            total - count as u32
        };
        let mut begins: Vec<u32> = parts.iter().map(|part| begin(part.keys.len())).collect();
        begins.extend(noise.iter().map(|piece| begin(piece.len() / size)));
        let received = parts.iter().map(|part| part.keys.len() as u32).sum();
        Self { noisy: total - received, parts, noise, size, begins, received }
    }

    /// Returns the unwrapped parts.
    pub fn parts(&self) -> &[Unwrapped] {
        &self.parts
    }

    /// Returns the number of noise onions.
    pub const fn noise_count(&self) -> u32 {
        self.noisy
    }

    /// Returns a job for each frame of the output, which consists of the onions in `kept` and the
    /// noise in this order.
    pub fn frame_jobs(
        self: &Arc<Self>,
        of: JobId,
        kept: &SecretIndices,
        order: &Permutation,
    ) -> Vec<GatherJob> {
        let place = |source: &u32| match source.checked_sub(kept.len() as u32) {
            // Sources below the number of kept onions are onions. All others are our own noise.
            None => kept[*source as usize],
            Some(own) => self.received + own,
        };
        let frames = order.sources().chunks(items_per_frame(self.size)).zip(of.index..);
        let job = |(sources, index): (&[u32], u32)| GatherJob {
            ticket: JobId { index, ..of },
            batch: Arc::clone(self),
            places: sources.iter().map(place).collect(),
        };
        frames.map(job).collect()
    }

    /// Returns onion number `at`.
    fn onion_at(&self, at: u32) -> &[u8] {
        let piece = self.begins.partition_point(|begin| *begin <= at) - 1;
        let within = (at - self.begins[piece]) as usize;
        match piece.checked_sub(self.parts.len()) {
            None => self.parts[piece].onion_at(within),
            Some(own) => &self.noise[own][within * self.size..][..self.size],
        }
    }
}

/// Assembles one frame of the output.
#[derive(Debug)]
pub struct GatherJob {
    /// Number of the frame.
    pub ticket: JobId,
    batch: Arc<Batch>,
    places: SecretIndices,
}

snapshot!(struct GatherJob { ticket, batch, places });

impl GatherJob {
    pub(super) fn run(&self) -> Items {
        let size = self.batch.size;
        let mut bytes = Vec::with_capacity(self.places.len() * size);
        for place in self.places.iter() {
            bytes.extend_from_slice(self.batch.onion_at(*place));
        }
        Items::nth_frame(self.ticket.index as usize, size, bytes)
    }
}
