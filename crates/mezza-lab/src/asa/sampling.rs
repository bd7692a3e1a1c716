//! A3: rejection sampling (thesis, section 3.2.2). The device draws a coin again until the observed
//! field carries the next block of the secret.

use mezza_guard::Group;
use mezza_guard::coins::{CoinRole, Coins, Uniform, View};
use rand_core::CryptoRng;

use super::symbol::{AttackKey, Planted, Sequence};

/// Maximum draws per block, as a multiple of the expected 2^lambda; the chance of needing more is
/// e^-64.
const PATIENCE: u32 = 64;

/// The place where a device embeds: the coin that it redraws, and the observed field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The coin that is redrawn.
    pub role: CoinRole,
    /// The index of the observed field in the coin's view.
    pub field: usize,
}

/// A tampered source of coins.
pub struct RejectionSampling {
    key: AttackKey,
    planted: Planted,
    target: Target,
    sequence: Sequence,
    /// Number of messages so far.
    message: usize,
    /// Number of draws so far.
    pub draws: u64,
}

impl RejectionSampling {
    /// A device that leaks `planted` in `target`.
    pub const fn new(key: AttackKey, planted: Planted, target: Target, sequence: Sequence) -> Self {
        Self { key, planted, target, sequence, message: 0, draws: 0 }
    }

    fn carries_block(&self, field: &[u8]) -> bool {
        let symbol = self.key.find_symbol(field, self.planted.lambda());
        let index = self.sequence.block_index(symbol, self.message, self.planted.len());
        symbol.block == self.planted.block(index)
    }
}

impl<G: Group> Coins<G> for RejectionSampling {
    fn draw_coin(
        &mut self,
        group: &G,
        role: CoinRole,
        view: &View<'_, G>,
        rng: &mut dyn CryptoRng,
    ) -> G::Scalar {
        let mut coin = Uniform.draw_coin(group, role, view, rng);
        if role != self.target.role {
            return coin;
        }
        let most = PATIENCE << self.planted.lambda();
        for _ in 0..most {
            self.draws += 1;
            if view(&coin).get(self.target.field).is_some_and(|field| self.carries_block(field)) {
                break;
            }
            coin = Uniform.draw_coin(group, role, view, rng);
        }
        self.message += 1;
        coin
    }
}
