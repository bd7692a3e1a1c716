//! The steps of a change of day, one by one, in a vault without a passphrase.

use mezza_messenger::{RecordKind, Retention, WriteBatch};
use tempfile::TempDir;

use super::super::failed::{noon, put};
use super::super::rows::Rows;
use super::super::{KEYRING, LOCK, MasterKey, OpenedFiles, RECORDS};
use super::*;
use crate::process::lock::Lock;

/// A vault like that of [`Vault::create`], without a head.
struct Life {
    folder: TempDir,
    master: MasterKey,
    vault: Vault,
}

impl Life {
    fn new(batches: &[WriteBatch]) -> Self {
        let folder = TempDir::new().unwrap();
        let master = MasterKey::draw(&mut OsRng);
        let today = RetentionCode::rolling(noon().as_days());
        let mut ring = Keyring::new(folder.path().join(KEYRING), &master);
        ring.add_keys(&[RetentionCode::PERMANENT, today], &mut OsRng).unwrap();
        let mut rows = Rows::create(&folder.path().join(RECORDS)).unwrap();
        rows.transaction(|writing| put_memory(writing, &ring, today)).unwrap();
        let lock = Lock::take(&folder.path().join(LOCK)).unwrap();
        let mut vault =
            Vault::new(folder.path(), OpenedFiles { rows, ring, lock }, &master, noon());
        vault.commit(batches).unwrap();
        Self { folder, master, vault }
    }

    /// Returns the bucket in which a record is sealed.
    fn bucket(&self, key: u8) -> Option<RetentionCode> {
        self.vault.sealed_row(RecordKind::Note, &[key]).unwrap().map(|(place, _)| place.bucket)
    }

    /// Returns the records that the next opening finds: the first byte of each key, ascending.
    fn reopened(self, now: Time) -> Vec<u8> {
        let Self { folder, master, vault } = self;
        vault.close().unwrap();
        let lock = Lock::take(&folder.path().join(LOCK)).unwrap();
        let (_, records) = Vault::enter_locked(folder.path(), &master, |_, _| now, lock).unwrap();
        let mut keys: Vec<_> = records.iter().map(|(_, key, _)| key[0]).collect();
        keys.sort_unstable();
        keys
    }
}

/// Returns records of live state, permanent, ending today, and ending later.
fn one_of_each() -> [WriteBatch; 4] {
    let hour = noon().as_hours();
    let day = noon().as_days();
    [
        put(1, Retention::Rolling, b"live"),
        put(2, Retention::Permanent, b"for ever"),
        put(3, Retention::Hour(hour), b"ends"),
        put(4, Retention::Day(day + 3), b"ends later"),
    ]
}

#[test]
fn a_change_of_day_takes_five_steps_and_then_none() {
    let mut life = Life::new(&one_of_each());
    let today = noon().as_days() + 1;
    let tomorrow = noon().plus_ms(Time::DAY_MS);
    assert!(!life.vault.step(noon()).unwrap(), "nothing is due yet");
    // Step: a key for the new day.
    assert!(life.vault.step(tomorrow).unwrap());
    assert_eq!(life.vault.ring.newest_day(), Some(today));
    assert_eq!(life.bucket(1), Some(RetentionCode::rolling(today - 1)));
    // Step: no row needs the old keys.
    assert!(life.vault.step(tomorrow).unwrap());
    assert_eq!(life.vault.ring.stale_buckets(tomorrow).len(), 2);
    assert_eq!(life.bucket(1), Some(RetentionCode::rolling(today)));
    assert_eq!((life.bucket(2), life.bucket(3)), (Some(RetentionCode::PERMANENT), None));
    assert_eq!(life.bucket(4), Some(RetentionCode::new(Retention::Day(today + 2), 0)));
    // Step: the old keys are erased, and the database has the new generation.
    assert!(life.vault.step(tomorrow).unwrap());
    assert!(life.vault.ring.stale_buckets(tomorrow).is_empty());
    assert_ne!(life.vault.remembered, life.vault.ring.generation());
    assert!(life.vault.step(tomorrow).unwrap());
    assert_eq!(life.vault.remembered, life.vault.ring.generation());
    assert!(!life.vault.step(tomorrow).unwrap());
    assert_eq!(life.reopened(tomorrow), [1, 2, 4]);
}

#[test]
fn a_pause_between_two_steps_changes_nothing() {
    let tomorrow = noon().plus_ms(Time::DAY_MS);
    for steps in 0..5 {
        let mut life = Life::new(&one_of_each());
        let taken = (0..steps).filter(|_| life.vault.step(tomorrow).unwrap()).count();
        assert_eq!(taken, steps);
        assert_eq!(life.reopened(tomorrow), [1, 2, 4], "after {steps} steps");
    }
}

#[test]
fn live_state_stays_in_its_day_when_the_clock_goes_back() {
    let mut life = Life::new(&[put(1, Retention::Rolling, b"live")]);
    let day = noon().as_days();
    life.vault.tick(noon().minus_ms(2 * Time::DAY_MS)).unwrap();
    assert_eq!(life.vault.ring.newest_day(), Some(day));
    life.vault.tick(noon().plus_ms(2 * Time::DAY_MS)).unwrap();
    assert_eq!(life.bucket(1), Some(RetentionCode::rolling(day + 2)));
    life.vault.tick(noon()).unwrap();
    assert_eq!(life.bucket(1), Some(RetentionCode::rolling(day + 2)));
    assert_eq!(life.vault.days_ahead(noon()), 2);
    assert_eq!(life.reopened(noon()), [1]);
}
