//! Operations on a whole batch: finding duplicates, permuting positions, matching dead drops.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use mezza_core::{Secret, Wipe, Wiping, snapshot};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use zeroize::Zeroize as _;

use crate::service::DROP_BYTES;

/// Returns a flag per key, which is true if an equal key is earlier in the list.
///
/// Keys are sorted by their first 16 bytes, and keys that share them by all 32. Both sorts take `n
/// log n` steps for any keys that a sender chooses.
pub fn mark_duplicates(keys: &[[u8; 32]]) -> Vec<bool> {
    let mut order: Vec<(u128, u32)> =
        keys.iter().enumerate().map(|(i, key)| (key_prefix(key), i as u32)).collect();
    order.sort_unstable();
    let mut marks = vec![false; keys.len()];
    for group in order.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        // Only keys with equal first halves are compared in full, and sorted again, so the search
        // stays n log n.
        let mut alike: Vec<u32> = group.iter().map(|(_, i)| *i).collect();
        alike.sort_unstable_by_key(|i| (keys[*i as usize], *i));
        for pair in alike.windows(2).filter(|p| keys[p[0] as usize] == keys[p[1] as usize]) {
            marks[pair[1] as usize] = true;
        }
    }
    marks
}

fn key_prefix(key: &[u8; 32]) -> u128 {
    key.first_chunk().map_or(0, |front| u128::from_be_bytes(*front))
}

/// Indices in a batch, which together are its secret order. They are wiped on drop and not shown by
/// `Debug`.
#[derive(Default, PartialEq, Eq)]
pub struct SecretIndices(Wiping<Plain>);

snapshot!(struct SecretIndices(places => places.0));

/// The indices in memory.
#[derive(Default, PartialEq, Eq)]
struct Plain(Vec<u32>);

impl Wipe for Plain {
    fn wipe(&mut self) {
        self.0.zeroize();
    }
}

impl From<Vec<u32>> for SecretIndices {
    fn from(places: Vec<u32>) -> Self {
        Self(Wiping::new(Plain(places)))
    }
}

impl FromIterator<u32> for SecretIndices {
    /// Allocates room for all indices at once, because growing would leave copies in memory.
    fn from_iter<I: IntoIterator<Item = u32>>(places: I) -> Self {
        let places = places.into_iter();
        let (least, most) = places.size_hint();
        let mut all = Vec::with_capacity(most.unwrap_or(least));
        all.extend(places);
        all.into()
    }
}

impl Deref for SecretIndices {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.0.0
    }
}

impl fmt::Debug for SecretIndices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretIndices({})", self.len())
    }
}

/// A secret order of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Permutation(SecretIndices);

snapshot!(struct Permutation(places));

impl Permutation {
    /// Draws a uniform permutation of `0..count`: Fisher-Yates, with indices by rejection (Lemire
    /// 2019) from ChaCha20 under the 32 bytes of `seed`.
    ///
    /// # Panics
    /// For 2^32 or more items, which no batch has.
    pub fn draw(seed: &Secret<32>, count: usize) -> Self {
        assert!(u32::try_from(count).is_ok(), "a batch is shorter");
        let mut rng = ChaCha20Rng::from_seed(*seed.expose());
        let mut places = (0..count as u32).collect::<SecretIndices>();
        // Fisher-Yates from the last position down, as the specification fixes it for the vectors.
        for last in (1..count as u32).rev() {
            let chosen = draw_below(last + 1, &mut rng);
            places.0.0.swap(last as usize, chosen as usize);
        }
        Self(places)
    }

    /// Returns the identity permutation, which the last mix of a conversation round uses.
    pub fn identity(count: usize) -> Self {
        Self((0..count as u32).collect())
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns, for each position of the new order, the position in the old one.
    pub fn sources(&self) -> &[u32] {
        &self.0
    }
}

/// Returns a uniform number below `bound`, without bias (Lemire 2019, algorithm 5).
fn draw_below(bound: u32, rng: &mut ChaCha20Rng) -> u32 {
    // Products below this bound are rejected, because they would make small numbers more frequent.
    let refused = bound.wrapping_neg() % bound;
    loop {
        let product = u64::from(rng.next_u32()) * u64::from(bound);
        if product as u32 >= refused {
            return (product >> 32) as u32;
        }
    }
}

/// The reply to one access of a dead drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The access's own cell, because the drop has no other access.
    Echo,
    /// The cell of the access with this index.
    Swap(u32),
    /// Random bytes, because two earlier accesses use the drop.
    Third,
}

/// Matches the accesses of a batch. The first two accesses to a drop get each other's cells, in the
/// order of the batch.
pub fn match_drops(drops: &[[u8; DROP_BYTES]]) -> Vec<Reply> {
    let mut order: Vec<(&[u8; DROP_BYTES], u32)> = drops.iter().zip(0_u32..).collect();
    // The index is part of the order, so the first two accesses are those of the batch (MIX-9).
    order.sort_unstable();
    let mut replies = vec![Reply::Third; drops.len()];
    for group in order.chunk_by(|a, b| a.0 == b.0) {
        match *group {
            [(_, alone)] => replies[alone as usize] = Reply::Echo,
            [(_, first), (_, second), ..] => {
                replies[first as usize] = Reply::Swap(second);
                replies[second as usize] = Reply::Swap(first);
            }
            [] => {}
        }
    }
    replies
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mix_8_of_equal_keys_the_first_alone_counts(
            keys in proptest::collection::vec((0_u8..3, 0_u8..3).prop_map(|(a, b)| {
                let mut key = [a; 32];
                key[31] = b; // keys that agree in their first 16 bytes alone
                key
            }), 0..60),
        ) {
            let expected = (0..keys.len()).map(|i| keys[..i].contains(&keys[i])).collect::<Vec<_>>();
            prop_assert_eq!(mark_duplicates(&keys), expected);
        }

        #[test]
        fn a_permutation_is_a_bijection(seed: [u8; 32], count in 0_usize..2_000) {
            let drawn = Permutation::draw(&Secret::copy_from(&seed), count);
            let mut sorted = drawn.sources().to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..count as u32).collect::<Vec<_>>());
        }

        #[test]
        fn mix_9_the_first_two_swap_and_later_ones_get_nothing(ids in proptest::collection::vec(0_u8..12, 0..60)) {
            let drops = ids.iter().map(|id| [*id; 16]).collect::<Vec<_>>();
            let replies = match_drops(&drops);
            for (i, reply) in replies.iter().enumerate() {
                let same = (0..ids.len()).filter(|j| ids[*j] == ids[i]).collect::<Vec<_>>();
                let expected = match same.iter().position(|j| *j == i) {
                    Some(0) if same.len() == 1 => Reply::Echo,
                    Some(0) => Reply::Swap(same[1] as u32),
                    Some(1) => Reply::Swap(same[0] as u32),
                    _ => Reply::Third,
                };
                prop_assert_eq!(*reply, expected);
            }
        }
    }

    #[test]
    fn keys_are_grouped_by_their_first_16_bytes() {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(key_prefix(&key), 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
        assert_eq!(key_prefix(&[0xff; 32]), u128::MAX);
    }

    #[test]
    fn an_order_says_how_long_it_is_and_not_what_it_is() {
        assert!(Permutation::identity(0).is_empty());
        let one = Permutation::identity(1);
        assert!(!one.is_empty() && one.len() == 1);
        let drawn = Permutation::draw(&Secret::copy_from(&[1; 32]), 9);
        assert_eq!(alloc::format!("{drawn:?}"), "Permutation(SecretIndices(9))");
    }

    #[test]
    fn mix_14_places_are_wiped() {
        let mut places = Permutation::draw(&Secret::copy_from(&[1; 32]), 9).0;
        // The type wipes its indices on drop.
        let held: &mut Wiping<Plain> = &mut places.0;
        held.wipe();
        assert!(places.is_empty());
    }

    #[test]
    fn mix_17_every_order_of_four_comes_equally_often() {
        let mut seen = alloc::collections::BTreeMap::new();
        for n in 0..24_000_u32 {
            let seed = Secret::init_with(|s| s[..4].copy_from_slice(&n.to_be_bytes()));
            *seen.entry(Permutation::draw(&seed, 4).sources().to_vec()).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // 190 is six standard deviations of a count of 1,000.
        assert!(seen.values().all(|n| n.abs_diff(1_000) < 190), "{seen:?}");
    }
}
