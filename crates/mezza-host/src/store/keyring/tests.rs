//! Tests the content of a keyring's file, and the numbers and keys that survive a failed write.

use std::fs;

use mezza_messenger::Retention;
use nix::errno::Errno;
use tempfile::TempDir;

use super::*;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;

/// Makes an unwritten keyring, its master key and its folder.
fn fresh() -> (TempDir, MasterKey, Keyring) {
    let folder = TempDir::new().unwrap();
    let master = MasterKey::draw(&mut OsRng);
    let ring = Keyring::new(folder.path().join("keyring"), &master);
    (folder, master, ring)
}

fn hour(hour: u32) -> RetentionCode {
    RetentionCode::new(Retention::Hour(hour), 0)
}

fn day(day: u32) -> RetentionCode {
    RetentionCode::new(Retention::Day(day), 0)
}

#[test]
fn what_is_written_is_read_again_and_the_tag_is_the_end_of_the_file() {
    let (_folder, master, mut ring) = fresh();
    ring.write(&mut OsRng).unwrap();
    let all = [RetentionCode::PERMANENT, RetentionCode::rolling(5), hour(7), day(9)];
    ring.add_keys(&all, &mut OsRng).unwrap();
    let bytes = slots::content_of(&fs::read(&ring.path).unwrap()).unwrap();
    assert_eq!(ring.tag().as_slice(), &bytes[bytes.len() - TAG_BYTES..]);
    let again = Keyring::read(ring.path.clone(), &master).unwrap();
    assert_eq!((again.generation(), again.is_doubtful()), (2, false));
    assert_eq!(again.tag(), ring.tag());
    assert!(again.buckets().eq(all));
    for bucket in all {
        let [key, same] = [&ring, &again].map(|ring| ring.key(bucket).unwrap().expose());
        assert!(key == same, "{bucket:?}");
    }
    assert!(again.key(hour(8)).is_none());
}

#[test]
fn a_write_that_failed_uses_its_number_up_and_is_doubtful_until_the_next() {
    let (_folder, master, mut ring) = fresh();
    ring.add_keys(&[RetentionCode::PERMANENT], &mut OsRng).unwrap();
    assert!(!ring.is_doubtful());
    let failing = Failing::after(0, WriteStep::Sync, Errno::EIO);
    assert_eq!(ring.add_keys(&[hour(7)], &mut OsRng).unwrap_err().code, Exit::CannotWrite);
    drop(failing);
    assert!(ring.is_doubtful() && ring.key(hour(7)).is_none());
    assert_eq!(ring.generation(), 1, "of the second nobody knows whether the disk has it");
    ring.write(&mut OsRng).unwrap();
    assert!(!ring.is_doubtful());
    assert_eq!(ring.generation(), 3);
    assert_eq!(Keyring::read(ring.path.clone(), &master).unwrap().generation(), 3);
}

#[test]
fn numbers_that_were_used_up_elsewhere_are_not_used_again() {
    let (_folder, _, mut ring) = fresh();
    ring.write(&mut OsRng).unwrap();
    ring.mark_used(7);
    assert!(ring.is_doubtful());
    assert_eq!(ring.generation(), 1);
    ring.write(&mut OsRng).unwrap();
    ring.mark_used(3);
    assert!(!ring.is_doubtful());
    assert_eq!(ring.generation(), 8);
}

#[test]
fn ended_buckets_and_days_before_the_newest_are_stale() {
    let (_folder, master, mut ring) = fresh();
    let now = Time::from_ms(10 * Time::DAY_MS + 5 * Time::HOUR_MS);
    assert!(ring.stale_buckets(now).is_empty() && ring.newest_day().is_none());
    let kept = [RetentionCode::PERMANENT, RetentionCode::rolling(11), hour(245), day(10)];
    let ended = [RetentionCode::rolling(9), RetentionCode::rolling(10), hour(244), day(9)];
    ring.add_keys(&[kept, ended].concat(), &mut OsRng).unwrap();
    assert_eq!(ring.newest_day(), Some(11), "the newest day, even ahead of the clock");
    assert_eq!(ring.stale_buckets(now), ended);
    ring.forget_keys(&ended, &mut OsRng).unwrap();
    assert!(ring.stale_buckets(now).is_empty());
    assert!(Keyring::read(ring.path.clone(), &master).unwrap().buckets().eq(kept));
}

#[test]
fn a_full_keyring_is_read_again_and_takes_no_key_more() {
    let (_folder, master, mut ring) = fresh();
    let all: Vec<_> = (0..).take(KEYS_MAX).map(hour).collect();
    ring.add_keys(&all, &mut OsRng).unwrap();
    assert!(ring.add_keys(&[RetentionCode::PERMANENT], &mut OsRng).is_err());
    assert!(!ring.is_doubtful(), "no number was used up");
    assert!(ring.buckets().eq(all.iter().copied()));
    assert!(Keyring::read(ring.path.clone(), &master).unwrap().buckets().eq(all));
    let mut bytes = slots::content_of(&fs::read(&ring.path).unwrap()).unwrap();
    assert_eq!(bytes.len(), FILE_BYTES_MAX);
    bytes.push(0);
    private::replace(&ring.path, &bytes).unwrap();
    let fault = Keyring::read(ring.path.clone(), &master).map(drop).unwrap_err();
    assert_eq!(fault.code, Exit::Malformed, "one byte more is not cut off");
}

/// Returns a sealed file of generation 5 with keys for these codes in this order.
fn file(ring: &Keyring, codes: &[u32]) -> Vec<u8> {
    let mut w = Writer::with_capacity(128);
    w.put_u16(codes.len() as u16);
    for code in codes {
        w.put_u32(*code).put_bytes(&[7; 32]);
    }
    let sealed = aead::seal(&ring.ring_key, &[1; NONCE_BYTES], &aad(5), &w.finish()).unwrap();
    [5u64.to_be_bytes().as_slice(), &sealed].concat()
}

#[test]
fn only_codes_of_buckets_in_their_order_are_taken() {
    let (_folder, _, mut ring) = fresh();
    ring.decode(&file(&ring, &[0, 0x4000_0001, 0x4000_0002])).unwrap();
    assert_eq!((ring.generation(), ring.buckets().count()), (5, 3));
    let mut other = fresh().2;
    for wrong in [&[0x4000_0002, 0x4000_0001][..], &[0x4000_0001, 0x4000_0001], &[0, 7]] {
        assert!(other.decode(&file(&other, wrong)).is_err(), "{wrong:?}");
    }
    let mut moved = file(&other, &[0]);
    moved[7] ^= 1;
    assert!(other.decode(&moved).is_err(), "the generation is sealed too");
    assert_eq!((other.generation(), other.buckets().count()), (0, 0));
}

/// Returns true if these bytes are anywhere in the file.
fn holds(file: &fs::File, bytes: &[u8]) -> bool {
    let mut all = vec![0; file.metadata().unwrap().len() as usize];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut all, 0).unwrap();
    all.windows(bytes.len()).any(|window| window == bytes)
}

fn content(ring: &Keyring) -> Wiping<Vec<u8>> {
    slots::content_of(&fs::read(&ring.path).unwrap()).unwrap()
}

#[test]
fn vault_16_a_ring_that_is_replaced_is_in_no_block_of_its_file() {
    let (_folder, master, mut ring) = fresh();
    ring.add_keys(&[RetentionCode::PERMANENT, hour(7)], &mut OsRng).unwrap();
    let file = fs::File::open(&ring.path).unwrap();
    let before = content(&ring);
    assert!(holds(&file, &before));
    ring.forget_keys(&[hour(7)], &mut OsRng).unwrap();
    assert!(!holds(&file, &before[8..]) && holds(&file, &content(&ring)), "where it lies");
    // The keyring outgrows its file: the old file is overwritten before it is removed.
    let before = content(&ring);
    ring.add_keys(&(0..200).map(hour).collect::<Vec<_>>(), &mut OsRng).unwrap();
    assert!(!holds(&file, &before[8..]) && !holds(&file, &content(&ring)));
    assert_eq!(Keyring::read(ring.path.clone(), &master).unwrap().buckets().count(), 201);
    assert_eq!(fs::read_dir(ring.path.parent().unwrap()).unwrap().count(), 1);
}

/// A file of an older version, torn at each step of the change to slots.
#[test]
fn vault_16_a_ring_of_an_older_version_is_overwritten_when_it_is_read() {
    let steps = WriteStep::REPLACE.into_iter().flat_map(|step| [(step, 0), (step, 1)]);
    for (step, after) in steps {
        let (_folder, master, mut ring) = fresh();
        ring.add_keys(&[RetentionCode::PERMANENT, hour(7)], &mut OsRng).unwrap();
        let old = content(&ring);
        fs::remove_file(&ring.path).unwrap();
        private::replace(&ring.path, &old).unwrap();
        let file = fs::File::open(&ring.path).unwrap();
        let failing = Failing::after(after, step, step.errors()[0]);
        let read = Keyring::read(ring.path.clone(), &master).unwrap();
        drop(failing);
        assert!(
            read.buckets().eq([RetentionCode::PERMANENT, hour(7)]),
            "{step:?}: it opens anyway"
        );
        // The next start finishes the change, and keeps the generation that the database stores.
        let again = Keyring::read(ring.path.clone(), &master).unwrap();
        assert_eq!((again.generation(), again.tag()), (ring.generation(), ring.tag()));
        assert!(!holds(&file, &old), "{step:?} {after}");
        assert_eq!(*content(&again), *old);
        assert_eq!(fs::read_dir(ring.path.parent().unwrap()).unwrap().count(), 1, "{step:?}");
    }
}

#[test]
fn vault_16_a_write_that_fails_anywhere_leaves_one_ring_and_the_next_nothing_else() {
    let sizes = [1, 200];
    for (count, step, after) in sizes.into_iter().flat_map(|count| {
        let steps = WriteStep::REPLACE.into_iter();
        steps.flat_map(move |step| (0..3).map(move |after| (count, step, after)))
    }) {
        let (_folder, master, mut ring) = fresh();
        ring.add_keys(&[RetentionCode::PERMANENT, hour(7)], &mut OsRng).unwrap();
        let fresh: Vec<_> = (0..count).map(day).collect();
        let failing = Failing::after(after, step, step.errors()[0]);
        let added = ring.add_keys(&fresh, &mut OsRng).is_ok();
        drop(failing);
        let found = Keyring::read(ring.path.clone(), &master).unwrap();
        let keys = found.buckets().count();
        assert!(keys == 2 || keys == 2 + count as usize, "{step:?} {after}: {keys}");
        assert!(!added || keys > 2, "{step:?} {after}: what was acknowledged is there");
        // The same process continues with the state of the disk.
        ring.forget_keys(&[hour(7)], &mut OsRng).unwrap();
        let found = Keyring::read(ring.path.clone(), &master).unwrap();
        assert!(found.buckets().eq(ring.buckets()) && found.key(hour(7)).is_none());
        assert_eq!(fs::read_dir(ring.path.parent().unwrap()).unwrap().count(), 1, "{step:?}");
    }
}
