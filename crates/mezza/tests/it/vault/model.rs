//! The vault is a map: after any list of commits, pauses and crashes it holds what a plain map
//! holds.

use std::collections::BTreeMap;

use mezza::testing::api::Exit;
use mezza::testing::store::record::{TEXT_BYTES_MAX, padded_size};
use mezza_core::Time;
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};
use proptest::prelude::*;

use super::{Copy, drop_of, everything, filled, fresh, noon, plain, put};

type Model = BTreeMap<(RecordKind, Vec<u8>), (Retention, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Op {
    Put { kind: RecordKind, key: u8, class: u8, ahead: u8, bytes: usize },
    Drop { kind: RecordKind, key: u8 },
    Commit,
    Tick { minutes: u64 },
    ClockBack { minutes: u64 },
    Reopen,
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let kind = || {
        prop_oneof![Just(RecordKind::Note), Just(RecordKind::Session), Just(RecordKind::Setting)]
    };
    prop_oneof![
        6 => (kind(), 0u8..5, 0u8..4, 0u8..30, 0usize..600)
            .prop_map(|(kind, key, class, ahead, bytes)| Op::Put { kind, key, class, ahead, bytes }),
        2 => (kind(), 0u8..5).prop_map(|(kind, key)| Op::Drop { kind, key }),
        4 => Just(Op::Commit),
        2 => (1u64..3_000).prop_map(|minutes| Op::Tick { minutes }),
        1 => (1u64..3_000).prop_map(|minutes| Op::ClockBack { minutes }),
        1 => Just(Op::Reopen),
        2 => Just(Op::Crash),
    ]
}

fn is_over(bucket: Retention, now: Time) -> bool {
    match bucket {
        Retention::Hour(hour) => now.as_hours() > hour,
        Retention::Day(day) => now.as_days() > day,
        _ => false,
    }
}

fn forget(model: &mut Model, now: Time) {
    model.retain(|_, (bucket, _)| !is_over(*bucket, now));
}

fn content(model: &Model) -> Vec<(RecordKind, Vec<u8>, Vec<u8>)> {
    model.iter().map(|((kind, key), (_, value))| (*kind, key.clone(), value.clone())).collect()
}

fn change_of(op: &Op, now: Time, n: usize) -> Option<RecordChange> {
    match *op {
        Op::Put { kind, key, class, ahead, bytes } => {
            let bucket = match class {
                0 => Retention::Permanent,
                1 => Retention::Rolling,
                2 => Retention::Hour(now.as_hours() + u32::from(ahead)),
                _ => Retention::Day(now.as_days() + u32::from(ahead)),
            };
            Some(put(kind, &[key], bucket, &vec![n as u8; bytes]))
        }
        Op::Drop { kind, key } => Some(drop_of(kind, &[key])),
        _ => None,
    }
}

fn apply(model: &mut Model, change: &RecordChange) {
    match change {
        RecordChange::Put { kind, key, bucket, value } => {
            model.insert((*kind, key.clone()), (*bucket, value.to_vec()));
        }
        RecordChange::Drop { kind, key } => drop(model.remove(&(*kind, key.clone()))),
    }
}

fn run(ops: &[Op]) -> Result<(), TestCaseError> {
    let mut folder = fresh();
    let mut now = noon();
    let (mut vault, _) = folder.enter(now).unwrap();
    let mut model = Model::new();
    let mut batches = Vec::new();
    for (n, op) in ops.iter().enumerate() {
        batches.extend(change_of(op, now, n).map(|change| WriteBatch(vec![change])));
        match op {
            Op::Put { .. } | Op::Drop { .. } => {}
            Op::Commit => {
                vault.commit(&batches).unwrap();
                batches.drain(..).for_each(|batch| apply(&mut model, &batch.0[0]));
            }
            Op::Tick { minutes } => now = now.plus_ms(minutes * Time::MINUTE_MS),
            Op::ClockBack { minutes } => now = now.minus_ms(minutes * Time::MINUTE_MS),
            Op::Reopen => {
                vault.close().unwrap();
                let (again, records) = folder.enter(now).unwrap();
                vault = again;
                forget(&mut model, now);
                prop_assert_eq!(plain(records), content(&model));
                batches.clear();
            }
            Op::Crash => {
                let after = Copy::of(&folder.path()).lay();
                drop(vault);
                folder = after;
                vault = folder.enter(now).unwrap().0;
                forget(&mut model, now);
                batches.clear();
            }
        }
        if matches!(op, Op::Tick { .. } | Op::ClockBack { .. }) {
            vault.tick(now).unwrap();
            forget(&mut model, now);
            prop_assert!(vault.deadline() > now);
            prop_assert!(vault.deadline().since_ms(now) <= Time::HOUR_MS);
        }
        prop_assert_eq!(plain(vault.reload_records().unwrap()), content(&model));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn slow_a_vault_is_a_map_that_forgets_on_time(ops in proptest::collection::vec(op(), 1..16)) {
        run(&ops)?;
    }
}

#[test]
fn the_last_change_of_a_record_counts() {
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let note = |text: &str| put(RecordKind::Note, b"n", Retention::Permanent, text.as_bytes());
    let gone = || drop_of(RecordKind::Note, b"n");
    vault
        .commit(&[WriteBatch(vec![note("a"), note("b")]), WriteBatch(vec![gone(), note("c")])])
        .unwrap();
    vault
        .commit(&[WriteBatch(vec![put(RecordKind::Seen, b"n", Retention::Rolling, b"")])])
        .unwrap();
    let seen = (RecordKind::Seen, b"n".to_vec(), vec![]);
    let expected = vec![(RecordKind::Note, b"n".to_vec(), b"c".to_vec()), seen.clone()];
    assert_eq!(plain(vault.reload_records().unwrap()), expected);
    vault.commit(&[WriteBatch(vec![note("d"), gone()]), WriteBatch(vec![])]).unwrap();
    vault.commit(&[WriteBatch(vec![gone()])]).unwrap();
    drop(vault);
    assert_eq!(folder.records(noon()), [seen]);
}

#[test]
fn a_record_moves_between_buckets() {
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let hour = Retention::Hour(noon().as_hours());
    for bucket in [Retention::Permanent, hour, Retention::Rolling, hour, Retention::Permanent] {
        vault.commit(&[WriteBatch(vec![put(RecordKind::Note, b"n", bucket, b"text")])]).unwrap();
    }
    vault.tick(noon().plus_ms(Time::HOUR_MS)).unwrap();
    assert_eq!(vault.reload_records().unwrap().len(), 1);
}

#[test]
fn a_commit_that_fails_changes_nothing() {
    let folder = filled();
    let (mut vault, records) = folder.enter(noon()).unwrap();
    let before = plain(records);
    let limit = TEXT_BYTES_MAX - 5 - 1;
    let mut changes = everything();
    changes.push(drop_of(RecordKind::Note, &[0, RecordKind::Note as u8]));
    changes.push(put(RecordKind::Setting, b"s", Retention::Day(30_000), &vec![0; limit + 1]));
    let fault = vault.commit(&[WriteBatch(changes)]).unwrap_err();
    assert_eq!(fault.code, Exit::Bug);
    assert_eq!(plain(vault.reload_records().unwrap()), before);
    let long_key = put(RecordKind::Setting, &[1; 97], Retention::Permanent, b"");
    assert_eq!(vault.commit(&[WriteBatch(vec![long_key])]).unwrap_err().code, Exit::Bug);
    let largest = put(RecordKind::Setting, b"s", Retention::Permanent, &vec![7; limit]);
    vault
        .commit(&[WriteBatch(vec![
            largest,
            put(RecordKind::Note, &[1; 96], Retention::Rolling, b""),
        ])])
        .unwrap();
    drop(vault);
    assert_eq!(folder.records(noon()).len(), before.len() + 2);
}

#[test]
fn sizes_are_rounded_up_to_the_next_of_the_list() {
    let sizes = [0, 256, 257, 4_096, 4_097, 16_384, 16_385, 32_768, 32_769];
    let expected = [256, 256, 512, 4_096, 16_384, 16_384, 32_768, 32_768, 49_152];
    assert_eq!(sizes.map(padded_size), expected);
}
