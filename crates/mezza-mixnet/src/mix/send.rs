//! Frames that leave a mix in numbers.

use alloc::vec::Vec;

use super::{Output, Peer};
use crate::service::RoundId;
use crate::sign::Signer;
use crate::wire::bucket::{Entry, Manifest};
use crate::wire::{Body, Frame, Items};

/// Most bytes of an object in one CHUNK.
const CHUNK_BYTES: usize = 262_000;

/// Onions for the next mix, with their number in front and behind.
pub(super) fn onions(id: RoundId, batch: Vec<Items>, size: usize) -> impl Iterator<Item = Output> {
    let count = items_in(&batch);
    let first = Body::BatchStart { count, size: size as u16 };
    core::iter::once(first)
        .chain(batch.into_iter().map(Body::Onions))
        .chain([Body::BatchEnd { count }])
        .map(move |body| Output::Frame(Peer::Next, Frame::Round(id, body)))
}

/// Replies for the mix before, with their number behind.
pub(super) fn replies(id: RoundId, batch: Vec<Items>) -> impl Iterator<Item = Output> {
    let count = items_in(&batch);
    let items = batch.into_iter().map(Body::Replies);
    items
        .chain([Body::RepliesEnd { count }])
        .map(move |body| Output::Frame(Peer::Previous, Frame::Round(id, body)))
}

fn items_in(batch: &[Items]) -> u32 {
    batch.iter().map(|items| u32::from(items.count)).sum()
}

/// The objects of all buckets for the store, behind the manifest that we sign.
pub(super) fn objects(
    id: RoundId,
    config: &[u8; 32],
    signer: &Signer,
    objects: &[Vec<u8>],
) -> Vec<Output> {
    let manifest = Manifest { id, entries: objects.iter().map(|o| Entry::of(o)).collect() };
    let signature = manifest.sign(signer, config);
    let mut bodies = Vec::from([Body::Put { manifest, signature }]);
    for (object, bucket) in objects.iter().zip(1_u32..) {
        for (i, bytes) in object.chunks(CHUNK_BYTES).enumerate() {
            let offset = (i * CHUNK_BYTES) as u32;
            bodies.push(Body::Chunk { bucket, offset, bytes: bytes.to_vec() });
        }
    }
    bodies.into_iter().map(|body| Output::Frame(Peer::Store, Frame::Round(id, body))).collect()
}
