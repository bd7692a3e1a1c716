//! Noise of one mix, including traps.

use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Secret, Wiping, snapshot};
use mezza_lanes::Kernel;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::JobId;
use crate::keys::SecretVec;
use crate::onion::{Layer, Multiply, Tables, Wrapped, open_reply, wrap_onions};
use crate::service::{CELL_BYTES, DROP_BYTES, Service};

/// The kind of noise messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseKind {
    /// This number of dead drops with one access each.
    Singles(u32),
    /// This number of dead drops with two accesses each.
    Pairs(u32),
    /// For this bucket, this number of messages.
    Bucket(u32, u32),
}

snapshot!(enum NoiseKind [Singles(a), Pairs(a), Bucket(a, b)]);

impl NoiseKind {
    /// Returns the number of messages.
    pub const fn message_count(self) -> u32 {
        match self {
            Self::Singles(n) | Self::Bucket(_, n) => n,
            Self::Pairs(n) => 2 * n,
        }
    }
}

/// Generates up to 512 noise messages.
#[derive(Debug)]
pub struct NoiseJob {
    /// Number of the part of the noise.
    pub ticket: JobId,
    /// Kind and number of the messages.
    pub kind: NoiseKind,
    /// The layers of the later mixes.
    pub layers: Vec<Layer>,
    /// Tables of the keys in these layers.
    pub tables: Arc<Tables>,
    /// Seed for all random bytes of the job.
    pub seed: Secret<32>,
    /// Number of traps, which are the first messages; whole pairs.
    pub traps: u32,
}

snapshot!(struct NoiseJob { ticket, kind, layers, tables, seed, traps });

/// Noise that is ready for mixing.
#[derive(Debug, Default)]
pub struct Noise {
    /// Onions for the next mix, or plaintexts at the last one.
    pub onions: Wiping<Vec<u8>>,
    /// The expected replies to the traps.
    pub traps: Vec<Trap>,
}

snapshot!(struct Noise { onions, traps });

/// A noise message whose reply is checked.
#[derive(Debug)]
pub struct Trap {
    /// Index in the noise of the job; after joining, in the noise of the round.
    pub at: u32,
    /// The keys of the reply, outermost layer first.
    reply_keys: SecretVec,
    /// The expected cell: its own, or that of the other access of a pair.
    cell: Wiping<Vec<u8>>,
}

snapshot!(struct Trap { at, reply_keys, cell });

impl NoiseJob {
    pub(super) fn run(&self, kernel: &dyn Kernel) -> Noise {
        let mut rng = ChaCha20Rng::from_seed(*self.seed.expose());
        let size = self.ticket.id.service.innermost_bytes();
        let inner = Wiping::new(self.make_plaintexts(kernel, size, &mut rng));
        let multiply = Multiply::Tables(&self.tables);
        let Wrapped { onions, reply_keys: back } =
            wrap_onions(kernel, multiply, &self.layers, &inner, size, &mut rng);
        let traps = (0..self.traps).map(|at| self.make_trap(at, &inner, &back)).collect();
        Noise { onions: Wiping::new(onions), traps }
    }

    /// Generates the plaintexts, in which each field looks like that of a client.
    fn make_plaintexts(&self, kernel: &dyn Kernel, size: usize, rng: &mut ChaCha20Rng) -> Vec<u8> {
        let count = self.kind.message_count() as usize;
        let mut inner = alloc::vec![0; count * size];
        // To a mix, sealed cells, tokens and drop ids are random, so random bytes look the same.
        rng.fill_bytes(&mut inner);
        match self.kind {
            NoiseKind::Singles(_) => {}
            NoiseKind::Pairs(_) => {
                for pair in inner.chunks_exact_mut(2 * size) {
                    let (first, second) = pair.split_at_mut(size);
                    // Only the drop is equal, because the cells of two conversing clients differ as
                    // well.
                    second[..DROP_BYTES].copy_from_slice(&first[..DROP_BYTES]);
                }
            }
            NoiseKind::Bucket(bucket, _) => {
                let publics = self.draw_publics(kernel, count, rng);
                for (i, message) in inner.chunks_exact_mut(size).enumerate() {
                    message[..4].copy_from_slice(&bucket.to_be_bytes());
                    if let Some(public) = publics.get(i) {
                        // A real invitation begins with a real key, and random bytes are one only
                        // half of the time (MIX-22).
                        message[4..36].copy_from_slice(public);
                    }
                }
            }
        }
        inner
    }

    /// Draws real public keys for the beginning of noise invitations; none for tokens.
    fn draw_publics(
        &self,
        kernel: &dyn Kernel,
        count: usize,
        rng: &mut ChaCha20Rng,
    ) -> Vec<[u8; 32]> {
        if self.ticket.id.service != Service::Invitation {
            return Vec::new();
        }
        let mut publics = alloc::vec![[0; 32]; count];
        self.tables.compute_publics(kernel, &SecretVec::draw(count, rng), &mut publics);
        publics
    }

    fn make_trap(&self, at: u32, inner: &[u8], back: &[SecretVec]) -> Trap {
        let from = match self.kind {
            // The last mix swaps the cells of a pair, so each trap expects the cell of the other
            // one (MIX-27).
            NoiseKind::Pairs(_) => at ^ 1,
            NoiseKind::Singles(_) | NoiseKind::Bucket(..) => at,
        } as usize;
        let size = self.ticket.id.service.innermost_bytes();
        let mut keys = SecretVec::zeros(back.len());
        for (key, layer) in keys.iter_mut().zip(back) {
            *key = layer[at as usize];
        }
        let cell = &inner[from * size + DROP_BYTES..(from + 1) * size];
        debug_assert_eq!(cell.len(), CELL_BYTES);
        Trap { at, reply_keys: keys, cell: Wiping::new(cell.to_vec()) }
    }
}

/// Checks the traps of one round.
#[derive(Debug)]
pub struct TrapJob {
    /// The round of the job.
    pub id: crate::RoundId,
    /// Hash of the config of the round.
    pub config: [u8; 32],
    /// Our position in the chain.
    pub position: u8,
    /// Each trap and its reply.
    pub traps: Vec<(Trap, Vec<u8>)>,
}

snapshot!(struct TrapJob { id, config, position, traps });

impl TrapJob {
    /// Returns true if a trap failed. All traps are always opened, so that the time does not depend
    /// on the failure.
    pub(super) fn run(&self, kernel: &dyn Kernel) -> bool {
        let failed = |(trap, reply): &&(Trap, Vec<u8>)| {
            let came = open_reply(kernel, &trap.reply_keys, reply.clone()).map(Wiping::new);
            came.is_none_or(|cell| cell != trap.cell)
        };
        // Counted instead of `any`, which would stop at the first failure.
        self.traps.iter().filter(failed).count() > 0
    }
}
