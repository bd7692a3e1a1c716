//! Jobs on a whole batch.

use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Secret, Wiping, snapshot};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::Batch;
use crate::RoundId;
use crate::batch::{Permutation, Reply, SecretIndices, mark_duplicates, match_drops};
use crate::onion::Unwrapped;
use crate::service::{CELL_BYTES, DROP_BYTES, INVITATION_BYTES, Service, TOKEN_BYTES};
use crate::wire::{bucket, filter};

/// Returns the indices of the onions that are forwarded: those that opened and whose key was not
/// used before.
fn select_kept(parts: &[Unwrapped]) -> SecretIndices {
    let keys: Vec<[u8; 32]> = parts.iter().flat_map(|part| part.keys.iter().copied()).collect();
    let opened = parts.iter().flat_map(|part| part.opened.iter());
    // Duplicates are found by X even if the first one is bad, because an X must not be tried twice
    // (MIX-8).
    let places = mark_duplicates(&keys).into_iter().zip(opened).zip(0_u32..);
    places.filter(|((double, opened), _)| !double && **opened == 1).map(|(_, at)| at).collect()
}

/// Collects the inner onions at these indices, then the noise, of `size` bytes each.
fn collect_items<'a>(
    parts: &'a [Unwrapped],
    size: usize,
    places: &[u32],
    noise: &'a [Wiping<Vec<u8>>],
) -> Vec<&'a [u8]> {
    let inner: Vec<&[u8]> = parts.iter().flat_map(Unwrapped::inner_onions).collect();
    let kept = places.iter().map(|place| inner[*place as usize]);
    kept.chain(noise.iter().flat_map(|part| part.chunks_exact(size))).collect()
}

/// Drops duplicates and bad onions, and draws an order for the others and our own noise.
#[derive(Debug)]
pub struct ShuffleJob {
    /// The round of the job.
    pub id: RoundId,
    /// The batch.
    pub batch: Arc<Batch>,
    /// Seed of the permutation.
    pub seed: Secret<32>,
}

snapshot!(struct ShuffleJob { id, batch, seed });

/// The order in which the next mix gets a batch.
#[derive(Debug, Default)]
pub struct Shuffled {
    /// Indices of the forwarded onions in the input.
    pub kept: SecretIndices,
    /// For each position of the output, its index in `kept`, or an index after `kept` for noise.
    pub order: Permutation,
}

impl ShuffleJob {
    pub(super) fn run(&self) -> Shuffled {
        let kept = select_kept(self.batch.parts());
        // Onions and noise are permuted together, so that noise has no fixed position (MIX-17).
        let order = Permutation::draw(&self.seed, kept.len() + self.batch.noise_count() as usize);
        Shuffled { kept, order }
    }
}

/// Swaps the cells of equal dead drops.
#[derive(Debug)]
pub struct MatchJob {
    /// The round of the job.
    pub id: RoundId,
    /// The unwrapped onions of the batch, in order.
    pub parts: Vec<Unwrapped>,
    /// Seed of the replies to third accesses.
    pub seed: Secret<32>,
}

snapshot!(struct MatchJob { id, parts, seed });

/// The replies to all forwarded onions.
#[derive(Debug, Default)]
pub struct Replies {
    /// Indices of these onions in the input.
    pub kept: SecretIndices,
    /// 256 bytes for each onion.
    pub cells: Wiping<Vec<u8>>,
}

impl MatchJob {
    pub(super) fn run(&self) -> Replies {
        let kept = select_kept(&self.parts);
        let size = Service::Conversation.innermost_bytes();
        let accesses = collect_items(&self.parts, size, &kept, &[]);
        let drops: Vec<[u8; DROP_BYTES]> =
            accesses.iter().filter_map(|access| access.first_chunk().copied()).collect();
        let cell = |at: u32| &accesses[at as usize][DROP_BYTES..];
        let mut rng = ChaCha20Rng::from_seed(*self.seed.expose());
        let mut cells = Wiping::new(Vec::with_capacity(kept.len() * CELL_BYTES));
        for (at, reply) in (0_u32..).zip(match_drops(&drops)) {
            match reply {
                Reply::Echo => cells.extend_from_slice(cell(at)),
                Reply::Swap(other) => cells.extend_from_slice(cell(other)),
                // Two cells cannot be delivered to three accesses, and an empty reply would show
                // the collision (MIX-9).
                Reply::Third => {
                    let mut random = [0; CELL_BYTES];
                    rng.fill_bytes(&mut random);
                    cells.extend_from_slice(&random);
                }
            }
        }
        Replies { kept, cells }
    }
}

/// Builds the objects of all buckets of a call or invitation round.
#[derive(Debug)]
pub struct PublishJob {
    /// The round of the job.
    pub id: RoundId,
    /// The unwrapped onions of the batch, in order.
    pub parts: Vec<Unwrapped>,
    /// Plaintexts of our own noise.
    pub noise: Vec<Wiping<Vec<u8>>>,
    /// Number of buckets.
    pub buckets: u32,
}

snapshot!(struct PublishJob { id, parts, noise, buckets });

impl PublishJob {
    pub(super) fn run(&self) -> Vec<Vec<u8>> {
        let size = self.id.service.innermost_bytes();
        let mut entries = collect_items(&self.parts, size, &select_kept(&self.parts), &self.noise);
        // Sorted by bucket, then by bytes, so that the order reveals nothing.
        entries.sort_unstable();
        (1..=self.buckets).map(|number| self.build_object(number, &entries)).collect()
    }

    fn build_object(&self, number: u32, entries: &[&[u8]]) -> Vec<u8> {
        let of = |entry: &&[u8]| entry[..4] < number.to_be_bytes()[..];
        let from = entries.partition_point(of);
        let mine = entries[from..].iter().take_while(|entry| entry[..4] == number.to_be_bytes());
        if self.id.service == Service::Call {
            let tokens = mine.filter_map(|entry| entry[4..].first_chunk::<TOKEN_BYTES>().copied());
            filter::encode(&tokens.collect::<Vec<_>>())
        } else {
            let mut invitations = Vec::new();
            mine.for_each(|entry| invitations.extend_from_slice(&entry[4..4 + INVITATION_BYTES]));
            bucket::invitation_object(&invitations)
        }
    }
}
