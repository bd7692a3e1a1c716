use std::path::Path;

use mezza_hibe::{Epoch, Shape, TreeError, TreeProfile};
use mezza_host::process::home::failing::{Failing, WriteStep};
use mezza_host::store::Argon2Params;
use mezza_host::store::tree_folder::NewTree;

use super::*;

const PASS: &[u8] = b"correct horse battery";
/// Midnight of a day in 2026.
const START: Tick = Tick(59_500_800);
const MINUTE_MS: u64 = 60_000;
const OUT: Out = Out { json: true };

fn create(home: &Path) -> TreeFolder {
    let new = NewTree {
        shape: Shape::Wide,
        profile: TreeProfile::Minute,
        earliest: START,
        cost: Argon2Params::DEMO,
    };
    TreeFolder::create(&home.join("bob"), &home.join("state"), PASS, new, &mut OsRng).unwrap()
}

fn floor_on_disk(home: &Path) -> Epoch {
    let folder = TreeFolder::open(&home.join("bob"), &home.join("state"), PASS).unwrap();
    folder.tree().floor()
}

/// The node is gone, or its clock shows two days ago or 2020: erasing continues by boot time,
/// within the slack.
#[test]
fn hibe_74_boot_time_erases_whatever_the_node_and_its_date_say() {
    let clock = |ticks_back: u32| {
        let tick = Tick(START.0 - ticks_back);
        NodeClock { cur: tick, own: tick, trust: ClockTrust::GOOD, settled: true }
    };
    for back in [None, Some(2 * 2_880), Some(6 * 365 * 2_880)] {
        let home = tempfile::tempdir().unwrap();
        let mut keys = Keys::new(create(home.path()), 0);
        keys.on_clock(clock(0), 0, OUT).unwrap();
        let start = keys.folder.tree().floor();
        for minute in 1..=10 {
            match back {
                Some(back) => keys.on_clock(clock(back), minute * MINUTE_MS, OUT).unwrap(),
                None => keys.on_time(minute * MINUTE_MS, OUT).unwrap(),
            }
        }
        // Nine of the ten minutes, two epochs each: a good clock has one minute of slack.
        assert_eq!(keys.folder.tree().floor(), start.plus(18), "{back:?}");
        drop(keys);
        assert_eq!(floor_on_disk(home.path()), start.plus(18), "{back:?}");
    }
}

/// Keys were erased by a clock that was ahead: `listen` reports this once, and again when the clock
/// has caught up.
#[test]
fn hibe_79_a_listener_names_keys_that_run_ahead() {
    let home = tempfile::tempdir().unwrap();
    let mut folder = create(home.path());
    let now = folder.tree().card().epoch_of(START).unwrap();
    folder.tree_mut().erase_below(now.plus(120), &mut OsRng).unwrap();
    let mut keys = Keys::new(folder, 0);
    let clock = |tick| NodeClock { cur: tick, own: tick, trust: ClockTrust::GOOD, settled: true };
    keys.on_clock(clock(START), 0, OUT).unwrap();
    assert!(keys.is_ahead);
    keys.on_clock(clock(Tick(START.0 + 120)), MINUTE_MS, OUT).unwrap();
    assert!(!keys.is_ahead);
}

/// A disk that refuses one file operation for three minutes: each minute erases in memory, and the
/// first accepted write makes all of it durable.
#[test]
fn hibe_75_a_disk_that_refuses_does_not_end_erasing() {
    for step in [WriteStep::Write, WriteStep::Sync] {
        let home = tempfile::tempdir().unwrap();
        let folder = create(home.path());
        let start = folder.tree().floor();
        let mut keys = Keys::new(folder, 0);
        let failing = Failing::after(0, step, step.errors()[0]);
        let mut last = start;
        for minute in 12..15 {
            keys.on_time(minute * MINUTE_MS, OUT).unwrap();
            let floor = keys.folder.tree().floor();
            assert!(floor > last, "{step:?}: nothing was erased in minute {minute}");
            assert!(keys.fault.is_some(), "{step:?}: the disk refused");
            let erased = keys.folder.tree().open_key(&keys.system, last, &mut OsRng);
            assert!(matches!(erased, Err(TreeError::Erased)), "{step:?}: a key of before opens");
            last = floor;
        }
        drop(failing);
        // No further epoch has ended: the pending changes are stored anyway.
        keys.on_time(14 * MINUTE_MS, OUT).unwrap();
        assert!(keys.fault.is_none(), "{step:?}: the disk has it");
        drop(keys);
        assert_eq!(floor_on_disk(home.path()), last, "{step:?}");
    }
}

/// Preparing keys needs new records, which would delay the step that erases. While the disk is full
/// none is made.
#[test]
fn hibe_75_early_expansion_waits_while_the_disk_is_full() {
    let home = tempfile::tempdir().unwrap();
    let mut keys = Keys::new(create(home.path()), 0);
    let clock = NodeClock { cur: START, own: START, trust: ClockTrust::GOOD, settled: true };
    let ahead = keys.folder.tree().card().epoch_of(START).unwrap().plus(AHEAD);
    let next = |keys: &Keys| keys.folder.tree().next_expansion_cost(ahead).map(|(epoch, _)| epoch);
    let first = next(&keys);
    assert!(first.is_some(), "a new tree has something to make ready");
    let full = Failing::after(0, WriteStep::Create, WriteStep::Create.errors()[1]);
    keys.on_clock(clock, 0, OUT).unwrap();
    assert_eq!(next(&keys), first, "records were made on a full disk");
    assert!(keys.fault.is_none(), "nothing was asked of the disk");
    drop(full);
    keys.on_clock(clock, MINUTE_MS / 2, OUT).unwrap();
    assert_ne!(next(&keys), first);
}

/// A clock with a maximum error of 60 s reports the grade of one with 150 s. Its keys live by the
/// number, and a line without a number counts as the worst clock.
#[test]
fn hibe_77_keys_live_by_how_far_the_clock_may_be_off() {
    let line = |within_ms: Option<u64>, grade: &str| {
        let line = serde_json::json!({
            "cur": START.0, "anchor_tick": START.0, "state": "seeking", "grade": grade,
            "within_ms": within_ms,
        });
        NodeClock::of_line(&line)
    };
    let week = line(Some(62_980), "fair");
    assert_eq!(week.trust, ClockTrust { slack_ms: 62_980, uncertainty_ticks: 3 });
    assert_eq!(week.erasing_tick(), Tick(START.0 - 3));
    assert_eq!(line(Some(11_140), "good").erasing_tick(), START);
    assert_eq!(line(None, "fair").trust, ClockTrust::POOR);
}
