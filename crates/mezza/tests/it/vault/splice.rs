//! Somebody changes the files of a closed vault: a row that was touched does not open, and all else
//! that was touched is refused in one way.

use std::fs;
use std::path::Path;

use mezza::testing::api::{Exit, Fault};
use mezza::testing::store::bucket::RetentionCode;
use mezza::testing::store::{Vault, head};
use mezza_core::Time;
use proptest::prelude::*;
use rusqlite::{Connection, params};

use super::{Copy, DAY, Folder, PASS, at, filled, noon, plain, rows, write};

#[derive(Clone, Debug)]
enum Splice {
    /// Two rows change bodies.
    Swap(usize, usize),
    /// A body is copied over another.
    Copy(usize, usize),
    /// A row gets another number.
    Move(usize, i64),
    /// A body loses its end.
    Cut(usize, prop::sample::Index),
    /// A body loses its beginning.
    Behead(usize, prop::sample::Index),
    /// A body gets longer.
    Grow(usize, u8),
    /// A bit of a body changes.
    Flip(usize, prop::sample::Index, u8),
    /// A row says it is of another kind.
    Kind(usize, u8),
    /// A row says it is in another bucket.
    Bucket(usize, u32),
    /// A row says it is in the bucket of another row.
    BucketOf(usize, usize),
    /// A second row of the same content.
    Double(usize, i64),
    /// A column holds something of another type.
    Type(usize, u8),
}

fn splice() -> impl Strategy<Value = Splice> {
    let row = || 0..13usize;
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (row(), row()).prop_map(|(a, b)| Splice::Swap(a, b)),
        (row(), row()).prop_map(|(a, b)| Splice::Copy(a, b)),
        (row(), 14..99i64).prop_map(|(a, id)| Splice::Move(a, id)),
        (row(), index()).prop_map(|(a, n)| Splice::Cut(a, n)),
        (row(), index()).prop_map(|(a, n)| Splice::Behead(a, n)),
        (row(), any::<u8>()).prop_map(|(a, byte)| Splice::Grow(a, byte)),
        (row(), index(), 0..8u8).prop_map(|(a, n, bit)| Splice::Flip(a, n, bit)),
        (row(), any::<u8>()).prop_map(|(a, kind)| Splice::Kind(a, kind)),
        (row(), any::<u32>()).prop_map(|(a, bucket)| Splice::Bucket(a, bucket)),
        (row(), row()).prop_map(|(a, b)| Splice::BucketOf(a, b)),
        (row(), 14..99i64).prop_map(|(a, id)| Splice::Double(a, id)),
        (row(), 0..3u8).prop_map(|(a, column)| Splice::Type(a, column)),
    ]
}

fn set_body(db: &Connection, id: i64, body: &[u8]) {
    db.execute("UPDATE rec SET body = ?2 WHERE id = ?1", params![id, body]).unwrap();
}

/// Changes the database; `false` if the splice happens to change nothing.
fn carry_out(copy: &Copy, folder: &Folder, splice: &Splice) -> bool {
    let rows = rows(copy);
    let db = Connection::open(folder.path().join("records.db")).unwrap();
    let id = |row: usize| rows[row].0.id.cast_signed();
    let column = |name: &str, row: usize, value: u32| {
        db.execute(&format!("UPDATE rec SET {name} = ?2 WHERE id = ?1"), params![id(row), value])
            .unwrap();
    };
    match *splice {
        Splice::Swap(a, b) | Splice::Copy(a, b) | Splice::BucketOf(a, b) if a == b => return false,
        Splice::Swap(a, b) => {
            set_body(&db, id(a), &rows[b].1);
            set_body(&db, id(b), &rows[a].1);
        }
        Splice::Copy(a, b) => set_body(&db, id(b), &rows[a].1),
        Splice::Move(a, new) => {
            db.execute("UPDATE rec SET id = ?2 WHERE id = ?1", params![id(a), new]).unwrap();
        }
        Splice::Cut(a, n) => set_body(&db, id(a), &rows[a].1[..n.index(rows[a].1.len())]),
        Splice::Behead(a, n) => set_body(&db, id(a), &rows[a].1[1 + n.index(rows[a].1.len())..]),
        Splice::Grow(a, byte) => set_body(&db, id(a), &[rows[a].1.as_slice(), &[byte]].concat()),
        Splice::Flip(a, n, bit) => {
            let mut body = rows[a].1.clone();
            body[n.index(rows[a].1.len())] ^= 1 << bit;
            set_body(&db, id(a), &body);
        }
        Splice::Kind(a, kind) if rows[a].0.kind == kind => return false,
        Splice::Kind(a, kind) => column("kind", a, kind.into()),
        Splice::Bucket(a, bucket) if rows[a].0.bucket.0 == bucket => return false,
        Splice::Bucket(a, bucket) => column("bucket", a, bucket),
        Splice::BucketOf(a, b) if rows[a].0.bucket == rows[b].0.bucket => return false,
        Splice::BucketOf(a, b) => column("bucket", a, rows[b].0.bucket.0),
        Splice::Double(a, new) => {
            let sql = "INSERT INTO rec SELECT ?2, kind, bucket, body FROM rec WHERE id = ?1";
            db.execute(sql, params![id(a), new]).unwrap();
        }
        Splice::Type(a, n) => {
            let name = ["kind", "bucket", "body"][usize::from(n)];
            let sql = format!("UPDATE rec SET {name} = 'text' WHERE id = ?1");
            db.execute(&sql, [id(a)]).unwrap();
        }
    }
    true
}

fn refusal(folder: &Folder, now: Time) -> Fault {
    let fault = folder.enter(now).map(|_| "opened").unwrap_err();
    assert_eq!(fault.code, Exit::Malformed, "{fault}");
    assert_eq!(fault.next, "put the whole folder of the vault back from a copy");
    fault
}

/// The rows that do not open afterwards; of a double, the double.
fn touched(splice: &Splice) -> Vec<usize> {
    match *splice {
        Splice::Swap(a, b) => vec![a, b],
        Splice::Copy(_, b) => vec![b],
        Splice::Double(..) => vec![usize::MAX],
        Splice::Move(a, _)
        | Splice::Cut(a, _)
        | Splice::Behead(a, _)
        | Splice::Grow(a, _)
        | Splice::Flip(a, ..)
        | Splice::Kind(a, _)
        | Splice::Bucket(a, _)
        | Splice::BucketOf(a, _)
        | Splice::Type(a, _) => vec![a],
    }
}

proptest! {
    #[test]
    fn vault_1_slow_a_record_that_was_touched_does_not_open(splice in splice(), is_later: bool) {
        static FILLED: std::sync::OnceLock<Copy> = std::sync::OnceLock::new();
        let copy = FILLED.get_or_init(|| Copy::of(&filled().path()));
        let folder = copy.lay();
        prop_assume!(carry_out(copy, &folder, &splice));
        let now = if is_later { at(0, 13, 0) } else { noon() };
        let touched = touched(&splice);
        if touched.contains(&0) {
            refusal(&folder, now);
            return Ok(());
        }
        let whole = copy.lay().records(now);
        let (vault, records) = folder.enter(now).unwrap();
        prop_assert_eq!(vault.unread().len(), touched.len());
        let lost = touched.iter().filter(|row| **row < 13).count();
        prop_assert_eq!(records.len(), whole.len() - lost);
        prop_assert!(plain(records).iter().all(|record| whole.contains(record)));
    }
}

#[test]
fn vault_1_a_record_of_another_vault_does_not_open() {
    let ours = filled();
    let other = filled();
    let body = &rows(&Copy::of(&other.path()))[3];
    let db = Connection::open(ours.path().join("records.db")).unwrap();
    set_body(&db, body.0.id.cast_signed(), &body.1);
    drop(db);
    let (vault, records) = ours.enter(noon()).unwrap();
    assert_eq!((records.len(), vault.unread().len()), (11, 1));
}

#[test]
fn msg_66_live_state_that_was_touched_stops_no_change_of_day() {
    let copy = Copy::of(&filled().path());
    let session = rows(&copy)
        .into_iter()
        .position(|(place, _)| place.bucket.rolling_day() == Some(DAY) && place.id != 1);
    for splice in [Splice::Grow(session.unwrap(), 0), Splice::Type(session.unwrap(), 2)] {
        let folder = copy.lay();
        assert!(carry_out(&copy, &folder, &splice));
        for day in 1..3 {
            let (vault, records) = folder.enter(at(day, 0, 0)).unwrap();
            assert_eq!((records.len(), vault.unread().len()), (8, 1), "{splice:?}");
        }
        let day =
            folder.ring().buckets().filter_map(RetentionCode::rolling_day).collect::<Vec<_>>();
        assert_eq!(day, [DAY + 2], "no key stays for a row that does not open");
    }
}

#[test]
fn a_database_with_something_added_is_refused() {
    for sql in [
        "CREATE TABLE other(x)",
        "CREATE INDEX i ON rec(kind)",
        "CREATE TABLE t(x); CREATE TRIGGER g AFTER DELETE ON rec BEGIN INSERT INTO t VALUES(old.body); END",
        "ALTER TABLE rec ADD COLUMN x",
        "DROP TABLE rec",
        "PRAGMA user_version = 0",
    ] {
        let folder = filled();
        let db = Connection::open(folder.path().join("records.db")).unwrap();
        db.execute_batch(sql).unwrap();
        drop(db);
        refusal(&folder, noon());
    }
    let folder = filled();
    let db = Connection::open(folder.path().join("records.db")).unwrap();
    db.execute_batch("PRAGMA user_version = 2").unwrap();
    drop(db);
    let fault = folder.enter(noon()).map(drop).unwrap_err();
    assert_eq!((fault.code, fault.next.as_str()), (Exit::Config, "install the newest version"));
    write(&folder.path().join("records.db"), &[7; 8_192]);
    refusal(&folder, noon());
}

/// The content of a file of two slots.
fn content(path: &Path) -> Vec<u8> {
    mezza::testing::process::slots::content_of(&fs::read(path).unwrap()).unwrap().to_vec()
}

/// Changes the content of a file, which then has the form of older versions, the bytes alone.
fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let all = fs::read(path).unwrap();
    let whole = mezza::testing::process::slots::content_of(&all);
    let mut bytes = whole.map_or(all, |whole| whole.to_vec());
    change(&mut bytes);
    write(path, &bytes);
}

#[test]
fn vault_2_slow_a_wrong_passphrase_is_told_from_a_file_that_is_no_head() {
    let folder = filled();
    let head = folder.path().join("head");
    let whole = content(&head);
    assert_eq!(whole.len(), head::HEAD_BYTES);
    let answer = |pass: &[u8]| Vault::open(&folder.path(), pass, noon()).map(drop);
    let wrong = answer(b"wrong passphrase").unwrap_err();
    assert_eq!(wrong.code, Exit::Denied);
    assert_eq!(answer(b""), Err(wrong.clone()));
    assert!(!wrong.to_string().contains("head"), "{wrong}");
    // Memory, salt; nonce, text and tag of slot A.
    for place in [11, 20, 35, 36, 60, 92, 108] {
        damage(&head, |bytes| bytes[place] ^= 1);
        assert_eq!(answer(PASS), Err(wrong.clone()), "byte {place}");
        write(&head, &whole);
    }
    let damaged = |bytes: &[u8]| {
        write(&head, bytes);
        let fault = answer(PASS).unwrap_err();
        assert_eq!(fault.code, Exit::Malformed, "{} bytes", bytes.len());
        assert!(fault.text.ends_with("head is damaged"), "{fault}");
        assert!(fault.next.contains("put the file `head` back"), "{fault}");
    };
    // Magic; memory, passes and lanes outside the limits.
    for (place, flip) in [(0, 1), (7, 1), (8, 0x80), (12, 0x80), (15, 1), (19, 1)] {
        let mut changed = whole.clone();
        changed[place] ^= flip;
        damaged(&changed);
    }
    let long = [whole.as_slice(), &[0]].concat();
    for bytes in [&whole[..181], &[], &long] {
        damaged(bytes);
    }
    // The slots may change places; what is in the unused one does not matter.
    let swapped = [&whole[..36], &whole[109..], &whole[36..109]].concat();
    write(&head, &swapped);
    assert_eq!(answer(PASS), Ok(()));
    damage(&head, |bytes| bytes[40] ^= 1);
    assert_eq!(answer(PASS), Ok(()));
}

#[test]
fn vault_5_a_cost_below_the_floor_is_refused() {
    use mezza::testing::process::rng::OsRng;
    use mezza::testing::store::{Argon2Params, MasterKey};
    let folder = filled();
    for (m_kib, t) in [(65_536u32, 2u32), (65_535, 4), (1_024, 1_024), (196_608, 0), (u32::MAX, 3)]
    {
        let fields = [m_kib.to_be_bytes(), t.to_be_bytes()].concat();
        damage(&folder.path().join("head"), |bytes| bytes[8..16].copy_from_slice(&fields));
        let fault = Vault::open(&folder.path(), PASS, noon()).map(drop).unwrap_err();
        assert_eq!(fault.code, Exit::Malformed);
        let cost = Argon2Params { m_kib, t, p: 1 };
        let made = head::VaultHeader::seal(&MasterKey::draw(&mut OsRng), PASS, cost, &mut OsRng);
        assert_eq!(made.map(drop).unwrap_err().code, Exit::Config);
    }
}

#[test]
fn vault_9_an_older_keyring_is_refused() {
    let folder = filled();
    let old = Copy::of(&folder.path());
    let keyring =
        |copy: &Copy| copy.0.iter().find(|(name, _)| name == "keyring").unwrap().1.clone();
    drop(folder.enter(at(1, 0, 0)).unwrap());
    let new = Copy::of(&folder.path());
    assert_ne!(keyring(&old), keyring(&new));
    write(&folder.path().join("keyring"), &keyring(&old));
    let fault = refusal(&folder, at(1, 0, 0));
    assert!(fault.text.contains("keyring is older than its database"), "{fault}");

    // Within a day too, where both keyrings have the key of what the database remembers.
    let (mut vault, _) = { new.lay() }.enter(at(1, 0, 0)).unwrap();
    assert!(!vault.step(at(1, 0, 0)).unwrap());
    let folder = filled();
    let old = Copy::of(&folder.path());
    drop(folder.enter(at(0, 15, 0)).unwrap());
    write(&folder.path().join("keyring"), &keyring(&old));
    assert!(refusal(&folder, at(0, 15, 0)).text.contains("older than its database"));

    // With the old row of what is remembered beside it, the records of today give it away.
    let folder = filled();
    let old = Copy::of(&folder.path());
    drop(folder.enter(at(1, 0, 0)).unwrap());
    let db = Connection::open(folder.path().join("records.db")).unwrap();
    let (place, body) = &rows(&old)[0];
    db.execute("UPDATE rec SET bucket = ?1, body = ?2 WHERE id = 1", params![place.bucket.0, body])
        .unwrap();
    drop(db);
    write(&folder.path().join("keyring"), &keyring(&old));
    refusal(&folder, at(1, 0, 0));
}

#[test]
fn a_damaged_keyring_is_refused() {
    let folder = filled();
    let path = folder.path().join("keyring");
    let whole = content(&path);
    let other = content(&filled().path().join("keyring"));
    let mut counted = whole.clone();
    counted[7] += 1;
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    for bytes in
        [&whole[..whole.len() - 1], &[], &counted, &flipped, &[whole.as_slice(), &[0]].concat()]
    {
        write(&path, bytes);
        refusal(&folder, noon());
    }
    // That of a vault with the same master key, but with keys of its own.
    write(&path, &other);
    refusal(&folder, noon());
    fs::remove_file(&path).unwrap();
    assert_eq!(folder.enter(noon()).map(drop).unwrap_err().code, Exit::NotFound);
}
