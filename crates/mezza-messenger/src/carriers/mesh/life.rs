//! The life of a parcel in the mesh: how long devices around carry it, and how long the reader keeps
//! the keys for it.

use mezza_hibe::{CardBlock, Life};

use crate::policy::NoteLife;

impl From<NoteLife> for Life {
    fn from(life: NoteLife) -> Self {
        match life {
            NoteLife::Minute => Self::Minute,
            NoteLife::HalfHour => Self::HalfHour,
            NoteLife::HalfDay => Self::HalfDay,
        }
    }
}

/// Returns the life for which a parcel is sealed: the longest one of the card that is not above the
/// wanted one. A longer life would give a thief of the reader's device more than the user chose
/// (MSG-151). A card whose lives are all longer gets its shortest one.
pub(super) fn choose_life(card: &CardBlock, wanted: Life) -> Life {
    card.lives().filter(|life| *life <= wanted).max().unwrap_or_else(|| card.shortest_life())
}

#[cfg(test)]
mod tests {
    use mezza_hibe::{KeyTree, Shape, System, Tick, TreeProfile};
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn msg_151_a_parcel_never_lives_longer_than_chosen_if_the_card_allows_it() {
        let system = System::new();
        let mut rng = ChaCha20Rng::seed_from_u64(151);
        let mut choose = |shape, profile| {
            let tree = KeyTree::create(&system, shape, profile, Tick(59_000_000), &mut rng);
            let tree = tree.expect("the tick is in the range of a card");
            let wanted = [NoteLife::Minute, NoteLife::HalfHour, NoteLife::HalfDay];
            wanted.map(|wanted| choose_life(tree.card(), wanted.into()))
        };
        let all = [Life::Minute, Life::HalfHour, Life::HalfDay];
        assert_eq!(choose(Shape::Lives, TreeProfile::Minute), all);
        // A card of one life, from a version before the three: what is longer shrinks to it.
        assert_eq!(choose(Shape::Wide, TreeProfile::FiveMinutes), [Life::FiveMinutes; 3]);
        assert_eq!(choose(Shape::Wide, TreeProfile::Minute), [Life::Minute; 3]);
    }
}
