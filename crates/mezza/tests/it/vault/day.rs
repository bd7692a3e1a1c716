//! Time in the vault: days roll, buckets end, a crash in between loses nothing.

use mezza::testing::store::bucket::RetentionCode;
use mezza::testing::store::record::{self, RecordHeader};
use mezza_core::Time;
use mezza_messenger::{RecordKind, Retention, WriteBatch};

use super::{Copy, DAY, Folder, at, contains, everything, filled, fresh, noon, plain, put, rows};

/// The rows of `copy` whose bucket `pick` chooses.
fn picked(copy: &Copy, pick: impl Fn(RetentionCode) -> bool) -> Vec<(RecordHeader, Vec<u8>)> {
    rows(copy).into_iter().filter(|(place, _)| pick(place.bucket)).collect()
}

/// Returns true if a thief with the master key and the folder as it is now opens one of `stolen`.
fn opens_any(folder: &Folder, stolen: &[(RecordHeader, Vec<u8>)]) -> bool {
    let ring = folder.ring();
    let keys: Vec<_> = ring.buckets().collect();
    stolen.iter().any(|(place, body)| {
        keys.iter().any(|bucket| record::open(ring.key(*bucket).unwrap(), *place, body).is_some())
    })
}

#[test]
fn vault_3_after_its_bucket_no_record_opens_even_with_the_passphrase() {
    let folder = filled();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let before = Copy::of(&folder.path());
    let hourly = picked(&before, |bucket| bucket.0 >> 30 == 2);
    let daily = picked(&before, |bucket| bucket.0 >> 30 == 3);
    assert_eq!((hourly.len(), daily.len()), (3, 3));
    assert!(opens_any(&folder, &hourly[..1]) && opens_any(&folder, &daily[2..]));

    vault.tick(at(0, 14, 59)).unwrap();
    assert_eq!(vault.reload_records().unwrap().len(), 12);
    vault.tick(at(0, 15, 0)).unwrap();
    assert_eq!(vault.reload_records().unwrap().len(), 9);
    assert!(!opens_any(&folder, &hourly) && opens_any(&folder, &daily[..1]));
    let files = Copy::of(&folder.path()).0;
    assert!(hourly.iter().all(|(_, body)| files.iter().all(|(_, file)| !contains(file, body))));

    vault.tick(at(3, 23, 59)).unwrap();
    assert_eq!(vault.reload_records().unwrap().len(), 9);
    vault.tick(at(4, 0, 0)).unwrap();
    assert_eq!(vault.reload_records().unwrap().len(), 6);
    assert!(!opens_any(&folder, &daily));
}

#[test]
fn vault_3_what_ended_while_the_vault_was_closed_is_gone_before_anything_is_opened() {
    let folder = filled();
    let stolen = picked(&Copy::of(&folder.path()), |bucket| bucket.0 >> 30 >= 2);
    let (vault, records) = folder.enter(at(9, 0, 0)).unwrap();
    assert_eq!((records.len(), stolen.len()), (6, 6));
    drop(vault);
    assert!(!opens_any(&folder, &stolen));
    let files = Copy::of(&folder.path()).0;
    assert!(stolen.iter().all(|(_, body)| files.iter().all(|(_, file)| !contains(file, body))));
}

#[test]
fn vault_4_live_state_lies_under_the_key_of_today_alone() {
    let folder = filled();
    let (mut vault, records) = folder.enter(noon()).unwrap();
    let before = plain(records);
    let rolling = |bucket: RetentionCode| bucket.rolling_day().is_some();
    let yesterday = picked(&Copy::of(&folder.path()), rolling);
    assert_eq!(yesterday.len(), 4);
    assert!(yesterday.iter().all(|(place, _)| place.bucket == RetentionCode::rolling(DAY)));

    vault.tick(at(0, 23, 59)).unwrap();
    assert!(opens_any(&folder, &yesterday));
    vault.tick(at(1, 0, 0)).unwrap();
    assert_eq!(plain(vault.reload_records().unwrap()).len(), before.len() - 3);
    let today = picked(&Copy::of(&folder.path()), rolling);
    assert_eq!(today.len(), 4);
    assert!(today.iter().all(|(place, _)| place.bucket == RetentionCode::rolling(DAY + 1)));
    let days: Vec<_> = folder.ring().buckets().filter(|bucket| rolling(*bucket)).collect();
    assert_eq!(days, [RetentionCode::rolling(DAY + 1)]);
    assert!(!opens_any(&folder, &yesterday));

    // New live state goes under the new key too.
    vault
        .commit(&[WriteBatch(vec![put(RecordKind::Session, b"s", Retention::Rolling, b"new")])])
        .unwrap();
    let today = picked(&Copy::of(&folder.path()), rolling);
    assert!(today.iter().all(|(place, _)| place.bucket == RetentionCode::rolling(DAY + 1)));
    assert_eq!(today.len(), 5);
}

#[test]
fn the_day_never_goes_back() {
    let folder = filled();
    let (mut vault, _) = folder.enter(at(2, 1, 0)).unwrap();
    assert_eq!(vault.days_ahead(at(2, 1, 0)), 0);
    vault.tick(noon()).unwrap();
    assert_eq!(vault.days_ahead(noon()), 2);
    vault.commit(&[WriteBatch(everything())]).unwrap();
    drop(vault);
    assert_eq!(folder.ring().newest_day(), Some(DAY + 2));
    assert_eq!(folder.records(noon()).len(), 12);
    assert_eq!(folder.ring().newest_day(), Some(DAY + 2));
    let (vault, _) = folder.enter(at(3, 0, 0)).unwrap();
    assert_eq!(vault.days_ahead(at(3, 0, 0)), 0);
}

#[test]
fn the_next_tick_is_due_at_the_full_hour() {
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    assert_eq!(vault.deadline(), at(0, 13, 0));
    vault.tick(at(0, 23, 59)).unwrap();
    assert_eq!(vault.deadline(), at(1, 0, 0));
    vault.tick(at(0, 3, 0)).unwrap();
    assert_eq!(vault.deadline(), at(0, 4, 0));
}

#[test]
fn the_log_is_cut_every_hour() {
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let holds = || std::fs::read(folder.path().join("records.db-wal")).unwrap();
    vault.commit(&[WriteBatch(everything())]).unwrap();
    vault.tick(at(0, 12, 59)).unwrap();
    assert!(holds().iter().any(|byte| *byte != 0));
    vault.tick(at(0, 13, 0)).unwrap();
    assert!(holds().iter().all(|byte| *byte == 0));
    // Nothing was written since: nothing is cut, not even a mark that somebody left there.
    std::fs::write(folder.path().join("records.db-wal"), b"mark").unwrap();
    vault.tick(at(0, 14, 0)).unwrap();
    assert_eq!(holds(), b"mark");
}

/// Copies the folder before and after every step of what is due at `then`.
fn moments(folder: &Folder, then: Time) -> Vec<Copy> {
    let (mut vault, _) = folder.enter(noon()).unwrap();
    let mut moments = vec![Copy::of(&folder.path())];
    while vault.step(then).unwrap() {
        moments.push(Copy::of(&folder.path()));
    }
    moments
}

#[test]
fn a_day_change_may_be_cut_at_every_step() {
    let then = at(1, 0, 0);
    let folder = filled();
    let moments = moments(&folder, then);
    // Key, sealing, forgetting, remembering.
    assert_eq!(moments.len(), 5);
    let expected = moments[4].lay().records(then);
    assert_eq!(expected.len(), 9);
    for (cut, moment) in moments.iter().enumerate() {
        // The clock shows the new day, a later one, or the old one again.
        let after = moment.lay();
        assert_eq!(after.records(then), expected, "cut {cut}");
        assert_eq!(after.ring().newest_day(), Some(DAY + 1));
        assert_eq!(after.ring().buckets().filter(|b| b.rolling_day().is_some()).count(), 1);
        assert_eq!(moment.lay().records(at(2, 5, 0)), expected, "cut {cut}");
        let back = moment.lay().records(noon());
        assert_eq!(back.len(), if cut < 2 { 12 } else { 9 }, "cut {cut}");
        assert!(expected.iter().all(|record| back.contains(record)), "cut {cut}");
    }
}

#[test]
fn no_key_is_forgotten_while_only_the_log_does_without_it() {
    let then = at(1, 0, 0);
    let moments = moments(&filled(), then);
    // The third step has moved the log before it forgot: the database stands without it.
    let mut forgotten = moments[3].clone();
    assert_eq!(forgotten.lay().ring().buckets().filter(|b| b.rolling_day().is_some()).count(), 1);
    forgotten.0.retain(|(name, _)| name != "records.db-wal");
    assert_eq!(forgotten.lay().records(then), moments[4].lay().records(then));
}

#[test]
fn work_may_go_on_after_a_cut() {
    let then = at(1, 0, 0);
    for moment in moments(&filled(), then) {
        let folder = moment.lay();
        let (mut vault, _) = folder.enter(noon()).unwrap();
        vault.commit(&[WriteBatch(everything())]).unwrap();
        assert_eq!(vault.reload_records().unwrap().len(), 12);
        vault.tick(then).unwrap();
        drop(vault);
        assert_eq!(folder.records(then).len(), 9);
    }
}

#[test]
fn a_commit_between_two_steps_loses_nothing() {
    let then = at(1, 0, 0);
    for steps in 0..4 {
        let folder = filled();
        let (mut vault, _) = folder.enter(noon()).unwrap();
        (0..steps).for_each(|_| assert!(vault.step(then).unwrap()));
        // One record goes back into the bucket that is about to end.
        vault.commit(&[WriteBatch(everything())]).unwrap();
        assert_eq!(Copy::of(&folder.path()).lay().records(noon()).len(), 12);
        vault.tick(then).unwrap();
        assert_eq!(plain(vault.reload_records().unwrap()).len(), 9);
        drop(vault);
        assert_eq!(folder.records(then).len(), 9);
    }
}

#[test]
fn a_keyring_that_was_being_written_is_swept_away() {
    let folder = filled();
    super::write(&folder.path().join("keyring.new"), b"half of a keyr");
    assert_eq!(folder.records(noon()).len(), 12);
    assert!(!folder.path().join("keyring.new").exists());
}
