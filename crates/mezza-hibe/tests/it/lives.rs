//! Lives in one card: branches that do not touch each other, and what the sender and the receiver refuse.

use mezza_hibe::{
    BlockPolicy, CardBlock, CardBlockError, CarriedEnvelope, EncapsulateError, EnvelopeTime, Epoch,
    HeldKeys, ImportError, KeyTree, Life, Shape, System, Tick, TreeError, TreeProfile, Trial,
    trial_open_carried,
};

use crate::fixture::{chance, envelope_of_life};
use crate::thief::Disk;

const NOW: Tick = Tick(59_500_803);
const LIVES: [Life; 3] = [Life::Minute, Life::HalfHour, Life::HalfDay];

fn tree_of(shape: Shape, seed: u64) -> (System, KeyTree) {
    let system = System::new();
    let tree = KeyTree::create(&system, shape, TreeProfile::Minute, NOW, &mut chance(seed));
    (system, tree.expect("a tree"))
}

/// An envelope of a life that is sealed at one tick and tried at another one.
struct Case {
    life: Life,
    sealed: Tick,
    now: Tick,
}

fn opens_at(system: &System, tree: &KeyTree, case: &Case) -> bool {
    let Case { life, sealed, now } = *case;
    let envelope = envelope_of_life(system, tree.card(), life, sealed);
    let mut held = HeldKeys::new();
    for life in tree.card().lives() {
        tree.hold_keys(system, life, now, &mut held, &mut chance(7)).expect("keys");
    }
    let time = Some(EnvelopeTime { life, tick: sealed });
    let carried = CarriedEnvelope { envelope: &envelope, time };
    let trial = trial_open_carried(system, &held, &[carried]).pop();
    match trial.expect("a trial") {
        Trial::Opened(opened) => {
            assert_eq!((opened.life, opened.tick), (life, sealed));
            true
        }
        Trial::NoKey => false,
        other => panic!("{other:?}"),
    }
}

/// A note of half a day opens after 9 hours, one of half an hour after 40 minutes, one of a minute does not.
/// Then each is erased at its own time.
#[test]
fn hibe_81_slow_one_card_has_three_lives() {
    let (system, mut tree) = tree_of(Shape::Lives, 1);
    let rng = &mut chance(2);
    assert_eq!(tree.card().as_bytes().len(), 630);
    assert_eq!(tree.card().lives().collect::<Vec<_>>(), LIVES);
    assert_eq!(tree.open_key(&system, Epoch(0), rng).err(), Some(TreeError::Erased), "the root");
    for (minutes, opens) in [
        (0, [true, true, true]),
        (2, [false, true, true]),
        (40, [false, true, true]),
        (90, [false, false, true]),
        (9 * 60, [false, false, true]),
        (37 * 60, [false, false, false]),
    ] {
        let now = Tick(NOW.0 + 2 * minutes);
        for life in LIVES {
            let floor = tree.card().find_epoch(life, now).expect("an epoch").minus(1);
            tree.erase_life_below(life, floor, rng).expect("an erasure");
        }
        let found = LIVES.map(|life| opens_at(&system, &tree, &Case { life, sealed: NOW, now }));
        assert_eq!(found, opens, "after {minutes} minutes");
    }
}

#[test]
fn hibe_82_erasing_one_life_leaves_the_others() {
    let (system, mut tree) = tree_of(Shape::TestLives, 3);
    let rng = &mut chance(4);
    let floors = |tree: &KeyTree| LIVES.map(|life| tree.find_floor(life).expect("a floor"));
    for (at, life) in LIVES.into_iter().enumerate().rev() {
        let before = floors(&tree);
        let branch = tree.card().calendar().find_branch(life).expect("a branch");
        tree.erase_life_below(life, branch.end, rng).expect("an erasure");
        let mut expected = before;
        expected[at] = branch.end;
        assert_eq!(floors(&tree), expected);
        // Behind the last epoch of a branch there is another life, and nothing of it is touched.
        assert_eq!(tree.erase_life_below(life, branch.end.plus(1), rng), Err(TreeError::Over));
        for other in tree.card().calendar().branches() {
            let first = tree.find_floor(other.life).expect("a floor");
            let opens = other.has_epoch(first) && tree.open_key(&system, first, rng).is_ok();
            assert_eq!(opens, !LIVES[at..].contains(&other.life));
        }
    }
    assert_eq!(tree.stack_size(), (0, 0));
    assert_eq!(tree.erase_life_below(Life::FiveMinutes, Epoch(1), rng), Err(TreeError::NoLife));
}

#[test]
fn hibe_84_a_card_of_lives_has_half_minutes_and_begins_with_half_a_day() {
    let (_, tree) = tree_of(Shape::Lives, 5);
    let right = tree.card().as_bytes().to_vec();
    let decode = |bytes: &[u8]| CardBlock::decode(bytes, BlockPolicy::Product).map(|_| ());
    assert_eq!((right[0], right[1], decode(&right)), (0x12, 1, Ok(())));
    for k in [5, 60] {
        let mut wrong = right.clone();
        wrong[1] = k;
        assert_eq!(decode(&wrong), Err(CardBlockError::Profile));
    }
    for origin in [1, 60, 1_439, 1_441, u32::MAX / 1_440 * 1_440] {
        let mut wrong = right.clone();
        wrong[2..6].copy_from_slice(&origin.to_be_bytes());
        assert_eq!(decode(&wrong), Err(CardBlockError::Origin), "{origin}");
    }
    // Longer lives have epochs behind the last minute, and the card has not.
    let card = tree.card();
    assert_eq!(card.end_tick(), Tick(card.origin().0 + 14 * 1_065_489));
    for life in LIVES {
        assert!(card.seal_key_for(life, Tick(card.end_tick().0 - 1)).is_ok());
        let over = card.seal_key_for(life, card.end_tick()).err();
        assert_eq!(over, Some(EncapsulateError::Over));
    }
}

#[test]
fn hibe_86_a_life_that_a_card_lacks_is_refused() {
    let (_, lives) = tree_of(Shape::Lives, 6);
    let refused = lives.card().seal_key_for(Life::FiveMinutes, NOW).err();
    assert_eq!(refused, Some(EncapsulateError::NoLife));
    let (_, one) = tree_of(Shape::Test, 7);
    for life in [Life::FiveMinutes, Life::HalfHour, Life::HalfDay] {
        assert_eq!(one.card().seal_key_for(life, NOW).err(), Some(EncapsulateError::NoLife));
    }
}

#[test]
fn hibe_87_a_floor_in_another_branch_and_a_gap_in_any_branch_are_refused() {
    let (_, mut tree) = tree_of(Shape::TestLives, 8);
    let mut disk = Disk::default();
    disk.store(&mut tree);
    assert_eq!(disk.keyring.len(), 28_672);
    assert!(disk.load(tree.card()).is_ok());
    let floors = disk.floors();
    for (at, floor) in floors.iter().enumerate() {
        let place = 10 + 4 * at;
        for wrong in [floors[(at + 1) % 3], Epoch(0), Epoch(45)] {
            let mut damaged = disk.clone();
            damaged.keyring[place..place + 4].copy_from_slice(&wrong.0.to_be_bytes());
            // The end of a branch is a floor that it can have: all of it is erased, and entries are left.
            let error = damaged.load(tree.card()).err();
            assert!(matches!(error, Some(ImportError::Keyring(_) | ImportError::Gap)), "{error:?}");
        }
        let mut damaged = disk.clone();
        damaged.keyring[place..place + 4].copy_from_slice(&floor.plus(1).0.to_be_bytes());
        assert_eq!(damaged.load(tree.card()).err(), Some(ImportError::Gap), "{at}");
    }
}

/// Everything of tree 1 goes on beside tree 2: its card, its trial by byte 1, its keyring.
#[test]
fn hibe_89_trees_of_one_life_stay_readable() {
    for profile in TreeProfile::ALL {
        let system = System::new();
        let tree = KeyTree::create(&system, Shape::Wide, profile, NOW, &mut chance(9));
        let mut tree = tree.expect("a tree");
        let life = profile.life();
        assert_eq!(tree.card().lives().collect::<Vec<_>>(), [life]);
        assert!(opens_at(&system, &tree, &Case { life, sealed: NOW, now: NOW }));
        let mut disk = Disk::default();
        disk.store(&mut tree);
        assert_eq!((disk.keyring.len(), disk.floors().len()), (12_288, 1));
        let again = disk.load(tree.card()).expect("it loads");
        assert_eq!(again.floor(), tree.floor());
    }
}

/// The bounds of a stack of three lives, all of them expanded early, over more than an hour.
#[test]
fn hibe_27_slow_a_stack_of_lives_stays_within_its_bounds() {
    let (_, mut tree) = tree_of(Shape::Lives, 10);
    let rng = &mut chance(11);
    let mut most = (0, 0);
    for minute in 0..70 {
        let now = Tick(NOW.0 + 2 * minute);
        for life in LIVES {
            let current = tree.card().find_epoch(life, now).expect("an epoch");
            // The floor of minutes stays behind by an hour.
            let behind = if life == Life::Minute { 61 } else { 1 };
            let floor = Epoch(current.0.saturating_sub(behind));
            tree.erase_life_below(life, floor, rng).expect("an erasure");
            tree.prepare_life(life, current.plus(2), u32::MAX, rng).expect("an expansion");
        }
        let (entries, bytes) = tree.stack_size();
        most = (most.0.max(entries), most.1.max(bytes));
    }
    println!("{most:?}");
    assert!(most.0 <= Shape::Lives.entries_max() && most.1 <= Shape::Lives.stack_bytes_max());
    assert!(tree.pending_delta().expect("a delta").keyring.len() == Shape::Lives.ring_bytes());
}
