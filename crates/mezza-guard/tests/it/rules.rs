//! Rule tables, the audit, and the shaper.

use mezza_core::{Machine as _, Time};
use mezza_guard::ViewDependent;
use mezza_guard::audit::{AuditRow, ChannelBits, Surroundings, audit_table, protection_level};
use mezza_guard::ledger::GuardTotals;
use mezza_guard::rule::{Check, Field, FrameRule, Judge, RuleTable, TableError};
use mezza_guard::shaper::{SHAPER_QUEUE_MAX, Shaper, ShaperFull, TICK_MS};
use mezza_sim::{SimRng, handle_checked};

use crate::link::{PINS, ke1, rules};

/// All that depends on a secret takes constant time in dalek and subtle, which have names for what does
/// not; `examples/guard_timing.rs` measures it.
#[test]
fn guard_4_nothing_of_variable_time_is_called() {
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source");
            assert!(!text.contains("vartime"), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 20, "{files}");
}

/// True if a type implements a trait: an associated constant of the type itself wins over one of a trait.
macro_rules! implements {
    ($type:ty, $($bound:tt)+) => {{
        struct Probe<T>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "not used where the bound holds")]
        trait Otherwise {
            const IS: bool = false;
        }
        impl<T> Otherwise for Probe<T> {}
        #[allow(dead_code, reason = "not used where the bound does not hold")]
        impl<T: $($bound)+> Probe<T> {
            const IS: bool = true;
        }
        let _ = Probe::<$type>(std::marker::PhantomData);
        Probe::<$type>::IS
    }};
}

/// There is no way from a value that a guard changes to bytes: not by reference, not by value, not by a
/// hash; the documentation tests of the type show that such code does not compile.
#[test]
fn guard_9_what_a_guard_changes_has_no_bytes() {
    type Seen = ViewDependent<[u8; 32]>;
    assert!(implements!([u8; 32], AsRef<[u8]>) && implements!([u8; 32], std::hash::Hash));
    assert!(!implements!(Seen, AsRef<[u8]>) && !implements!(Seen, std::borrow::Borrow<[u8]>));
    assert!(!implements!(Seen, std::ops::Deref) && !implements!(Seen, Into<Vec<u8>>));
    assert!(!implements!(Seen, std::hash::Hash) && !implements!(Seen, mezza_core::Snapshot));
    assert!(!implements!(Seen, std::fmt::Display) && !implements!(Seen, std::fmt::LowerHex));
    assert_eq!(format!("{:?}", ViewDependent::new([7; 32])), "ViewDependent");
}

#[test]
fn guard_30_a_table_whose_fields_do_not_tile_is_refused() {
    const GAP: &[Field] = &[Field::new(0, 2, Check::Body), Field::new(3, 2, Check::Body)];
    const OVERLAP: &[Field] = &[Field::new(0, 2, Check::Body), Field::new(1, 4, Check::Body)];
    const SHORT: &[Field] = &[Field::new(0, 4, Check::Body)];
    const EMPTY: &[Field] = &[Field::new(0, 5, Check::Body), Field::new(5, 0, Check::Mac)];
    const RIGHT: &[Field] = &[Field::new(0, 2, Check::Body), Field::new(2, 3, Check::Mac)];
    let of = |fields| {
        let rule = FrameRule { kind: 1, bytes: 5, fields };
        RuleTable::new([rule, FrameRule { kind: 2, fields: RIGHT, ..rule }, rule]).map(|_| ())
    };
    assert_eq!([GAP, OVERLAP, SHORT, EMPTY, &[]].map(of), [Err(TableError(1)); 5]);
    assert_eq!(of(RIGHT), Ok(()));
    assert!(RuleTable::new(rules()).is_ok());
}

/// KE3 without any check.
const OPEN: &[Field] = &[Field::new(0, 56, Check::Body)];

const AROUND: Surroundings = Surroundings {
    destinations: 3,
    lengths: 6,
    tick_ms: 50,
    totals: GuardTotals { resets: 2, handshakes: 100, refused: 0 },
    free_counters: 1,
};

fn rows() -> Vec<AuditRow> {
    audit_table(&RuleTable::new(rules()).expect("fields that tile"), Some(&PINS), &AROUND)
}

#[test]
fn guard_40_the_audit_is_computed_from_the_rules_in_force() {
    let table = RuleTable::new(rules()).expect("fields that tile");
    let fields: usize = table.rules().iter().map(|rule| rule.fields.len()).sum();
    let of_frames: Vec<AuditRow> = rows().into_iter().filter(|row| row.kind != 0).collect();
    assert_eq!(of_frames.len(), fields);
    // A field that is taken off its check shows at once: nothing else decides.
    let mut open = rules();
    open[2].fields = OPEN;
    let open = audit_table(&RuleTable::new(open).expect("tiles"), Some(&PINS), &AROUND);
    let last = open.iter().find(|row| row.kind == 0x17).expect("KE3");
    assert_eq!(last.accepted, ChannelBits::Free);
    // What nobody has pinned is believed once.
    let learned = audit_table(&table, None, &AROUND);
    let bits: u32 = learned
        .iter()
        .filter(|row| row.what == "learned once")
        .map(|row| if let ChannelBits::Hundredths(h) = row.accepted { h / 100 } else { 0 })
        .sum();
    // KE1: two IDs and the link's number; KE3 says the same again.
    assert_eq!(bits, 2 * (48 + 48 + 16) + 16);
    let of = |what: &str| rows().into_iter().find(|row| row.what == what).expect("a row").accepted;
    // log2 of 6, of 3, of 102 over 2 = 5151: 2.585, 1.585, 12.331.
    for (what, exact) in [
        ("length of a record", 258.5),
        ("choice of destination", 158.5),
        ("resets of slots", 1233.1),
    ] {
        let ChannelBits::Hundredths(h) = of(what) else { panic!("{what}") };
        assert!((f64::from(h) - exact).abs() <= 4.0, "{what}: {h}");
    }
    assert_eq!(of("timing, each tick"), ChannelBits::Hundredths(100));
}

/// The scale of hardware wallets, computed from the rules in force.
#[test]
fn guard_46_a_table_has_a_level_from_0_to_3() {
    let level = |rules: [FrameRule; 3], pins| {
        protection_level(&RuleTable::new(rules).expect("tiles"), pins).number()
    };
    // The handshake of a link whose names the owner has pinned.
    assert_eq!(level(rules(), Some(&PINS)), 3);
    // Names that are learned from the first handshake are a bounded channel, once.
    assert_eq!(level(rules(), None), 2);
    // One field that nothing checks, such as the body of a key encapsulation, is enough.
    let mut open = rules();
    open[2].fields = OPEN;
    assert_eq!(level(open, Some(&PINS)), 0);
}

#[test]
fn guard_45_the_audit_counts_the_bits_of_refused_handshakes() {
    let totals = GuardTotals { refused: 7, ..AROUND.totals };
    let around = Surroundings { totals, ..AROUND };
    let table = RuleTable::new(rules()).expect("tiles");
    let rows = audit_table(&table, Some(&PINS), &around);
    let row = rows.iter().find(|row| row.what == "refused handshakes so far").expect("a row");
    assert_eq!((row.accepted, row.refused), (ChannelBits::NONE, ChannelBits::Hundredths(89_600)));
    assert!(!row.closed_by.is_empty());
}

/// Each non-zero row names the attack that uses it and what would close it; each zero row has a frame
/// whose field is changed, and that does not pass.
#[test]
fn guard_41_each_row_is_what_an_attack_finds() {
    for row in rows() {
        let is_open = row.accepted != ChannelBits::NONE || row.refused != ChannelBits::NONE;
        assert_eq!(is_open, !row.closed_by.is_empty(), "{row:?}");
        assert!(row.attack.starts_with('A'), "{row:?}");
    }
    let public = [5; 32];
    let frame = ke1(&public, 41);
    let first = rules()[0];
    let judge = |frame: &[u8]| {
        let judge =
            Judge { pins: Some(&PINS), public: Some(&public), first: frame, counter: Some(40) };
        first.judge_frame(frame, &judge)
    };
    assert!(judge(&frame).is_ok());
    for row in rows().into_iter().filter(|row| row.kind == 0x15) {
        let mut tampered = frame.clone();
        tampered[usize::from(row.at)] ^= 0x40;
        let passes = judge(&tampered).is_ok();
        assert_eq!(passes, row.what == "MAC", "{row:?}");
    }
}

#[test]
fn the_shaper_lets_one_frame_out_a_tick() {
    let mut shaper = Shaper::new(TICK_MS);
    let mut dice = SimRng::new(1, 0);
    let at = Time::from_ms;
    for n in 0..SHAPER_QUEUE_MAX {
        handle_checked(&mut shaper, vec![n as u8], at(1_003), dice.rng()).expect("room");
    }
    let full = handle_checked(&mut shaper, vec![0], at(1_003), dice.rng());
    assert_eq!(full, Err(ShaperFull));
    let mut left = Vec::new();
    for now in 1_003..1_203 {
        shaper.wake(at(now), dice.rng());
        left.extend(std::iter::from_fn(|| shaper.poll()).map(|frame| (now, frame[0])));
    }
    // Ticks lie on multiples of 50 ms, whenever the frames came.
    assert_eq!(left, [(1_050, 0), (1_100, 1), (1_150, 2), (1_200, 3)]);
    // A clock that jumps ahead lets one out, not all; one that jumps back keeps the order.
    shaper.wake(at(9_000_000), dice.rng());
    assert_eq!(std::iter::from_fn(|| shaper.poll()).count(), 1);
    let mut free = Shaper::new(0);
    free.handle(vec![7], at(5), dice.rng()).expect("room");
    assert_eq!((free.poll(), free.deadline()), (Some(vec![7]), None));
}
