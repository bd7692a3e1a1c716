//! The key tree: what it covers, what it forgets, what it stores.

use mezza_hibe::{
    BlockPolicy, CardBlock, EntryKind, Epoch, HeldKeys, ImportError, KeyTree, RecordName, Shape,
    System, Tick, TreeError, TreeProfile, Trial, trial_open,
};

use crate::fixture::{chance, envelope_for};
use crate::thief::{Disk, Master};

const NOW: Tick = Tick(59_500_003);

fn small_tree(seed: u64) -> (System, KeyTree) {
    let system = System::new();
    let rng = &mut chance(seed);
    let start = NOW.day_start();
    let tree = KeyTree::create(&system, Shape::Test, TreeProfile::Minute, start, rng);
    (system, tree.expect("a tree"))
}

/// Which epochs of a small tree open an envelope of their own.
fn opens(system: &System, tree: &KeyTree) -> Vec<u32> {
    let rng = &mut chance(99);
    let opens = |epoch: &u32| {
        let tick = tree.card().first_tick(Epoch(*epoch));
        let envelope = envelope_for(system, tree.card(), tick, b"x");
        let Ok(key) = tree.open_key(system, Epoch(*epoch), rng) else { return false };
        let mut held = HeldKeys::new();
        held.insert(key);
        matches!(trial_open(system, &held, &envelope), Trial::Opened(_))
    };
    (0..tree.card().shape().epoch_count()).filter(opens).collect()
}

#[test]
fn exactly_what_is_not_erased_opens() {
    let (system, mut tree) = small_tree(1);
    let rng = &mut chance(2);
    for floor in [0, 1, 7, 13, 33, 34] {
        tree.erase_below(Epoch(floor), rng).expect("an erasure");
        assert_eq!(opens(&system, &tree), (floor..34).collect::<Vec<_>>());
    }
    assert!(tree.is_over());
}

#[test]
fn a_crash_at_every_file_operation_leaves_a_tree_that_loads() {
    let (_, mut tree) = small_tree(3);
    let mut master = Master::draw(Shape::Test, &mut chance(3));
    let rng = &mut chance(4);
    let mut disk = Disk::default();
    disk.store(&mut tree);
    let card = tree.card().as_bytes().to_vec();
    let card = CardBlock::decode(&card, BlockPolicy::TestTree).expect("a card");
    for floor in [1, 2, 9, 20] {
        let old = tree.floor();
        tree.erase_below(Epoch(floor), rng).expect("an erasure");
        tree.prepare_until(Epoch(floor + 1), u32::MAX, rng).expect("an expansion");
        let delta = tree.pending_delta().expect("something changed");
        for steps in 0..=delta.put.len() + 1 + delta.drop.len() {
            let mut crashed = disk.clone();
            crashed.carry_out(&delta, steps);
            let mut again = crashed.load(&card).expect("it loads");
            let expected = if steps > delta.put.len() { Epoch(floor) } else { old };
            assert_eq!(again.floor(), expected, "after {steps} operations");
            // What a crash left goes with the next step, and nothing that counts goes with it.
            again.erase_below(Epoch(floor), rng).expect("an erasure");
            crashed.store(&mut again);
            let last = crashed.load(&card).expect("it loads");
            let opens = master.epochs(&crashed.opened(card.hash()));
            assert_eq!(opens, (floor..34).collect::<Vec<_>>());
            assert_eq!(crashed.records.len(), last.stack_size().0);
        }
        disk.store(&mut tree);
    }
}

#[test]
fn a_write_that_failed_is_made_up_for_by_the_next_one() {
    let (system, mut tree) = small_tree(5);
    let rng = &mut chance(6);
    let mut disk = Disk::default();
    disk.store(&mut tree);
    for (floor, steps) in [(1, 0), (2, 1), (6, 2), (9, 5), (15, 7)] {
        tree.erase_below(Epoch(floor), rng).expect("an erasure");
        // So much of it is done, and nobody confirms.
        let delta = tree.pending_delta().expect("something changed");
        disk.carry_out(&delta, steps);
    }
    disk.store(&mut tree);
    let again = disk.load(tree.card()).expect("it loads");
    assert_eq!(opens(&system, &again), (15..34).collect::<Vec<_>>());
    assert_eq!(disk.records.len(), again.stack_size().0);
}

#[test]
fn hibe_21_the_stack_covers_what_is_not_erased() {
    // A gap in a keyring is a refusal; see the vectors. Here: every floor of the small tree.
    let rng = &mut chance(7);
    for floor in 0..=34 {
        let (_, mut tree) = small_tree(8);
        let mut disk = Disk::default();
        tree.erase_below(Epoch(floor), rng).expect("an erasure");
        disk.store(&mut tree);
        let again = disk.load(tree.card()).expect("it covers [floor, N)");
        assert_eq!(again.floor(), Epoch(floor));
    }
}

#[test]
fn hibe_22_the_floor_never_goes_back() {
    let (_, mut tree) = small_tree(9);
    let rng = &mut chance(10);
    tree.erase_below(Epoch(9), rng).expect("an erasure");
    tree.erase_below(Epoch(3), rng).expect("nothing to do");
    assert_eq!(tree.floor(), Epoch(9));
    assert_eq!(tree.erase_below(Epoch(35), rng), Err(TreeError::Over));
    assert_eq!(tree.floor(), Epoch(9));
}

#[test]
fn hibe_26_a_step_to_a_prepared_epoch_derives_nothing() {
    let (_, mut tree) = small_tree(11);
    let rng = &mut chance(12);
    for floor in 1..34 {
        let progress = tree.prepare_until(Epoch(floor), u32::MAX, rng).expect("an expansion");
        assert_eq!(progress.left, 0);
        assert_eq!(tree.erasure_cost(Epoch(floor)).derivations, 0);
        tree.erase_below(Epoch(floor), rng).expect("an erasure");
    }
}

#[test]
fn hibe_27_prepare_expands_one_node_beyond_and_keeps_its_budget() {
    let (_, mut tree) = small_tree(13);
    let rng = &mut chance(14);
    let mut calls = 0;
    while tree.prepare_until(Epoch(1), 24, rng).expect("an expansion").left > 0 {
        calls += 1;
        assert!(calls < 20);
    }
    let size = tree.stack_size();
    tree.prepare_until(Epoch(1), u32::MAX, rng).expect("an expansion");
    assert_eq!(tree.stack_size(), size, "asking again expands no further node");
}

/// An inner node begins every 65 epochs at least, so that two of a path are in reach at the most.
#[test]
fn hibe_27_prepare_reaches_64_epochs_and_keeps_the_stack_small() {
    let system = System::new();
    let rng = &mut chance(27);
    let profile = TreeProfile::Minute;
    let mut tree =
        KeyTree::create(&system, Shape::Wide, profile, NOW.day_start(), rng).expect("a tree");
    let mut disk = Disk::default();
    for floor in [0, 4, 61, 131] {
        tree.erase_below(Epoch(floor), rng).expect("an erasure");
        // However far ahead it is asked for.
        let progress = tree.prepare_until(tree.last_epoch(), u32::MAX, rng).expect("an expansion");
        assert_eq!(progress.left, 0);
        assert_eq!(tree.next_expansion_cost(tree.last_epoch()), None, "{floor}");
        let derived = |ahead: u32| tree.erasure_cost(Epoch(floor + ahead)).derivations;
        assert_eq!(derived(64), 0, "{floor}");
        assert!((65..=130).any(|ahead| derived(ahead) > 0), "{floor}");
        let (entries, bytes) = tree.stack_size();
        assert!(entries <= 320 && bytes <= 224 * 1_024, "{floor}: {entries} {bytes}");
        disk.store(&mut tree);
        assert_eq!(disk.load(tree.card()).expect("it loads").stack_size(), (entries, bytes));
    }
}

#[test]
fn hibe_30_a_missing_record_is_a_refusal() {
    let (_, mut tree) = small_tree(15);
    let mut disk = Disk::default();
    tree.erase_below(Epoch(4), &mut chance(16)).expect("an erasure");
    disk.store(&mut tree);
    let names: Vec<RecordName> = disk.records.keys().copied().collect();
    for name in names {
        let mut cut = disk.clone();
        let bytes = cut.records.remove(&name).expect("a record");
        assert_eq!(cut.load(tree.card()).err(), Some(ImportError::Missing(name.start)));
        // Under the name of another generation, or damaged, it does not open.
        let other = RecordName { generation: name.generation + 1, ..name };
        cut.records.insert(other, bytes.clone());
        assert_eq!(cut.load(tree.card()).err(), Some(ImportError::Unsealed(name.start)));
        // Beside it, something that a crash left does no harm.
        cut.records.insert(name, bytes);
        assert_eq!(cut.load(tree.card()).expect("it loads").floor(), Epoch(4));
    }
    assert!(disk.records.keys().any(|name| name.kind == EntryKind::Node));
}

#[test]
fn hibe_31_an_older_generation_is_refused() {
    let (_, mut tree) = small_tree(17);
    let mut disk = Disk::default();
    disk.store(&mut tree);
    let last = |last| KeyTree::import(tree.card(), &disk.keyring, &disk.records, last).err();
    assert_eq!(last(1), None);
    assert_eq!(last(2), Some(ImportError::Older));
}

#[test]
fn hibe_32_a_life_begins_at_midnight_and_holds_no_past() {
    let system = System::new();
    let rng = &mut chance(18);
    let tree =
        KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, NOW, rng).expect("a tree");
    assert_eq!(tree.card().origin(), NOW.day_start());
    let current = tree.card().epoch_of(NOW).expect("an epoch");
    assert_eq!(tree.floor(), current.minus(1));
    assert_eq!(tree.open_key(&system, current.minus(2), rng).err(), Some(TreeError::Erased));
}

#[test]
fn hibe_25_at_most_156_derivations_for_any_distance() {
    let system = System::new();
    let rng = &mut chance(19);
    let tree = KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, NOW.day_start(), rng);
    let tree = tree.expect("a tree");
    let dearest = (0..Shape::Wide.epoch_count()).step_by(1_009).chain([5, 1_000_007, 17_047_824]);
    let costs: Vec<_> = dearest.map(|epoch| tree.erasure_cost(Epoch(epoch))).collect();
    assert!(costs.iter().all(|cost| cost.derivations <= 156 && cost.multiplications <= 1_784));
    assert_eq!(tree.erasure_cost(Epoch(5)).derivations, 156);
}
