//! Outgoing frames of a mix that consist of several items.

use alloc::vec::Vec;
use core::mem::take;

use mezza_core::Wiping;

use super::{Neighbour, Output};
use crate::service::RoundId;
use crate::sign::Signer;
use crate::wire::bucket::{Manifest, ObjectDigest};
use crate::wire::{Frame, FrameBody, Items};

/// Most bytes of an object in one CHUNK.
const CHUNK_BYTES: usize = 262_000;

/// Returns a frame of the batch for the next mix.
pub(super) const fn batch_frame(id: RoundId, body: FrameBody) -> Output {
    Output::Frame(Neighbour::Next, Frame::Round(id, body))
}

/// Returns the frames of replies for the previous mix, followed by their number.
pub(super) fn reply_frames(id: RoundId, batch: Vec<Wiping<Items>>) -> impl Iterator<Item = Output> {
    let count = batch.iter().map(|items| u32::from(items.count)).sum();
    let items = batch.into_iter().map(|mut items| FrameBody::Replies(take(&mut *items)));
    items
        .chain([FrameBody::RepliesEnd { count }])
        .map(move |body| Output::Frame(Neighbour::Previous, Frame::Round(id, body)))
}

/// Returns the frames with the objects of all buckets for the store, after the manifest, which this
/// mix signs.
pub(super) fn object_frames(
    id: RoundId,
    config: &[u8; 32],
    signer: &Signer,
    objects: &[Vec<u8>],
) -> Vec<Output> {
    let manifest =
        Manifest { id, entries: objects.iter().map(|o| ObjectDigest::from_object(o)).collect() };
    let signature = manifest.sign(signer, config);
    // The signed manifest is sent first, because the store checks lengths before it stores a chunk.
    let mut bodies = Vec::from([FrameBody::Put { manifest, signature }]);
    for (object, bucket) in objects.iter().zip(1_u32..) {
        for (i, bytes) in object.chunks(CHUNK_BYTES).enumerate() {
            let offset = (i * CHUNK_BYTES) as u32;
            bodies.push(FrameBody::Chunk { bucket, offset, bytes: bytes.to_vec() });
        }
    }
    bodies.into_iter().map(|body| Output::Frame(Neighbour::Store, Frame::Round(id, body))).collect()
}
