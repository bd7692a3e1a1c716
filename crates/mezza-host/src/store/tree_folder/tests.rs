use super::*;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;
use mezza_hibe::Life;

const PASS: &[u8] = b"correct horse battery";
/// Midnight of a day in 2026.
const START: Tick = Tick(59_500_800);

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn create(&self) -> Result<TreeFolder, Fault> {
        let new = NewTree {
            shape: Shape::Wide,
            profile: TreeProfile::Minute,
            earliest: START,
            cost: Argon2Params::OF_TESTS,
        };
        TreeFolder::create(&self.dir(), &self.state(), PASS, new, &mut OsRng)
    }

    fn open(&self) -> Result<TreeFolder, Fault> {
        TreeFolder::open(&self.dir(), &self.state(), PASS)
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("bob")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }
}

/// Runs one step of time, as `mezza hibe advance` does.
fn advance(folder: &mut TreeFolder) -> Epoch {
    let floor = folder.tree().floor().plus(1);
    let tree = folder.tree_mut();
    tree.erase_below(floor, &mut OsRng).unwrap();
    tree.prepare_until(floor.plus(2), u32::MAX, &mut OsRng).unwrap();
    floor
}

#[test]
fn slow_a_write_that_fails_anywhere_leaves_a_tree_that_loads() {
    let place = Place::new();
    let mut folder = place.create().unwrap();
    let mut failed = 0;
    for (n, step) in WriteStep::REPLACE.into_iter().enumerate() {
        for after in [0, 1, 2, 5] {
            let old = folder.tree().floor();
            let new = advance(&mut folder);
            let failing = Failing::after(after, step, step.errors()[0]);
            let done = folder.store(&mut OsRng);
            drop(failing);
            failed += u32::from(done.is_err());
            if n % 2 == 0 {
                // The process continues: its next step includes the failed one.
                let next = advance(&mut folder);
                folder.store(&mut OsRng).unwrap();
                drop(folder);
                folder = place.open().unwrap();
                assert_eq!(folder.tree().floor(), next, "{step:?} after {after}");
            } else {
                drop(folder);
                folder = place.open().unwrap();
                let floor = folder.tree().floor();
                assert!(floor == new || done.is_err() && floor == old, "{step:?} after {after}");
            }
            // The next successful step removes the remainders of the failure.
            advance(&mut folder);
            folder.store(&mut OsRng).unwrap();
            assert_eq!(folder.folder.record_names().unwrap().len(), folder.tree().stack_size().0);
        }
    }
    // Most steps need no new record: the keyring is written and synced in place, and a failure to
    // remember the generation fails no step.
    assert!(failed >= 4, "{failed} writes failed");
}

/// A phone whose battery dies in each start, or a temporarily full disk: thirty steps in a row
/// fail, each in its own process. `slow_a_write_that_fails_anywhere_leaves_a_tree_that_loads` fails
/// one step at every file operation.
#[test]
fn hibe_76_slow_thirty_failed_steps_in_a_row_leave_a_tree_that_loads() {
    for (step, after) in [(WriteStep::Create, 0), (WriteStep::Write, 3), (WriteStep::SyncFolder, 0)]
    {
        let place = Place::new();
        let mut folder = place.create().unwrap();
        for n in 0..30 {
            advance(&mut folder);
            let failing = Failing::after(after, step, step.errors()[0]);
            let _ = folder.store(&mut OsRng);
            drop((failing, folder));
            folder = place.open().unwrap();
            let names = folder.folder.record_names().unwrap().len();
            let held = folder.tree().stack_size().0;
            assert_eq!(names, held, "{step:?} {after}: waste of step {n} is still there");
        }
        advance(&mut folder);
        folder.store(&mut OsRng).unwrap();
    }
}

/// Any number of files that no keyring names must not prevent loading a tree.
#[test]
fn hibe_76_a_folder_full_of_waste_loads() {
    let place = Place::new();
    let folder = place.create().unwrap();
    let held = folder.tree().stack_size().0;
    drop(folder);
    for n in 0..2_000 {
        fs::write(place.dir().join(format!("rec/{}-{n}-1", 1 << 20)), [7; 10]).unwrap();
    }
    let folder = place.open().unwrap();
    assert_eq!(folder.folder.record_names().unwrap().len(), held);
}

/// After a step, the folder's files hold no key that the step erased.
#[test]
fn hibe_73_the_keyring_of_before_is_overwritten() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    let mut folder = place.create().unwrap();
    let ring = place.dir().join(RING);
    let before = fs::read(&ring).unwrap();
    let inode = ring.metadata().unwrap().ino();
    advance(&mut folder);
    folder.store(&mut OsRng).unwrap();
    let after = fs::read(&ring).unwrap();
    assert_eq!(ring.metadata().unwrap().ino(), inode, "it is the same file");
    let same = before.chunks(64).filter(|old| after.chunks(64).any(|new| new == *old));
    assert_eq!(same.filter(|chunk| chunk.iter().any(|byte| *byte != 0)).count(), 0);
}

#[test]
fn slow_a_creation_that_fails_leaves_no_tree_and_can_be_tried_again() {
    let place = Place::new();
    for step in WriteStep::REPLACE {
        for after in [0, 2] {
            let failing = Failing::after(after, step, step.errors()[0]);
            let made = place.create();
            drop(failing);
            match made {
                Err(_) => assert!(!TreeFolder::exists(&place.dir()), "{step:?} after {after}"),
                Ok(made) => {
                    drop(made);
                    TreeFolder::wipe(&place.dir()).unwrap();
                }
            }
        }
    }
    place.create().unwrap();
    assert_eq!(place.open().unwrap().tree().floor(), Epoch(0));
}

/// A tree of lives has a longer keyring, and a folder of either kind opens by its length.
#[test]
fn hibe_87_a_folder_of_lives_stores_a_floor_for_each() {
    let place = Place::new();
    let create = |shape| {
        let profile = TreeProfile::Minute;
        let new = NewTree { shape, profile, earliest: START, cost: Argon2Params::OF_TESTS };
        TreeFolder::create(&place.dir(), &place.state(), PASS, new, &mut OsRng)
    };
    // Files of a failed attempt do not prevent making a tree of another kind.
    drop(create(Shape::Wide).unwrap());
    fs::remove_file(place.dir().join(HEAD)).unwrap();
    let mut folder = create(Shape::Lives).unwrap();
    let lives = [Life::Minute, Life::HalfHour, Life::HalfDay];
    let floors = |tree: &KeyTree| lives.map(|life| tree.find_floor(life).unwrap());
    let tree = folder.tree_mut();
    let before = floors(tree);
    tree.erase_life_below(Life::HalfHour, before[1].plus(3), &mut OsRng).unwrap();
    folder.store(&mut OsRng).unwrap();
    drop(folder);
    let folder = place.open().unwrap();
    assert_eq!(floors(folder.tree()), [before[0], before[1].plus(3), before[2]]);
    drop(folder);
    TreeFolder::wipe(&place.dir()).unwrap();
    assert!(!TreeFolder::exists(&place.dir()));
}
