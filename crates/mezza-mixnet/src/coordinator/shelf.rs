//! Buckets at the entry server: fetched once from the store, then served from memory.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use mezza_core::snapshot;

use super::past::forget_old;
use crate::RoundId;
use crate::config::Config;
use crate::sign::{Signature, VerifyKey};
use crate::wire::{Frame, FrameBody, Manifest};

/// Most bytes of an object in one CHUNK.
const CHUNK_BYTES: usize = 262_000;
/// Number of rounds of one service whose buckets are stored.
const SHELVES: usize = 2;

/// The buckets of one round while they are fetched from the store.
pub(super) struct BucketDownload {
    manifest: Option<(Manifest, Signature)>,
    objects: Vec<Vec<u8>>,
    /// Index of the bucket that the store is sending.
    answering: usize,
}

snapshot!(struct BucketDownload { manifest, objects, answering });

impl BucketDownload {
    pub fn new(buckets: u32) -> Self {
        Self { manifest: None, objects: vec![Vec::new(); buckets as usize], answering: 0 }
    }

    /// Returns the number of received bytes.
    pub fn byte_count(&self) -> usize {
        self.objects.iter().map(Vec::len).sum()
    }

    /// Checks and stores the manifest, which the store sends before each bucket. Returns `None`
    /// unless the last mix signed it and its lengths are possible for `users` clients and the noise
    /// of the config.
    pub fn add_manifest(
        &mut self,
        config: &Config,
        users: u32,
        last: &VerifyKey,
        manifest: Manifest,
        signature: Signature,
    ) -> Option<()> {
        // The store repeats the manifest for each bucket. A different one would change lengths
        // during the download.
        if let Some(known) = &self.manifest {
            return (known.0 == manifest && known.1 == signature).then_some(());
        }
        let signed = manifest.signed_by(last, &config.hash(), &signature);
        // Lengths are checked before a chunk is stored (MIX-12, MIX-65).
        (signed && config.allows_manifest(&manifest, users)).then_some(())?;
        self.manifest = Some((manifest, signature));
        Some(())
    }

    /// Appends a chunk of the present bucket. Returns `None` if the chunk is not the next one.
    pub fn add_chunk(&mut self, bucket: u32, offset: u32, bytes: &[u8]) -> Option<()> {
        let (manifest, _) = self.manifest.as_ref()?;
        let at = (bucket as usize).checked_sub(1).filter(|at| *at == self.answering)?;
        let object = self.objects.get_mut(at)?;
        let entry = manifest.entries.get(at)?;
        let end = object.len() + bytes.len();
        // Chunks arrive in order, so no gaps must be stored. An empty chunk would never end.
        if offset as usize != object.len() || end > entry.len as usize || bytes.is_empty() {
            return None;
        }
        object.extend_from_slice(bytes);
        if end == entry.len as usize {
            // The hash is checked here, so that clients do not download useless bytes.
            manifest.holds_object(bucket, object).then_some(())?;
            self.answering += 1;
        }
        Some(())
    }

    pub fn is_full(&self) -> bool {
        self.answering == self.objects.len()
    }

    /// Encodes the answer for each bucket, as bytes that all clients share.
    fn encode_answers(self, id: RoundId) -> Option<Vec<Arc<[u8]>>> {
        let manifest = self.manifest?;
        let answer = |(object, bucket): (Vec<u8>, u32)| {
            let head = FrameBody::Object(Some(manifest.clone()));
            let chunks = object.chunks(CHUNK_BYTES).zip(0_u32..).map(|(bytes, at)| {
                FrameBody::Chunk { bucket, offset: at * CHUNK_BYTES as u32, bytes: bytes.to_vec() }
            });
            let frames = core::iter::once(head).chain(chunks);
            // Encoded once and shared: each client gets the same bytes.
            let bytes = frames.map(|body| Frame::Round(id, body).encode().ok());
            Some(bytes.collect::<Option<Vec<_>>>()?.concat().into())
        };
        self.objects.into_iter().zip(1..).map(answer).collect()
    }
}

/// The buckets of the last rounds of each service.
pub(super) struct BucketCache(BTreeMap<RoundId, Vec<Arc<[u8]>>>);

snapshot!(struct BucketCache(inner));

impl BucketCache {
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Stores the buckets of a complete download.
    pub fn put_download(&mut self, id: RoundId, shelf: BucketDownload) {
        if let Some(answers) = shelf.encode_answers(id) {
            self.0.insert(id, answers);
            forget_old(&mut self.0, id.service, SHELVES);
        }
    }

    /// Returns the answer for a bucket, counted from 1, or `None`.
    pub fn find_answer(&self, id: RoundId, bucket: u32) -> Option<Arc<[u8]>> {
        self.0.get(&id)?.get((bucket as usize).checked_sub(1)?).cloned()
    }

    pub fn has_round(&self, id: RoundId) -> bool {
        self.0.contains_key(&id)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
