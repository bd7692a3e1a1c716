//! Rows that do not open: they are quarantined, and everything else is there.

use mezza::testing::process::rng::OsRng;
use mezza::testing::store::bucket::RetentionCode;
use mezza::testing::store::record;
use mezza_messenger::Unread;
use rusqlite::{Connection, params};

use super::*;

/// A vault with a permanent and a live record of each kind, closed.
fn of_all_kinds() -> Folder {
    let folder = fresh();
    let (mut vault, _) = folder.enter(noon()).unwrap();
    vault.commit(&[WriteBatch(all_kinds(b"first"))]).unwrap();
    vault.close().unwrap();
    folder
}

fn all_kinds(value: &[u8]) -> Vec<RecordChange> {
    let of = |kind| [Retention::Permanent, Retention::Rolling].map(|bucket| (kind, bucket));
    let all = RecordKind::ALL.iter().copied().flat_map(of);
    all.map(|(kind, bucket)| {
        put(kind, &[u8::from(bucket == Retention::Rolling), kind as u8], bucket, value)
    })
    .collect()
}

fn db(folder: &Folder) -> Connection {
    Connection::open(folder.path().join("records.db")).unwrap()
}

fn insert(folder: &Folder, place: RecordHeader, body: &[u8]) {
    let sql = "INSERT INTO rec(id, kind, bucket, body) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT(id) DO UPDATE SET bucket = excluded.bucket, body = excluded.body";
    let id = place.id.cast_signed();
    db(folder).execute(sql, params![id, place.kind, place.bucket.0, body]).unwrap();
}

fn row(folder: &Folder, id: u64) -> (RecordHeader, Vec<u8>) {
    rows(&Copy::of(&folder.path())).into_iter().find(|(place, _)| place.id == id).unwrap()
}

#[test]
fn msg_66_slow_one_row_that_does_not_open_takes_no_other_with_it() {
    let copy = Copy::of(&of_all_kinds().path());
    let all = copy.lay().records(noon());
    assert_eq!(all.len(), 2 * RecordKind::ALL.len());
    for (place, good) in rows(&copy).into_iter().filter(|(place, _)| place.id != 1) {
        let folder = copy.lay();
        let mut bad = good.clone();
        bad[30] ^= 1;
        insert(&folder, place, &bad);
        let (mut vault, records) = folder.enter(noon()).unwrap();
        let kind = RecordKind::from_number(place.kind);
        let bytes = bad.len();
        assert_eq!(vault.unread(), [Unread { kind, bytes }]);
        let records = plain(records);
        let lost: Vec<_> = all.iter().filter(|record| !records.contains(record)).collect();
        assert!(lost.len() == 1 && Some(lost[0].0) == kind && records.len() + 1 == all.len());

        // Nothing is written over the row, by a commit of all records or by a change of day.
        vault.commit(&[WriteBatch(all_kinds(b"second"))]).unwrap();
        vault.tick(at(1, 0, 0)).unwrap();
        vault.close().unwrap();
        assert_eq!(row(&folder, place.id), (place, bad), "{place:?}");
        let second = |records: &[(RecordKind, Vec<u8>, Vec<u8>)]| {
            records.len() == all.len() && records.iter().all(|(_, _, value)| value == b"second")
        };
        assert!(second(&folder.records(at(1, 0, 0))), "{place:?}");

        // Where it opens again it does not take the place of what came after it.
        insert(&folder, place, &good);
        let (vault, records) = folder.enter(at(1, 0, 0)).unwrap();
        assert!(second(&plain(records)) && vault.unread().len() == 1, "{place:?}");
    }
}

#[test]
fn msg_66_a_row_of_a_newer_program_is_kept_under_the_key_of_the_day() {
    let folder = of_all_kinds();
    let place = |day, bucket| match bucket {
        Retention::Rolling => {
            RecordHeader { kind: 200, id: 250, bucket: RetentionCode::rolling(day) }
        }
        _ => RecordHeader { kind: 201, id: 251, bucket: RetentionCode::PERMANENT },
    };
    for bucket in [Retention::Rolling, Retention::Permanent] {
        let ring = folder.ring();
        let place = place(DAY, bucket);
        let body = record::seal(ring.key(place.bucket).unwrap(), &[7; 24], place, b"key", b"new");
        insert(&folder, place, &body.unwrap());
    }
    let (vault, records) = folder.enter(at(1, 0, 0)).unwrap();
    let bytes = row(&folder, 251).1.len();
    assert_eq!(vault.unread(), [Unread { kind: None, bytes }; 2]);
    assert_eq!(records.len(), 2 * RecordKind::ALL.len());
    vault.close().unwrap();
    let ring = folder.ring();
    for bucket in [Retention::Rolling, Retention::Permanent] {
        let place = place(DAY + 1, bucket);
        let (found, body) = row(&folder, place.id);
        assert_eq!(found, place);
        let content = record::open(ring.key(place.bucket).unwrap(), place, &body).unwrap();
        assert_eq!((content.key.as_slice(), content.value.as_slice()), (&b"key"[..], &b"new"[..]));
    }
}

#[test]
fn msg_66_rows_without_a_key_are_set_aside() {
    let folder = filled();
    let mut ring = folder.ring();
    ring.forget_keys(&[RetentionCode::new(Retention::Day(DAY + 3), DAY)], &mut OsRng).unwrap();
    let (mut vault, records) = folder.enter(noon()).unwrap();
    assert_eq!((records.len(), vault.unread().len()), (9, 3));
    // The bucket gets another key; what was sealed under the first one stays.
    vault.commit(&[WriteBatch(everything())]).unwrap();
    vault.close().unwrap();
    let (vault, records) = folder.enter(noon()).unwrap();
    assert_eq!((records.len(), vault.unread().len()), (12, 3));
}

#[test]
fn msg_66_a_number_that_no_vault_comes_to_is_not_counted_on_from() {
    for id in [i64::MAX, i64::MAX / 2 + 1, -5] {
        let folder = filled();
        db(&folder).execute("UPDATE rec SET id = ?1 WHERE id = 9", [id]).unwrap();
        for _ in 0..2 {
            let (mut vault, records) = folder.enter(noon()).unwrap();
            assert_eq!((records.len() >= 11, vault.unread().len()), (true, 1), "{id}");
            vault.commit(&[WriteBatch(everything())]).unwrap();
            vault.close().unwrap();
        }
        assert_eq!(folder.records(noon()).len(), 12, "{id}");
    }
}

#[test]
fn msg_66_what_the_vault_itself_needs_is_no_single_row() {
    let folder = filled();
    db(&folder).execute("UPDATE rec SET body = x'00' WHERE id = 1", []).unwrap();
    let fault = folder.enter(noon()).map(drop).unwrap_err();
    assert!(fault.text.contains("keyring is older than its database"), "{fault}");
}

/// Has the database of [`filled`] remember another generation, in the form of older versions or ours.
fn remember(folder: &Folder, ahead: u64, tag: &[u8]) {
    let ring = folder.ring();
    let place = RecordHeader { kind: 0, id: 1, bucket: RetentionCode::rolling(DAY) };
    let value = [(ring.generation() + ahead).to_be_bytes().as_slice(), tag].concat();
    let key = ring.key(place.bucket).unwrap();
    insert(folder, place, &record::seal(key, &[7; 24], place, b"ring", &value).unwrap());
}

#[test]
fn msg_66_a_generation_that_an_older_version_never_wrote_is_passed() {
    for ahead in [0, 1, 5] {
        let folder = filled();
        remember(&folder, ahead, b"");
        let before = folder.ring().generation();
        for _ in 0..2 {
            let (vault, records) = folder.enter(noon()).unwrap();
            assert_eq!((records.len(), vault.unread().len()), (12, 0), "{ahead}");
        }
        let after = folder.ring().generation();
        assert!(if ahead == 0 { after == before } else { after > before + ahead }, "{after}");
    }
}

#[test]
fn vault_9_a_generation_that_is_not_there_is_no_excuse_for_an_older_keyring() {
    let refused = |folder: &Folder| {
        let fault = folder.enter(noon()).map(drop).unwrap_err();
        assert!(fault.text.contains("keyring is older than its database"), "{fault}");
    };
    // A vault that does not open every row.
    let folder = filled();
    folder
        .ring()
        .forget_keys(&[RetentionCode::new(Retention::Day(DAY + 3), DAY)], &mut OsRng)
        .unwrap();
    remember(&folder, 1, b"");
    refused(&folder);
    // One beside what this version remembers, and one of the same number.
    for ahead in [0, 1] {
        let folder = filled();
        remember(&folder, ahead, &[7; 16]);
        refused(&folder);
    }
}
