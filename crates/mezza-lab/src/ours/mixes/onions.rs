//! Onions of simulated users for a whole round. Half of the users are in conversations.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mezza_lanes::Kernel;
use mezza_mixnet::Service;
use mezza_mixnet::keys::SecretVec;
use mezza_mixnet::onion::{Layer, Multiply, Tables, Wrapped, open_reply, wrap_onions};
use mezza_mixnet::service::{CELL_BYTES, DROP_BYTES, reply_bytes};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::machine;

/// Bytes of a plaintext: a dead drop and a cell.
const INNER_BYTES: usize = DROP_BYTES + CELL_BYTES;

/// The onions of a round, and the cells that their replies must hold.
pub struct Onions {
    /// The onions, one after another.
    pub bytes: Vec<u8>,
    /// Wall time in which the onions were made.
    pub making: Duration,
    plain: Vec<u8>,
    /// Per part: the number of users, and the reply keys by layer.
    back: Vec<(usize, Vec<SecretVec>)>,
    talking: usize,
}

impl Onions {
    /// Wraps random cells for `users` users on all cores.
    ///
    /// # Errors
    /// If a round key is no point.
    pub fn wrap_cells(
        kernel: &'static dyn Kernel,
        layers: &[Layer],
        users: usize,
        seed: u64,
    ) -> Result<Self> {
        let begun = Instant::now();
        let tables = Tables::new(kernel, layers).context("round keys that are not points")?;
        let mut plain = vec![0; users * INNER_BYTES];
        ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut plain);
        // In the first quarter of all pairs, neighbours share a dead drop.
        let talking = users / 4 * 2;
        for pair in plain[..talking * INNER_BYTES].chunks_exact_mut(2 * INNER_BYTES) {
            pair.copy_within(..DROP_BYTES, INNER_BYTES);
        }
        let part = users.div_ceil(machine::count_cores()).max(1) * INNER_BYTES;
        let one = |at: u64, inner: &[u8]| {
            let mut rng = ChaCha20Rng::seed_from_u64(seed.wrapping_add(at + 1));
            wrap_onions(kernel, Multiply::Tables(&tables), layers, inner, INNER_BYTES, &mut rng)
        };
        let one = &one;
        let wrapped: Option<Vec<Wrapped>> = std::thread::scope(|scope| {
            let begin = |(at, inner)| scope.spawn(move || one(at, inner));
            let threads: Vec<_> = (0..).zip(plain.chunks(part)).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().ok()).collect()
        });
        let wrapped = wrapped.context("wrapping panicked")?;
        let mut bytes = Vec::new();
        let mut back = Vec::new();
        let size = Service::Conversation.onion_bytes(layers.len());
        for Wrapped { onions, reply_keys: keys } in wrapped {
            back.push((onions.len() / size, keys));
            bytes.extend_from_slice(&onions);
        }
        Ok(Self { bytes, making: begun.elapsed(), plain, back, talking })
    }

    /// Opens every reply. It must contain the partner's cell in a conversation, else the user's own
    /// cell.
    ///
    /// # Errors
    /// Missing or wrong replies.
    pub fn check_replies(&self, kernel: &dyn Kernel, replies: &[u8]) -> Result<()> {
        let cells: Vec<&[u8]> =
            self.plain.chunks_exact(INNER_BYTES).map(|p| &p[DROP_BYTES..]).collect();
        let layers = self.back.first().map_or(0, |(_, keys)| keys.len());
        let size = reply_bytes(layers);
        ensure!(replies.len() == cells.len() * size, "replies are missing");
        let keys = self.back.iter().flat_map(|(count, keys)| {
            (0..*count).map(move |at| {
                let mut own = SecretVec::zeros(keys.len());
                own.iter_mut().zip(keys).for_each(|(key, layer)| *key = layer[at]);
                own
            })
        });
        for (user, (keys, reply)) in keys.zip(replies.chunks_exact(size)).enumerate() {
            let from = if user < self.talking { user ^ 1 } else { user };
            let cell = open_reply(kernel, &keys, reply.to_vec());
            ensure!(cell.as_deref() == Some(cells[from]), "the reply to user {user} is wrong");
        }
        Ok(())
    }
}
